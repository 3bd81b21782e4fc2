package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"

	"github.com/slipway-run/slipway/plugins/memory/internal/shell"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
	"github.com/slipway-run/slipway/sdk"
)

// DefaultMemory is the limit of volume data where none is set: 1 GiB.
const DefaultMemory = 1 << 30

// Options are the optional settings of [New].
type Options struct {
	// Memory limits the volume data in bytes, of all workers together but those with a limit of their own. Zero:
	// DefaultMemory.
	Memory int64
	// WorkerMemory gives the workers of these names a limit of their own.
	WorkerMemory map[string]int64
	// NoShell leaves only volumes and containers: no start finds an executable.
	NoShell bool
	// Volatile says that this process is a host's plugin, so that what is here is gone when the host is.
	Volatile bool
}

// Runtime is a set of workers that live in this process, and end with it.
type Runtime struct {
	workers map[string]*worker
}

// New makes a runtime with a worker of each name. It holds nothing but memory until a process is started; whoever starts
// one calls Close in the end.
func New(workers []string, opts Options) *Runtime {
	if opts.Memory == 0 {
		opts.Memory = DefaultMemory
	}
	var engine *shell.Engine
	if !opts.NoShell {
		engine = shell.New(shell.Options{Linger: sdk.OutputGrace})
	}
	incarnation := rand.Text() // what was here before this start is gone for good (rule 4)
	shared := tree.NewBudget(opts.Memory)
	r := &Runtime{workers: make(map[string]*worker, len(workers))}
	for _, name := range workers {
		budget := shared
		if own := opts.WorkerMemory[name]; own != 0 {
			budget = tree.NewBudget(own)
		}
		r.workers[name] = newWorker(incarnation, opts.Volatile, budget, engine)
	}
	return r
}

// Workers reports the workers, which never change.
func (r *Runtime) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := emit(snapshot(slices.Sorted(maps.Keys(r.workers)))); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func snapshot(names []string) sdk.WorkerEvent {
	e := sdk.WorkerEvent{Kind: sdk.WorkerSnapshot}
	for _, name := range names {
		e.Workers = append(e.Workers, sdk.WorkerInfo{Name: name, Platform: "memory"})
	}
	return e
}

// Worker gives a worker. All handles of a name are the same, and stay good until Close of the runtime.
func (r *Runtime) Worker(name string) (sdk.Worker, error) {
	w, ok := r.workers[name]
	if !ok {
		return nil, sdk.NewNotFound(sdk.KindWorker, name)
	}
	return w, nil
}

// Close destroys all containers, so that no process is left when it returns nil, and all volumes. If ctx ends first it
// can be called again. Nothing else may be called meanwhile.
func (r *Runtime) Close(ctx context.Context) error {
	var errs []error
	for _, w := range r.workers {
		errs = append(errs, w.destroyAll(ctx))
	}
	return errors.Join(errs...)
}

var _ sdk.Runtime = (*Runtime)(nil)
