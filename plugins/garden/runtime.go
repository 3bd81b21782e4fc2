package garden

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/slipway-run/slipway/plugins/garden/internal/claim"
	"github.com/slipway-run/slipway/sdk"
)

// Options are the optional settings of [New].
type Options struct {
	Log *slog.Logger // nil: nothing is logged
}

// Runtime is a set of workers, each a pair of servers.
type Runtime struct {
	workers map[string]*worker
}

// New makes a runtime with a worker of each name. It dials nothing; what is wrong with a setting is Invalid with sdk.ReasonConfig. Whoever uses
// it calls Close in the end.
func New(workers map[string]Config, opts Options) (*Runtime, error) {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{workers: make(map[string]*worker, len(workers))}
	pipes := claim.NewPipes()
	for name, c := range workers {
		w, err := newWorker(name, c, pipes, log.With("worker", name))
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.workers[name] = w
	}
	return r, nil
}

// Workers reports the workers, which never change.
func (r *Runtime) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	all := sdk.WorkerEvent{Kind: sdk.WorkerSnapshot}
	for _, name := range slices.Sorted(maps.Keys(r.workers)) {
		w := r.workers[name]
		all.Workers = append(all.Workers, sdk.WorkerInfo{Name: name, Platform: "linux", Attributes: map[string]string{
			"architecture": w.config.Architecture, "garden": w.config.Garden, "baggageclaim": w.store.Address(),
		}})
	}
	if err := emit(all); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// Worker gives a worker. All handles of a name are the same, and stay good until Close of the runtime.
func (r *Runtime) Worker(name string) (sdk.Worker, error) {
	w, ok := r.workers[name]
	if !ok {
		return nil, sdk.NewNotFound(sdk.KindWorker, name)
	}
	return w, nil
}

// Close ends the conversations with containers and servers. Containers, processes and volumes stay. Nothing may be called afterwards.
func (r *Runtime) Close() error {
	var errs []error
	for _, w := range r.workers {
		errs = append(errs, w.close())
	}
	return errors.Join(errs...)
}

var _ sdk.Runtime = (*Runtime)(nil)
