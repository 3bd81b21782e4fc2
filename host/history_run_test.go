package host

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// runHistory is one run, under one host after the other, and what was told of it.
type runHistory struct {
	*history
	req  RunRequest
	life int // which host it is

	mu      sync.Mutex
	told    map[string]StepResult // how steps have ended
	started map[string]bool       // the containers in which a process was started
	events  int                   // that were told in this life
	at      int                   // the event at which something happens
	reached chan struct{}         // closed then
}

const runHistoryJob = `
job "j" {
  step "a" {
    outputs  = ["o"]
    attempts = 2
    run {
      path = "sh"
      args = ["-c", "echo made > o/f"]
    }
  }
  step "b" {
    inputs  = { in = step.a.o }
    outputs = ["p"]
    run {
      path = "sh"
      args = ["-c", "cat in/f > p/g; sleep 0.02"]
    }
  }
  step "late" {
    timeout = "5ms"
    run {
      path = "sh"
      args = ["-c", "trap 'exit 0' TERM; while :; do sleep 0.002; done"]
    }
  }
  step "bad" {
    run {
      path = "sh"
      args = ["-c", "exit 3"]
    }
  }
  step "never" {
    after = [step.bad]
    run { path = "true" }
  }
  output "out" { from = step.b.p }
}`

// tell takes an event of the run's. What is told of a step that this host leaves to the next is no verdict.
func (r *runHistory) tell(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events++; r.events == r.at {
		close(r.reached)
	}
	if e.Kind != EventFinished || r.r.h.ctx.Err() != nil {
		return
	}
	was, ok := r.told[e.Step]
	if ok && (was.State != e.Result.State || was.Attempts != e.Result.Attempts || was.Summary() != e.Result.Summary()) {
		r.t.Errorf("step %s was %s (%s), and under host %d it is %s (%s)", e.Step, was.State, was.Summary(), r.life, e.Result.State, e.Result.Summary())
	}
	r.told[e.Step] = *e.Result
}

// live has the run begun, or resumed, by a host that is closed or whose run is interrupted at some moment, or whose worker comes back as another one, or none of these.
func (r *runHistory) live(last bool) (*RunResult, error) {
	r.life++
	ctx, interrupt := context.WithCancel(testkit.Context(r.t))
	defer interrupt()
	r.mu.Lock()
	r.events, r.at, r.reached = 0, 1+r.dice.IntN(25), make(chan struct{})
	r.mu.Unlock()
	what := r.dice.IntN(8)
	if last {
		what = 7
	}
	req, kill := r.req, make(chan struct{})
	req.Kill = kill
	var res *RunResult
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		res, err = r.r.h.Run(ctx, req)
	}()
	select {
	case <-r.reached:
	case <-ended:
	}
	switch {
	case what < 4:
		closeTestHost(r.t, r.r.h)
		defer r.open()
	case what < 5:
		interrupt()
		if r.dice.IntN(2) == 0 { // and once more
			close(kill)
		}
	case what < 6:
		r.r.comeBack(r.t)
	}
	<-ended
	return res, err
}

// TestRunHistories drives runs at random: a worker that fails in every class before and after what it was told, and that comes back as another one, hosts that end in the middle of all that,
// interrupts, and operators who give a run up. What was told of a step is told of it ever after, nothing is started twice, the output is there if the step that made it succeeded and nobody interrupted, and nothing is left.
func TestRunHistories(t *testing.T) {
	t.Parallel()
	first := uint64(1)
	if !testing.Short() {
		first = uint64(time.Now().UnixNano())
	}
	if *runHistorySeed != 0 {
		first = *runHistorySeed
	}
	rounds := testkit.Times(12, runHistoryRounds)
	if testkit.Race && !testing.Short() {
		rounds /= 5
	}
	for i := range uint64(rounds) {
		t.Run(fmt.Sprintf("seed %d", first+i), func(t *testing.T) {
			bubbleMost(t, i, func(t testing.TB) { runAll(t, first+i) })
		})
	}
}

