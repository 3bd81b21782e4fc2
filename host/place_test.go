package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// A burst of 200 requests never puts more on a worker than its limit, serves everyone, and leaves nothing.
func TestTwoHundredAtOnce(t *testing.T) {
	t.Parallel()
	const limit = 5
	cfg := testConfig("a", "b")
	for i := range cfg.Workers {
		cfg.Workers[i].Limits.Containers = limit
	}
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "a", "b")}})
	on := map[string]*atomic.Int64{"a": {}, "b": {}}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			c, err := h.Container(t.Context(), fmt.Sprintf("owner-%d", i), ContainerRequest{Team: fmt.Sprint(i % 4), Priority: i % 2})
			if err != nil {
				t.Error(err)
				return
			}
			if n := on[c.Worker()].Add(1); n > limit {
				t.Errorf("%d containers at once on %s", n, c.Worker())
			}
			on[c.Worker()].Add(-1)
			if err := c.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, w := range []string{"a", "b"} {
		if u := h.index.Usage(w); u != (pool.Usage{}) {
			t.Errorf("%s: left over: %+v", w, u)
		}
	}
	checkEmpty(t, h)
}

// Each kind of work has its chain: a limit on tasks holds back steps with inputs and without, and no check.
func TestChains(t *testing.T) {
	t.Parallel()
	cfg := testConfig("m")
	cfg.Placement = config.Placement{Build: []string{"volume-locality", "limit-active-tasks"}, NoInput: []string{"limit-active-tasks"},
		Check: []string{"random"}, Limits: config.Limits{Tasks: 1}}
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
	task, err := h.Container(t.Context(), "task", ContainerRequest{Kind: pool.Build})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[pool.Kind]pool.Reason{pool.Build: pool.FullTasks, pool.NoInput: pool.FullTasks, pool.Check: pool.OK} {
		e, err := h.ExplainRequest(t.Context(), ContainerRequest{Kind: kind})
		if err != nil || e.Workers[0].Reason != want {
			t.Errorf("%s: %+v, %v, want %s", kind, e.Workers, err, want)
		}
	}
	check, err := h.Container(t.Context(), "check", ContainerRequest{Kind: pool.Check, WaitLimit: -1})
	if err != nil {
		t.Fatalf("a check beside a task: %v", err)
	}
	// A job's steps use the chains, too: both of these wait for the task.
	waits := make(chan string, 10)
	ended := make(chan string, 1)
	go func() {
		res, err := h.Run(t.Context(), RunRequest{Inputs: map[string]string{"in": tree(t, map[string]string{"f": "x"})}, Job: parseJob(t, `
job "j" {
  input "in" {}
  step "with" {
    inputs = { in = input.in }
    run { path = "true" }
  }
  step "without" {
    run { path = "true" }
  }
}`), Events: func(e Event) {
			if e.Kind == EventWaiting && e.Message != "" {
				waits <- e.Step + ": " + e.Message
			}
		}})
		if err != nil {
			t.Error(err)
		}
		ended <- states(res)
	}()
	for range 2 {
		if why := <-waits; !strings.Contains(why, "at the limit of tasks (m: 1 of 1 tasks)") {
			t.Errorf("waits: %s", why)
		}
	}
	kinds := map[pool.Kind]int{}
	testkit.Until(t, "both steps wait", func() bool { return len(h.queue.Waiting()) == 2 })
	for _, w := range h.queue.Waiting() {
		kinds[w.Spec.Kind]++
	}
	if kinds[pool.Build] != 1 || kinds[pool.NoInput] != 1 {
		t.Errorf("kinds of what waits: %v", kinds)
	}
	for _, c := range []*Container{task, check} {
		if err := c.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := <-ended; got != "with=succeeded without=succeeded" {
		t.Error(got)
	}
}

// What a worker says that it can hold is a limit like an operator's, and the smaller of both counts.
func TestWorkersOwnLimit(t *testing.T) {
	t.Parallel()
	for operators, want := range map[int]int{0: 2, 1: 1, 3: 2} {
		cfg := testConfig("m")
		cfg.Workers[0].Limits.Containers = operators
		o := &hooked{Runtime: newMemory(t, "m"), status: func(_ context.Context, _ int, s *sdk.Status) error {
			s.Capacity.Containers = 2
			return nil
		}}
		h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
		for i := range want {
			if _, err := h.Container(t.Context(), fmt.Sprint("owner-", i), ContainerRequest{WaitLimit: -1}); err != nil {
				t.Fatalf("container %d of %d: %v", i+1, want, err)
			}
		}
		_, err := h.Container(t.Context(), "one-more", ContainerRequest{WaitLimit: -1})
		var full *pool.FullError
		if detail := fmt.Sprintf("%d of %d containers", want, want); !errors.As(err, &full) || !slices.ContainsFunc(full.Reasons, func(v pool.Verdict) bool {
			return v.Reason == pool.FullContainers && v.Detail == detail
		}) {
			t.Errorf("with an operator's limit of %d, one more than %d: %v", operators, want, err)
		}
	}
}

// What is promised to a container is not promised to another, after a restart of the host too; what no worker could ever give is an error
// at once, with the reason; and one container can ask for the worker of another.
func TestResourcesAndWith(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := &hooked{Runtime: newMemory(t, "a", "b"), status: func(_ context.Context, _ int, s *sdk.Status) error {
		s.Capacity.CPUMillis, s.Features = 1000, append(s.Features, sdk.ResourceTypePrefix+"git")
		return nil
	}}
	h := openHost(t, o, Options{StateDir: dir}, "a", "b")
	ask := func(owner string, cpu int64, with string) (*Container, error) {
		return h.Container(t.Context(), owner, ContainerRequest{Resources: pool.Resources{CPUMillis: cpu}, With: with, WaitLimit: -1})
	}
	first, err := ask("first", 800, "")
	if err != nil {
		t.Fatal(err)
	}
	beside, err := ask("beside", 200, "first")
	if err != nil || beside.Worker() != first.Worker() {
		t.Fatalf("beside the first: %+v, %v", beside, err)
	}
	closeTestHost(t, h)
	h = openHost(t, o, Options{StateDir: dir}, "a", "b")
	var full *pool.FullError
	if _, err = ask("third", 1, "first"); !errors.As(err, &full) || !slices.ContainsFunc(full.Reasons, func(v pool.Verdict) bool {
		return v.Reason == pool.FullResources && v.Detail == "1000 of 1000 milli-CPUs are promised, 1 wanted"
	}) {
		t.Errorf("more than is left: %v", err)
	}
	var none *pool.NoWorkerError
	if _, err = ask("fourth", 1001, ""); !errors.As(err, &none) || none.Reasons[0].Reason != pool.TooBig {
		t.Errorf("more than there ever is: %v", err)
	}
	if _, err = ask("fifth", 0, "nobody"); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("with a container that is not there: %v", err)
	}
	if _, err = h.Container(t.Context(), "sixth", ContainerRequest{ImageRef: sdk.ResourceTypePrefix + "s3"}); !errors.As(err, &none) {
		t.Errorf("a resource type that no worker has: %v", err)
	}
	e, err := h.ExplainRequest(t.Context(), ContainerRequest{ImageRef: sdk.ResourceTypePrefix + "s3"})
	if err != nil || e.Workers[0].Reason != pool.NoFeature && e.Workers[0].Reason != pool.NoType {
		t.Errorf("%+v, %v", e, err)
	}
}

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

