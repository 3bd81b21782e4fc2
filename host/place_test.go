package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

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