const runHistoryRounds = 20_000

var runHistorySeed = flag.Uint64("runhistory.seed", 0, "where the seeds of TestRunHistories begin, to repeat one; 0: anywhere, but in short runs at 1")

func runAll(t testing.TB, seed uint64) {
	r := &runHistory{history: &history{t: t, dir: newStateDir(t), clk: newFlowingClock(), chance: rand.New(rand.NewPCG(seed, 0)), dice: rand.New(rand.NewPCG(seed, 1))},
		told: make(map[string]StepResult), started: make(map[string]bool)}
	r.r = newReborn(t, Options{StateDir: r.dir, clock: r.clk.clock()})
	calls := r.r.hook
	r.r.hook = func(ctx context.Context, call, id string, n int, real func() error) error {
		return calls(ctx, call, id, n, func() error {
			return r.meddle(call, func() error {
				err := real()
				if call == "start" && err == nil {
					r.mu.Lock()
					defer r.mu.Unlock()
					r.started[id] = true
				}
				return err
			})
		})
	}
	target := filepath.Join(t.TempDir(), "out")
	r.req = RunRequest{ID: "r", Grace: time.Minute, Job: parseJob(t, runHistoryJob), Outputs: map[string]string{"out": target}, Events: r.tell}
	r.setTrouble(r.dice.IntN(4) > 0)
	for range 1 + r.dice.IntN(5) {
		if _, err := r.live(false); !errors.Is(err, ErrClosed) {
			break
		}
	}
	r.setTrouble(false)
	res, err := r.r.h.RunResult(t.Context(), "r")
	switch {
	case err == nil: // it has ended
	case r.dice.IntN(4) == 0:
		if res, err = r.r.h.AbortRun(testkit.Context(t), "r"); sdk.ClassOf(err) == sdk.NotFound { // it was not begun
			return
		} else if err != nil {
			t.Fatalf("given up: %v", err)
		}
	default:
		if res, err = r.live(true); res == nil || err != nil && !sdk.IsNotFound(err, KindArtifact) {
			t.Fatalf("in the end: %v", err)
		}
	}
	for _, s := range res.Steps {
		if was, ok := r.told[s.Step]; ok && (was.State != s.State || was.Summary() != s.Summary()) {
			t.Errorf("step %s was told as %s, and is kept as %s", s.Step, was.Summary(), s.Summary())
		}
	}
	content, errRead := os.ReadFile(filepath.Join(target, "g"))
	if made := res.Outputs["out"] != ""; made != (errRead == nil) && res.Abandoned == "" || made && string(content) != "made\n" {
		t.Errorf("its output is told to be in %q; there is %q, %v", res.Outputs["out"], content, errRead)
	}
	r.checkStarts()
	for range 2 {
		if _, err := r.r.h.Reap(testkit.Context(t), false); err != nil {
			t.Error(err)
		}
		r.clk.pass(time.Second)
	}
	testkit.Until(t, "all is paid", func() bool { return len(r.r.h.AwaitOwed(testkit.Context(t))) == 0 })
	if left := onWorker(t, r.r.Runtime, "m"); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
}

// checkStarts fails if an attempt at a step was started in two containers, or one that was started is unknown.
func (r *runHistory) checkStarts() {
	in, known := make(map[string]string), make(map[string]bool)
	for _, row := range containerRows(r.t, r.r.h) {
		known[row.ID] = true
		if !r.started[row.ID] {
			continue
		}
		if in[row.Owner] != "" {
			r.t.Errorf("%s was started in %s and in %s", row.Owner, in[row.Owner], row.ID)
		}
		in[row.Owner] = row.ID
	}
	for id := range r.started {
		if !known[id] {
			r.t.Errorf("a process was started in container %s, of which nothing is known any more", id)
		}
	}
}

func (h *history) setTrouble(is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = is
}
