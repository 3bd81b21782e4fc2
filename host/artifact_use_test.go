package host

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// uploaded makes an artifact of one file that is kept for an hour.
func uploaded(t testing.TB, h *Host, name string) *Artifact {
	t.Helper()
	a, err := h.UploadFiles(t.Context(), Upload{Name: name, TTL: time.Hour}, stream.File{Name: "f", Data: []byte(name)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// dropReplica destroys a replica, whatever else there is.
func (h *Host) dropReplica(ctx context.Context, row store.Volume) error {
	err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		_, err := h.moveVolume(tx, row.ID, lifecycle.Doomed, nil)
		return err
	})
	if err != nil {
		return err
	}
	return h.awaitGone(ctx, row.Worker, destroyPatience, volumeThing(row.ID))
}

// dropBlob takes an artifact's blob away.
func (h *Host) dropBlob(ctx context.Context, id string) error {
	err := h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		row, err := tx.Artifact(id)
		if err != nil {
			return err
		}
		row.Blob = ""
		return tx.PutArtifact(row)
	})
	return errors.Join(err, h.blobs.remove(id))
}

// expired tells whether an artifact is gone.
func expired(t testing.TB, h *Host, a *Artifact) bool {
	t.Helper()
	_, err := h.Artifact(t.Context(), a.Name)
	if err != nil && !sdk.IsNotFound(err, KindArtifact) {
		t.Fatal(err)
	}
	return err != nil
}

// waiting tells when a container begins to wait for a place.
func waiting(told chan<- struct{}) func(Event) {
	return func(e Event) {
		if e.Kind != EventWaiting {
			return
		}
		select {
		case told <- struct{}{}:
		default:
		}
	}
}

// What a run was given does not expire under it, however long it takes before a step needs it. Afterwards it does.
func TestRunHoldsItsInputs(t *testing.T) {
	t.Parallel()
	clk := newTestClock()
	h := openHost(t, newMemory(t, "m"), Options{clock: clk.clock()}, "m")
	a := uploaded(t, h, "text")
	stdin, feed := io.Pipe()
	started := make(chan struct{})
	ended := make(chan *RunResult, 1)
	go func() {
		res, err := h.Run(t.Context(), RunRequest{Artifacts: map[string]*Artifact{"text": a}, Stdin: stdin, Job: parseJob(t, `
job "j" {
  input "text" {}
  step "one" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "cat > o/f"]
    }
  }
  step "two" {
    inputs = { o = step.one.o, text = input.text }
    run {
      path = "grep"
      args = ["text", "text/f"]
    }
  }
}`), Events: func(e Event) {
			if e.Kind == EventStarted && e.Step == "one" {
				close(started)
			}
		}})
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	<-started
	reapFor(t, h, clk, 13*time.Hour)
	if err := feed.Close(); err != nil {
		t.Error(err)
	}
	if res := <-ended; states(res) != "one=succeeded two=succeeded" {
		t.Errorf("%s: %v", states(res), res.Steps)
	}
	if expired(t, h, a) {
		t.Error("it is gone, and nobody has looked at what expires since the run")
	}
	reapAll(t, h)
	if !expired(t, h, a) {
		t.Error("it stays after the run")
	}
}

// What a container is made of does not expire while it is being made: not before a worker is free, nor while something else is brought there.
func TestCreationHoldsItsInputs(t *testing.T) {
	t.Parallel()
	arriving, arrive := make(chan struct{}), make(chan struct{})
	o := &hooked{Runtime: newMemory(t, "m")}
	clk := newTestClock()
	cfg := testConfig("m")
	cfg.Workers[0].Limits = config.Limits{Containers: 1}
	h := openConfig(t, cfg, Options{clock: clk.clock(), Runtimes: map[string]sdk.Runtime{"memory": o}})
	shared, slow := uploaded(t, h, "shared"), uploaded(t, h, "slow")
	if _, err := h.replicate(t.Context(), shared, mustWorker(t, h, "m"), nil); err != nil {
		t.Fatal(err)
	}
	before := o.count("stream-in")
	o.on = map[string]func(int, func() error) error{"stream-in": func(n int, real func() error) error {
		if n == before+1 {
			close(arriving)
			<-arrive
		}
		return real()
	}}
	holder, err := h.Container(t.Context(), "holder", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	waits, made := make(chan struct{}, 1), make(chan *Container, 1)
	go func() {
		c, err := h.Container(t.Context(), "owner", ContainerRequest{Inputs: []Input{{slow, "slow"}}, Shared: []Input{{shared, "shared"}},
			Observe: waiting(waits)})
		if err != nil {
			t.Error(err)
		}
		made <- c
	}()
	<-waits
	reapFor(t, h, clk, 2*time.Hour)
	if expired(t, h, shared) || expired(t, h, slow) {
		t.Error("what a container waits with for a worker has expired")
	}
	if err := holder.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-arriving:
		reapAll(t, h)
		close(arrive)
	case c := <-made:
		made <- c
	}
	c := <-made
	if c == nil {
		t.FailNow()
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "cat", Args: []string{"shared/f", "slow/f"}})
	if err != nil {
		t.Fatal(err)
	}
	if out := waitOutcome(t, p); out.Exit == nil || out.Exit.Code != 0 || output(t, p) != "sharedslow" {
		t.Errorf("%+v: %q", out, output(t, p))
	}
	if err := c.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	reapAll(t, h)
	reapAll(t, h)
	if !expired(t, h, shared) || !expired(t, h, slow) {
		t.Error("they stay though nobody uses them")
	}
}