// A wait for a place has its limit, the configuration's where the request says nothing.
func TestWaitLimit(t *testing.T) {
	t.Parallel()
	cfg := testConfig("m")
	cfg.Workers[0].Limits.Containers, cfg.Placement.WaitLimit = 1, 1
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
	if _, err := h.Container(t.Context(), "first", ContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	_, err := h.Container(t.Context(), "second", ContainerRequest{})
	var late *pool.WaitError
	if !errors.As(err, &late) {
		t.Errorf("past the limit: %v", err)
	}
	if len(h.queue.Waiting()) != 0 {
		t.Errorf("%d wait still", len(h.queue.Waiting()))
	}
}

// Of callers that want one owner's container together each waits as long as it asked for, whoever was first.
func TestWaitLimitOfEach(t *testing.T) {
	t.Parallel()
	for name, hasty := range map[string]time.Duration{"does not wait": -1, "waits for a moment": time.Nanosecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig("m")
			cfg.Workers[0].Limits.Containers = 1
			h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
			first, err := h.Container(t.Context(), "first", ContainerRequest{})
			if err != nil {
				t.Fatal(err)
			}
			entered, goOn := make(chan struct{}), make(chan struct{})
			refused := make(chan error)
			go func() {
				_, err := h.Container(t.Context(), "second", ContainerRequest{WaitLimit: hasty, Observe: func(e Event) {
					if e.Kind == EventWaiting && e.Message == "" {
						close(entered)
						<-goOn
					}
				}})
				refused <- err
			}()
			<-entered
			made := make(chan error)
			go func() {
				_, err := h.Container(t.Context(), "second", ContainerRequest{})
				made <- err
			}()
			testkit.Until(t, "the patient one waits with the hasty one", func() bool {
				h.owners.mu.Lock()
				defer h.owners.mu.Unlock()
				return h.owners.by["second"].waiting == 2
			})
			close(goOn)
			if err := <-refused; !errors.As(err, new(*pool.FullError)) {
				t.Errorf("the hasty one: %v", err)
			}
			testkit.Until(t, "the patient one waits", func() bool { return len(h.queue.Waiting()) == 1 })
			if err := first.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-made; err != nil {
				t.Errorf("the patient one: %v", err)
			}
		})
	}
}

// A worker that says that it has no room is asked again, for as long as the request waits.
func TestExhaustedWorker(t *testing.T) {
	t.Parallel()
	full := &sdk.Error{Class: sdk.Exhausted, Reason: sdk.ReasonStorage, Message: "the disk is full", RetryAfter: time.Millisecond}
	rt := &hooked{Runtime: newMemory(t, "m"), hook: func(_ context.Context, call, _ string, n int, real func() error) error {
		if call == "create" && n != 4 {
			return full
		}
		return real()
	}}
	h := openHost(t, rt, Options{}, "m")
	var mu sync.Mutex
	var said []string
	c, err := h.Container(t.Context(), "patient", ContainerRequest{Observe: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == EventWaiting && e.Message != "" {
			said = append(said, e.Message)
		}
	}})
	if err != nil || c.Worker() != "m" {
		t.Fatal(c, err)
	}
	mu.Lock()
	if len(said) != 3 || !strings.Contains(said[0], "the disk is full") {
		t.Errorf("it waited for %q", said)
	}
	mu.Unlock()
	var none *pool.FullError
	if _, err := h.Container(t.Context(), "impatient", ContainerRequest{WaitLimit: -1}); !errors.As(err, &none) || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("without a wait: %v", err)
	}
	var late *pool.WaitError
	if _, err := h.Container(t.Context(), "limited", ContainerRequest{WaitLimit: 100 * time.Millisecond}); !errors.As(err, &late) || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("with a limit: %v", err)
	}
	if rows := containerRows(t, h); len(rows) != 1 {
		t.Errorf("rows are left: %+v", rows)
	}
}
