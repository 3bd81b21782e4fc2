//go:build linux

package onnomad

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// BenchmarkFirstOutput is the time until a command's first output, in a container that is made for it: through the plugin, and with the same job registered
// and the command run in it by Nomad's own client, in turns. "ratio" is ours by that of a client as eager as the plugin, which tries the command as soon as the task
// has begun; "ratio-reported" by that of one that waits until Nomad reports the task as running. Times are medians.
func BenchmarkFirstOutput(b *testing.B) {
	for _, driver := range []string{nomadtest.RawExec, nomadtest.Docker} {
		b.Run(driver, func(b *testing.B) {
			a := nomadtest.Start(b, nomadtest.Options{Dev: true, Docker: driver == nomadtest.Docker})
			w := workerOn(b, open(b, settings(a, driver)), a)
			if _, err := w.Status(b.Context()); err != nil { // sees what the node can
				b.Fatal(err)
			}
			var ours, eager, reported []time.Duration
			for i := 0; b.Loop(); i++ {
				ours = append(ours, lap(b, func() error { return oursFirst(b, w, fmt.Sprintf("ours-%d", i)) }))
				eager = append(eager, lap(b, func() error { return directFirst(b, a, driver, fmt.Sprintf("eager-%d", i), "") }))
				reported = append(reported, lap(b, func() error {
					return directFirst(b, a, driver, fmt.Sprintf("reported-%d", i), api.AllocClientStatusRunning)
				}))
			}
			for name, of := range map[string][]time.Duration{"ms": ours, "ms-eager": eager, "ms-reported": reported} {
				b.ReportMetric(median(of), name)
			}
			b.ReportMetric(median(ours)/median(eager), "ratio")
			b.ReportMetric(median(ours)/median(reported), "ratio-reported")
		})
	}
}

func lap(b *testing.B, do func() error) time.Duration {
	b.Helper()
	at := time.Now()
	if err := do(); err != nil {
		b.Fatal(err)
	}
	return time.Since(at)
}

func median(of []time.Duration) float64 {
	slices.Sort(of)
	return of[len(of)/2].Seconds() * 1e3
}

// oursFirst returns at the first output. What it made goes at the benchmark's end.
func oursFirst(b *testing.B, w sdk.Worker, name string) error {
	id := makeContainer(b, w, name)
	if err := w.StartProcess(b.Context(), id, sh("p", "echo first; exec sleep 1000")); err != nil {
		return err
	}
	first := errors.New("first")
	err := w.FollowProcess(b.Context(), id, "p", 0, sdk.Follow{Output: func([]sdk.Record) error { return first }})
	if errors.Is(err, first) {
		return nil
	}
	return fmt.Errorf("no output: %w", err)
}

// once closes a channel at the first Write.
type once struct {
	sync.Once
	c chan struct{}
}

func (o *once) Write(p []byte) (int, error) {
	o.Do(func() { close(o.c) })
	return len(p), nil
}

// directFirst registers the plugin's job, runs the command, and returns at its first output. Where reported is a status, it waits for that before.
func directFirst(b *testing.B, a *nomadtest.Agent, driver, name, reported string) error {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	c := a.Client()
	task := api.NewTask("t", driver).SetConfig("command", program("slipway-shim")).SetConfig("args", []string{"serve", "${NOMAD_TASK_DIR}/slipway"})
	if driver == nomadtest.Docker {
		task.SetConfig("image", nomadtest.Image).SetConfig("volumes", []string{built + ":" + built + ":ro"})
	}
	job := api.NewBatchJob(name, name, "global", 50).AddDatacenter("*").AddTaskGroup(api.NewTaskGroup("g", 1).AddTask(task.Require(&api.Resources{CPU: new(10), MemoryMB: new(64)})))
	reply, _, err := c.Jobs().Register(job, new(api.WriteOptions).WithContext(ctx))
	if err != nil {
		return err
	}
	b.Cleanup(func() {
		if _, _, err := c.Jobs().Deregister(name, true, nil); err != nil {
			b.Error(err)
		}
	})
	var allocs []*api.AllocationListStub
	for index := uint64(0); len(allocs) == 0; {
		e, meta, err := c.Evaluations().Info(reply.EvalID, (&api.QueryOptions{WaitIndex: index}).WithContext(ctx))
		if err != nil {
			return err
		}
		if index = meta.LastIndex; e.Status != api.EvalStatusComplete {
			continue
		}
		if allocs, _, err = c.Evaluations().Allocations(reply.EvalID, new(api.QueryOptions).WithContext(ctx)); err != nil {
			return err
		}
	}
	alloc, meta, err := c.Allocations().Info(allocs[0].ID, new(api.QueryOptions).WithContext(ctx))
	if err != nil {
		return err
	}
	for reported != "" && alloc.ClientStatus != reported {
		if alloc, meta, err = c.Allocations().Info(alloc.ID, (&api.QueryOptions{WaitIndex: meta.LastIndex}).WithContext(ctx)); err != nil {
			return err
		}
	}
	first := &once{c: make(chan struct{})}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		for ctx.Err() == nil { // until the task is there: an error says no more than that it is not
			_, _ = a.Exec(ctx, alloc, "t", []string{"/bin/sh", "-c", "echo first; exec sleep 1000"}, nil, first, nil)
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	select {
	case <-first.c:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no output came: %w", ctx.Err())
	}
}

// BenchmarkMany makes containers at once on one agent, runs a command in each and destroys it, and then follows half as many processes in five of them.
func BenchmarkMany(b *testing.B) {
	for _, n := range []int{20, 200} {
		b.Run(fmt.Sprintf("containers-%d", n), func(b *testing.B) {
			for b.Loop() {
				a := nomadtest.Start(b, nomadtest.Options{Dev: true, MaxConnsPerClient: 100, GCMaxAllocs: 500})
				w := workerOn(b, open(b, settings(a, nomadtest.RawExec)), a)
				began := time.Now()
				manyContainers(b, a, w, n)
				b.ReportMetric(float64(n)/time.Since(began).Seconds(), "containers/s")
				b.ReportMetric(float64(manyProcesses(b, a, w, 5, n/10, 8)), "connections")
			}
		})
	}
}
