package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keylock"
)

// Options are the optional settings of [Open].
type Options struct {
	// StateDir keeps what the host knows. Empty: a private temporary directory, removed by Close. Workers whose things outlive
	// the plugin are then refused, since nobody could find them again.
	StateDir string
	Log      *slog.Logger // nil: nothing is logged
	Version  string       // of the program, told to the plugins

	// Streams bounds what one stream may bring to a worker. What is zero is as the configuration says.
	Streams StreamLimits

	// Blobs bounds what the state directory keeps of artifacts: uploads that no worker has yet, and copies off full workers.
	Blobs BlobLimits
	// CacheTTL is how long a cache is kept after its last use. Zero: as the configuration says, else DefaultCacheTTL.
	CacheTTL time.Duration

	// KeepFailed leaves the containers of steps whose command failed as they are, with their inputs and open outputs, for people to look at; the
	// reaper takes them after Reaping.Failed. For hosts that stay.
	KeepFailed bool

	// Daemon: the program serves others on the state directory, who wait for it to do so where they find it held (store.LockedError).
	Daemon bool

	// Launch tunes how plugin processes are kept; its HostInfo and Logger are set by the host.
	Launch launch.Options

	// Runtimes are served by this program itself instead of by the plugin process of that name: for tests, and for programs
	// that are their own runtime. They are configured already.
	Runtimes map[string]sdk.Runtime

	// fault, in tests, is called with the name of each point around a change.
	fault func(point string)
	// gather, in tests, takes the place of gatherTime.
	gather  time.Duration
	stuck   time.Duration // in tests: instead of a part of Timing.WorkerGone
	told    time.Duration // in tests: instead of firstWorkers and of firstLooks
	clock   *clock        // in tests; nil: the machine's
	manual  bool          // in tests: what has expired goes when they reap
	slowTry time.Duration // in tests: instead of slowTry
	// maxWorkers is, in tests, instead of sdk.MaxWorkers.
	maxWorkers int

	// patience, in tests, takes the place of Timing.Answer.
	patience patience
}

// Host runs commands in containers. All its methods may be called from many goroutines.
type Host struct {
	opts  Options
	log   *slog.Logger
	dir   string
	store *store.Store
	spool *spool.Spool
	blobs *blobs
	index *pool.Index
	queue *pool.Queue
	place *pool.Placer
	turns *turns

	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	tasks  sync.WaitGroup // all goroutines of the host

	settings settings
	changing sync.Mutex        // one at a time changes settings or plugins
	waits    waits             // of such a change
	ordered  map[string]orders // of workers that are not there now, or were given some before this host began; protected by mu

	owners   flights[*Container] // finds and creations under way, by owner
	replicas flights[replica]    // streams under way, by artifact and worker
	caching  flights[*Artifact]  // contents of caches being made, by key
	casts    casts               // streams that several destinations share
	busy     busy                // containers and volumes that somebody works on
	streamed sums                // bytes by Via
	doubts   doubts              // replicas that could not be read
	rooms    rooms               // room for volumes that is being made

	clock    clock
	expiries expiries // when to look whether something has expired
	jumps    jumps
	roomLog  roomLog
	openedAt time.Duration // on the steady clock
	// openedBefore is when an earlier host opened, a grace ago or more; zero: none is known of.
	openedBefore time.Time
	starters     keylock.Locks // of a process's row, while it is being started

	mu          sync.Mutex
	plugins     []*plugin // in the order of the configuration
	workers     map[string]*worker
	entries     map[string]int                          // how many of them are a plugin's, by its name
	processes   map[sdk.ContainerID]map[string]*Process // that are followed, by row id
	starting    map[*Process]bool                       // that are being started
	local       map[string]string                       // directories on this machine that artifacts can be read from, by artifact id
	reading     map[string]chan struct{}                // those being read, by artifact id; closed when that has ended
	readers     counts                                  // who reads an artifact now
	holders     counts                                  // whose work needs it, now or later
	makings     map[*cacheMaking]bool                   // contents of caches being made now
	runs        map[string]bool                         // under way, by id
	going       map[string]*run                         // the same, once they have begun
	leftRuns    map[string]time.Time                    // when each was under way last, by id, where the store could not be told
	reconcilers map[string]*reconciler                  // by worker
	strangers   map[string]time.Time                    // workers that the configuration has no more, and that have something still
	hung        map[pair]time.Time                      // workers between which nothing goes directly until then
	closed      bool
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
	place, err := pool.NewPlacer(policy, pool.Options{Limits: pool.Limits(cfg.Placement.Limits), WaitLimit: cfg.Placement.WaitLimit, MaxPassed: cfg.Placement.MaxPassed})
	if err != nil {
		return nil, err
	}
	h := &Host{
		opts: opts, log: opts.Log, index: pool.NewIndex(), place: place,
		workers: make(map[string]*worker), entries: make(map[string]int), processes: make(map[sdk.ContainerID]map[string]*Process), starting: make(map[*Process]bool), local: make(map[string]string), reading: make(map[string]chan struct{}), runs: make(map[string]bool), going: make(map[string]*run),
		leftRuns: make(map[string]time.Time), reconcilers: make(map[string]*reconciler), clock: realClock(),
		readers: make(counts), holders: make(counts), makings: make(map[*cacheMaking]bool),
	}
	h.settings.begin(cfg, opts.KeepFailed)
	if opts.clock != nil {
		h.clock = *opts.clock
	}
	h.openedAt = h.clock.steady()
	h.jumps.look(h.clock) // it may be set before anything looks at it again
	h.queue = pool.NewQueue(h.index, h.place)
	h.turns = &turns{going: make(map[string]int), served: make(map[string]int)}
	h.turns.set(hostTurns(cfg.Placement.Steps))
	h.dir = opts.StateDir
	if h.ephemeral() {
		h.dir, h.store, err = openTempState(ctx)
		defer func() {
			if err != nil && h.dir != "" {
				os.RemoveAll(h.dir)
			}
		}()
	} else {
		h.store, err = store.Open(ctx, h.dir, store.Options{Daemon: opts.Daemon})
	}
	if err != nil {
		return nil, err
	}
	if h.spool, err = spool.Open(filepath.Join(h.dir, "spool"), spool.Options{MaxBytes: h.cfg().Reaping.OutputSize}); err != nil {
		return nil, errors.Join(err, h.store.Close())
	}
	if h.blobs, err = h.loadBlobs(ctx); err != nil {
		return nil, errors.Join(err, h.spool.Close(), h.store.Close())
	}
	known, err := h.loadLeases(ctx)
	if err != nil {
		return nil, errors.Join(err, h.spool.Close(), h.store.Close())
	}
	seen, ordered, err := h.loadOrders(ctx)
	if err != nil {
		return nil, errors.Join(err, h.spool.Close(), h.store.Close())
	}
	h.ordered = ordered
	known = append(known, seen...)
	if h.strangers, err = h.findStrangers(ctx, known); err != nil {
		return nil, errors.Join(err, h.spool.Close(), h.store.Close())
	}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	h.owners.closing, h.owners.spawn = h.ctx, h.spawn
	h.replicas.closing, h.replicas.spawn = h.ctx, h.spawn
	h.caching.closing, h.caching.spawn = h.ctx, h.spawn
	if !h.ephemeral() {
		h.loadOpenings(ctx)
	}
	if err := h.loadDebts(ctx); err != nil {
		return nil, errors.Join(err, h.Close(context.WithoutCancel(ctx)))
	}
	h.startPlugins(known)
	h.tasks.Go(h.reap)
	if !h.opts.manual {
		h.tasks.Go(h.expireInTime)
	}
	h.tasks.Go(h.watchStalled)
	h.tasks.Go(h.watchWall)
	h.tasks.Go(h.watchRoom)
	h.tasks.Go(h.makeRooms)
	for _, w := range h.sortedWorkers() { // none is given orders before this returns
		w.ordering.Lock() // it may be forgotten already
		err := h.startDrain(w)
		w.ordering.Unlock()
		if err != nil {
			return nil, errors.Join(err, h.Close(context.WithoutCancel(ctx)))
		}
	}
	return h, nil
}

