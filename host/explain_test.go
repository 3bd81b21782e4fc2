package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// A step says where it waits and why, a placed one why it is where it is, after a restart of the host too, and a step that nobody runs
// where it would be.
func TestExplain(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "a", "b", "g"), t.TempDir()
	cfg := testConfig("a", "b", "g")
	cfg.Workers[0].Limits.Containers, cfg.Workers[1].Limits.Containers = 1, 1
	cfg.Workers[2].Tags = []string{"gpu"}
	opts := Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": rt}}
	h := openConfig(t, cfg, opts)
	verdicts := func(e *Explanation) string {
		var parts []string
		for _, v := range e.Workers {
			parts = append(parts, v.Worker+" "+string(v.Reason))
		}
		slices.Sort(parts)
		return strings.Join(parts, ", ")
	}
	steps, err := h.ExplainJob(t.Context(), parseJob(t, `
job "j" {
  step "beside" {
    with = step.s
    run { path = "true" }
  }
  step "s" {
    outputs = ["o"]
    run { path = "true" }
  }
  step "nowhere" {
    platform = "plan9"
    run { path = "true" }
  }
  step "there" {
    with = step.nowhere
    run { path = "true" }
  }
}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := steps["beside"]; e.Worker != steps["s"].Worker || e.Err != nil || !strings.Contains(verdicts(e), " with") {
		t.Errorf("with another: %+v, %s", e, verdicts(e))
	}
	if e := steps["there"]; e.Worker != "" || !errors.As(e.Err, new(*pool.NoWorkerError)) {
		t.Errorf("with one that has no worker: %+v", e)
	}
	e := steps["s"]
	if e.State != PlacementAsked || e.Err != nil || e.Worker != "a" && e.Worker != "b" || verdicts(e) != "a ok, b ok, g tagged" {
		t.Errorf("asked: %+v, %v", e, err)
	}
	if _, err := h.ExplainOwner(t.Context(), "first"); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("of nobody: %v", err)
	}
	for _, owner := range []string{"first", "second"} {
		if _, err := h.Container(t.Context(), owner, ContainerRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i, owner := range []string{"third", "urgent"} {
		wg.Go(func() {
			if _, err := h.Container(ctx, owner, ContainerRequest{Priority: i}); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	testkit.Until(t, "both wait", func() bool { return len(h.queue.Waiting()) == 2 })
	e, err = h.ExplainOwner(t.Context(), "third")
	var full *pool.FullError
	if err != nil || e.State != PlacementWaiting || e.Position != 2 || !errors.As(e.Err, &full) || verdicts(e) != "a containers, b containers, g tagged" {
		t.Errorf("waiting: %+v, %v", e, err)
	}
	cancel()
	wg.Wait()
	placedWell := func(h *Host) {
		t.Helper()
		e, err := h.ExplainOwner(t.Context(), "second")
		if err != nil || e.State != PlacementPlaced || e.Held || len(e.Scores) != 2 {
			t.Fatalf("placed: %+v, %v", e, err)
		}
		other := map[string]string{"a": "b containers, g tagged", "b": "a containers, g tagged"}[e.Worker]
		if verdicts(e) != other {
			t.Errorf("placed on %s, others: %s", e.Worker, verdicts(e))
		}
	}
	placedWell(h)
	closeTestHost(t, h)
	placedWell(openConfig(t, cfg, opts))
}

// Who has been passed too often is told which worker is reserved for it, and the others for whom.
func TestExplainReserved(t *testing.T) {
	t.Parallel()
	cfg := testConfig("m")
	const passed = 3
	cfg.Workers[0].Limits.Volumes, cfg.Placement.MaxPassed = 2, passed
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wait := func(owner string, s pool.Spec) {
		wg.Go(func() {
			if _, err := h.queue.Acquire(ctx, owner, s); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		testkit.Until(t, owner+" waits", func() bool { _, _, ok := h.queue.Find(owner); return ok })
	}
	small := func(i int) {
		if _, err := h.queue.Acquire(ctx, fmt.Sprint("small", i), pool.Spec{Volumes: 1, WaitLimit: -1}); err != nil {
			t.Fatal(err)
		}
	}
	small(0)
	wait("big", pool.Spec{Volumes: 2})
	for i := range passed {
		if e, err := h.ExplainOwner(ctx, "big"); err != nil || e.Reserved != "" {
			t.Fatalf("passed by %d: %+v, %v", i, e, err)
		}
		if i > 0 {
			h.index.Release(fmt.Sprint("small", i))
		}
		small(i + 1)
	}
	wait("small", pool.Spec{Volumes: 1})
	e, err := h.ExplainOwner(ctx, "big")
	if err != nil || e.Reserved != "m" || len(e.Workers) != 1 || e.Workers[0].Reason != pool.FullVolumes || !strings.Contains(e.Workers[0].Detail, "reserved for it") ||
		!errors.As(e.Err, new(*pool.FullError)) {
		t.Errorf("big: %+v, %v", e, err)
	}
	last := fmt.Sprint("small", passed)
	if w, _, _ := h.queue.Find("big"); e.ReservedUntil.IsZero() || !e.ReservedUntil.Equal(w.Until) {
		t.Errorf("big has it until %v, want %v", e.ReservedUntil, w.Until)
	}
	if want := (pool.Holders{{Owner: "small0", Claimed: 1}, {Owner: last, Claimed: 1}}); !slices.Equal(e.InTheWay, want) || !slices.Equal(e.Workers[0].Holders, want) ||
		!strings.HasSuffix(e.Workers[0].Detail, "; held by "+want.String()) {
		t.Errorf("in its way are %v, on %+v, want %v", e.InTheWay, e.Workers, want)
	}
	all, err := h.Waiting(ctx, "")
	if err != nil || len(all) != 2 || all[0].Owner != "big" || all[0].Position != 1 || all[0].Reserved != "m" || !slices.Equal(all[0].InTheWay, e.InTheWay) ||
		all[1].Owner != "small" || all[1].State != PlacementWaiting || all[1].Reserved != "" || all[1].InTheWay != nil {
		t.Errorf("there wait %+v, %v", all, err)
	}
	if one, err := h.Waiting(ctx, "sm"); err != nil || len(one) != 1 || one[0].Owner != "small" || one[0].Position != 2 {
		t.Errorf("of those that begin so, there wait %+v, %v", one, err)
	}
	e, err = h.ExplainOwner(ctx, "small")
	if err != nil || e.Reserved != "" || len(e.Workers) != 1 || e.Workers[0].Reason != pool.Reserved || !strings.Contains(e.Workers[0].Detail, `"big"`) ||
		!errors.As(e.Err, new(*pool.FullError)) {
		t.Errorf("small: %+v, %v", e, err)
	}
	e, err = h.ExplainRequest(ctx, ContainerRequest{Outputs: []Output{{Name: "o", Path: "o"}}})
	if err != nil || e.Err == nil || e.Workers[0].Reason != pool.Reserved || e.Position != 3 || !slices.Equal(e.Before, []string{"big", "small"}) {
		t.Errorf("one that is asked for: %+v, %v", e, err)
	}
	if e, err = h.ExplainRequest(ctx, ContainerRequest{}); err != nil || e.Err != nil || e.Worker != "m" || e.Position != 0 || e.Before != nil {
		t.Errorf("one that is in nobody's way: %+v, %v", e, err)
	}
}
