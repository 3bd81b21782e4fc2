package api

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/sdk"
)

// activeRun is a run that this server has begun, with all that has happened in it.
type activeRun struct {
	id      string
	request *pb.StartRunRequest
	cancel  context.CancelCauseFunc // asks what runs to end
	kill    func()                  // ends its grace

	mu        sync.Mutex
	events    []*pb.Event          // number i+1 at i
	progress  map[string]*progress // by step, of what only the newest matters
	told      int64                // how much progress was ever told
	changed   chan struct{}        // closed at the next change
	processes map[string]*host.Process
	waiting   map[string]chan error // by output that nobody has accepted yet
	result    *pb.RunResult         // nil until it has ended

	closing <-chan struct{} // closed when the server's end begins
}

type progress struct {
	at    int64
	event *pb.Event
}

func newActiveRun(req *pb.StartRunRequest, closing <-chan struct{}, cancel context.CancelCauseFunc, kill func()) *activeRun {
	return &activeRun{id: req.GetId(), request: req, closing: closing, cancel: cancel, kill: kill, progress: make(map[string]*progress), changed: make(chan struct{}),
		processes: make(map[string]*host.Process), waiting: make(map[string]chan error)}
}

// put takes an event of the run's. It never blocks for long.
func (r *activeRun) put(e host.Event) {
	out := pbEvent(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.Kind == host.EventCreating || e.Kind == host.EventStreaming && !e.Stream.Done:
		r.told++
		r.progress[e.Step] = &progress{r.told, out}
		r.wake()
		return
	case e.Kind == host.EventStarted:
		r.processes[e.Step] = e.Process
	case e.Kind == host.EventFinished:
		if p := r.processes[e.Step]; p != nil {
			select {
			case <-p.Done():
			default:
				out.Result.GoesOn = true
			}
		}
	}
	delete(r.progress, e.Step)
	r.add(out)
}

// add appends an event. The caller holds r.mu.
func (r *activeRun) add(e *pb.Event) {
	e.Number = int64(len(r.events) + 1)
	r.events = append(r.events, e)
	r.wake()
}

func (r *activeRun) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// finish ends the run's events.
func (r *activeRun) finish(result *pb.RunResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = result
	r.progress = nil
	r.add(&pb.Event{Time: timestamppb.Now(), Kind: KindEnded, Run: result})
}

// Kinds of events beside those of a host's.
const (
	KindOutput = "output" // an output is ready to be downloaded
	KindEnded  = "ended"  // the run has ended
)

func (r *activeRun) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result != nil
}

// watch gives all events after a number, then new ones as they come, until the run has ended or ctx has. Progress that nobody has
// seen gives way to newer progress.
func (r *activeRun) watch(ctx context.Context, after int64, send func(*pb.Event) error) error {
	next, seen := max(after, 0), int64(0)
	for {
		var batch []*pb.Event
		r.mu.Lock()
		if next < int64(len(r.events)) {
			batch = append(batch, r.events[next:]...)
			next = int64(len(r.events))
		}
		for _, p := range r.progress {
			if p.at > seen {
				batch = append(batch, p.event)
			}
		}
		seen = r.told
		over, changed := r.result != nil, r.changed
		r.mu.Unlock()
		for _, e := range batch {
			if err := send(e); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// outputPatience is how long an output waits for somebody to download it. The run can be resumed after that, too.
const outputPatience = host.DefaultArtifactTTL

// errUnaccepted says that nobody came for an output.
var errUnaccepted = errors.New("nobody has downloaded it")

// deliver tells watchers that an output is ready, and waits until one of them has it. It fails with host.ErrClosed when the server ends
// before that: the run can be resumed for it.
func (r *activeRun) deliver(ctx context.Context, output string, a *host.Artifact, target string) error {
	accepted := make(chan error, 1)
	r.mu.Lock()
	r.waiting[output] = accepted
	r.add(&pb.Event{Time: timestamppb.Now(), Kind: KindOutput, Output: &pb.ReadyOutput{Name: output, Artifact: a.Name, Target: target}})
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, output)
	}()
	late := time.NewTimer(outputPatience)
	defer late.Stop()
	select {
	case err := <-accepted:
		return err
	case <-late.C:
		return errUnaccepted
	case <-r.closing:
		return host.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// accept ends the wait of an output that is ready.
func (r *activeRun) accept(output string, failure error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	accepted := r.waiting[output]
	if accepted == nil {
		return invalid("output %q of run %s does not wait to be accepted", output, r.id)
	}
	delete(r.waiting, output)
	accepted <- failure
	return nil
}

// waits tells whether an output is ready and nobody has accepted it yet.
func (r *activeRun) waits(output string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[output] != nil
}

// ReasonOtherInputs is why a run that is under way is not what a request asks for: it was begun with other inputs.
const ReasonOtherInputs sdk.Reason = "other-inputs"

// same tells whether a request asks for what this run is.
func (r *activeRun) same(req *pb.StartRunRequest) error {
	mine, err := jobOf(r.request)
	if err != nil {
		return err
	}
	asked, err := jobOf(req)
	if err != nil {
		return err
	}
	if asked.Digest() != mine.Digest() {
		return invalid("run %s is under way with another job: give another id", r.id)
	}
	if !slices.Equal(sortedKeys(r.request.GetInputs()), sortedKeys(req.GetInputs())) {
		return invalid("run %s is under way with the inputs %q: give those, or another id", r.id, sortedKeys(r.request.GetInputs()))
	}
	for name, artifact := range req.GetInputs() {
		if artifact != "" && artifact != r.request.GetInputs()[name] {
			return sdk.NewInvalid(ReasonOtherInputs, "run %s is under way, and its input %q is not artifact %s: give another id, or no artifact to find this run", r.id, name, artifact)
		}
	}
	if !maps.Equal(r.request.GetOutputs(), req.GetOutputs()) {
		return invalid("run %s is under way with other outputs: ask for the same, or for none with WatchRun", r.id)
	}
	return nil
}