// Installation is the id of the state directory. It is on everything that the host makes.
func (h *Host) Installation() string { return h.store.Installation() }

// StateDir is where the host keeps what it knows.
func (h *Host) StateDir() string { return h.dir }

func (h *Host) ephemeral() bool { return h.opts.StateDir == "" }

// Ready waits until every plugin has told its workers and every worker its first status, or has failed to: what is to be
// had at the start is then known. It does not fail when some are away; see [Host.Workers]. A plugin that runs and does not
// tell for 15 s which workers it has, or for a minute more does not let it be known how they are, has failed to.
func (h *Host) Ready(ctx context.Context) error {
	for {
		p := h.unknown()
		if p == nil {
			return nil
		}
		select {
		case <-p.known:
		case <-ctx.Done():
			return fmt.Errorf("waiting for plugin %q to tell its workers: %w", p.cfg.Name, ctx.Err())
		}
	}
}

// unknown is a plugin of which it is not known yet what it has; nil: there is none that is waited for.
func (h *Host) unknown() *plugin {
	for _, p := range h.allPlugins() {
		select {
		case <-p.known:
		default:
			if !p.late {
				return p
			}
		}
	}
	return nil
}

func (h *Host) allPlugins() []*plugin {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.plugins)
}

// Untold names the plugins that have not told yet which workers they have, of those that [Host.Ready] waits for.
func (h *Host) Untold() []string {
	var out []string
	for _, p := range h.allPlugins() {
		select {
		case <-p.told:
		case <-p.known:
		default:
			if !p.late {
				out = append(out, p.cfg.Name)
			}
		}
	}
	return out
}

// Workers reports on all workers, in the order of their names, and then on those that the configuration has no more, as far as something is on them still.
func (h *Host) Workers() []WorkerReport {
	var out []WorkerReport
	for _, w := range h.sortedWorkers() {
		if !w.forgotten() {
			r := w.report()
			r.Owed = h.reconciler(w.name).owed()
			out = append(out, r)
		}
	}
	return append(out, h.strangerReports()...)
}

// Plugins reports on all plugins, in the order of the configuration.
func (h *Host) Plugins() []launch.Report {
	all := h.allPlugins()
	out := make([]launch.Report, len(all))
	for i, p := range all {
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
	for _, p := range h.allPlugins() {
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
	h.stampLast(ctx)
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

// labels are on everything that the host makes for an owner.
func (h *Host) labels(owner string) map[string]string {
	return map[string]string{sdk.LabelInstallation: h.Installation(), labelOwner: owner}
}

const labelOwner = "slipway.owner"
