package main

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/sdk"
)

// jsonHelp documents what jsonView prints.
const jsonHelp = `
With -o json each line on stdout is one object with "time" and "event", and with what belongs to that event:
  run        id, job: the run begins
  waiting    step, message: a step waits for a worker
  placed     step, worker
  creating   step, worker, message: the runtime's own progress
  streaming  step, worker, stream {artifact, from, to, via, bytes, seconds, done}; via is an encoding or
             "direct", between the workers; bytes is -1 while unknown
  started    step, worker
  output     step, fd (stdout, stderr), position, and text if it is UTF-8, else data in base64;
             or position and gap_to, where output was dropped; or error, where it cannot be read any more
  paused     step, worker, message: the worker is away; the command may well go on
  resumed    step, worker
  exited     step, worker, exit {code, signal, reason, message, started_at, ended_at, peak_memory_bytes, output_cut}
  again      step, worker, message: the step was lost there, and is tried on another worker
  finished   step, worker, result {state, error, queue_seconds, stream_seconds, run_seconds}; the last of a step
  notice     message: something of slipway's own
  ended      id, outputs {name: directory}, seconds, error, recorded: the last of all
The states are succeeded, failed, lost, aborted, timed-out, errored and skipped.`

// jsonEvent is one line.
type jsonEvent struct {
	Recorded bool              `json:"recorded,omitempty"` // the run had ended before, and nothing was run now
	Time     time.Time         `json:"time"`
	Event    string            `json:"event"`
	ID       string            `json:"id,omitempty"`
	Job      string            `json:"job,omitempty"`
	Step     string            `json:"step,omitempty"`
	Worker   string            `json:"worker,omitempty"`
	Message  string            `json:"message,omitempty"`
	Stream   *jsonStream       `json:"stream,omitempty"`
	Exit     *jsonExit         `json:"exit,omitempty"`
	Result   *jsonResult       `json:"result,omitempty"`
	Fd       string            `json:"fd,omitempty"`
	Position *int64            `json:"position,omitempty"`
	Text     *string           `json:"text,omitempty"`
	Data     []byte            `json:"data,omitempty"`
	GapTo    int64             `json:"gap_to,omitempty"`
	Outputs  map[string]string `json:"outputs,omitempty"`
	Seconds  *float64          `json:"seconds,omitempty"`
	Error    string            `json:"error,omitempty"`
}

type jsonStream struct {
	Artifact string  `json:"artifact"`
	From     string  `json:"from"`
	To       string  `json:"to"`
	Via      string  `json:"via,omitempty"`
	Bytes    int64   `json:"bytes"` // negative: unknown
	Seconds  float64 `json:"seconds"`
	Done     bool    `json:"done"`
}

type jsonExit struct {
	Code       int       `json:"code"`
	Signal     string    `json:"signal,omitempty"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message,omitempty"`
	StartedAt  time.Time `json:"started_at"`
	EndedAt    time.Time `json:"ended_at"`
	PeakMemory int64     `json:"peak_memory_bytes,omitempty"`
	OutputCut  bool      `json:"output_cut,omitempty"`
}

type jsonResult struct {
	State  host.StepState `json:"state"`
	Error  string         `json:"error,omitempty"`
	Queue  float64        `json:"queue_seconds"`
	Stream float64        `json:"stream_seconds"`
	Run    float64        `json:"run_seconds"`
}

// jsonView prints every event as one JSON object a line.
type jsonView struct {
	mu sync.Mutex
	to *outlet
}

func newJSONView(out *outlet, req host.RunRequest) *jsonView {
	v := &jsonView{to: out}
	v.print(jsonEvent{Event: "run", ID: req.ID, Job: req.Job.Name})
	return v
}

// print writes a line. The outlet keeps its failure, and ends the command by it.
func (v *jsonView) print(e jsonEvent) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = v.to.writeJSON(e)
}

func (v *jsonView) event(e host.Event) {
	out := jsonEvent{Time: e.Time, Event: string(e.Kind), Step: e.Step, Worker: e.Worker, Message: e.Message}
	if s := e.Stream; s != nil {
		out.Stream = &jsonStream{s.Artifact, s.From, s.To, s.Via, s.Bytes, s.Took.Seconds(), s.Done}
	}
	if e.Kind == host.EventExited {
		out.Exit = exitJSON(e.Exit)
	}
	if r := e.Result; r != nil {
		out.Result = &jsonResult{State: r.State, Queue: r.Queue.Seconds(), Stream: r.Stream.Seconds(), Run: r.Run.Seconds()}
		if r.Err != nil {
			out.Result.Error = r.Err.Error()
		}
	}
	v.print(out)
}

func (v *jsonView) say(text string) { v.print(jsonEvent{Event: "notice", Message: text}) }

func (v *jsonView) end(res *host.RunResult, failure error) {
	out := jsonEvent{Event: "ended"}
	if failure != nil {
		out.Error = failure.Error()
	}
	if res != nil {
		seconds := res.Took.Seconds()
		out.ID, out.Outputs, out.Seconds, out.Recorded = res.ID, res.Outputs, &seconds, res.Recorded
	}
	v.print(out)
}

func (v *jsonView) output(step string) sink { return jsonSink{v, step} }

type jsonSink struct {
	view *jsonView
	step string
}

func (s jsonSink) record(rec spool.Record) {
	e := jsonEvent{Time: rec.Time, Event: "output", Step: s.step, Position: &rec.Position}
	switch {
	case rec.GapTo > rec.Position:
		e.GapTo = rec.GapTo
	case utf8.Valid(rec.Data):
		text := string(rec.Data)
		e.Fd, e.Text = sdk.Stream(rec.Stream).String(), &text
	default:
		e.Fd, e.Data = sdk.Stream(rec.Stream).String(), rec.Data
	}
	s.view.print(e)
}

func (s jsonSink) end(failure error) {
	if failure != nil {
		s.view.print(jsonEvent{Event: "output", Step: s.step, Error: failure.Error()})
	}
}
