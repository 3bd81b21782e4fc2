package host

import (
	"context"
	"errors"
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

// ranIn runs a command in the owner's container, which is made if need be, and gives that.
func ranIn(t *testing.T, h *Host, owner string, req ContainerRequest) *Container {
	t.Helper()
	c, err := h.Container(testkit.Context(t), owner, req)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(testkit.Context(t), MainProcess, ProcessRequest{Path: "true"})
	if err != nil {
		t.Fatal(err)
	}
	if got := say(waitOutcome(t, p)); got != "exit 0" {
		t.Fatalf("it came to %s", got)
	}
	return c
}

// TestRenew: an owner whose container is over gets another one where it has removed the first, or nothing was ever started in it. Else it gets the first, with what ran in
// that, and is told that it is over: nothing runs twice.
func TestRenew(t *testing.T) {
	t.Parallel()
	remove := func(ctx context.Context, h *Host, c *Container) error { return h.RemoveContainer(ctx, c.owner) }
	destroy := func(ctx context.Context, _ *Host, c *Container) error { return c.Destroy(ctx) }
	lose := func(ctx context.Context, h *Host, c *Container) error {
		return h.loseContainer(ctx, string(c.id), "gone")
	}
	both := func(first, then func(context.Context, *Host, *Container) error) func(context.Context, *Host, *Container) error {
		return func(ctx context.Context, h *Host, c *Container) error {
			return errors.Join(first(ctx, h, c), then(ctx, h, c))
		}
	}
	for name, c := range map[string]struct {
		started bool
		end     func(context.Context, *Host, *Container) error
		is      string // the state of what the owner gets
	}{
		"removed":                         {true, remove, lifecycle.ContainerReady},
		"removed, and nothing ran":        {false, remove, lifecycle.ContainerReady},
		"destroyed":                       {true, destroy, lifecycle.ContainerDestroyed},
		"destroyed, and then removed":     {true, both(destroy, remove), lifecycle.ContainerReady},
		"destroyed, and nothing ran":      {false, destroy, lifecycle.ContainerReady},
		"lost":                            {true, lose, lifecycle.ContainerLost},
		"lost, and then removed":          {true, both(lose, remove), lifecycle.ContainerReady},
		"lost, and nothing was in it yet": {false, lose, lifecycle.ContainerReady},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := &hooked{Runtime: newMemory(t, "m")}
			h := openHost(t, rt, Options{}, "m")
			first, err := h.Container(testkit.Context(t), "owner", ContainerRequest{})
			if err == nil && c.started {
				first = ranIn(t, h, "owner", ContainerRequest{})
			}
			if err == nil {
				err = c.end(testkit.Context(t), h, first)
			}
			if err != nil {
				t.Fatal(err)
			}
			second, err := h.Container(testkit.Context(t), "owner", ContainerRequest{})
			if err != nil {
				t.Fatal(err)
			}
			anew := c.is == lifecycle.ContainerReady
			if second.State() != c.is || anew != (second.id != first.id) {
				t.Fatalf("asked again, the owner has %s, %s, after %s", second.id, second.State(), first.id)
			}
			ranIn(t, h, "owner", ContainerRequest{})
			want := 1
			if anew && c.started {
				want = 2
			}
			if got := rt.calls("start"); got != want {
				t.Errorf("%d starts, want %d", got, want)
			}
			_, err = second.Start(testkit.Context(t), "other", ProcessRequest{Path: "true"})
			if gone := (*GoneError)(nil); errors.As(err, &gone) == anew {
				t.Errorf("to start something else: %v", err)
			}
			if rows := containerRows(t, h); c.started && anew && (len(rows) != 2 || !slices.ContainsFunc(rows, isOver(first))) {
				t.Errorf("what ran in the first is remembered by %+v", rows)
			}
		})
	}
}

