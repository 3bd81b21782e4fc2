package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// lateConfig names workers, of which the last takes what asks for the tag late, one container at a time.
func lateConfig(workers ...string) *config.Config {
	cfg := testConfig(workers...)
	last := &cfg.Workers[len(workers)-1]
	last.Tags, last.Limits = []string{"late"}, config.Limits{Containers: 1}
	return cfg
}

// What a step made that ended under an earlier host is copied away before its worker lands, if a step of the resumed run
// will need it, be it what the second attempt made.
func TestLandWithAResumedRun(t *testing.T) {
	t.Parallel()
	for _, losses := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d attempts were lost", losses), func(t *testing.T) {
			t.Parallel()
			l := &loser{loses: losses, lost: make(map[string]bool)}
			o := &hooked{Runtime: newMemory(t, "a", "c", "b")}
			cfg, opts := lateConfig("a", "c", "b"), Options{StateDir: t.TempDir(), Runtimes: map[string]sdk.Runtime{"memory": o}}
			h := openConfig(t, cfg, opts)
			if _, err := h.Container(t.Context(), "holder", ContainerRequest{Tags: []string{"late"}}); err != nil {
				t.Fatal(err)
			}
			o.hook = l.hook
			between := make(chan struct{}, 10)
			req := RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "one" {
    attempts = 2
    outputs  = ["o", "unneeded"]
    run {
      path = "sh"
      args = ["-c", "echo made > o/f"]
    }
  }
  step "between" {
    tags    = ["late"]
    inputs  = { unneeded = step.one.unneeded }
    outputs = ["p"]
    run { path = "true" }
  }
  step "two" {
    tags   = ["late"]
    inputs = { o = step.one.o, p = step.between.p }
    run {
      path = "grep"
      args = ["made", "o/f"]
    }
  }
}`), Events: func(e Event) {
				if e.Step == "between" && e.Kind == EventWaiting && e.Message != "" {
					between <- struct{}{}
				}
			}}
			ended := make(chan error, 1)
			go func() {
				_, err := h.Run(t.Context(), req)
				ended <- err
			}()
			<-between
			h.cancel()
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Fatalf("the run has ended though its host has: %v", err)
			}
			closeTestHost(t, h)
			h = openConfig(t, cfg, opts)
			for len(between) > 0 {
				<-between
			}
			resumed := make(chan *RunResult, 1)
			go func() {
				res, err := h.Run(t.Context(), req)
				if err != nil {
					t.Error(err)
				}
				resumed <- res
			}()
			<-between
			name := OutputName(AttemptOwner("r", "one", 1+losses), "o")
			on := volumesOf(t, h, name)
			if len(on) != 1 {
				t.Fatalf("before the landing it is on %q", on)
			}
			ctx := testkit.Context(t)
			if err := errors.Join(h.LandWorker(ctx, on[0], ""), h.AwaitDrained(ctx, on[0], nil)); err != nil {
				t.Fatal(err)
			}
			if now := volumesOf(t, h, name); !slices.Contains(now, "b") {
				t.Errorf("what step two will need is on %q after %s has landed, want a copy on b", now, on[0])
			}
			holder, err := h.FindContainer(ctx, "holder")
			if err != nil {
				t.Fatal(err)
			}
			if err := holder.Destroy(ctx); err != nil {
				t.Fatal(err)
			}
			if res := <-resumed; states(res) != "one=succeeded between=succeeded two=succeeded" {
				t.Errorf("%s: %v", states(res), res.Steps)
			}
		})
	}
}

// A worker does not land before what a container that waits for a place will have in it is on another, best on one that
// would take that container.
func TestLandWithAContainerThatWaits(t *testing.T) {
	t.Parallel()
	goOn, under := make(chan struct{}), make(chan struct{}, 8)
	var blocks atomic.Bool
	o := &hooked{Runtime: newMemory(t, "a", "c", "b"), hook: func(ctx context.Context, call, _ string, _ int, real func() error) error {
		if call == "stream-in" && blocks.Load() {
			under <- struct{}{}
			select {
			case <-goOn:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return real()
	}}
	h := openConfig(t, lateConfig("a", "c", "b"), Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	onlyA := ContainerRequest{Exclude: map[string]string{"b": "for the test", "c": "for the test"}}
	a, unneeded := makeArtifact(t, h, "maker", onlyA), makeArtifact(t, h, "another", onlyA)
	holder, err := h.Container(t.Context(), "holder", ContainerRequest{Tags: []string{"late"}})
	if err != nil {
		t.Fatal(err)
	}
	waits, made := make(chan struct{}, 1), make(chan *Container, 1)
	go func() {
		c, err := h.Container(t.Context(), "owner", ContainerRequest{Tags: []string{"late"}, Inputs: []Input{{a, "o"}}, Observe: func(e Event) {
			if e.Kind == EventWaiting && e.Message != "" {
				waits <- struct{}{}
			}
		}})
		if err != nil {
			t.Error(err)
		}
		made <- c
	}()
	<-waits
	blocks.Store(true)
	ctx := testkit.Context(t)
	if err := h.LandWorker(ctx, "a", ""); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the drain has looked", func() bool {
		r := reportOf(t, h, "a")
		return r.Drain != nil || r.State == pool.Landed
	})
	if r := reportOf(t, h, "a"); r.State != pool.Landing || r.Drain.String() != "the copying of maker/o" {
		t.Fatalf("%+v, waits for %s", r, r.Drain)
	}
	<-under
	close(goOn)
	if err := h.AwaitDrained(ctx, "a", nil); err != nil {
		t.Fatal(err)
	}
	if on := volumesOf(t, h, a.Name); !slices.Equal(on, []string{"a", "b"}) {
		t.Errorf("what the container waits with is on %q", on)
	}
	if on := volumesOf(t, h, unneeded.Name); !slices.Equal(on, []string{"a"}) {
		t.Errorf("what nobody needs is on %q", on)
	}
	if err := holder.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	c := <-made
	if c == nil {
		t.FailNow()
	}
	p, err := c.Start(ctx, MainProcess, ProcessRequest{Path: "cat", Args: []string{"o/f"}})
	if err != nil {
		t.Fatal(err)
	}
	if out := waitOutcome(t, p); out.Exit == nil || out.Exit.Code != 0 || output(t, p) != "made\n" {
		t.Errorf("%+v: %q", out, output(t, p))
	}
	if err := c.Destroy(ctx); err != nil {
		t.Error(err)
	}
}

// What a run was given counts only for as long as its steps need it, though it does not expire before the run's end.
func TestNeedOfWhatARunWasGiven(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "a", "b"), Options{}, "a", "b")
	a := makeArtifact(t, h, "maker", ContainerRequest{Exclude: map[string]string{"b": "for the test"}})
	started := make(chan *Process, 1)
	ended := make(chan *RunResult, 1)
	go func() {
		res, err := h.Run(t.Context(), RunRequest{Artifacts: map[string]*Artifact{"in": a}, Job: parseJob(t, `
job "j" {
  input "in" {}
  step "one" {
    inputs  = { in = input.in }
    outputs = ["o"]
    run { path = "true" }
  }
  step "two" {
    inputs = { o = step.one.o }
    run {
      path = "sh"
      args = ["-c", "trap 'exit 0' USR1; echo ready; while :; do sleep 0.01; done"]
    }
  }
}`), Events: func(e Event) {
			if e.Step == "two" && e.Kind == EventStarted {
				started <- e.Process
			}
		}})
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	p := <-started
	if _, err := firstRecord(t, p); err != nil {
		t.Fatal(err)
	}
	_, moves, _, err := h.stillThere(t.Context(), mustWorker(t, h, "a"))
	if err != nil || slices.ContainsFunc(moves, func(m move) bool { return m.artifact.ID == a.ID }) {
		t.Errorf("it would be copied: %+v, %v", moves, err)
	}
	if err := p.Signal(t.Context(), "USR1"); err != nil {
		t.Error(err)
	}
	if res := <-ended; states(res) != "one=succeeded two=succeeded" {
		t.Errorf("%s: %v", states(res), res.Steps)
	}
}
