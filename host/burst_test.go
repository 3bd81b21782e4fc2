package host

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestTwoHundredAtOnce: a burst of 200 requests never puts more on a worker than its limit allows, as the worker itself lists what it has while
// each of them is created. It serves everyone, and leaves nothing. TestVolumesOfTwoHundred does the same for volumes.
func TestTwoHundredAtOnce(t *testing.T) {
	t.Parallel()
	const millis = 1000 // that a worker has
	one := func(int) int64 { return 1 }
	for name, c := range map[string]struct {
		limits  config.Limits
		most    int64
		request func(i int) ContainerRequest
		weighs  func(i int) int64 // what a request's container takes of most
	}{
		"containers": {config.Limits{Containers: 5}, 5, func(i int) ContainerRequest {
			return ContainerRequest{Kind: []pool.Kind{pool.Build, pool.NoInput, pool.Check}[i%3]}
		}, one},
		"tasks": {config.Limits{Tasks: 4}, 4, func(i int) ContainerRequest {
			return ContainerRequest{Kind: []pool.Kind{pool.Build, pool.NoInput, pool.Build, pool.Check}[i%4]}
		}, func(i int) int64 {
			if i%4 == 3 { // a check is no task
				return 0
			}
			return 1
		}},
		"resources": {config.Limits{}, millis, func(i int) ContainerRequest {
			return ContainerRequest{Resources: pool.Resources{CPUMillis: int64(i%4+1) * 100}}
		}, func(i int) int64 { return int64(i%4+1) * 100 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := newMemory(t, "a", "b")
			most := map[string]*atomic.Int64{"a": {}, "b": {}}
			o := &hooked{Runtime: rt, on: map[string]func(int, func() error) error{"create": func(_ int, real func() error) error {
				err := real()
				for w, most := range most {
					n := weightOn(t, rt, w, c.weighs)
					for had := most.Load(); n > had && !most.CompareAndSwap(had, n); had = most.Load() {
					}
				}
				return err
			}}}
			if name == "resources" { // memory counts no processor
				o.status = func(_ context.Context, _ int, s *sdk.Status) error {
					s.Capacity.CPUMillis = millis
					return nil
				}
			}
			cfg := testConfig("a", "b")
			for i := range cfg.Workers {
				cfg.Workers[i].Limits = c.limits
			}
			h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
			var answered atomic.Int64
			hold := make(chan struct{})
			var wg sync.WaitGroup
			for i := range 200 {
				wg.Go(func() {
					req := c.request(i)
					req.Team, req.Priority = fmt.Sprint(i%4), i%2
					made, err := h.Container(t.Context(), fmt.Sprint("owner-", i), req)
					answered.Add(1)
					if err != nil {
						t.Error(err)
						return
					}
					<-hold
					if err := made.Destroy(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			// Nobody gives a place back before all have asked for one, so that each that there is was taken: one too many is then seen for certain.
			testkit.Until(t, "each has a container, or waits for its place", func() bool { return len(h.queue.Waiting())+int(answered.Load()) == 200 })
			close(hold)
			wg.Wait()
			for w, most := range most {
				if n := most.Load(); n != c.most {
					t.Errorf("%s had %d at once at most, and %d is its limit", w, n, c.most)
				}
				if u := h.index.Usage(w); u != (pool.Usage{}) {
					t.Errorf("%s: left over: %+v", w, u)
				}
			}
			checkEmpty(t, h)
		})
	}
}

// weightOn adds up what the containers weigh that a worker lists, by the number at the end of their owners.
func weightOn(t testing.TB, rt sdk.Runtime, worker string, weighs func(i int) int64) (sum int64) {
	t.Helper()
	conn, err := rt.Worker(worker)
	if err == nil {
		err = conn.ListContainers(t.Context(), sdk.Filter{}, func(info sdk.ContainerInfo) error {
			var i int
			if _, err := fmt.Sscanf(info.Labels[labelOwner], "owner-%d", &i); err != nil {
				return err
			}
			sum += weighs(i)
			return nil
		})
	}
	if err != nil {
		t.Error(err)
	}
	return sum
}
