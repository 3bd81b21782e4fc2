package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"

	"github.com/slipway-run/slipway/plugins/memory/internal/shell"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
	"github.com/slipway-run/slipway/plugins/memory/internal/wasi"
	"github.com/slipway-run/slipway/sdk"
)

// What holds where nothing is set, in bytes.
const (
	DefaultMemory        = 1 << 30 // of Options.Memory
	DefaultProgramMemory = 2 << 30 // of Options.ProgramMemory
)

// Options are the optional settings of [New].
type Options struct {
	// Memory limits the volume data in bytes, of all workers together but those with a limit of their own. Zero:
	// DefaultMemory.
	Memory int64
	// NoShell leaves WASI programs only: neither scripts nor utilities are found.
	NoShell bool
	// NoPrograms is that WASI programs are not found.
	NoPrograms bool
	// Interpret has WASI programs interpreted. It is many times slower; their isolation then rests on an interpreter instead of a
	// compiler.
	Interpret bool
	// ProgramMemory limits the memory of all running WASI programs together, in bytes. Zero: DefaultProgramMemory.
	ProgramMemory int64
	// Workers has what is different for the workers of these names.
	Workers map[string]WorkerOptions
	// Volatile says that this process is a host's plugin, so that what is here is gone when the host is.
	Volatile bool
}

// WorkerOptions are the optional settings of one worker.
type WorkerOptions struct {
	// Memory limits the data in this worker's volumes alone, in bytes. Zero: it shares Options.Memory with the others.
	Memory int64
	// NoShell is Options.NoShell for this worker.
	NoShell bool
	// Zone is where the worker can send volumes straight to other workers, which are those of this runtime in the same zone. Empty:
	// it cannot.
	Zone string
	// Faults are what goes wrong with calls of this worker.
	Faults []Fault
}

// Runtime is a set of workers that live in this process, and end with it.
type Runtime struct {
	workers  map[string]*worker
	handles  map[string]sdk.Worker // what is given to callers: the workers, or what is before them
	programs *wasi.Engine          // nil: there are none
}

// New makes a runtime with a worker of each name. It holds nothing but memory until a process is started; whoever starts
// one calls Close in the end.
func New(workers []string, opts Options) *Runtime {
	if opts.Memory == 0 {
		opts.Memory = DefaultMemory
	}
	if opts.ProgramMemory == 0 {
		opts.ProgramMemory = DefaultProgramMemory
	}
	r := &Runtime{workers: make(map[string]*worker, len(workers)), handles: make(map[string]sdk.Worker, len(workers))}
	all := wasi.NewMemory(`the plugin's setting "program-memory"`, opts.ProgramMemory, nil)
	var foreign shell.Foreign
	if !opts.NoPrograms {
		r.programs = wasi.New(wasi.Options{Interpret: opts.Interpret, Memory: all})
		foreign = programs{r.programs}
	}
	both := shell.New(shell.Options{Linger: sdk.OutputGrace, Foreign: foreign})
	sandbox := shell.New(shell.Options{Linger: sdk.OutputGrace, Foreign: foreign, OnlyForeign: true})
	incarnation := rand.Text() // what was here before this start is gone for good (rule 4)
	shared := tree.NewBudget(opts.Memory)
	peers := newPeers()
	for _, name := range workers {
		own := opts.Workers[name]
		w := newWorker(incarnation, opts.Volatile, shared, both)
		if own.Memory != 0 {
			w.budget = tree.NewBudget(own.Memory)
		}
		if opts.NoShell || own.NoShell {
			w.engine, w.memory = sandbox, all
		}
		w.zone, w.peers = own.Zone, peers
		r.workers[name], r.handles[name] = w, withFaults(w, own.Faults)
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
	w, ok := r.handles[name]
	if !ok {
		return nil, sdk.NewNotFound(sdk.KindWorker, name)
	}
	return w, nil
}

// Close destroys all containers, so that no process is left when it returns nil, and all volumes. If ctx ends first it
// can be called again. Nothing else may be called meanwhile, and nothing starts afterwards.
func (r *Runtime) Close(ctx context.Context) error {
	var errs []error
	for _, w := range r.workers {
		errs = append(errs, w.destroyAll(ctx))
	}
	if err := errors.Join(errs...); err != nil || r.programs == nil {
		return err
	}
	return r.programs.Close(ctx)
}

var _ sdk.Runtime = (*Runtime)(nil)
