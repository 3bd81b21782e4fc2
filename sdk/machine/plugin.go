//go:build linux

package machine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/slipway-run/slipway/sdk"
)

// Plugin is a whole plugin, to be handed to rpc.Serve. C is the struct behind a worker block's config: [sdk.SchemaOf] tells what it may be. Open makes of
// one what its worker is; errors that are Invalid with [sdk.ReasonConfig] are shown to the operator beside the block.
func Plugin[C any](name, version string, open func(worker string, c C) (Functions, Options, error)) sdk.Plugin {
	var settings C
	return sdk.Plugin{Name: name, Version: version, Worker: settings, Open: func(ctx context.Context, cfg sdk.Config) (sdk.Runtime, error) {
		workers := make(map[string]*Worker, len(cfg.Workers))
		for _, block := range cfg.Workers {
			var c C
			if err := block.Decode(&c); err != nil {
				return nil, err
			}
			f, o, err := open(block.Name, c)
			if err != nil {
				return nil, err
			}
			if o.Log == nil && cfg.Log != nil {
				o.Log = cfg.Log.With("worker", block.Name)
			}
			if workers[block.Name], err = Open(ctx, block.Name, f, o); err != nil {
				return nil, err
			}
		}
		r := NewRuntime(workers)
		context.AfterFunc(ctx, func() {
			if err := r.Close(); err != nil && cfg.Log != nil {
				cfg.Log.Error("not all is closed", "error", err)
			}
		})
		return r, nil
	}}
}

// Runtime is an [sdk.Runtime] of workers that never change.
type Runtime struct {
	workers map[string]*Worker
}

// NewRuntime makes one of workers by their names. They are the runtime's own from then on.
func NewRuntime(workers map[string]*Worker) *Runtime { return &Runtime{maps.Clone(workers)} }

// Workers reports the workers.
func (r *Runtime) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	all := sdk.WorkerEvent{Kind: sdk.WorkerSnapshot}
	for _, name := range slices.Sorted(maps.Keys(r.workers)) {
		all.Workers = append(all.Workers, sdk.WorkerInfo{Name: name, Platform: "linux"})
	}
	if err := emit(all); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// Worker gives a worker. All handles of a name are the same.
func (r *Runtime) Worker(name string) (sdk.Worker, error) {
	w, ok := r.workers[name]
	if !ok {
		return nil, sdk.NewNotFound(sdk.KindWorker, name)
	}
	return w, nil
}

// Close ends the conversations with containers. Containers, processes and volumes stay. Nothing may be called afterwards.
func (r *Runtime) Close() error {
	var errs []error
	for _, w := range r.workers {
		errs = append(errs, w.driver.Close())
	}
	return errors.Join(errs...)
}

var _ sdk.Runtime = (*Runtime)(nil)
