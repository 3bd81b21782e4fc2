package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/sdk"
)

// view shows a run to a person: each step's output line by line under the step's name, what happens between, and how far
// streams are on a terminal.
type view struct {
	ctx    context.Context
	plain  bool // output as it is, without names: for exec
	term   bool
	width  int // of the longest step's name
	copies sync.WaitGroup

	mu     sync.Mutex // one line at a time
	out    io.Writer
	err    io.Writer
	status string // on the terminal's last line now
	fail   error  // of writing
	silent map[string]bool
}

func newView(ctx context.Context, out, errw io.Writer, steps []string) *view {
	v := &view{ctx: ctx, out: out, err: errw, silent: make(map[string]bool)}
	for _, s := range steps {
		v.width = max(v.width, len(s))
	}
	if f, ok := errw.(*os.File); ok {
		v.term = isatty.IsTerminal(f.Fd())
	}
	return v
}

// event shows one event. It is the run's Events.
func (v *view) event(e host.Event) {
	switch e.Kind {
	case host.EventPlaced:
		v.note(e.Step, "on worker "+e.Worker)
	case host.EventStreaming:
		v.stream(e)
	case host.EventCreating:
		v.setStatus(fmt.Sprintf("%s: %s", e.Step, e.Message))
	case host.EventStarted:
		v.copies.Go(func() { v.copyOutput(e.Step, e.Process) })
	case host.EventPaused:
		v.once(e.Step, "paused: "+e.Message)
	case host.EventResumed:
		v.resumed(e.Step)
	case host.EventFinished:
		if e.Result.State != host.StepSucceeded {
			v.note(e.Step, e.Result.Summary())
		}
	}
}

// once notes a pause: its repetitions are the same pause.
func (v *view) once(step, text string) {
	v.mu.Lock()
	told := v.silent[step]
	v.silent[step] = true
	v.mu.Unlock()
	if !told {
		v.note(step, text)
	}
}

func (v *view) resumed(step string) {
	v.mu.Lock()
	v.silent[step] = false
	v.mu.Unlock()
	v.note(step, "goes on")
}

func (v *view) stream(e host.Event) {
	s := e.Stream
	name := s.Artifact[strings.LastIndexByte(s.Artifact, '/')+1:]
	text := fmt.Sprintf("%s from %s to %s: %s", name, s.From, s.To, byteSize(s.Bytes))
	if secs := s.Took.Seconds(); secs >= 0.1 {
		text += fmt.Sprintf(", %s/s", byteSize(int64(float64(s.Bytes)/secs)))
	}
	if s.Done {
		v.note(e.Step, "streamed "+text)
		return
	}
	v.setStatus(fmt.Sprintf("%s: streaming %s", e.Step, text))
}

