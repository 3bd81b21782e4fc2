package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func reportOf(t testing.TB, h *Host, name string) WorkerReport {
	t.Helper()
	for _, r := range h.Workers() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("there is no worker %s", name)
	return WorkerReport{}
}

// Orders hold over a restart, placement tells them with their reason, and uncordon takes them back.
func TestOrdersOutliveTheHost(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	if err := h.CordonWorker(t.Context(), "m", "a new disk"); err != nil {
		t.Fatal(err)
	}
	closeTestHost(t, h)
	h = openHost(t, rt, Options{StateDir: dir}, "m")
	if r := reportOf(t, h, "m"); r.State != pool.Cordoned || r.Reason != "a new disk" || !r.Up {
		t.Errorf("after a restart: %+v", r)
	}
	_, err := h.Container(t.Context(), "owner", ContainerRequest{})
	var none *pool.NoWorkerError
	if !errors.As(err, &none) || none.Reasons[0].Reason != pool.NotRunning || none.Reasons[0].Detail != "cordoned, a new disk" {
		t.Errorf("on a cordoned worker: %v", err)
	}
	if err := h.UncordonWorker(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	err = h.CordonWorker(t.Context(), "n", "")
	if !sdk.IsNotFound(err, sdk.KindWorker) || !strings.Contains(err.Error(), "those that this host knows are m") {
		t.Errorf("an unknown worker: %v", err)
	}
	closeTestHost(t, h)
	h = openHost(t, rt, Options{StateDir: dir}, "m")
	if r := reportOf(t, h, "m"); r.State != pool.Running {
		t.Errorf("orders that were taken back are there again: %+v", r)
	}
}

// A worker lands once what runs there has ended and what a waiting step needs of it is on another worker; that step then finds it there.
// The order goes on over a restart of the host.
func TestLand(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "a", "b")
	cfg := testConfig("a", "b")
	cfg.Workers[1].Tags, cfg.Workers[1].Limits = []string{"late"}, config.Limits{Containers: 1}
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": rt}})
	holder, err := h.Container(t.Context(), "holder", ContainerRequest{Tags: []string{"late"}})
	if err != nil {
		t.Fatal(err)
	}
	busy, err := h.Container(t.Context(), "busy", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan string, 10)
	ended := make(chan *RunResult, 1)
	go func() {
		res, err := h.Run(t.Context(), RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "one" {
    outputs = ["o", "unneeded"]
    run {
      path = "sh"
      args = ["-c", "echo made > o/f; echo x > unneeded/f"]
    }
  }
  step "two" {
    tags   = ["late"]
    inputs = { o = step.one.o }
    run {
      path = "grep"
      args = ["made", "o/f"]
    }
  }
}`), Events: func(e Event) {
			if e.Kind == EventWaiting && e.Message != "" {
				waits <- e.Message
			}
		}})
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	if why := <-waits; !strings.Contains(why, "b: 1 of 1 containers") || !strings.Contains(why, "a: lacks late") {
		t.Errorf("waiting for the reason %q", why)
	}
	if err := h.LandWorker(t.Context(), "a", "maintenance"); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the drain tells what it waits for", func() bool {
		d := reportOf(t, h, "a").Drain
		return d != nil && len(d.Artifacts) == 0 && d.Moved == 1 && slices.Equal(d.Containers, []string{"busy"})
	})
	if r := reportOf(t, h, "a"); r.State != pool.Landing || r.Drain.String() != "the end of busy" {
		t.Errorf("%+v, waits for %s", r, r.Drain)
	}
	if _, err := h.Container(t.Context(), "new", ContainerRequest{}); err == nil {
		t.Error("a landing worker takes new work")
	}
	if err := busy.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.AwaitDrained(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	if r := reportOf(t, h, "a"); r.State != pool.Landed || r.Reason != "maintenance" {
		t.Errorf("%+v", r)
	}
	on := volumesOf(t, h, OutputName(RunOwner("r", "one"), "o"))
	if !slices.Equal(on, []string{"a", "b"}) {
		t.Errorf("what step two needs is on %q", on)
	}
	if on := volumesOf(t, h, OutputName(RunOwner("r", "one"), "unneeded")); !slices.Equal(on, []string{"a"}) {
		t.Errorf("what nobody needs is on %q", on)
	}
	if err := holder.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := <-ended; states(res) != "one=succeeded two=succeeded" {
		t.Errorf("%s: %v", states(res), res.Steps)
	}
	if err := h.UncordonWorker(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if r := reportOf(t, h, "a"); r.State != pool.Running || r.Drain != nil {
		t.Errorf("%+v", r)
	}
	checkEmpty(t, h)
}

// volumesOf lists the workers that have an artifact.
func volumesOf(t testing.TB, h *Host, name string) (workers []string) {
	t.Helper()
	a, err := h.Artifact(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := h.volumes(t.Context(), store.VolumeFilter{Artifact: a.ID, States: []string{lifecycle.VolumeSealed}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		workers = append(workers, r.Worker)
	}
	slices.Sort(workers)
	return workers
}

// A landing that was under way goes on in the next host on the state directory.
func TestLandGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	if _, err := h.Container(t.Context(), "busy", ContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := h.LandWorker(t.Context(), "m", ""); err != nil {
		t.Fatal(err)
	}
	closeTestHost(t, h)
	h = openHost(t, rt, Options{StateDir: dir}, "m")
	testkit.Until(t, "the drain goes on", func() bool {
		d := reportOf(t, h, "m").Drain
		return d != nil && slices.Equal(d.Containers, []string{"busy"})
	})
	c, err := h.Container(t.Context(), "busy", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.AwaitDrained(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	if err := h.LandWorker(t.Context(), "m", ""); err != nil || reportOf(t, h, "m").State != pool.Landed {
		t.Errorf("landing what has landed: %v, %+v", err, reportOf(t, h, "m"))
	}
}

// output makes an artifact on a worker that is chosen by tag.
func makeArtifact(t testing.TB, h *Host, owner string, req ContainerRequest) *Artifact {
	t.Helper()
	req.Outputs = []Output{{Name: "o", Path: "o"}}
	c, err := h.Container(t.Context(), owner, req)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo made > o/f"}})
	if err != nil {
		t.Fatal(err)
	}
	if o := waitOutcome(t, p); o.Exit == nil || o.Exit.Code != 0 {
		t.Fatalf("%+v", o)
	}
	out, err := c.Seal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out["o"]
}

// A worker retires once all that is only there is on another, and nothing is left on it then. Without another it waits, and says so.
func TestRetire(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "a", "b"), t.TempDir()
	h := openHost(t, rt, Options{StateDir: dir}, "a", "b")
	if err := h.CordonWorker(t.Context(), "b", ""); err != nil {
		t.Fatal(err)
	}
	a := makeArtifact(t, h, "owner", ContainerRequest{})
	if err := h.RetireWorker(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the drain says that there is nowhere to go", func() bool {
		d := reportOf(t, h, "a").Drain
		return d != nil && len(d.Artifacts) == 1 && strings.Contains(d.Artifacts[0].Why, "no other worker runs")
	})
	waited := make(chan error, 1)
	told := make(chan string, 100)
	go func() {
		waited <- h.AwaitDrained(t.Context(), "a", func(d Drain) { told <- d.String() })
	}()
	if text := <-told; !strings.Contains(text, "artifact owner/o to be copied (no other worker runs") {
		t.Errorf("progress is %q", text)
	}
	if err := h.CordonWorker(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err == nil || !strings.Contains(err.Error(), "other orders") {
		t.Errorf("waiting for a drain that was called off: %v", err)
	}
	for _, order := range []error{h.UncordonWorker(t.Context(), "b"), h.RetireWorker(t.Context(), "a", ""), h.AwaitDrained(t.Context(), "a", nil)} {
		if order != nil {
			t.Fatal(order)
		}
	}
	if on := volumesOf(t, h, a.Name); !slices.Equal(on, []string{"b"}) {
		t.Errorf("the artifact is on %q", on)
	}
	if left := onWorker(t, rt, "a"); len(left) > 0 {
		t.Errorf("left on the retired worker: %q", left)
	}
	closeTestHost(t, h)
	h = openHost(t, rt, Options{StateDir: dir}, "a", "b")
	if r := reportOf(t, h, "a"); r.State != pool.Retired {
		t.Errorf("after a restart: %+v", r)
	}
	target := t.TempDir()
	if err := h.DownloadDir(t.Context(), a, target, true); err != nil {
		t.Fatal(err)
	}
	if err := h.RetireWorker(t.Context(), "a", ""); err != nil || reportOf(t, h, "a").State != pool.Retired {
		t.Errorf("retiring what has retired: %v", err)
	}
	if err := h.RemoveArtifact(t.Context(), a); err != nil {
		t.Error(err)
	}
}

// goneWorker opens a host whose only worker, m, goes away for good once away is closed.
func goneWorker(t *testing.T) (h *Host, leave func()) {
	t.Helper()
	o := &hooked{Runtime: newMemory(t, "m")}
	away := make(chan struct{})
	o.status = func(_ context.Context, _ int, s *sdk.Status) error {
		select {
		case <-away:
			s.Health, s.Reason = sdk.Away, "unplugged"
		default:
		}
		return nil
	}
	cfg := testConfig("m")
	cfg.Timing.WorkerGone = 200 * time.Millisecond
	h = openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	return h, func() {
		close(away)
		mustWorker(t, h, "m").lookNow()
		testkit.Until(t, "the worker is away", func() bool { return !reportOf(t, h, "m").Up })
	}
}

// A worker that is gone for good retires without its answer: what ran there is lost, and its records go, those of containers that their
// owners still have, too.
func TestRetireWhatIsGone(t *testing.T) {
	t.Parallel()
	h, leave := goneWorker(t)
	a := makeArtifact(t, h, "owner", ContainerRequest{})
	if _, err := h.Container(t.Context(), "busy", ContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	leave()
	ctx := testkit.Context(t)
	for _, order := range []error{h.RetireWorker(ctx, "m", ""), h.AwaitDrained(ctx, "m", nil)} {
		if order != nil {
			t.Fatal(order)
		}
	}
	if on := volumesOf(t, h, a.Name); len(on) > 0 {
		t.Errorf("records are left: %q", on)
	}
	if s := stateOf(t, h, "busy"); s != lifecycle.ContainerLost {
		t.Errorf("the container that was there is %s", s)
	}
	if leases := h.index.Leases("m"); len(leases) > 0 {
		t.Errorf("places are still held there: %+v", leases)
	}
}

// A worker that is gone lands without its answer, too. What is recorded there stays, for it may come back.
func TestLandWhatIsGone(t *testing.T) {
	t.Parallel()
	h, leave := goneWorker(t)
	if _, err := h.Container(t.Context(), "busy", ContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	leave()
	ctx := testkit.Context(t)
	if err := errors.Join(h.LandWorker(ctx, "m", ""), h.AwaitDrained(ctx, "m", nil)); err != nil {
		t.Fatal(err)
	}
	if s := stateOf(t, h, "busy"); s != lifecycle.ContainerReady {
		t.Errorf("the container that is there is %s", s)
	}
}
