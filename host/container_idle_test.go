package host

import (
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestIdleContainer: a container goes when nobody has used it for its TTL, by a host that was open or one that comes later, and not before: who finds it uses it, and so does what runs in it.
func TestIdleContainer(t *testing.T) {
	t.Parallel()
	const ttl = time.Hour
	rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
	opts := Options{StateDir: dir, clock: clk.clock()}
	h := openHost(t, rt, opts, "m")
	reaped := func(after time.Duration, want string) {
		t.Helper()
		clk.pass(after)
		for range 2 { // the first ends it, should there be something to end
			if _, err := h.Reap(testkit.Context(t), false); err != nil {
				t.Fatal(err)
			}
		}
		if got := stateOf(t, h, "owner"); got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
	expires := func(owner string, in time.Duration) {
		t.Helper()
		all, err := h.Containers(t.Context(), owner)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		if got := all[0].Expires; in == 0 && !got.IsZero() || in > 0 && !got.Equal(opts.clock.wall().Add(in)) {
			t.Errorf("%s expires %v, want in %s of %v", owner, got, in, opts.clock.wall())
		}
	}
	c, err := h.Container(t.Context(), "owner", ContainerRequest{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Container(t.Context(), "another", ContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	expires("owner", ttl)
	expires("another", 0)
	reaped(ttl-time.Second, lifecycle.ContainerReady)
	expires("owner", time.Second)
	if _, err := h.FindContainer(t.Context(), "owner"); err != nil {
		t.Fatal(err)
	}
	reaped(ttl-time.Second, lifecycle.ContainerReady)
	p, err := c.Start(t.Context(), "p", ProcessRequest{Path: "sh", Args: []string{"-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"}})
	if err == nil {
		_, err = firstRecord(t, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	reaped(9*ttl, lifecycle.ContainerReady) // it runs
	expires("owner", 0)
	if err := p.Signal(t.Context(), "TERM"); err != nil {
		t.Fatal(err)
	}
	waitOutcome(t, p)
	reaped(ttl-time.Second, lifecycle.ContainerReady)
	closeTestHost(t, h)
	h = openHost(t, rt, opts, "m")
	reaped(2*time.Second, lifecycle.ContainerDestroyed)
	expires("owner", 0)
	if got := stateOf(t, h, "another"); got != lifecycle.ContainerReady {
		t.Errorf("one that has no TTL is %s", got)
	}
	if _, err := h.Container(t.Context(), "third", ContainerRequest{TTL: -1}); sdk.ClassOf(err) != sdk.Invalid {
		t.Errorf("a negative TTL: %v", err)
	}
}
