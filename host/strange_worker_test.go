package host

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestEveryCallIsSlow: a worker that does all it is told, and answers each call only when the test lets it, be that a minute later, gets a run to its end as a quick one does: nothing
// is asked for twice or given up, and what it has still to destroy is told while it does.
func TestEveryCallIsSlow(t *testing.T) {
	t.Parallel()
	type call struct {
		name string
		goOn chan struct{}
	}
	calls := make(chan call)
	o := &hooked{Runtime: newMemory(t, "m"), hook: func(ctx context.Context, name, _ string, _ int, real func() error) error {
		c := call{name, make(chan struct{})}
		select {
		case calls <- c:
		case <-ctx.Done():
			return ctx.Err()
		}
		<-c.goOn
		return real()
	}}
	ctx := testkit.Context(t)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	h := openUnready(t, o, t.TempDir(), nil, "m")
	var res *RunResult
	over := make(chan error, 1)
	j := parseJob(t, `
job "slow" {
  step "make" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-ec", "echo made > o/f; exit 3"]
    }
  }
}`)
	go func() {
		err := h.Ready(ctx)
		if err == nil {
			res, err = h.Run(ctx, RunRequest{ID: "r", Job: j})
		}
		over <- err
	}()
	asked := make(map[string]int)
	for ended := false; !ended; {
		select {
		case c := <-calls:
			asked[c.name]++
			if owed := h.Workers()[0].Owed; strings.HasPrefix(c.name, "destroy") && (owed.None() || owed.Since.IsZero()) {
				t.Errorf("while it does %q it owes %+v", c.name, owed)
			}
			close(c.goOn)
		case err := <-over:
			if ended = true; err != nil || states(res) != "make=failed" || res.Steps[0].Exit.Code != 3 {
				t.Errorf("%v, %v", res, err)
			}
		}
	}
	for _, once := range []string{"create", "start", "follow", "destroy", "create-volume", "destroy-volume"} {
		if asked[once] != 1 {
			t.Errorf("%q was asked %d times; all: %v", once, asked[once], asked)
		}
	}
	if left := onWorker(t, o.Runtime, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	go func() { // what the host's end still asks
		for {
			select {
			case c := <-calls:
				close(c.goOn)
			case <-stop:
				return
			}
		}
	}()
}

// TestRebornUnderADestroy: a worker that comes back as another one while it destroys something owes that no more, whatever becomes of the call, and who waits for it is not kept.
func TestRebornUnderADestroy(t *testing.T) {
	t.Parallel()
	r := newReborn(t, Options{})
	under, cut := make(chan struct{}), make(chan struct{})
	r.on["destroy"] = func(n int, _ func() error) error {
		if n == 1 {
			close(under)
		}
		<-cut
		return sdk.NewUnavailable(nil, "the connection was cut")
	}
	c, err := r.h.Container(t.Context(), "owner", ContainerRequest{Outputs: []Output{{"o", "o"}}})
	if err != nil {
		t.Fatal(err)
	}
	destroyed := make(chan error, 1)
	go func() { destroyed <- c.Destroy(testkit.Context(t)) }()
	<-under
	if owed := r.h.Workers()[0].Owed; owed.Containers != 1 || owed.Since.IsZero() {
		t.Errorf("while it is destroyed, owed is %+v", owed)
	}
	r.comeBack(t)
	if err := <-destroyed; err != nil {
		t.Errorf("who destroys it: %v", err)
	}
	if row := containerRows(t, r.h)[0]; row.State != lifecycle.ContainerDestroyed {
		t.Errorf("it is %s", row.State)
	}
	close(cut)
	testkit.Until(t, "nothing is owed", func() bool { return r.h.Workers()[0].Owed.None() })
	if rows, err := r.h.volumes(t.Context(), store.VolumeFilter{}); err != nil || len(rows) > 0 {
		t.Errorf("volumes %+v, %v", rows, err)
	}
	if n := r.hooked.calls("destroy"); n != 1 {
		t.Errorf("the new one was told to destroy what it never had, %d times in all", n)
	}
	if owners := containerRows(t, r.h); slices.ContainsFunc(owners, func(c store.Container) bool { return c.State == lifecycle.ContainerLost }) {
		t.Errorf("%+v", owners)
	}
}
