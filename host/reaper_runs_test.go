package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// runRow is a run as the store has it.
func runRow(t *testing.T, h *Host, id string) (row store.Run) {
	t.Helper()
	err := h.store.View(t.Context(), func(tx *store.Tx) (err error) {
		row, err = tx.Run(id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// leftRun is a run of steps that each run a script and have one output o, as a host leaves it that is closed as soon as the last has started.
// Each takes the output of the one before; the last one's is the job's.
func leftRun(t *testing.T, rt sdk.Runtime, opts Options, scripts ...string) RunRequest {
	t.Helper()
	var steps strings.Builder
	last := len(scripts) - 1
	for i, text := range scripts {
		inputs := ""
		if i > 0 {
			inputs = fmt.Sprintf("inputs = { i = step.s%d.o }", i-1)
		}
		fmt.Fprintf(&steps, "step \"s%d\" {\n%s\noutputs = [\"o\"]\nrun {\npath = \"sh\"\nargs = [\"-c\", %q]\n}\n}\n", i, inputs, text)
	}
	h := openHost(t, rt, opts, "m")
	closed := make(chan struct{})
	req := RunRequest{ID: "r", Job: parseJob(t, fmt.Sprintf("job \"j\" {\n%soutput \"o\" { from = step.s%d.o }\n}", &steps, last)), Events: func(e Event) {
		if e.Kind == EventStarted && e.Step == fmt.Sprintf("s%d", last) {
			go func() { closeTestHost(t, h); close(closed) }()
			<-h.ctx.Done()
		}
	}}
	if _, err := h.Run(t.Context(), req); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	<-closed
	req.Events = nil
	return req
}

// A run that has been under way for longer than anybody's grace is no abandoned one after a kill of its host: how long nobody resumed it
// counts from when it was last under way, and from a while after there is a host again.
func TestLongRun(t *testing.T) {
	t.Parallel()
	rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
	cfg := testConfig("m")
	cfg.Reaping.Every = 10 * time.Millisecond
	runtimes := map[string]sdk.Runtime{"memory": rt}
	h := openConfig(t, cfg, Options{StateDir: dir, clock: clk.clock(), Runtimes: runtimes})
	job := parseJob(t, `
job "j" {
  step "s" {
    run {
      path = "sh"
      args = ["-c", "sleep 1000"]
    }
  }
}`)
	started, ended := make(chan struct{}), make(chan error, 1)
	req := RunRequest{ID: "r", Job: job, Events: func(e Event) {
		if e.Kind == EventStarted {
			close(started)
		}
	}}
	go func() {
		_, err := h.Run(t.Context(), req)
		ended <- err
	}()
	<-started
	clk.pass(30 * time.Hour)
	testkit.Until(t, "the store knows that it is under way", func() bool { return runRow(t, h, "r").ActiveAt.Equal(clk.clock().wall()) })
	closeTestHost(t, h)
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	cfg = testConfig("m")
	reopen := func() {
		h = openConfig(t, cfg, Options{StateDir: dir, clock: clk.clock(), Runtimes: runtimes})
	}
	reopen()
	grace := h.cfg().Timing.MissingGrace
	reapFor(t, h, clk, grace)
	if row := runRow(t, h, "r"); row.State != lifecycle.RunGoing || stateOf(t, h, RunOwner("r", "s")) != lifecycle.ContainerReady {
		t.Fatalf("the run is %s, its container %s", row.State, stateOf(t, h, RunOwner("r", "s")))
	}
	closeTestHost(t, h)
	clk.pass(1000 * time.Hour) // without a host
	reopen()
	reapFor(t, h, clk, grace-1)
	if row := runRow(t, h, "r"); row.State != lifecycle.RunGoing || stateOf(t, h, RunOwner("r", "s")) != lifecycle.ContainerReady {
		t.Errorf("before anybody could resume it the run is %s", row.State)
	}
	clk.pass(1)
	reapAll(t, h)
	if row := runRow(t, h, "r"); row.State != lifecycle.RunEnded || len(onWorker(t, rt, "m")) > 0 {
		t.Errorf("nobody has resumed it, and it is %s; on its worker: %q", row.State, onWorker(t, rt, "m"))
	}
}

// A run that was resumed since it was found to be abandoned is not ended: neither what it came to then, nor what it has left.
func TestResumedSinceOverdue(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]error{"to its end": nil, "and left again": errors.New("not yet")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
			req := leftRun(t, rt, Options{StateDir: dir, clock: clk.clock()}, "echo made > o/f")
			req.Outputs = map[string]string{"o": "kept"}
			clk.pass(48 * time.Hour)
			var h *Host
			var resumed atomic.Bool
			failure, got := late, ""
			req.Deliver = func(_ context.Context, _ string, a *Artifact, _ string) error {
				if failure == nil {
					got = fileOf(t, h, a, "f")
				}
				return failure
			}
			h = openHost(t, rt, Options{StateDir: dir, clock: clk.clock(), fault: func(point string) {
				if point != "run-overdue" || resumed.Swap(true) {
					return
				}
				if _, err := h.Run(t.Context(), req); !errors.Is(err, late) {
					t.Error(err)
				}
			}}, "m")
			clk.pass(h.cfg().Timing.MissingGrace)
			report := reapAll(t, h)
			if !resumed.Load() || slices.ContainsFunc(report.Verdicts, func(v ReapVerdict) bool { return v.Kind == "run" }) {
				t.Errorf("resumed: %v; %+v", resumed.Load(), report)
			}
			failure = nil
			res, err := h.Run(t.Context(), req)
			if err != nil || !res.Succeeded() || res.Recorded != (late == nil) || got != "made\n" {
				t.Errorf("it came to %+v, %v, with %q", res, err, got)
			}
		})
	}
}

// That the reaper could not end a run does not count as its being under way.
func TestEndedInVain(t *testing.T) {
	t.Parallel()
	clk := newTestClock()
	h := openHost(t, newMemory(t, "m"), Options{clock: clk.clock()}, "m")
	row := store.Run{ID: "r", State: lifecycle.RunGoing, CreatedAt: clk.clock().wall()}
	if err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error { return tx.PutRun(row) }); err != nil {
		t.Fatal(err)
	}
	clk.pass(48 * time.Hour)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.reapRun(cancelled, "r"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if v := verdictOf(t, reapAll(t, h), "r"); v.Action != ReapDestroy || v.Err != nil {
		t.Errorf("%+v", v)
	}
}

// What a run came to that nobody resumes is what is known of its steps, each by its last attempt, and no success.
func TestAbandonedResult(t *testing.T) {
	t.Parallel()
	rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
	req := leftRun(t, rt, Options{StateDir: dir, clock: clk.clock()}, "echo made > o/f", "sleep 1000")
	clk.pass(48 * time.Hour)
	h := openHost(t, rt, Options{StateDir: dir, clock: clk.clock()}, "m")
	add := func(step string, attempt int, state, process, reason, exit string) {
		t.Helper()
		c := store.Container{ID: newID("c"), Worker: "m", Owner: AttemptOwner("r", step, attempt), State: state, Spec: []byte("{}"), CreatedAt: clk.clock().wall()}
		p := store.Process{ID: rowID(sdk.ContainerID(c.ID), MainProcess), Container: c.ID, State: process, Reason: reason, Exit: []byte(exit)}
		err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error {
			err := tx.PutContainer(c)
			if process != "" {
				err = errors.Join(err, tx.PutProcess(p))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	none := store.Run{ID: "none", State: lifecycle.RunGoing, CreatedAt: clk.clock().wall()}
	var err error
	if none.Job, err = json.Marshal(req.Job.Digest()); err != nil {
		t.Fatal(err)
	}
	if err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error { return tx.PutRun(none) }); err != nil {
		t.Fatal(err)
	}
	add("twice", 1, lifecycle.ContainerLost, lifecycle.ProcessLost, "its worker was away", "")
	add("twice", 2, lifecycle.ContainerDestroyed, lifecycle.ProcessExited, "", `{"Code":3}`)
	add("lost", 1, lifecycle.ContainerLost, lifecycle.ProcessRunning, "", "")
	add("unsealed", 1, lifecycle.ContainerDestroyed, lifecycle.ProcessExited, "", `{"Code":0}`)
	add("late", 1, lifecycle.ContainerDestroyed, lifecycle.ProcessExited, "its timeout of 1s has passed", `{"Code":0}`)
	add("killed", 1, lifecycle.ContainerDestroyed, lifecycle.ProcessAborted, "its container was destroyed", "")
	add("waiting", 1, lifecycle.ContainerDestroyed, "", "", "")
	clk.pass(48 * time.Hour)
	reapAll(t, h)
	reapAll(t, h)
	res, err := h.RunResult(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range res.Steps {
		text := fmt.Sprintf("%s %d %s", s.Step, s.Attempts, s.State)
		if s.Exit != nil {
			text += fmt.Sprintf(" with %d", s.Exit.Code)
		}
		if s.Err != nil {
			text += ": " + s.Err.Error()
		}
		got = append(got, text)
	}
	want := []string{
		"s0 1 succeeded with 0",
		"s1 1 aborted: nobody has resumed it for 24h0m0s",
		"twice 2 failed with 3",
		"lost 1 lost: " + (&LostError{Owner: RunOwner("r", "lost"), Worker: "m"}).Error(),
		"unsealed 1 succeeded with 0",
		"late 1 aborted: its timeout of 1s has passed",
		"killed 1 aborted: its container was destroyed",
		"waiting 1 aborted: nobody has resumed it for 24h0m0s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, req.ID = range []string{"r", "none"} {
		res, err := h.Run(t.Context(), req)
		if !errors.Is(err, sdk.ReasonAbandoned) || !res.Recorded || res.Succeeded() {
			t.Errorf("resumed after that: %+v, %v", res, err)
		}
	}
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A worker on which nothing can be destroyed, for it never answers, keeps the reaper from nothing elsewhere: neither by an artifact that has
// expired, nor by a run that nobody resumes.
func TestHungWorker(t *testing.T) {
	t.Parallel()
	rt, clk := newMemory(t, "a", "b"), newTestClock()
	var hung atomic.Pointer[[]string]
	o := &hooked{Runtime: rt, hook: func(ctx context.Context, call, id string, _ int, real func() error) error {
		if ids := hung.Load(); ids != nil && (call == "destroy" || call == "destroy-volume") && slices.ContainsFunc(*ids, func(s string) bool { return strings.HasSuffix(s, id) }) {
			<-ctx.Done()
			return ctx.Err()
		}
		return real()
	}}
	cfg := testConfig("a", "b")
	cfg.Reaping.Every = 10 * time.Millisecond
	h := openConfig(t, cfg, Options{clock: clk.clock(), Runtimes: map[string]sdk.Runtime{"memory": o}})
	bring := func(worker string) {
		t.Helper()
		a, err := h.UploadDir(t.Context(), Upload{Name: "on-" + worker}, tree(t, map[string]string{"f": "x"}))
		if err == nil {
			_, err = h.replicate(t.Context(), a, mustWorker(t, h, worker), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(id, worker, other string) {
		t.Helper()
		err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error {
			return tx.PutRun(store.Run{ID: id, State: lifecycle.RunGoing, CreatedAt: clk.clock().wall()})
		})
		if err == nil {
			_, err = h.Container(t.Context(), RunOwner(id, "s"), ContainerRequest{Outputs: []Output{{"o", "o"}}, Exclude: map[string]string{other: "for the test"}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	bring("a") // these come first
	run("ra", "a", "b")
	stuck := slices.Sorted(slices.Values(onWorker(t, rt, "a")))
	hung.Store(&stuck)
	bring("b")
	run("rb", "b", "a")
	clk.pass(48 * time.Hour)
	testkit.Until(t, "all on the other worker is destroyed", func() bool { return len(onWorker(t, rt, "b")) == 0 })
	if left := slices.Sorted(slices.Values(onWorker(t, rt, "a"))); !slices.Equal(left, stuck) {
		t.Errorf("on the hung one there is %q of %q", left, stuck)
	}
	hung.Store(new([]string))
}

// A run is remembered for as long as one of its artifacts is there: who it belonged to could not be told any more, and it would stay for ever.
func TestForgetWithArtifacts(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	ended := store.Run{ID: "r", State: lifecycle.RunEnded, CreatedAt: time.Now().Add(-3 * time.Hour), EndedAt: time.Now().Add(-2 * time.Hour)}
	if err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error { return tx.PutRun(ended) }); err != nil {
		t.Fatal(err)
	}
	a, err := h.UploadDir(t.Context(), Upload{Name: "run/r/@input/i", Owner: RunOwner("r", "")}, tree(t, map[string]string{"f": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	c, err := h.Container(t.Context(), "someone", ContainerRequest{Inputs: []Input{{Artifact: a, Path: "i"}}}) // uses it
	if err != nil {
		t.Fatal(err)
	}
	remembered := func() bool {
		t.Helper()
		reapAll(t, h)
		if err := h.forget(t.Context(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		_, err := h.RunByID(t.Context(), "r")
		if err != nil && !errors.Is(err, sdk.NotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	if !remembered() {
		t.Error("forgotten before its artifact went")
	}
	if err := c.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if remembered() {
		t.Error("remembered though nothing of it is left")
	}
	if _, err := h.Artifact(t.Context(), a.Name); !sdk.IsNotFound(err, KindArtifact) {
		t.Errorf("its artifact: %v", err)
	}
}
