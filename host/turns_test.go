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
	done, err := turns.take(t.Context(), "red", 0, func(int) { t.Error("the first waits") })
	if err != nil {
		t.Fatal(err)
	}
	var went []string
	var comers sync.WaitGroup
	come := func(ctx context.Context, name, team string, priority int) {
		waits := make(chan struct{})
		comers.Go(func() {
			done, err := turns.take(ctx, team, priority, func(int) { close(waits) })
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
	err := untilFiles(t.Context(), func(err error) { told = append(told, err.Error()) }, func() error {
		if tries++; tries < 3 {
			return fmt.Errorf("open it: %w", &fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE})
		}
		return nil
	})
	if err != nil || tries != 3 || len(told) != 2 {
		t.Errorf("after %d tries, told %q: %v", tries, told, err)
	}
	other := errors.New("another")
	if err := untilFiles(t.Context(), func(error) { t.Error("it waits") }, func() error { return other }); err != other {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := untilFiles(ctx, func(error) { cancel() }, func() error { return syscall.ENFILE }); err != syscall.ENFILE {
		t.Error(err)
	}
}

// TestWaitsForRoom: what makes files waits for room on the disk as for files, and nothing else does.
func TestWaitsForRoom(t *testing.T) {
	full := &fs.PathError{Op: "open", Path: "x", Err: syscall.ENOSPC}
	for _, passing := range []error{full, &fs.PathError{Op: "open", Path: "x", Err: syscall.EDQUOT}, syscall.EMFILE} {
		waited, tries := 0, 0
		err := untilStored(t.Context(), func(error) { waited++ }, func() error {
			if tries++; tries < 3 {
				return passing
			}
			return nil
		})
		if err != nil || waited != 2 {
			t.Errorf("%v: waited %d times, then %v", passing, waited, err)
		}
	}
	if err := untilFiles(t.Context(), func(error) { t.Error("it waits") }, func() error { return full }); err != full {
		t.Error(err)
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
