package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Options are the optional settings of [Open].
type Options struct {
	// StateDir keeps what the host knows. Empty: a private temporary directory, removed by Close. Workers whose things outlive
	// the plugin are then refused, since nobody could find them again.
	StateDir string
	Log      *slog.Logger // nil: nothing is logged
	Version  string       // of the program, told to the plugins

	// Launch tunes how plugin processes are kept; its HostInfo and Logger are set by the host.
	Launch launch.Options

	// Runtimes are served by this program itself instead of by the plugin process of that name: for tests, and for programs
	// that are their own runtime. They are configured already.
	Runtimes map[string]sdk.Runtime

	// fault, in tests, is called with the name of each point around a change.
	fault func(point string)
}

// Host runs commands in containers. All its methods may be called from many goroutines.
type Host struct {
	cfg   *config.Config
	opts  Options
	log   *slog.Logger
	dir   string
	store *store.Store
	spool *spool.Spool
	index *pool.Index
	queue *pool.Queue
	place *pool.Placer

	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	tasks  sync.WaitGroup // all goroutines of the host

	plugins []*plugin

	owners   flights[*Container] // finds and creations under way, by owner
	replicas flights[replica]    // streams under way, by artifact and worker

	mu        sync.Mutex
	workers   map[string]*worker
	processes map[string]*Process      // that are followed, by row id
	local     map[string]string        // directories on this machine that artifacts can be read from, by artifact id
	reading   map[string]chan struct{} // those being read, by artifact id; closed when that has ended
	runs      map[string]bool          // under way, by id
	closed    bool
}

// Open opens the state directory and starts the plugins that cfg names. It returns before they are ready: [Host.Ready] waits for
// them. A directory that another host has open is a *store.LockedError.
func Open(ctx context.Context, cfg *config.Config, opts Options) (_ *Host, err error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	policy, err := pool.ParsePolicy(cfg.Placement.Build, cfg.Placement.NoInput, cfg.Placement.Check)
	if err != nil {
		return nil, err
	}
	place, err := pool.NewPlacer(policy, pool.Options{})
	if err != nil {
		return nil, err
	}
	h := &Host{
		cfg: cfg, opts: opts, log: opts.Log, index: pool.NewIndex(), place: place,
		workers: make(map[string]*worker), processes: make(map[string]*Process), local: make(map[string]string), reading: make(map[string]chan struct{}), runs: make(map[string]bool),
	}
	h.queue = pool.NewQueue(h.index, h.place)
	h.dir = opts.StateDir
	if h.ephemeral() {
		h.dir, h.store, err = openTempState(ctx)
		defer func() {
			if err != nil && h.dir != "" {
				os.RemoveAll(h.dir)
			}
		}()
	} else {
		h.store, err = store.Open(ctx, h.dir, store.Options{})
	}
	if err != nil {
		return nil, err
	}
	if h.spool, err = spool.Open(filepath.Join(h.dir, "spool"), spool.Options{}); err != nil {
		return nil, errors.Join(err, h.store.Close())
	}
	known, err := h.loadLeases(ctx)
	if err != nil {
		return nil, errors.Join(err, h.spool.Close(), h.store.Close())
	}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	h.owners.closing, h.owners.spawn = h.ctx, h.spawn
	h.replicas.closing, h.replicas.spawn = h.ctx, h.spawn
	h.startPlugins(known)
	h.tasks.Go(h.reap)
	h.tasks.Go(h.watchStalled)
	return h, nil
}

// Installation is the id of the state directory. It is on everything that the host makes.
func (h *Host) Installation() string { return h.store.Installation() }

// StateDir is where the host keeps what it knows.
func (h *Host) StateDir() string { return h.dir }

func (h *Host) ephemeral() bool { return h.opts.StateDir == "" }

// Ready waits until every plugin has told its workers and every worker its first status, or has failed to: what is to be
// had at the start is then known. It does not fail when some are away; see [Host.Workers].
func (h *Host) Ready(ctx context.Context) error {
	for _, p := range h.plugins {
		select {
		case <-p.known:
		case <-ctx.Done():
			return fmt.Errorf("waiting for plugin %q to tell its workers: %w", p.cfg.Name, ctx.Err())
		}
	}
	return nil
}

// Workers reports on all workers, in the order of their names.
func (h *Host) Workers() []WorkerReport {
	var out []WorkerReport
	for _, w := range h.sortedWorkers() {
		out = append(out, w.report())
	}
	return out
}

// Plugins reports on all plugins, in the order of the configuration.
func (h *Host) Plugins() []launch.Report {
	out := make([]launch.Report, len(h.plugins))
	for i, p := range h.plugins {
		out[i] = p.proc.State()
	}
	return out
}

// Close ends all that the host does on this machine: following, plugins, the store. Containers and processes go on, except with
// a temporary state directory, which goes with them. It takes as long as ctx lets the plugins take to stop. Idempotent.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	var errs []error
	var stops sync.WaitGroup
	var mu sync.Mutex
	for _, p := range h.plugins {
		stops.Go(func() {
			if err := p.proc.Stop(ctx); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	stops.Wait()
	h.tasks.Wait()
	errs = append(errs, h.spool.Close())
	if h.ephemeral() {
		errs = append(errs, os.RemoveAll(h.dir))
	}
	errs = append(errs, h.store.Close())
	return errors.Join(errs...)
}

// spawn runs a task that Close awaits.
func (h *Host) spawn(task func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.tasks.Go(task)
	return nil
}

// fault marks a point around a change, for tests that stop the host there.
func (h *Host) fault(point string) {
	if h.opts.fault != nil {
		h.opts.fault(point)
	}
}

// cleanupTime bounds what is undone after a failure. What does not succeed in it stays in the store and is settled when
// its worker is back.
const cleanupTime = 30 * time.Second

// cleanup gives a context for undoing things, which works though ctx may have ended. It ends when the host closes: the next one on the
// same state directory settles what is left.
func (h *Host) cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	stop := context.AfterFunc(h.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// labels are on everything that the host makes for an owner.
func (h *Host) labels(owner string) map[string]string {
	return map[string]string{sdk.LabelInstallation: h.Installation(), labelOwner: owner}
}

const labelOwner = "slipway.owner"