// TestRenewAfterRemoval: who asks while the owner's container is being removed waits for that, and gets another one then. On no worker there are two of an owner.
func TestRenewAfterRemoval(t *testing.T) {
	t.Parallel()
	removing, let := make(chan struct{}), make(chan struct{})
	var gone atomic.Bool
	o := &hooked{Runtime: newMemory(t, "m", "n"), hook: func(_ context.Context, call, _ string, n int, real func() error) error {
		switch {
		case call == "destroy" && n == 1:
			close(removing)
			<-let
			defer gone.Store(true)
		case call == "create" && n > 1 && !gone.Load():
			t.Error("the second is made while the first is there")
		}
		return real()
	}}
	h := openHost(t, o, Options{}, "m", "n")
	first := ranIn(t, h, "owner", ContainerRequest{})
	removed := make(chan error, 1)
	ctx := testkit.Context(t)
	go func() { removed <- h.RemoveContainer(ctx, "owner") }()
	<-removing
	type answer struct {
		c   *Container
		err error
	}
	answers := make(chan answer, 8)
	for range cap(answers) {
		go func() {
			c, err := h.Container(ctx, "owner", ContainerRequest{})
			answers <- answer{c, err}
		}()
	}
	testkit.Until(t, "all have asked", func() bool { return h.owners.waiting("owner") == cap(answers) })
	close(let)
	if err := <-removed; err != nil {
		t.Error(err)
	}
	made := make(map[sdk.ContainerID]bool)
	for range cap(answers) {
		a := <-answers
		if a.err != nil {
			t.Fatal(a.err)
		}
		made[a.c.id] = true
	}
	if len(made) != 1 || made[first.id] {
		t.Errorf("they have %v, after %s", made, first.id)
	}
}

// TestRemoveWhileRenewed: the creation that waits for the removal of an earlier container is given up itself by who removes the owner's container.
func TestRemoveWhileRenewed(t *testing.T) {
	t.Parallel()
	removing, let := make(chan struct{}), make(chan struct{})
	rt := newMemory(t, "m")
	h := openHost(t, &hooked{Runtime: rt, hook: func(_ context.Context, call, _ string, n int, real func() error) error {
		if call == "destroy" && n == 1 {
			close(removing)
			<-let
		}
		return real()
	}}, Options{}, "m")
	ranIn(t, h, "owner", ContainerRequest{})
	ctx := testkit.Context(t)
	removed := make(chan error, 2)
	go func() { removed <- h.RemoveContainer(ctx, "owner") }()
	<-removing
	m := newMaking()
	m.ask(t, h, "owner")
	testkit.Until(t, "it was asked for", func() bool { return h.owners.waiting("owner") == 1 })
	go func() { removed <- h.RemoveContainer(ctx, "owner") }()
	m.wantAborted(t, "owner")
	close(let)
	for range 2 {
		if err := <-removed; err != nil {
			t.Error(err)
		}
	}
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("the worker has %q still", left)
	}
}

// TestRenewOfAway: while a removed container is on a worker that is away, its owner gets none, though there is another worker.
func TestRenewOfAway(t *testing.T) {
	t.Parallel()
	o, away := pluggable(newMemory(t, "m"))
	cfg := testConfig("m")
	cfg.Timing.WorkerGone = 50 * time.Millisecond
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	c := ranIn(t, h, "owner", ContainerRequest{})
	away.Store(true)
	h.workers["m"].lookNow()
	if _, err := h.noteDoomed(testkit.Context(t), string(c.id), doom{volumes: true, removed: true}); err != nil {
		t.Fatal(err)
	}
	_, err := h.Container(testkit.Context(t), "owner", ContainerRequest{})
	if gone := (*WorkerGoneError)(nil); !errors.As(err, &gone) || !strings.Contains(err.Error(), "its last container is being removed") {
		t.Errorf("while its worker is away: %v", err)
	}
	away.Store(false)
	h.workers["m"].lookNow()
	testkit.Until(t, "the worker is back", func() bool { return h.workers["m"].connection() != nil })
	var next *Container
	testkit.Until(t, "its owner has another one", func() bool { // it may still be told for a moment that the worker is away
		next, err = h.Container(testkit.Context(t), "owner", ContainerRequest{})
		return err == nil
	})
	if next.id == c.id {
		t.Errorf("once it is back it is the same one, %s", c.id)
	}
}

