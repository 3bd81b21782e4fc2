package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// turnHost has a worker a for one container at a time and a worker b for two, each for steps that ask for it by its name, and lets so many steps go.
func turnHost(t testing.TB, rt sdk.Runtime, most int) *Host {
	t.Helper()
	cfg := testConfig("a", "b")
	for i := range cfg.Workers {
		cfg.Workers[i].Tags, cfg.Workers[i].Limits.Containers = []string{cfg.Workers[i].Name}, i+1
	}
	cfg.Placement.Steps = most
	return openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": rt}})
}

// stepOn is the text of a step for the worker of that name.
func stepOn(worker, name, more string) string {
	return fmt.Sprintf("step %q {\ntags = [%q]\n%s\nrun {\npath = \"true\"\n}\n}\n", name, worker, more)
}

// holdA has a container take worker a, until the test ends it.
func holdA(t testing.TB, h *Host, owner string) *Container {
	t.Helper()
	c, err := h.Container(t.Context(), owner, ContainerRequest{Tags: []string{"a"}, WaitLimit: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// begun runs a job meanwhile. Its steps are told of as they end, and its end at last.
func begun(t testing.TB, h *Host, req RunRequest) (exited <-chan string, ended <-chan error) {
	t.Helper()
	steps, end := make(chan string, 100), make(chan error, 1)
	req.Events = func(e Event) {
		if e.Kind == EventExited {
			steps <- e.Step
		}
	}
	go func() {
		res, err := h.Run(testkit.Context(t), req)
		if err == nil && !res.Succeeded() {
			err = errors.New(states(res))
		}
		end <- err
	}()
	return steps, end
}

// TestWaitForAPlaceTakesNoTurn: steps that wait for a full worker, more than may go side by side, keep no step from an idle one.
func TestWaitForAPlaceTakesNoTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ host, run int }{"of the run": {0, 2}, "of the host": {2, 0}, "of both": {2, 2}} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t testing.TB) {
				h := turnHost(t, newMemory(t, "a", "b"), c.host)
				holder := holdA(t, h, "holder")
				var b strings.Builder
				b.WriteString("job \"j\" {\n")
				for i := range 5 {
					b.WriteString(stepOn("a", fmt.Sprint("a", i), ""))
				}
				b.WriteString(stepOn("b", "b0", "") + stepOn("b", "b1", `after = ["b0"]`) + stepOn("b", "b2", `after = ["b1"]`) + "}\n")
				exited, ended := begun(t, h, RunRequest{ID: "r", Job: parseJob(t, b.String()), Parallel: c.run})
				for i := range 3 { // without its turn the second of them would come after all steps for a
					select {
					case step := <-exited:
						if want := fmt.Sprint("b", i); step != want {
							t.Fatalf("step %s has ended, want %s", step, want)
						}
					case <-testkit.Context(t).Done():
						t.Fatalf("step b%d waits behind those for a full worker", i)
					}
				}
				testkit.Until(t, "the others wait for a place, and not for a turn", func() bool {
					all, err := h.Waiting(t.Context(), RunOwner("r", ""))
					places := 0
					for _, e := range all {
						if e.State == PlacementWaiting {
							places++
						}
					}
					return err == nil && places == 5 && len(all) == 5
				})
				if err := holder.Destroy(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if h.turns.all != 0 {
					t.Errorf("%d turns are left over", h.turns.all)
				}
			})
		})
	}
}

