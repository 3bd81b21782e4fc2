package pool_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/pool"
)

const (
	benchWorkers = 10_000
	benchVolumes = 1_000_000
)

func benchIndex(b *testing.B) *pool.Index {
	b.Helper()
	x := pool.NewIndex()
	for i := range benchWorkers {
		w := running(fmt.Sprintf("worker-%05d", i))
		w.Features = []string{"tty", "users", "clone.live", "limits.memory"}
		if i%20 == 0 {
			w.Tags = []string{"gpu"}
		}
		if i%50 == 0 {
			w.Team = "a"
		}
		x.Upsert(w)
	}
	return x
}

// Volumes as they are in practice: a few contents (images) are on every worker,
// some on many, most on one.
func benchVolumesOn(x *pool.Index) {
	r := rand.New(rand.NewPCG(1, 2))
	n := 0
	add := func(worker, content int) {
		x.AddVolume(fmt.Sprintf("worker-%05d", worker), fmt.Sprintf("content-%d", content), int64(1+r.IntN(1<<30)))
		n++
	}
	for c := range 10 {
		for w := range benchWorkers {
			add(w, c)
		}
	}
	for c := 10; c < 1010; c++ {
		for range 100 {
			add(r.IntN(benchWorkers), c)
		}
	}
	for c := 1010; n < benchVolumes; c++ {
		add(r.IntN(benchWorkers), c)
	}
}

// The goal is 1 ms with a million volumes and locality on. The spec has four
// inputs: one that is on every worker, one on many, two on one.
func BenchmarkChoose10kWorkers(b *testing.B) {
	spec := pool.Spec{Team: "b", Platform: "linux", Runtime: "memory", Features: []string{"tty", "limits.memory"}, Inputs: []pool.Content{
		{Key: "content-3"}, {Key: "content-500"}, {Key: "content-100000"}, {Key: "content-200000"}}}
	for _, volumes := range []int{0, benchVolumes} {
		b.Run(fmt.Sprintf("volumes=%d", volumes), func(b *testing.B) {
			x := benchIndex(b)
			if volumes > 0 {
				benchVolumesOn(x)
			}
			p := placer(b, pool.Policy{}, pool.Options{})
			runtime.GC() // what filling it has left behind is not what choosing costs
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Choose(x, spec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The goal is 200 bytes. The worst case is a content of its own for every
// volume; keys are as long as those of real artifacts and are not kept.
func BenchmarkIndexBytesPerVolume(b *testing.B) {
	for _, replicas := range []int{1, 10} {
		b.Run(fmt.Sprintf("replicas=%d", replicas), func(b *testing.B) {
			for b.Loop() {
				x := benchIndex(b)
				before := heap()
				for i := range benchVolumes {
					c := i / replicas
					w := (c*7 + i%replicas*997) % benchWorkers
					x.AddVolume(fmt.Sprintf("worker-%05d", w), fmt.Sprintf("artifact/01k9xq3h8m5v7c2b4n6d8f0g%08d", c), 4096)
				}
				b.ReportMetric(float64(heap()-before)/benchVolumes, "B/volume")
				if n := x.Usage("worker-00000").Contents; n == 0 {
					b.Fatal("nothing was added")
				}
			}
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// From the call of Release to the return of the Acquire that gets the place,
// with a thousand waiting all the time. The goal is a p99 of 1 ms; the ratios are
// to handing a value to another goroutine, which is the least it can cost.
func BenchmarkQueueWake(b *testing.B) {
	const waiting = 1000
	x := index(running("w", limited(1)))
	q := pool.NewQueue(x, placer(b, pool.Policy{}, pool.Options{}))
	lease(b, x, "owner-0", "w", pool.Build)
	ctx, cancel := context.WithCancel(b.Context())
	type place struct {
		owner string
		at    time.Time
	}
	served := make(chan place, 1)
	var wg sync.WaitGroup
	next := 0
	arrive := func() {
		next++
		owner, team := fmt.Sprintf("owner-%d", next), fmt.Sprint(next%10)
		wg.Go(func() {
			if _, err := q.Acquire(ctx, owner, pool.Spec{Team: team}); err == nil {
				served <- place{owner, time.Now()}
			}
		})
	}
	for range waiting {
		arrive()
	}
	for len(q.Waiting()) < waiting {
		runtime.Gosched()
	}
	holder := "owner-0"
	var wakes, switches []time.Duration
	for b.Loop() {
		begin := time.Now()
		x.Release(holder)
		p := <-served
		wakes = append(wakes, p.at.Sub(begin))
		holder = p.owner
		arrive()
		for len(q.Waiting()) < waiting {
			runtime.Gosched()
		}
	}
	cancel()
	wg.Wait()

	ping := make(chan struct{})
	pong := make(chan time.Time)
	wg.Go(func() {
		for range ping {
			pong <- time.Now()
		}
	})
	for range max(len(wakes), 1000) {
		begin := time.Now()
		ping <- struct{}{}
		switches = append(switches, (<-pong).Sub(begin))
	}
	close(ping)
	wg.Wait()

	slices.Sort(wakes)
	slices.Sort(switches)
	at := func(d []time.Duration, q float64) float64 { return float64(d[int(q*float64(len(d)-1))]) }
	b.ReportMetric(at(wakes, .5), "p50-ns")
	b.ReportMetric(at(wakes, .99), "p99-ns")
	b.ReportMetric(at(wakes, .5)/max(at(switches, .5), 1), "p50/switch")
	b.ReportMetric(at(wakes, .99)/max(at(switches, .99), 1), "p99/switch-p99")
}
