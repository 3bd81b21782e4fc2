package host

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// silentAt is a runtime that leaves calls without an answer, and a host that waits for those a moment, and for all others an hour.
type silentAt struct {
	hooked
	hang func(call, id string) bool
	does bool // those have their effect first
}

func newSilent(rt sdk.Runtime, hang func(call, id string) bool) *silentAt {
	s := &silentAt{hang: hang}
	s.Runtime = rt
	s.hook = func(ctx context.Context, call, id string, _ int, real func() error) error {
		if !s.hang(call, id) {
			return real()
		}
		if s.does {
			if err := real(); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}
	return s
}

// impatient are options of a host that soon gives up calls of these kinds, and others after an hour.
func impatient(calls ...string) Options {
	return Options{patience: func(what string) time.Duration {
		for _, c := range calls {
			if c == what {
				return testkit.Scale(50 * time.Millisecond)
			}
		}
		return time.Hour
	}}
}

// A worker whose status is well may leave any call without an answer: nobody waits for it for ever, nothing that was started is taken for
// anything but lost or what it is, and all that was made goes once it answers again.
func TestSilentWorker(t *testing.T) {
	t.Parallel()
	hung := errors.New("the call was cut") // stands for a silent *WorkerGoneError
	lost := new(LostError)
	for name, c := range map[string]struct {
		hangs  []string // calls
		cut    []string // the same, as the host names them
		effect bool     // which they have first
		want   error    // hung, lost, or nil
	}{
		"create volume":                   {[]string{"create-volume"}, []string{"create volume"}, false, hung},
		"create volume, which is made":    {[]string{"create-volume"}, []string{"create volume"}, true, hung},
		"create container":                {[]string{"create"}, []string{"create container"}, false, hung},
		"create container, which is made": {[]string{"create"}, []string{"create container"}, true, hung},
		"start":                           {[]string{"start"}, []string{"start process"}, false, hung},
		"start, which has begun":          {[]string{"start"}, []string{"start process"}, true, nil},
		"start and list":                  {[]string{"start", "list-processes"}, []string{"start process", "list processes"}, false, lost},
		"follow":                          {[]string{"follow"}, []string{"follow process"}, false, lost},
		"destroy":                         {[]string{"destroy"}, []string{"destroy container"}, false, hung},
		"seal":                            {[]string{"seal"}, []string{"seal volume"}, false, hung},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := newMemory(t, "m")
			var answers atomic.Bool
			s := newSilent(rt, func(call, _ string) bool {
				for _, h := range c.hangs {
					if h == call {
						return !answers.Load()
					}
				}
				return false
			})
			s.does, s.whole = c.effect, c.effect
			h := openHost(t, s, impatient(c.cut...), "m")
			err := runSilent(t, h)
			switch {
			case c.want == nil && err != nil:
				t.Errorf("a call that had its effect: %v", err)
			case c.want == hung && (err == nil || !strings.Contains(err.Error(), c.cut[0]+" on m: worker m has not answered for")) && !silent(err):
				t.Errorf("err = %v, want one that names the worker and the call", err)
			case c.want == error(lost) && !errors.As(err, new(*LostError)):
				t.Errorf("err = %v, want a loss", err)
			}
			if n := len(s.tokens); n > 1 {
				t.Errorf("%d starts", n)
			}
			answers.Store(true)
			testkit.Until(t, "all is gone", func() bool {
				reapAll(t, h)
				return len(onWorker(t, rt, "m")) == 0
			})
		})
	}
}

// runSilent runs a step's whole life.
func runSilent(t *testing.T, h *Host) (err error) {
	c, err := h.Container(t.Context(), "owner", ContainerRequest{Outputs: []Output{{"o", "o"}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Destroy(t.Context())) }()
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo x > o/x"}})
	if err != nil {
		return err
	}
	if o := waitOutcome(t, p); o.Err != nil {
		return o.Err
	}
	outputs, err := c.Seal(t.Context())
	for _, a := range outputs {
		err = errors.Join(err, h.RemoveArtifact(t.Context(), a))
	}
	return err
}

// What has not been started goes to another worker when its own is silent; whoever asked is told at once that it is, and when it goes on.
func TestSilentWorkerIsLeft(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "a", "b")
	var first atomic.Pointer[string]
	s := newSilent(rt, func(call, worker string) bool {
		if call != "create" {
			return false
		}
		first.CompareAndSwap(nil, &worker)
		return *first.Load() == worker
	})
	var creations atomic.Int32
	h := openHost(t, s, Options{patience: func(what string) time.Duration {
		if what == "create container" && creations.Add(1) == 1 {
			return 50 * time.Millisecond
		}
		return time.Hour
	}}, "a", "b")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if silent := *first.Load(); c.Worker() == silent {
		t.Errorf("it is on %s, which never answered", silent)
	}
}

// A call without an answer is told while it lasts, and that it goes on.
func TestSilenceIsTold(t *testing.T) {
	t.Parallel()
	told := make(chan struct{})
	s := newSilent(newMemory(t, "m"), func(string, string) bool { return false })
	s.on = map[string]func(int, func() error) error{"create": func(_ int, real func() error) error {
		<-told
		return real()
	}}
	cfg := testConfig("m")
	cfg.Timing.Stalled = 10 * time.Millisecond
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": s}})
	var mu sync.Mutex
	var events []Event
	if _, err := h.Container(t.Context(), "owner", ContainerRequest{Observe: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind != EventPaused && e.Kind != EventResumed || len(events) == 0 && !strings.Contains(e.Message, "create container") {
			return
		}
		if events = append(events, e); len(events) == 1 {
			close(told)
		}
	}}); err != nil {
		t.Fatal(err)
	}
	if n := len(events); n < 2 || events[0].Kind != EventPaused || events[0].Worker != "m" || events[n-1].Kind != EventResumed {
		t.Errorf("events are %v, want paused and resumed", events)
	}
}

// A call that hangs on a worker that goes away ends with the host's patience for that, and not with its own.
func TestHangsOnGoneWorker(t *testing.T) {
	t.Parallel()
	var h *Host
	var away atomic.Bool
	s := newSilent(newMemory(t, "m"), func(call, _ string) bool {
		if call != "create" {
			return false
		}
		away.Store(true)
		mustWorker(t, h, "m").lookNow()
		return true
	})
	s.status = func(context.Context, int, *sdk.Status) error {
		if away.Load() {
			return sdk.NewUnavailable(nil, "no route to it")
		}
		return nil
	}
	cfg, opts := testConfig("m"), impatient()
	cfg.Timing.WorkerGone, cfg.Timing.Stalled = 300*time.Millisecond, 100*time.Millisecond
	opts.Runtimes = map[string]sdk.Runtime{"memory": s}
	h = openConfig(t, cfg, opts)
	_, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err == nil || !strings.Contains(err.Error(), "no route to it") || !strings.Contains(err.Error(), "has been away for") {
		t.Errorf("err = %v, want why the worker is away", err)
	}
}