// A cache that a container is about to get stays though another one takes its place meanwhile, and goes after it.
func TestSupersededCacheIsHeld(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "a", "b")
	cfg := testConfig("a", "b")
	for i := range cfg.Workers {
		cfg.Workers[i].Tags = []string{cfg.Workers[i].Name}
	}
	cfg.Workers[1].Limits = config.Limits{Containers: 1}
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": rt}})
	request := func(tag string) ContainerRequest {
		return ContainerRequest{Tags: []string{tag}, Caches: []Cache{{Key: "k", Path: "c"}}}
	}
	// with gives what a script writes in a container.
	with := func(c *Container, text string) string {
		t.Helper()
		p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", text}})
		if err != nil {
			t.Fatal(err)
		}
		waitOutcome(t, p)
		return output(t, p)
	}
	begin := func(owner, tag string) *Container {
		t.Helper()
		c, err := h.Container(t.Context(), owner, request(tag))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	save := func(c *Container, text string) {
		t.Helper()
		with(c, text)
		if err := c.SaveCaches(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	second := begin("second", "a") // before the first is saved: what it leaves is no copy of that
	save(begin("first", "b"), "echo one > c/f")
	holder, err := h.Container(t.Context(), "holder", ContainerRequest{Tags: []string{"b"}})
	if err != nil {
		t.Fatal(err)
	}
	waits, made := make(chan struct{}, 1), make(chan *Container, 1)
	go func() {
		req := request("b")
		req.Observe = waiting(waits)
		c, err := h.Container(t.Context(), "owner", req)
		if err != nil {
			t.Error(err)
		}
		made <- c
	}()
	<-waits
	save(second, "echo two > c/f")
	if err := holder.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := <-made
	if c == nil {
		t.FailNow()
	}
	if got := with(c, "cat c/f"); got != "one\n" {
		t.Errorf("it found %q in its cache, want what was there when it was asked for", got)
	}
	if err := c.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.holders) > 0 || len(h.readers) > 0 {
		t.Errorf("held by nobody's work: %v, read by nobody: %v", h.holders, h.readers)
	}
}

// A blob is not given up for a replica on a worker that comes and goes, or that is being emptied.
func TestBlobOutlivesItsWorkers(t *testing.T) {
	t.Parallel()
	f := newFar(t, &farWorker{name: "passing"}, &farWorker{name: "landed"}, &farWorker{name: "lasting"})
	cfg := testConfig("passing", "landed", "lasting")
	cfg.Workers[0].Ephemeral = true
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": f}})
	a := uploaded(t, h, "a")
	for _, name := range []string{"passing", "landed"} {
		if _, err := h.replicate(t.Context(), a, mustWorker(t, h, name), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(h.LandWorker(t.Context(), "landed", ""), h.AwaitDrained(t.Context(), "landed", nil)); err != nil {
		t.Fatal(err)
	}
	h.evictBlobs(t.Context(), 1<<30)
	if left := blobsLeft(t, h); !slices.Equal(left, []string{a.ID}) {
		t.Errorf("blobs: %q, want the one that no worker keeps", left)
	}
	if _, err := h.replicate(t.Context(), a, mustWorker(t, h, "lasting"), nil); err != nil {
		t.Fatal(err)
	}
	h.evictBlobs(t.Context(), 1<<30)
	if left := blobsLeft(t, h); len(left) > 0 || fileOf(t, h, a, "f") != "a" {
		t.Errorf("blobs: %q, want none: a worker keeps it", left)
	}
}

// Replicas that their workers do not know, all at once, stay, each of them: the workers may be wrong.
func TestLastReplicaStays(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b"}
	rt := newMemory(t, names...)
	h := openHost(t, rt, Options{}, names...)
	for _, name := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		a := uploaded(t, h, name)
		replicas := make([]replica, len(names))
		for i, w := range names {
			var err error
			if replicas[i], err = h.replicate(t.Context(), a, mustWorker(t, h, w), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.dropBlob(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		for i, w := range names {
			w, id := mustWorker(t, h, w), string(replicas[i].volume)
			both.Go(func() { h.doubtReplica(t.Context(), w, id, sdk.NewNotFound(sdk.KindVolume, id)) })
		}
		both.Wait()
		for i, w := range names {
			row, err := h.volume(t.Context(), string(replicas[i].volume))
			if there := onWorker(t, rt, w); err != nil || row.State != lifecycle.VolumeSealed || !slices.Contains(there, "volume "+row.ID) {
				t.Errorf("%s: its replica on %s is %q, %v; there is %q", name, w, row.State, err, there)
			}
		}
		if got := fileOf(t, h, a, "f"); got != name {
			t.Errorf("%s: it has %q", name, got)
		}
	}
}

// What has become the last of its content since a drain looked is not destroyed with the worker.
func TestRetiringKeepsTheLast(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "a", "b"), Options{}, "a", "b")
	a := uploaded(t, h, "text")
	for _, name := range []string{"a", "b"} {
		if _, err := h.replicate(t.Context(), a, mustWorker(t, h, name), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.dropBlob(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	one, other := mustWorker(t, h, "a"), mustWorker(t, h, "b")
	for _, w := range []*worker{one, other} { // at once, after each has found that the other has it
		w.obey(orders{state: pool.Retiring})
	}
	if empty, err := h.clearWorker(t.Context(), one); empty || err != nil {
		t.Errorf("it is the last that stays: %v, %v", empty, err)
	}
	other.obey(orders{})
	if empty, err := h.clearWorker(t.Context(), one); !empty || err != nil {
		t.Errorf("another worker keeps it: %v, %v", empty, err)
	}
	if got := fileOf(t, h, a, "f"); got != "text" {
		t.Errorf("it has %q", got)
	}
}

// What a container mounts is not destroyed before it, however often that fails: not by whoever removes the artifact, nor by the reaper, nor
// when the worker is settled.
func TestMountedVolumeGoesLast(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string
	stuck := true
	rt := newMemory(t, "m")
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, id string, _ int, real func() error) error {
		if call != "destroy" && call != "destroy-volume" {
			return real()
		}
		mu.Lock()
		defer mu.Unlock()
		if call == "destroy" && stuck {
			return sdk.NewInternal(nil, "device or resource busy")
		}
		order = append(order, id)
		return real()
	}}
	h := openHost(t, o, Options{}, "m")
	a := uploaded(t, h, "shared")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{Shared: []Input{{a, "shared"}}, Outputs: []Output{{"o", "o"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Destroy(t.Context()); err == nil {
		t.Fatal("destroyed")
	}
	if err := h.RemoveArtifact(t.Context(), a); err == nil {
		t.Error("removed")
	}
	w := mustWorker(t, h, "m")
	w.lookNow()
	reapAll(t, h)
	mu.Lock()
	if len(order) > 0 {
		t.Errorf("destroyed under their container: %q", order)
	}
	stuck = false
	mu.Unlock()
	testkit.Until(t, "all of it goes", func() bool {
		w.lookNow()
		return len(onWorker(t, rt, "m")) == 0
	})
	mu.Lock()
	defer mu.Unlock()
	if order[0] != string(c.id) {
		t.Errorf("%q went in this order, want container %s first", order, c.id)
	}
}