// note writes a line of Slipway's own.
func (v *view) note(step, text string) {
	if v.plain {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	v.write(v.err, fmt.Appendf(nil, "%-*s - %s\n", v.width, step, text))
}

// setStatus shows what goes on, on a terminal's last line.
func (v *view) setStatus(text string) {
	if !v.term || v.plain {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	v.status = text
	v.write(v.err, []byte("\r"+text))
}

func (v *view) clear() {
	if v.status != "" {
		v.write(v.err, []byte("\r\x1b[K"))
		v.status = ""
	}
}

func (v *view) write(w io.Writer, b []byte) {
	if _, err := w.Write(b); err != nil && v.fail == nil {
		v.fail = err
	}
}

// copyOutput shows what a process writes, as it comes.
func (v *view) copyOutput(step string, p *host.Process) {
	r, err := p.Output(0)
	if err == nil {
		defer r.Close()
		err = v.copyRecords(step, func() (spool.Record, error) { return r.Next(v.ctx) })
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, spool.ErrNoMore) {
		v.note(step, "its output cannot be shown any more: "+err.Error())
	}
}

// maxLine is where a line without an end is broken for showing.
const maxLine = 16 << 10

func (v *view) copyRecords(step string, next func() (spool.Record, error)) error {
	var lines [3][]byte // by stream: what has no end of line yet
	flush := func() {
		for i, l := range lines {
			if len(l) > 0 {
				v.line(step, sdk.Stream(i), append(l, '\n'))
			}
			lines[i] = nil
		}
	}
	defer flush()
	for {
		rec, err := next()
		if err != nil {
			return err
		}
		if rec.GapTo > rec.Position {
			flush()
			v.note(step, fmt.Sprintf("%s of output were dropped here", byteSize(rec.GapTo-rec.Position)))
			continue
		}
		if v.plain {
			v.mu.Lock()
			v.write(v.streamWriter(sdk.Stream(rec.Stream)), rec.Data)
			v.mu.Unlock()
			continue
		}
		pending := &lines[min(int(rec.Stream), len(lines)-1)]
		for data := rec.Data; len(data) > 0; {
			i := bytes.IndexByte(data, '\n')
			if i < 0 {
				*pending = append(*pending, data...)
				if len(*pending) >= maxLine {
					v.line(step, sdk.Stream(rec.Stream), append(*pending, '\n'))
					*pending = nil
				}
				break
			}
			v.line(step, sdk.Stream(rec.Stream), append(*pending, data[:i+1]...))
			*pending = (*pending)[:0]
			data = data[i+1:]
		}
	}
}

func (v *view) streamWriter(s sdk.Stream) io.Writer {
	if s == sdk.Stderr {
		return v.err
	}
	return v.out
}

func (v *view) line(step string, s sdk.Stream, text []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	v.write(v.streamWriter(s), append(fmt.Appendf(nil, "%-*s | ", v.width, step), text...))
}

// finish waits until all output is shown, and gives the first failure to show it.
func (v *view) finish() error {
	v.copies.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	return v.fail
}

// summary prints how the steps fared and where their time went.
func summary(w io.Writer, res *host.RunResult) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STEP\tWORKER\tQUEUE\tSTREAM\tRUN\tEXIT\tRESULT")
	for _, s := range res.Steps {
		exit := "-"
		if s.Exit != nil {
			exit = fmt.Sprint(s.Exit.Code)
		}
		worker := s.Worker
		if worker == "" {
			worker = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Step, worker, short(s.Queue), short(s.Stream), short(s.Run), exit, s.State)
	}
	t.Flush()
	for _, name := range sortedKeys(res.Outputs) {
		fmt.Fprintf(w, "\noutput %s is in %s\n", name, res.Outputs[name])
	}
	fmt.Fprintf(w, "\nrun %s took %s\n", res.ID, short(res.Took))
}

func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

func byteSize(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// jsonView prints every event as one JSON object a line.
type jsonView struct {
	ctx    context.Context
	copies sync.WaitGroup
	mu     sync.Mutex
	enc    *json.Encoder
	fail   error
}

// jsonEvent is an event as -o json prints it. Output data is text if it is UTF-8, else base64.
type jsonEvent struct {
	Time     time.Time            `json:"time"`
	Event    string               `json:"event"`
	Step     string               `json:"step,omitempty"`
	Worker   string               `json:"worker,omitempty"`
	Message  string               `json:"message,omitempty"`
	Stream   *host.StreamProgress `json:"stream,omitempty"`
	Exit     *sdk.Exit            `json:"exit,omitempty"`
	Result   *jsonResult          `json:"result,omitempty"`
	Fd       string               `json:"fd,omitempty"`
	Position *int64               `json:"position,omitempty"`
	Text     *string              `json:"text,omitempty"`
	Data     []byte               `json:"data,omitempty"`
	GapTo    int64                `json:"gap_to,omitempty"`
}

type jsonResult struct {
	State  host.StepState `json:"state"`
	Error  string         `json:"error,omitempty"`
	Queue  float64        `json:"queue_seconds"`
	Stream float64        `json:"stream_seconds"`
	Run    float64        `json:"run_seconds"`
}

func (v *jsonView) print(e any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.enc.Encode(e); err != nil && v.fail == nil {
		v.fail = err
	}
}

func (v *jsonView) event(e host.Event) {
	out := jsonEvent{Time: e.Time, Event: string(e.Kind), Step: e.Step, Worker: e.Worker, Message: e.Message, Stream: e.Stream, Exit: e.Exit}
	if r := e.Result; r != nil {
		out.Result = &jsonResult{State: r.State, Queue: r.Queue.Seconds(), Stream: r.Stream.Seconds(), Run: r.Run.Seconds()}
		if r.Err != nil {
			out.Result.Error = r.Err.Error()
		}
	}
	v.print(out)
	if e.Kind == host.EventStarted {
		v.copies.Go(func() { v.copyOutput(e.Step, e.Process) })
	}
}

func (v *jsonView) copyOutput(step string, p *host.Process) {
	r, err := p.Output(0)
	if err != nil {
		v.print(jsonEvent{Time: time.Now(), Event: "output", Step: step, Message: err.Error()})
		return
	}
	defer r.Close()
	for {
		rec, err := r.Next(v.ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				v.print(jsonEvent{Time: time.Now(), Event: "output", Step: step, Message: err.Error()})
			}
			return
		}
		v.print(outputEvent(step, rec))
	}
}

func outputEvent(step string, rec spool.Record) jsonEvent {
	e := jsonEvent{Time: rec.Time, Event: "output", Step: step, Position: &rec.Position}
	if rec.GapTo > rec.Position {
		e.GapTo = rec.GapTo
		return e
	}
	e.Fd = sdk.Stream(rec.Stream).String()
	if text := string(rec.Data); strings.ToValidUTF8(text, "") == text {
		e.Text = &text
	} else {
		e.Data = rec.Data
	}
	return e
}

func (v *jsonView) finish() error {
	v.copies.Wait()
	return v.fail
}