// TestWaitForATurnTakesNoPlace: a step that would have its place but for its turn keeps the place from nobody, is told of as one that waits for its turn, and goes once
// it has both.
func TestWaitForATurnTakesNoPlace(t *testing.T) {
	t.Parallel()
	testkit.Bubble(t, func(t testing.TB) {
		goOn := make(chan struct{})
		var onB atomic.Int64
		rt := &hooked{Runtime: newMemory(t, "a", "b"), hook: func(ctx context.Context, call, on string, _ int, real func() error) error {
			if call == "create" && on == "b" && onB.Add(1) == 2 { // that of b0
				select {
				case <-goOn:
				case <-ctx.Done():
				}
			}
			return real()
		}}
		h := turnHost(t, rt, 0)
		holder := holdA(t, h, "holder")
		a := RunOwner("r", "a0")
		exited, ended := begun(t, h, RunRequest{ID: "r", Parallel: 1, Job: parseJob(t, "job \"j\" {\n"+stepOn("a", "a0", "")+stepOn("b", "b", "")+stepOn("b", "b0", `after = ["b"]`)+"}\n")})
		state := func(of PlacementState) func() bool {
			return func() bool {
				e, err := h.ExplainOwner(t.Context(), a)
				return err == nil && e.State == of
			}
		}
		testkit.Until(t, "the step for a waits for a place", state(PlacementWaiting))
		testkit.Until(t, "the step for b goes", func() bool { return onB.Load() == 2 })
		if err := holder.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "the step for a waits for its turn", state(PlacementTurn))
		e, err := h.ExplainOwner(t.Context(), a)
		if _, ok := errors.AsType[*TurnError](e.Err); err != nil || !ok || e.Position != 1 {
			t.Errorf("it is explained as %+v, %v", e, err)
		}
		if all, err := h.Waiting(t.Context(), ""); err != nil || len(all) != 1 || all[0].State != PlacementTurn || all[0].Err == nil {
			t.Errorf("listed as %+v, %v", all, err)
		}
		if f := h.Figures(); f.Turns[""] != 1 || f.Waiting[""] != 0 {
			t.Errorf("counted as %+v", f)
		}
		other := holdA(t, h, "other") // at once
		testkit.Until(t, "the step for a waits for a place again", state(PlacementWaiting))
		close(goOn)
		for _, want := range []string{"b", "b0"} { // before that for a, which has no place now
			if step := <-exited; step != want {
				t.Errorf("step %s has ended, want %s", step, want)
			}
		}
		if err := other.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// ownerOf is whose container that is.
func ownerOf(t testing.TB, h *Host, id string) string {
	t.Helper()
	var row store.Container
	if err := h.store.View(context.Background(), func(tx *store.Tx) (err error) {
		row, err = tx.Container(id)
		return err
	}); err != nil {
		t.Errorf("container %s: %v", id, err)
	}
	return row.Owner
}

// TestNeverMoreThanMayGo: whatever comes, goes, is aborted and changed in whatever order, never more steps have a place than may go, of their run or at all; and every
// step comes to its end.
func TestNeverMoreThanMayGo(t *testing.T) {
	t.Parallel()
	seeds := 30
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			testkit.Bubble(t, func(t testing.TB) { takeTurnsAtRandom(t, rand.New(rand.NewPCG(uint64(seed), 2))) })
		})
	}
}

func takeTurnsAtRandom(t testing.TB, rnd *rand.Rand) {
	var h *Host
	var mu sync.Mutex
	placed := make(map[string]string) // run by owner, of runs that are not aborted
	most := 1 + rnd.IntN(3)
	pause := func() {
		mu.Lock()
		d := time.Duration(rnd.IntN(20)) * time.Millisecond
		mu.Unlock()
		time.Sleep(d) // the bubble's
	}
	rt := &hooked{Runtime: newMemory(t, "a", "b"), hook: func(_ context.Context, call, id string, _ int, real func() error) error {
		switch call {
		case "create":
			pause()
		case "destroy":
			pause()
			owner := ownerOf(t, h, id)
			mu.Lock()
			delete(placed, owner)
			mu.Unlock()
		}
		return real()
	}}
	h = turnHost(t, rt, most)
	var all sync.WaitGroup
	for i := range 4 {
		id := fmt.Sprint("r", i)
		var b strings.Builder
		b.WriteString("job \"j\" {\n")
		for j := range 2 + rnd.IntN(8) {
			b.WriteString(stepOn([]string{"a", "b"}[rnd.IntN(2)], fmt.Sprint("s", j), fmt.Sprintf("priority = %d", 1+rnd.IntN(3))))
		}
		req := RunRequest{ID: id, Job: parseJob(t, b.String()+"}\n"), Parallel: rnd.IntN(4)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		aborted := i == 0
		if !aborted {
			req.Events = func(e Event) {
				if e.Kind != EventPlaced {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				placed[RunOwner(id, e.Step)] = id
				ofRun := 0
				for _, run := range placed {
					if run == id {
						ofRun++
					}
				}
				if len(placed) > most || req.Parallel > 0 && ofRun > req.Parallel {
					t.Errorf("%d steps have places, where %d may; %d of %s, where %d may", len(placed), most, ofRun, id, req.Parallel)
				}
			}
		}
		wait := time.Duration(rnd.IntN(40)) * time.Millisecond
		all.Go(func() {
			res, err := h.Run(ctx, req)
			if !aborted && (err != nil || !res.Succeeded()) {
				t.Errorf("run %s: %+v, %v", id, res, err)
			}
		})
		if aborted {
			all.Go(func() {
				time.Sleep(wait)
				cancel()
			})
		}
	}
	for i := range 3 { // what needs no turn takes places meanwhile
		all.Go(func() {
			pause()
			c, err := h.Container(t.Context(), fmt.Sprint("other", i), ContainerRequest{Tags: []string{"a"}, Kind: pool.NoInput})
			if err != nil {
				t.Error(err)
				return
			}
			pause()
			if err := c.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if h.turns.all != 0 || len(h.turns.waiting)+len(h.turns.going)+len(h.queue.Waiting()) > 0 {
		t.Errorf("left over: %+v", h.turns)
	}
}