// TestRenewWithArtifacts: what a removed container has made stays what it is: the next one is made once that is removed, too.
func TestRenewWithArtifacts(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	req := ContainerRequest{Outputs: []Output{{Name: "out", Path: "out"}}}
	first := ranIn(t, h, "owner", req)
	outputs, err := first.Seal(testkit.Context(t))
	if err == nil {
		_, err = h.Container(testkit.Context(t), "owner", req) // as of who asks again since it has forgotten
	}
	if err == nil {
		err = h.RemoveContainer(testkit.Context(t), "owner")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Container(testkit.Context(t), "owner", req)
	if gone := (*GoneError)(nil); !errors.As(err, &gone) || !slices.Equal(gone.Left, []string{"owner/out"}) {
		t.Errorf("with its output there: %v", err)
	}
	if err := h.RemoveArtifact(testkit.Context(t), outputs["out"]); err != nil {
		t.Fatal(err)
	}
	if again := ranIn(t, h, "owner", req); again.id == first.id {
		t.Error("it is the first still")
	}
}

// TestRenewedIsNotSealed: who seals a container in which nothing was started, while its owner gets another one, gets no outputs of it: those of the other have the same names.
func TestRenewedIsNotSealed(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	req := ContainerRequest{Outputs: []Output{{Name: "out", Path: "out"}}}
	ctx := testkit.Context(t)
	first, err := h.Container(ctx, "owner", req)
	if err == nil {
		err = first.destroyOnly(ctx) // the first half of sealing it
	}
	if err != nil {
		t.Fatal(err)
	}
	second := ranIn(t, h, "owner", req)
	if second.id == first.id {
		t.Fatal("the owner has the first still")
	}
	if outputs, err := first.Seal(ctx); !errors.As(err, new(*LostError)) {
		t.Errorf("the outputs of the first are %v, %v", outputs, err)
	}
	outputs, err := second.Seal(ctx)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := h.volumes(ctx, store.VolumeFilter{Artifact: outputs["out"].ID})
	if err != nil || len(kept) != 1 || kept[0].ID != second.record.Outputs["out"] {
		t.Errorf("what the second has made is %+v, %v, want %s", kept, err, second.record.Outputs["out"])
	}
}

// TestStepIsNotRenewed: what a run has begun is the run's, and is not begun once more since somebody has removed a step's container.
func TestStepIsNotRenewed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rt := &hooked{Runtime: newMemory(t, "m"), hook: func(_ context.Context, call, _ string, n int, real func() error) error {
		if call == "start" && n > 1 {
			return sdk.NewInvalid(sdk.ReasonSpec, "once more")
		}
		return real()
	}}
	req := runLeft(t, rt, dir)
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	if err := h.RemoveContainer(testkit.Context(t), RunOwner("r", "s")); err != nil {
		t.Fatal(err)
	}
	res, err := h.Run(testkit.Context(t), req)
	if err != nil || states(res) != "s=aborted" {
		t.Errorf("it came to %s, %v", states(res), err)
	}
	if got := rt.calls("start"); got != 1 {
		t.Errorf("%d starts", got)
	}
}

// isOver tells whether a row is that of a container, which is over and nobody's any more.
func isOver(c *Container) func(store.Container) bool {
	return func(row store.Container) bool { return row.ID == string(c.id) && row.Owner == "" && over(row.State) }
}

// waiting tells how many wait for the work under a key.
func (fs *flights[T]) waiting(key string) int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.by[key]; f != nil {
		return f.waiting
	}
	return 0
}
