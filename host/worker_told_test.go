package host

import (
	"context"
	"errors"
	"testing"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// A plugin cannot take another's worker out of placement.
func TestRemoveOfAnothersWorker(t *testing.T) {
	t.Parallel()
	rt, told := newMemory(t, "m"), make(chan struct{})
	one := &hooked{Runtime: rt, workers: func(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
		return rt.Workers(ctx, func(e sdk.WorkerEvent) error {
			err := emit(e)
			close(told) // it tells them once
			return err
		})
	}}
	done := make(chan struct{})
	two := &hooked{Runtime: newMemory(t, "m"), workers: func(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
		if err := emit(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot}); err != nil { // it has none
			t.Error(err)
		}
		<-told
		if err := emit(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot, Workers: []sdk.WorkerInfo{{Name: "m"}}}); err == nil {
			t.Error("another's worker is taken")
		}
		emit(sdk.WorkerEvent{Kind: sdk.WorkerRemove, Workers: []sdk.WorkerInfo{{Name: "m"}}})
		close(done)
		<-ctx.Done()
		return ctx.Err()
	}}
	cfg := testConfig("m")
	cfg.Plugins = append(cfg.Plugins, config.Plugin{Name: "two", Command: "x"})
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": one, "two": two}})
	<-done
	if ws := h.index.Workers(); len(ws) != 1 {
		t.Errorf("placement has %+v", ws)
	}
}

// sought is a runtime that notes which workers are asked for.
type sought struct {
	sdk.Runtime
	workers func(ctx context.Context, emit func(sdk.WorkerEvent) error) error
	names   chan string
}

func (a *sought) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	return a.workers(ctx, emit)
}

func (a *sought) Worker(name string) (sdk.Worker, error) {
	a.names <- name
	return a.Runtime.Worker(name)
}

// Of a snapshot with somebody else's worker nothing is taken, so that no worker of it is told to be well while the defect is not told.
func TestSnapshotWithAnothersWorker(t *testing.T) {
	t.Parallel()
	refused := make(chan error, 1)
	a := &sought{Runtime: newMemory(t, "m"), names: make(chan string, 8)}
	a.workers = func(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
		err := emit(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot, Workers: []sdk.WorkerInfo{{Name: "m", Platform: "memory"}, {Name: "other"}}})
		select {
		case refused <- err:
		default: // it is asked again
		}
		return err
	}
	h, err := Open(t.Context(), testConfig("m"), Options{StateDir: t.TempDir(), Runtimes: map[string]sdk.Runtime{"memory": a}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h) })
	if err := <-refused; !errors.Is(err, sdk.Internal) {
		t.Errorf("the snapshot came to %v", err)
	}
	select {
	case name := <-a.names:
		t.Errorf("worker %q of it was taken", name)
	default:
	}
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Error(err)
	}
	if w := h.Workers()[0]; w.Up {
		t.Errorf("worker %s is told to be well", w.Name)
	}
}
