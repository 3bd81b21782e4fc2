package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// reapAll has everything reaped once.
func reapAll(t testing.TB, h *Host) *ReapReport {
	t.Helper()
	report, err := h.Reap(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// verdictOf finds what was decided of a thing.
func verdictOf(t testing.TB, report *ReapReport, id string) ReapVerdict {
	t.Helper()
	for _, v := range report.Verdicts {
		if v.ID == id {
			return v
		}
	}
	t.Fatalf("no verdict of %s in %+v", id, report)
	return ReapVerdict{}
}

// expireArtifacts has removed what has expired by a time.
func (h *Host) expireArtifacts(ctx context.Context, now time.Time) error {
	verdicts, err := h.expire(ctx, reap.Snapshot{Now: now}, false)
	if err != nil {
		return err
	}
	report, err := h.Reap(ctx, false) // their volumes go with the workers' sweeps
	if err != nil {
		return err
	}
	for _, v := range append(verdicts, report.Verdicts...) {
		err = errors.Join(err, v.Err)
	}
	return err
}

// reapFor lets time pass, with a look before and after it, which is what a verdict on a worker's word takes.
func reapFor(t testing.TB, h *Host, c *testClock, d time.Duration) *ReapReport {
	t.Helper()
	reapAll(t, h)
	c.pass(d)
	return reapAll(t, h)
}

func stateOf(t *testing.T, h *Host, owner string) string {
	t.Helper()
	row, err := h.containerByOwner(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	return row.State
}

// A worker that lists nothing for a while loses nobody anything; if it stays so, what it had is lost. Its neighbour is not disturbed.
func TestListsNothing(t *testing.T) {
	t.Parallel()
	rt, clk := newMemory(t, "a", "b"), newTestClock()
	var forgetful atomic.Bool
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, worker string, _ int, real func() error) error {
		if call == "list" && worker == "a" && forgetful.Load() {
			return nil
		}
		return real()
	}}
	h := openHost(t, o, Options{clock: clk.clock()}, "a", "b")
	owner := make(map[string]string) // by worker
	for _, name := range []string{"one", "two", "three", "four"} {
		c, err := h.Container(t.Context(), name, ContainerRequest{Outputs: []Output{{"o", "o"}}})
		if err != nil {
			t.Fatal(err)
		}
		owner[c.Worker()] = name
	}
	if len(owner) != 2 {
		t.Fatalf("all on %v", owner)
	}
	grace := h.cfg().Timing.MissingGrace
	for range 3 {
		forgetful.Store(true)
		reapFor(t, h, clk, grace-1)
		forgetful.Store(false)
		reapFor(t, h, clk, grace)
	}
	if a, b := stateOf(t, h, owner["a"]), stateOf(t, h, owner["b"]); a != lifecycle.ContainerReady || b != lifecycle.ContainerReady {
		t.Fatalf("a container was %s and one %s, though the worker listed nothing for less than the grace", a, b)
	}
	forgetful.Store(true)
	report := reapFor(t, h, clk, grace)
	row, err := h.containerByOwner(t.Context(), owner["a"])
	if err != nil || row.State != lifecycle.ContainerLost || row.Reason == "" {
		t.Errorf("%+v, %v", row, err)
	}
	if v := verdictOf(t, report, row.ID); v.Action != ReapLose {
		t.Errorf("%+v", v)
	}
	if b := stateOf(t, h, owner["b"]); b != lifecycle.ContainerReady {
		t.Errorf("the neighbour's is %s", b)
	}
	forgetful.Store(false) // it was there all the time, and goes: what it became is told already
	reapFor(t, h, clk, grace)
	if left := onWorker(t, rt, "a"); slices.Contains(left, "container "+row.ID) {
		t.Errorf("left: %q", left)
	}
}

// A worker that never answers holds up only itself.
func TestNeverAnswers(t *testing.T) {
	t.Parallel()
	rt, clk := newMemory(t, "a", "b"), newTestClock()
	var hang atomic.Bool
	o := &hooked{Runtime: rt, hook: func(ctx context.Context, call, worker string, _ int, real func() error) error {
		if call == "list" && worker == "a" && hang.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return real()
	}}
	h := openHost(t, o, Options{clock: clk.clock()}, "a", "b")
	for _, worker := range []string{"a", "b"} {
		conn, _ := rt.Worker(worker)
		if err := conn.CreateContainer(t.Context(), sdk.ContainerSpec{ID: sdk.ContainerID("c-" + worker), Token: "t",
			Labels: map[string]string{sdk.LabelInstallation: h.Installation()}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	reapAll(t, h)
	clk.pass(h.cfg().Timing.MissingGrace)
	hang.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := h.Reap(ctx, false)
		ended <- err
	}()
	testkit.Until(t, "the other worker is swept", func() bool { return len(onWorker(t, rt, "b")) == 0 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	hang.Store(false)
	reapAll(t, h)
	if left := onWorker(t, rt, "a"); len(left) > 0 {
		t.Errorf("once it answers: %q", left)
	}
}

// What is half made and in nobody's hands goes, and its owner can ask again.
func TestHalfMade(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	h := openHost(t, rt, Options{}, "m")
	old, err := h.Container(t.Context(), "owner", ContainerRequest{Outputs: []Output{{"o", "o"}}})
	if err != nil {
		t.Fatal(err)
	}
	row, err := h.containerByOwner(t.Context(), "owner")
	if err != nil {
		t.Fatal(err)
	}
	row.State = lifecycle.ContainerCreating // as when it could not be undone
	if err := h.putContainer(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	h.busy.add(row.ID)
	if v := verdictOf(t, reapAll(t, h), row.ID); v.Action != ReapKeep {
		t.Fatalf("while it is being made: %+v", v)
	}
	h.busy.remove(row.ID)
	report, err := h.Reap(t.Context(), true)
	if err != nil || verdictOf(t, report, row.ID).Action != ReapDestroy || stateOf(t, h, "owner") != lifecycle.ContainerCreating {
		t.Fatalf("dry: %+v, %v", report, err)
	}
	reapAll(t, h)
	if left := onWorker(t, rt, "m"); len(left) > 0 || len(containerRows(t, h)) > 0 {
		t.Errorf("left: %q, %v", left, containerRows(t, h))
	}
	again, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil || again.id == old.id {
		t.Errorf("asked again: %v, %v", again, err)
	}
}

// A run that nobody resumes is ended after its grace, not before, nor by a clock that somebody sets; its container's process is aborted, and
// who resumes it then is told so.
func TestAbandonedRun(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	req := RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  input "text" {}
  step "s" {
    inputs  = { text = input.text }
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "echo here; sleep 1000"]
    }
  }
}`), Inputs: map[string]string{"text": tree(t, map[string]string{"a": "x"})}}
	closed := make(chan struct{})
	req.Events = func(e Event) {
		if e.Kind == EventStarted {
			go func(h *Host) { closeTestHost(t, h); close(closed) }(h)
		}
	}
	if _, err := h.Run(t.Context(), req); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	<-closed
	req.Events = nil
	clk := newTestClock()
	h = openHost(t, rt, Options{StateDir: dir, clock: clk.clock()}, "m")
	all := len(onWorker(t, rt, "m"))
	reapFor(t, h, clk, 23*time.Hour)
	clk.set(90 * time.Minute)
	reapAll(t, h)
	clk.pass(23 * time.Hour)
	if reapAll(t, h); len(onWorker(t, rt, "m")) != all {
		t.Fatalf("before its time there are %q", onWorker(t, rt, "m"))
	}
	why, err := h.ExplainReap(t.Context(), "r")
	if err != nil || !slices.ContainsFunc(why, func(v ReapVerdict) bool {
		return v.Kind == "container" && v.Action == ReapKeep && !v.At.IsZero() && strings.Contains(v.Reason, "run r is not under way, and can be resumed")
	}) {
		t.Errorf("explained: %+v, %v", why, err)
	}
	clk.pass(time.Hour)
	reapAll(t, h)
	reapAll(t, h)
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	res, err := h.Run(t.Context(), req)
	if !errors.Is(err, sdk.ReasonAbandoned) || !res.Recorded || res.Succeeded() || len(res.Steps) != 1 || res.Steps[0].State != StepAborted ||
		!strings.Contains(res.Steps[0].Err.Error(), "nobody has resumed it") {
		t.Errorf("resumed after that: %+v, %v", res, err)
	}
}

// Two installations on one worker never touch each other's things, however late it is.
func TestTwoInstallations(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var hosts []*Host
	var clocks []*testClock
	for _, owner := range []string{"one", "two"} {
		clk := newTestClock()
		h := openHost(t, rt, Options{clock: clk.clock()}, "m")
		a, err := h.AddDir(t.Context(), "text", "run/gone/", tree(t, map[string]string{"a": owner}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Container(t.Context(), owner, ContainerRequest{Inputs: []Input{{Artifact: a, Path: "text"}}, Outputs: []Output{{"o", "o"}}}); err != nil {
			t.Fatal(err)
		}
		hosts, clocks = append(hosts, h), append(clocks, clk)
	}
	all := onWorker(t, rt, "m")
	for i, h := range hosts {
		for range 3 {
			report := reapFor(t, h, clocks[i], 1000*time.Hour)
			for _, v := range report.Verdicts {
				if v.Action != ReapKeep {
					t.Errorf("host %d: %+v", i, v)
				}
			}
		}
	}
	if left := onWorker(t, rt, "m"); !slices.Equal(slices.Sorted(slices.Values(left)), slices.Sorted(slices.Values(all))) {
		t.Errorf("left %q of %q", left, all)
	}
	// What one of them leaves behind goes, and nothing else.
	h := hosts[0]
	if err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error { return tx.DeleteContainer(containerRows(t, h)[0].ID) }); err != nil {
		t.Fatal(err)
	}
	reapFor(t, h, clocks[0], time.Hour)
	reapAll(t, h)
	left := onWorker(t, rt, "m")
	theirs := containerRows(t, hosts[1])[0].ID
	if !slices.Contains(left, "container "+theirs) || len(left) >= len(all) {
		t.Errorf("left %q of %q", left, all)
	}
}

// The container of a step that failed is kept for its time with all that is in it, where the host keeps them, across restarts; then all of it
// goes, and what its inputs were made of.
func TestKeepFailed(t *testing.T) {
	t.Parallel()
	rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
	h := openHost(t, rt, Options{StateDir: dir, KeepFailed: true, clock: clk.clock()}, "m")
	res, err := h.Run(t.Context(), RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  input "text" {}
  step "s" {
    inputs  = { text = input.text }
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "echo wrong > o/why; exit 3"]
    }
  }
}`), Inputs: map[string]string{"text": tree(t, map[string]string{"a": "x"})}})
	if err != nil || states(res) != "s=failed" {
		t.Fatalf("%s, %v", states(res), err)
	}
	kept := onWorker(t, rt, "m")
	if len(kept) != 4 { // the container, its two volumes, and what one is a clone of
		t.Fatalf("kept: %q", kept)
	}
	if l, held := h.index.Held(RunOwner("r", "s")); held {
		t.Errorf("it counts as work: %+v", l)
	}
	closeTestHost(t, h)
	h = openHost(t, rt, Options{StateDir: dir, KeepFailed: true, clock: clk.clock()}, "m")
	if l, held := h.index.Held(RunOwner("r", "s")); held {
		t.Errorf("it counts as work after a restart: %+v", l)
	}
	report := reapFor(t, h, clk, 119*time.Hour)
	if left := onWorker(t, rt, "m"); len(left) != len(kept) {
		t.Fatalf("before its time there are %q", left)
	}
	id := containerRows(t, h)[0].ID
	if v := verdictOf(t, report, id); v.At.IsZero() || !strings.Contains(v.Reason, "its command failed") {
		t.Errorf("%+v", v)
	}
	clk.pass(2 * time.Hour) // it ended a little after this clock began
	reapAll(t, h)
	reapAll(t, h)
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// What a container leaves is not taken while its outputs are being sealed, whoever it belongs to: the container goes first, and its outputs
// are sealed one after the other.
func TestReapedWhileSealed(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var h *Host
	var sealing atomic.Bool
	var looks atomic.Int32
	var passes sync.WaitGroup
	pass := func() {
		reapAll(t, h)
		looks.Add(1)
	}
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, id string, _ int, real func() error) error {
		switch {
		case !sealing.Load():
		case call == "destroy": // the reaper passes by meanwhile, and waits for the container, too
			passes.Go(pass)
			testkit.Until(t, "the reaper asks for the container", func() bool {
				r := h.reconciler("m")
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.debts[containerThing(id)].again
			})
		case call == "seal":
			passes.Wait()
			pass()
		}
		return real()
	}}
	h = openHost(t, o, Options{}, "m")
	for _, owner := range []string{"someone", RunOwner("r", "s")} {
		if RunOf(owner) != "" { // nobody runs it just now
			row := store.Run{ID: "r", State: lifecycle.RunGoing, CreatedAt: time.Now()}
			if err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error { return tx.PutRun(row) }); err != nil {
				t.Fatal(err)
			}
		}
		c, err := h.Container(t.Context(), owner, ContainerRequest{Outputs: []Output{{"o", "o"}, {"p", "p"}}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo made > o/f; echo too > p/f"}})
		if err != nil {
			t.Fatal(err)
		}
		waitOutcome(t, p)
		looks.Store(0)
		sealing.Store(true)
		made, err := c.Seal(t.Context())
		passes.Wait()
		sealing.Store(false)
		if err != nil || len(made) != 2 || looks.Load() != 3 { // before the container is destroyed, and before each of the two is sealed
			t.Fatalf("%s: %v, %v; after %d looks", owner, made, err, looks.Load())
		}
		if a, b := fileOf(t, h, made["o"], "f"), fileOf(t, h, made["p"], "f"); a != "made\n" || b != "too\n" {
			t.Errorf("%s: %q and %q", owner, a, b)
		}
	}
}

