package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// wideJob has so many steps that need nothing of each other.
func wideJob(t *testing.T, steps int) *job.Job {
	t.Helper()
	var b strings.Builder
	b.WriteString("job \"wide\" {\n")
	for i := range steps {
		fmt.Fprintf(&b, "step \"s%d\" {\nrun {\npath = \"true\"\n}\n}\n", i)
	}
	b.WriteString("}\n")
	j, diags := job.Parse([]byte(b.String()), "wide.hcl")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return j
}

// TestStepsTakeTurns: no more steps go side by side than a run, or its host, lets go, and every one goes.
func TestStepsTakeTurns(t *testing.T) {
	const steps, most = 12, 3
	for name, c := range map[string]struct{ host, run int }{"of the run": {0, most}, "of the host": {most, 0}, "of both": {most, most + 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now atomic.Int64
			var mu sync.Mutex
			var peak int64
			var once sync.Once
			full := make(chan struct{})
			rt := &hooked{Runtime: newMemory(t, "m"), hook: func(ctx context.Context, call, _ string, _ int, real func() error) error {
				switch call {
				case "create":
					n := now.Add(1)
					mu.Lock()
					peak = max(peak, n)
					mu.Unlock()
					if n == most {
						once.Do(func() { close(full) })
					}
					select {
					case <-full: // as many as may are there: had more been let go, they would have come
					case <-ctx.Done():
					}
				case "destroy":
					now.Add(-1)
				}
				return real()
			}}
			cfg := testConfig("m")
			cfg.Placement.Steps = c.host
			h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": rt}})
			res, err := h.Run(testkit.Context(t), RunRequest{ID: "r", Job: wideJob(t, steps), Parallel: c.run})
			if err != nil || !res.Succeeded() {
				t.Fatalf("%+v, %v", res, err)
			}
			if peak != most {
				t.Errorf("%d steps went side by side", peak)
			}
		})
	}
}

// TestOrderOfTurns: who waits for a turn goes by priority, then fairly between teams, then by age; who leaves takes no turn with him.
func TestOrderOfTurns(t *testing.T) {
	turns := newTurns(1)
	done, err := turns.take(t.Context(), comer{team: "red"}, func(int) { t.Error("the first waits") })
	if err != nil {
		t.Fatal(err)
	}
	var went []string
	var comers sync.WaitGroup
	come := func(ctx context.Context, name, team string, priority int) {
		waits := make(chan struct{})
		comers.Go(func() {
			done, err := turns.take(ctx, comer{owner: name, team: team, priority: priority}, func(int) { close(waits) })
			if err != nil {
				return
			}
			went = append(went, name) // one at a time
			done()
		})
		<-waits
	}
	ctx, leave := context.WithCancel(t.Context())
	come(ctx, "who leaves", "red", 9)
	come(t.Context(), "red 1", "red", 0)
	come(t.Context(), "red 2", "red", 0)
	come(t.Context(), "blue 1", "blue", 0)
	come(t.Context(), "blue 2", "blue", 0)
	come(t.Context(), "urgent", "red", 1)
	leave()
	testkit.Until(t, "one has left", func() bool {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		return len(turns.waiting) == 5
	})
	if w := turns.waits(); len(w) != 5 || w[0].owner != "urgent" || w[0].position != 1 || w[1].owner != "blue 1" || w[4].position != 5 {
		t.Errorf("who waits is told as %+v", w)
	}
	done()
	comers.Wait()
	if want := []string{"urgent", "blue 1", "red 1", "blue 2", "red 2"}; !slices.Equal(went, want) {
		t.Errorf("they went as %q, want %q", went, want)
	}
	if turns.all != 0 || len(turns.going)+len(turns.served) != 0 {
		t.Errorf("left over: %+v", turns)
	}
}

// TestWaitsForFiles: a step that cannot go for want of open files waits, and is told, until it can.
func TestWaitsForFiles(t *testing.T) {
	var told []string
	tries := 0
	err := untilStored(t.Context(), "dir", whileBeginning, func(err error) { told = append(told, err.Error()) }, func() error {
		if tries++; tries < 3 {
			return fmt.Errorf("open it: %w", &fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE})
		}
		return nil
	})
	if err != nil || tries != 3 || len(told) != 2 {
		t.Errorf("after %d tries, told %q: %v", tries, told, err)
	}
	other := errors.New("another")
	if err := untilStored(t.Context(), "dir", whileBeginning, func(error) { t.Error("it waits") }, func() error { return other }); err != other {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := untilStored(ctx, "dir", whileBeginning, func(error) { cancel() }, func() error { return syscall.ENFILE }); err != syscall.ENFILE {
		t.Error(err)
	}
}

