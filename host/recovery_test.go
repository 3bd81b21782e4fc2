package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// A replica that its worker has lost is streamed again: it is only a copy, and its source is there.
func TestVanishedReplica(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	h := openHost(t, rt, Options{}, "m")
	a, err := h.AddDir(t.Context(), "text", "", tree(t, map[string]string{"a": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	w, _ := h.worker("m")
	r, err := h.replicate(t.Context(), a, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, _ := rt.Worker("m")
	if err := conn.DestroyVolume(t.Context(), r.volume); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Container(t.Context(), "owner", ContainerRequest{Inputs: []Input{{a, "text"}}}); err != nil {
		t.Error(err)
	}
}

// A plugin's RetryAfter of an hour does not hold a call, or a follower, for an hour.
func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	o := &hooked{Runtime: newMemory(t, "m"), hook: func(_ context.Context, call, _ string, n int, real func() error) error {
		if call == "follow" && n == 1 {
			return &sdk.Error{Class: sdk.Unavailable, RetryAfter: time.Hour, Message: "away"}
		}
		return real()
	}}
	h := openHost(t, o, Options{}, "m")
	p := script(t, h, "owner", "echo ran")
	ctx := testkit.Context(t)
	if _, err := p.Wait(ctx); err != nil {
		t.Errorf("nothing is seen of a process that has ended: %v", err)
	}
}

// A plugin's RetryAfter of a nanosecond does not have it called without a pause, nor ever as often.
func TestRetryAfterHasAFloor(t *testing.T) {
	var b, plain backoff
	for range 10 {
		want := plain.after(nil)
		if got := b.after(&sdk.Error{Class: sdk.Unavailable, RetryAfter: 1}); got != want {
			t.Errorf("a pause of %v, want %v", got, want)
		}
	}
}

// TestFollowOfWhatIsOver: a process that is followed only when its container is over already is at its end, whatever its plugin tells.
func TestFollowOfWhatIsOver(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	p := script(t, h, "owner", "echo runs; sleep 100000")
	awaitText(t, p, "runs")
	err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error {
		row, err := tx.Container(string(p.container))
		if err != nil {
			return err
		}
		row.State = lifecycle.ContainerDestroyed
		return tx.PutContainer(row)
	})
	if err != nil {
		t.Fatal(err)
	}
	closeTestHost(t, h)
	h = openHost(t, rt, Options{StateDir: dir}, "m")
	var row store.Process
	err = h.store.View(t.Context(), func(tx *store.Tx) (err error) {
		row, err = tx.Process(p.id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := h.worker("m")
	if err != nil {
		t.Fatal(err)
	}
	late, err := h.attach(t.Context(), row, "owner", w)
	if err != nil {
		t.Fatal(err)
	}
	if got := say(waitOutcome(t, late)); got != "aborted: "+containerDestroyed {
		t.Errorf("outcome %q", got)
	}
}

// TestOverWhileStarting: a process whose container is over while it is being started, or before, is at its end, whatever its plugin tells.
func TestOverWhileStarting(t *testing.T) {
	t.Parallel()
	var c *Container
	rt := &hooked{Runtime: newMemory(t, "m"), hook: func(ctx context.Context, call, _ string, _ int, real func() error) error {
		switch call {
		case "start":
			return c.Destroy(ctx) // and says that it was started
		case "follow":
			<-ctx.Done()
			return ctx.Err()
		}
		return real()
	}}
	h := openHost(t, rt, Options{}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "true"})
	if err != nil {
		t.Fatal(err)
	}
	if got := say(waitOutcome(t, p)); got != "aborted: "+containerDestroyed {
		t.Errorf("outcome %q", got)
	}
	var gone *GoneError
	if _, err := c.Start(t.Context(), "late", ProcessRequest{Path: "true"}); !errors.As(err, &gone) || gone.State != lifecycle.ContainerDestroyed {
		t.Errorf("a start by a handle that is older than the end: %v", err)
	}
	if n := rt.calls("start"); n != 1 {
		t.Errorf("%d starts", n)
	}
	if len(h.starting) != 0 {
		t.Errorf("%d are being started still", len(h.starting))
	}
}

// An output that could not be written is not destroyed with the run: the run can be resumed.
func TestOutputNotWritten(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	out := filepath.Join(t.TempDir(), "out")
	req := RunRequest{ID: "r", Job: parseJob(t, copyJob), Inputs: map[string]string{"text": tree(t, map[string]string{"a": "x"})},
		Outputs: map[string]string{"o": out}}
	req.Events = func(e Event) {
		if e.Kind == EventFinished { // somebody puts something where the output goes
			os.MkdirAll(filepath.Join(out, "other"), 0o755)
		}
	}
	if _, err := h.Run(t.Context(), req); err == nil {
		t.Fatal("it was written")
	}
	os.RemoveAll(out)
	req.Events = nil
	res, err := h.Run(t.Context(), req)
	if err != nil || !res.Succeeded() {
		t.Fatalf("the result of a step that succeeded is gone: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(out, "a")); err != nil || string(b) != "x" {
		t.Errorf("%q %v", b, err)
	}
}

// Without a state directory a worker whose things stay is refused, and whoever asks is told so.
func TestEphemeralSaysWhy(t *testing.T) {
	t.Parallel()
	h, err := Open(t.Context(), testConfig("m"), Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h) })
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	_, err = h.Container(t.Context(), "owner", ContainerRequest{})
	if err == nil || !strings.Contains(err.Error(), "--state") {
		t.Errorf("the reason is not told: %v", err)
	}
}

// One thing that cannot be destroyed does not keep the reaper from the others.
func TestReaperGoesOn(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, id string, n int, real func() error) error {
		if call == "destroy" && id == "c-a" {
			return sdk.NewInternal(nil, "device or resource busy")
		}
		return real()
	}}
	clk := newTestClock()
	h := openHost(t, o, Options{clock: clk.clock()}, "m")
	conn, _ := rt.Worker("m")
	for _, id := range []string{"c-a", "c-b", "c-c"} {
		if err := conn.CreateContainer(t.Context(), sdk.ContainerSpec{ID: sdk.ContainerID(id), Token: "t",
			Labels: map[string]string{sdk.LabelInstallation: h.Installation()}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		reapAll(t, h)
		clk.pass(h.cfg().Timing.MissingGrace)
	}
	report := reapAll(t, h)
	if left := onWorker(t, rt, "m"); len(left) != 1 {
		t.Errorf("left %q", left)
	}
	if v := verdictOf(t, report, "c-a"); v.Err == nil || v.Action != ReapDestroy {
		t.Errorf("what cannot be destroyed: %+v", v)
	}
}

// TestRecordsOfARunThatEnds: from when on a run is told as ended, no step of it is told as running, though its container is still being destroyed.
func TestRecordsOfARunThatEnds(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{StateDir: t.TempDir()}, "m")
	awaitText(t, script(t, h, RunOwner("r", "s"), "echo runs; sleep 100000"), "runs")
	for _, state := range []string{lifecycle.RunGoing, lifecycle.RunEnding, lifecycle.RunEnded} {
		err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error { return tx.PutRun(store.Run{ID: "r", State: state}) })
		if err != nil {
			t.Fatal(err)
		}
		records, err := OpenRecords(t.Context(), h.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer records.Close()
		runs, err := records.Runs(t.Context())
		if err != nil || len(runs) != 1 {
			t.Fatalf("%+v, %v", runs, err)
		}
		steps, err := records.Steps(t.Context(), "r")
		if err != nil || len(steps) != 1 {
			t.Fatalf("%+v, %v", steps, err)
		}
		if going := steps[0].State == lifecycle.ProcessRunning; going == runs[0].Ended {
			t.Errorf("the run %s: ended is %v, and its step is %s", state, runs[0].Ended, steps[0].State)
		}
	}
}

// TestPlaceOfWhatIsBeingDestroyed: a container that is still to be destroyed takes its place on the worker also for the next host.
func TestPlaceOfWhatIsBeingDestroyed(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	stuck.Store(true)
	o := &hooked{Runtime: newMemory(t, "m"), hook: func(_ context.Context, call, _ string, _ int, real func() error) error {
		if call == "destroy" && stuck.Load() {
			return sdk.NewInternal(nil, "device or resource busy")
		}
		return real()
	}}
	cfg, dir := testConfig("m"), t.TempDir()
	cfg.Workers[0].Limits.Containers = 1
	opts := Options{Runtimes: map[string]sdk.Runtime{"memory": o}, StateDir: dir}
	h := openConfig(t, cfg, opts)
	one, err := h.Container(t.Context(), "one", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Destroy(t.Context()); !errors.Is(err, sdk.Internal) {
		t.Fatal(err)
	}
	closeTestHost(t, h)
	h = openConfig(t, cfg, opts)
	if _, err := h.Container(t.Context(), "two", ContainerRequest{WaitLimit: -1}); !errors.As(err, new(*pool.FullError)) {
		t.Errorf("a second container on a worker for one: %v", err)
	}
	stuck.Store(false)
	if _, err := h.Container(testkit.Context(t), "three", ContainerRequest{}); err != nil {
		t.Error(err)
	}
}