// What a worker would not destroy while a host came up is still to be destroyed; what it left of a run that can be resumed stays for that.
func TestReapedBeforeResumed(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var stuck atomic.Bool
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, _ string, _ int, real func() error) error {
		if call == "destroy" && stuck.Load() {
			return sdk.NewInternal(nil, "device or resource busy")
		}
		return real()
	}}
	dir, closed := t.TempDir(), make(chan struct{})
	var h *Host
	fault := func(point string) {
		if point != "destroy-intent" || stuck.Swap(true) {
			return
		}
		go func() { closeTestHost(t, h); close(closed) }()
		<-h.ctx.Done()
	}
	h = openHost(t, o, Options{StateDir: dir, fault: fault}, "m")
	req := RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "s" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "echo made > o/f"]
    }
  }
  output "o" { from = step.s.o }
}`), Outputs: map[string]string{"o": "kept"}}
	var got string
	req.Deliver = func(ctx context.Context, _ string, a *Artifact, _ string) error {
		got = fileOf(t, h, a, "f")
		return nil
	}
	if _, err := h.Run(t.Context(), req); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	<-closed
	h = openHost(t, o, Options{StateDir: dir}, "m")
	row, err := h.containerByOwner(t.Context(), RunOwner("r", "s"))
	if err != nil || row.State != lifecycle.ContainerDestroying {
		t.Fatalf("the container is %s, %v", row.State, err)
	}
	reapAll(t, h) // it is stuck still
	stuck.Store(false)
	reapAll(t, h)
	reapAll(t, h)
	if res, err := h.Run(t.Context(), req); err != nil || !res.Succeeded() || got != "made\n" {
		t.Errorf("resumed: %v, %q", err, got)
	}
}
