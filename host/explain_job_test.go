package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

const chainJob = `
job "j" {
  input "src" {}
  step "make" {
    inputs  = { src = input.src }
    outputs = ["bin"]
    run { path = "true" }
  }
  step "use" {
    inputs  = { bin = step.make.bin, src = input.src }
    outputs = ["report"]
    run { path = "true" }
  }
}`

// TestExplainJobCountsInputs: a step of a job is told where it would be placed with all that it needs: the volumes of its inputs count, whether they are there
// or not, a step goes to what it takes, and what its worker lacks of that is named with where it is.
func TestExplainJobCountsInputs(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "a", "b")
	cfg := testConfig("a", "b")
	cfg.Workers[0].Limits.Volumes = 4 // enough for make, and two too few for use
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": rt}})
	src := dirs(t, h, "sources")[0]
	explain := func(inputs map[string]*Artifact) map[string]*Explanation {
		t.Helper()
		all, err := h.ExplainJob(t.Context(), parseJob(t, chainJob), inputs)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	why := func(e *Explanation, worker string) pool.Reason {
		i := slices.IndexFunc(e.Workers, func(v pool.Verdict) bool { return v.Worker == worker })
		return e.Workers[i].Reason
	}
	copies := func(e *Explanation) string { return fmt.Sprint(e.Copies) }

	all := explain(nil)
	if e := all["make"]; e.Err != nil || copies(e) != "[{input.src 0 []}]" {
		t.Errorf("make: %+v", e)
	}
	if e := all["use"]; e.Err != nil || e.Worker != "b" || why(e, "a") != pool.TooBig {
		t.Errorf("use: %+v", e)
	}
	// The input comes to be on a, for a container there, and nowhere else.
	req := wants(src)
	req.Exclude = map[string]string{"b": "for this test"}
	c, err := h.Container(testkit.Context(t), "first", req)
	if err == nil {
		err = c.Destroy(testkit.Context(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	all = explain(map[string]*Artifact{"src": src})
	if e := all["make"]; e.Err != nil || e.Worker != "a" || e.Copies != nil {
		t.Errorf("make, with its input on a: %+v", e)
	}
	use := all["use"]
	if use.Err != nil || use.Worker != "b" || len(use.Copies) != 2 {
		t.Fatalf("use: %+v", use)
	}
	if c := use.Copies[0]; c.Name != "step.make.bin" || c.Bytes != 0 || !slices.Equal(c.From, []string{"a"}) {
		t.Errorf("what make would leave on a: %+v", c)
	}
	if c := use.Copies[1]; c.Name != "input.src" || c.Bytes == 0 || !slices.Contains(c.From, "a") {
		t.Errorf("the input that is on a: %+v", c)
	}
	if _, err := h.ExplainJob(t.Context(), parseJob(t, chainJob), map[string]*Artifact{"sources": src}); sdk.ClassOf(err) != sdk.Invalid {
		t.Errorf("an input that the job has not: %v", err)
	}
}

// TestExplainJobKnowsNotWhere: what a step that has no worker would make is nowhere yet, and a cache that would begin empty is brought from nowhere.
func TestExplainJobKnowsNotWhere(t *testing.T) {
	t.Parallel()
	h := limitedHost(t, newMemory(t, "a", "b"), Options{}, 10, "a", "b")
	all, err := h.ExplainJob(t.Context(), parseJob(t, strings.Replace(chainJob, `outputs = ["bin"]`, `outputs = ["bin"]
    tags = ["none"]`, 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := all["make"]; e.Worker != "" || e.Err == nil {
		t.Errorf("make: %+v", e)
	}
	if c := all["use"].Copies; len(c) != 2 || c[0].Name != "step.make.bin" || c[0].From != nil {
		t.Errorf("use would copy %+v", c)
	}

	h = limitedHost(t, newMemory(t, "a", "b"), Options{}, 1, "a", "b")
	cachedWithin(t, h, "s", "echo x >> c/n")
	e, err := h.ExplainRequest(t.Context(), ContainerRequest{Caches: []Cache{{Key: "k", Path: "c"}}})
	if err != nil || e.Worker == "" || e.Copies != nil {
		t.Errorf("a cache of which there is nothing: %+v, %v", e, err)
	}
	has := "a"
	if h.index.Usage("b").Volumes > 0 {
		has = "b"
	}
	e, err = h.ExplainRequest(t.Context(), ContainerRequest{Caches: []Cache{{Key: TaskCacheKey("", "cached", "s", "c"), Path: "c"}}, Exclude: map[string]string{has: "for this test"}})
	if err != nil || e.Worker == "" || e.Copies != nil {
		t.Errorf("a cache that begins empty: %+v, %v", e, err)
	}
}

// TestExplainJobFollowsItsSteps: where nothing else speaks for a worker, a step goes where what it takes would be made.
func TestExplainJobFollowsItsSteps(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "a", "b", "c"), Options{}, "a", "b", "c")
	for range 20 {
		all, err := h.ExplainJob(t.Context(), parseJob(t, chainJob), nil)
		if err != nil {
			t.Fatal(err)
		}
		make, use := all["make"], all["use"]
		if use.Err != nil || use.Worker != make.Worker || len(use.Copies) != 1 || use.Copies[0].Name != "input.src" {
			t.Fatalf("make on %s, use: %+v", make.Worker, use)
		}
	}
}

// TestExplainJobSaysWhoComesFirst: one that would wait for a place or for its turn is told who would be served before it.
func TestExplainJobSaysWhoComesFirst(t *testing.T) {
	t.Parallel()
	cfg := testConfig("m")
	cfg.Workers[0].Limits.Containers, cfg.Placement.Steps = 1, 1
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
	explain := func(priority int) *Explanation {
		t.Helper()
		text := `job "j" { 
  step "s" {
    run { path = "true" }
`
		if priority > 0 {
			text += fmt.Sprintf("priority = %d\n", priority)
		}
		all, err := h.ExplainJob(t.Context(), parseJob(t, text+"}\n}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return all["s"]
	}
	if e := explain(0); e.Err != nil || e.Worker != "m" || e.Position != 0 || e.Turn != 0 || e.Before != nil {
		t.Errorf("nobody is there: %+v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if _, err := h.queue.Acquire(ctx, "has", pool.Spec{}); err != nil {
		t.Fatal(err)
	}
	for owner, priority := range map[string]int{"plain": 0, "urgent": 9} {
		wg.Go(func() {
			if _, err := h.queue.Acquire(ctx, owner, pool.Spec{Priority: priority}); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	testkit.Until(t, "both wait", func() bool { return len(h.queue.Waiting()) == 2 })
	for priority, want := range map[int][]string{0: {"urgent", "plain"}, 5: {"urgent"}, 10: nil} {
		e := explain(priority)
		if !errors.As(e.Err, new(*pool.FullError)) || e.Worker != "" || e.Priority != priority || e.Position != len(want)+1 || !slices.Equal(e.Before, want) {
			t.Errorf("of priority %d: %+v, want after %q", priority, e, want)
		}
	}

	// And before a place there is a turn.
	done, err := h.turns.take(ctx, comer{owner: "goes"}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		wg.Wait()
		done()
	}()
	waits := map[string]int{"later": 0, "sooner": 7}
	for _, owner := range slices.Sorted(maps.Keys(waits)) {
		wg.Go(func() {
			if _, err := h.turns.take(ctx, comer{owner: owner, priority: waits[owner]}, func(int) {}); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	testkit.Until(t, "both wait for a turn", func() bool { return len(h.turns.waits()) == 2 })
	for priority, want := range map[int][]string{0: {"sooner", "later"}, 7: {"sooner"}, 8: nil} {
		if e := explain(priority); e.Turn != len(want)+1 || !slices.Equal(e.Before, want) {
			t.Errorf("of priority %d: %+v, want a turn after %q", priority, e, want)
		}
	}
}