// TestWaitsForRoom: what makes files waits for room on the disk as for files.
func TestWaitsForRoom(t *testing.T) {
	full := &fs.PathError{Op: "open", Path: "x", Err: syscall.ENOSPC}
	for _, passing := range []error{full, &fs.PathError{Op: "open", Path: "x", Err: syscall.EDQUOT}, syscall.EMFILE} {
		waited, tries := 0, 0
		err := untilStored(t.Context(), "dir", whileRunning, func(error) { waited++ }, func() error {
			if tries++; tries < 3 {
				return passing
			}
			return nil
		})
		if err != nil || waited != 2 {
			t.Errorf("%v: waited %d times, then %v", passing, waited, err)
		}
	}
}

// TestOutputIsBounded: whoever reads output that has no place yet waits no longer than his context.
func TestOutputIsBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &Process{stored: make(chan struct{})}
	if _, err := p.Output(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it to be cancelled", err)
	}
}

// TestTurnsAreTold: who waits for a turn, of its run or of the host, is told of as one that waits for a place is.
func TestTurnsAreTold(t *testing.T) {
	t.Parallel()
	for _, ofRun := range []bool{true, false} {
		t.Run(fmt.Sprintf("of the run %v", ofRun), func(t *testing.T) {
			t.Parallel()
			cfg, req := testConfig("m"), RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "a" {
    team = "red"
    run {
      path = "sh"
      args = ["-c", "trap 'exit 0' USR1; echo ready; while :; do sleep 0.01; done"]
    }
  }
  step "b" {
    team = "red"
    run {
      path = "sh"
      args = ["-c", "trap 'exit 0' USR1; echo ready; while :; do sleep 0.01; done"]
    }
  }
}`)}
			if req.Parallel = 1; !ofRun {
				req.Parallel, cfg.Placement.Steps = 0, 1
			}
			h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
			started := make(chan *Process, 2)
			req.Events = func(e Event) {
				if e.Kind == EventStarted {
					started <- e.Process
				}
			}
			ended := make(chan error, 1)
			go func() {
				res, err := h.Run(testkit.Context(t), req)
				if err == nil && !res.Succeeded() {
					err = errors.New(states(res))
				}
				ended <- err
			}()
			end := func(p *Process) {
				t.Helper()
				_, err := firstRecord(t, p)
				if err == nil {
					err = p.Signal(t.Context(), "USR1")
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			first := <-started
			other := RunOwner("r", "b")
			if first.owner == other {
				other = RunOwner("r", "a")
			}
			testkit.Until(t, "the other waits", func() bool {
				all, err := h.ExplainRun(t.Context(), "r")
				return err == nil && len(all) == 2 && all[0].State == PlacementPlaced && all[1].State == PlacementTurn && all[1].Owner == other
			})
			e, err := h.ExplainOwner(t.Context(), other)
			if err != nil || e.State != PlacementTurn || e.Position != 1 || e.Err == nil || h.Figures().Turns["red"] != 1 {
				t.Errorf("it is explained as %+v, %v; %v wait", e, err, h.Figures().Turns)
			}
			end(first)
			end(<-started)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if w := h.turnWaits(); len(w) > 0 {
				t.Errorf("in the end there wait %+v", w)
			}
		})
	}
}

// TestMoreTurns: who waits goes as soon as more may go side by side; with fewer, nobody who goes is held up.
func TestMoreTurns(t *testing.T) {
	turns := newTurns(1)
	take := func() (done func()) {
		t.Helper()
		done, err := turns.take(t.Context(), comer{}, func(int) { t.Error("it waits") })
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	done := take()
	waits, went := make(chan int, 1), make(chan func(), 1)
	go func() {
		done, err := turns.take(t.Context(), comer{}, func(most int) { waits <- most })
		if err == nil {
			went <- done
		}
	}()
	if most := <-waits; most != 1 {
		t.Errorf("it is told that %d may go", most)
	}
	turns.set(2)
	other := <-went
	turns.set(1)
	done()
	other()
	take()()
	turns.set(0) // any number
	for range 100 {
		defer take()()
	}
}
