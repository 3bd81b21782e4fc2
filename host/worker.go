package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/sdk"
)

// worker is one worker across all the sessions of its plugin. While its conn is set, calls go through; while not, they
// wait until it is back, or until it has been away for too long.
type worker struct {
	name   string
	plugin string
	graces atomic.Pointer[graces] // of the configuration, as it is now
	closed <-chan struct{}        // when the host closes, all waiting ends

	placing  sync.Mutex // one at a time tells placement
	ordering sync.Mutex // one at a time gives orders
	drain    *drain     // under way, if it is landing or retiring; of whoever gives orders
	settled  bool       // what an earlier host left on it is settled; of its monitor

	mu        sync.Mutex
	block     workerBlock
	unproven  *unproven      // its settings have changed since it was seen last; nil: they have not
	elsewhere bool           // it is another place than what is recorded of it, or in doubt
	doubt     string         // why that is not known, while it is away; empty: it is known
	judged    *plugin        // with which its settings are known to be those with which it was seen last
	givenUp   bool           // it was retired while it was elsewhere
	unwanted  bool           // the configuration has it no more, and it stays until nothing is there
	held      string         // a reload looks at it: nothing is placed there meanwhile, for this reason
	said      sdk.WorkerInfo // by its plugin
	info      sdk.WorkerInfo // the same, with its block laid over it
	status    sdk.Status
	half      half          // whether it is without its containers
	conn      sdk.Worker    // nil: away
	wasAway   bool          // it was found away, ever
	up        chan struct{} // closed while conn is set
	down      chan struct{} // closed while conn is not set
	why       error         // while away: what happened
	dead      error         // while away: why it will not be back by itself; ends all waiting
	since     time.Time     // of the last change between up and away
	removed   bool          // its plugin does not tell it any more
	none      bool          // its plugin has never told it
	pruned    bool          // it is forgotten, until it is seen again
	orders    orders        // its operator's
	waits     *Drain        // while it is landing or retiring: for what
	probe     chan struct{} // of capacity 1: asks the monitor to look now

	present context.Context // ends when the worker has been away for goneIn: what still hangs on it is cut then
	leave   context.CancelFunc
}

func newWorker(name, plugin string, goneIn time.Duration, closed <-chan struct{}) *worker {
	w := &worker{name: name, plugin: plugin, closed: closed, since: time.Now(), probe: make(chan struct{}, 1),
		up: make(chan struct{}), down: make(chan struct{}), why: errors.New("it has not answered yet")}
	w.graces.Store(&graces{gone: goneIn, patience: patienceOf(DefaultAnswer)})
	close(w.down)
	w.present, w.leave = context.WithCancel(context.Background())
	return w
}

// call makes one idempotent call on the worker, again each time that the worker was away meanwhile.
func (w *worker) call(ctx context.Context, what string, f func(context.Context, sdk.Worker) error) error {
	return w.repeat(ctx, what, func(ctx context.Context, conn sdk.Worker, _ func()) error { return f(ctx, conn) })
}

// work is call for what tells its progress: f gives a sign whenever it does.
func (w *worker) work(ctx context.Context, what string, f func(ctx context.Context, conn sdk.Worker, sign func()) error) error {
	return w.repeat(ctx, what, f)
}

// repeat makes a call, again each time that the worker was away meanwhile, for no longer than it is waited for.
func (w *worker) repeat(ctx context.Context, what string, f func(context.Context, sdk.Worker, func()) error) error {
	var b backoff
	var gone *WorkerGoneError
	var failing time.Time
	for {
		conn, err := w.acquire(ctx)
		if err == nil {
			err = w.ask(ctx, what, func(ctx context.Context, sign func()) error { return f(ctx, conn, sign) })
		}
		if err == nil {
			return nil
		}
		if conn == nil || !errors.Is(err, sdk.Unavailable) || errors.As(err, &gone) || ctx.Err() != nil {
			return fmt.Errorf("%s on %s: %w", what, w.name, err)
		}
		w.failed(conn, err)
		if failing.IsZero() {
			failing = time.Now()
		}
		if away := time.Since(failing); away >= w.goneIn() { // though its status may say otherwise
			return fmt.Errorf("%s on %s: %w", what, w.name, &WorkerGoneError{Worker: w.name, Away: away, Cause: err})
		}
		if err := b.wait(ctx, err); err != nil {
			return fmt.Errorf("%s on %s: %w", what, w.name, err)
		}
	}
}

// failed notes that a call found the worker away, and has it looked at. Where only its containers are known to be away, such a call says nothing
// of its volumes: the look tells.
func (w *worker) failed(conn sdk.Worker, err error) {
	w.mu.Lock()
	if !w.half.away(0) {
		w.noteAway(conn, err)
	}
	w.mu.Unlock()
	w.lookNow()
}

// lookNow asks the monitor for a status at once.
func (w *worker) lookNow() {
	select {
	case w.probe <- struct{}{}:
	default: // asked already
	}
}

// setUp opens the worker for calls, and tells whether it was not open for them.
func (w *worker) setUp(conn sdk.Worker, s sdk.Status) (back bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = s
	w.half.note(s)
	if w.conn == conn {
		return false
	}
	if w.conn == nil {
		close(w.up)
		w.down = make(chan struct{})
		w.since = time.Now()
		if w.present.Err() != nil {
			w.present, w.leave = context.WithCancel(context.Background())
		}
	}
	w.conn, w.why, w.dead = conn, nil, nil
	w.endDoubt() // which may have been noted since its settings were looked at
	return true
}

// unusedError is why a worker that is well is not used.
type unusedError struct{ error }

func (e unusedError) Unwrap() error { return e.error }

// setStatus notes how a worker is that is not used.
func (w *worker) setStatus(s sdk.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = s
}

// setAway notes that conn does not work; an older conn than the present one changes nothing. A nil conn stands for
// whichever there is.
func (w *worker) setAway(conn sdk.Worker, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteAway(conn, why)
}

// noteAway is setAway. The lock is held.
func (w *worker) noteAway(conn sdk.Worker, why error) {
	if conn != nil && w.conn != nil && w.conn != conn {
		return
	}
	w.wasAway = true
	w.takeDown(why)
}

// setSilent notes why nothing was ever heard of the worker, unless something was.
func (w *worker) setSilent(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil && !w.wasAway && w.dead == nil {
		w.wasAway, w.why = true, why
	}
}

// setDead notes that the worker will not be back by itself.
func (w *worker) setDead(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takeDown(why)
	if w.dead == nil {
		w.dead = why
		close(w.up) // everyone who waits shall look again
		w.up = make(chan struct{})
	}
}

func (w *worker) takeDown(why error) {
	w.why = why
	if w.conn == nil {
		return
	}
	w.conn = nil
	w.up = make(chan struct{})
	close(w.down)
	w.since = time.Now()
}

// connection is what calls go through; nil while the worker is away.
func (w *worker) connection() sdk.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conn
}

// away tells since when the worker is away, nil if it is not, and why it will not be back by itself, if that is so. Turned is closed when that
// changes.
func (w *worker) away() (gone *WorkerGoneError, turned <-chan struct{}, dead error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		return nil, w.down, nil
	}
	return &WorkerGoneError{Worker: w.name, Away: time.Since(w.since), Cause: w.why}, w.up, w.dead
}

// presence ends when the worker has been away for as long as the host waits for it.
func (w *worker) presence() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.present
}

// cutIfGone ends the worker's presence once it has been away for that long.
func (w *worker) cutIfGone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil && !w.elsewhere && time.Since(w.since) >= w.graces.Load().gone {
		w.leave()
	}
}

// alive notes that a new session of the plugin may bring the worker back.
func (w *worker) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = nil
}

// WorkerReport describes a worker to people.
type WorkerReport struct {
	Name   string
	Plugin string // empty: the configuration has no such worker any more, though something is on it still
	Info   sdk.WorkerInfo
	Status sdk.Status
	Up     bool
	Why    string // while not up
	Unused bool   // it is not up though it is well, since this host does not use it, for the reason in Why
	Since  time.Time

	// State is what placement makes of it: only a running worker takes new work. Reason says why it is not; empty while it is.
	State  pool.State
	Reason string
	// Drain is what a landing or retiring worker still waits for. Nil: it is neither, or that is not known yet.
	Drain *Drain
	// Owed is what is still to be destroyed on it.
	Owed Owed
}

func (w *worker) report() WorkerReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := WorkerReport{Name: w.name, Plugin: w.plugin, Info: w.info, Status: w.status, Up: w.conn != nil, Since: w.since, Drain: w.waits}
	if w.conn == nil && w.why != nil {
		r.Why, r.Unused = w.whyText(), errors.As(w.why, new(unusedError))
	}
	r.State, r.Reason = w.state()
	return r
}

// state is the worker's as placement shall see it, and why. What an operator wants comes before what happens to it, and an
// absence shorter than stalled is none. The lock is held.
func (w *worker) state() (pool.State, string) {
	if w.orders.state != "" {
		return w.orders.state, w.orders.reason
	}
	if w.unwanted {
		return pool.Cordoned, "the configuration has it no more: it goes at the next reload that finds nothing on it"
	}
	if w.conn == nil && (w.hopeless() || time.Since(w.since) >= w.stalled()) {
		return pool.Stalled, w.whyText()
	}
	if w.half.away(w.stalled()) {
		return pool.Stalled, w.status.Reason
	}
	return pool.Running, ""
}

// hopeless tells whether nobody waits for a worker that is away: it will not be back by itself, or was never there. The lock is held.
func (w *worker) hopeless() bool {
	never := w.wasAway && w.status.Health == sdk.HealthUnknown
	return w.dead != nil || never || errors.As(w.why, new(unusedError))
}

// placement is the worker as placement shall see it; known is whether anything was ever heard of it, removed whether its plugin
// has taken it back. An absence shorter than stalled does not count: calls wait for it.
func (w *worker) placement() (_ pool.Worker, known, removed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := pool.Worker{Name: w.name, Runtime: w.plugin, Platform: w.info.Platform, Team: w.info.Team, Tags: w.info.Tags, Limits: w.block.limits}
	for _, f := range w.status.Features {
		if name, ok := strings.CutPrefix(string(f), sdk.ResourceTypePrefix); ok {
			p.ResourceTypes = append(p.ResourceTypes, name)
		}
		p.Features = append(p.Features, string(f))
	}
	c := w.status.Capacity
	p.Capacity = pool.Resources{CPUMillis: c.CPUMillis, MemoryBytes: c.MemoryBytes, DiskBytes: c.DiskBytes, PIDs: c.PIDs}
	p.Limits.Containers = tighter(p.Limits.Containers, c.Containers)
	p.Limits.Volumes = tighter(p.Limits.Volumes, c.Volumes)
	p.State, p.Reason = w.state()
	w.pause(&p)
	return p, w.conn != nil || w.status.Health != sdk.HealthUnknown || p.State != pool.Running, w.removed || w.pruned
}

// tighter is the smaller of an operator's limit and what a worker says that it can hold; zero is none.
func tighter(limit int, capacity int64) int {
	if capacity <= 0 || capacity > math.MaxInt32 || limit > 0 && int64(limit) < capacity {
		return limit
	}
	return int(capacity)
}

// setInfo notes what its plugin says of the worker.
func (w *worker) setInfo(i sdk.WorkerInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.removed {
		w.since = time.Now() // it came back
	}
	w.said, w.info = i, w.block.over(i)
	w.removed, w.none = false, false
}

// setNone notes that the plugin has no worker of a block's name, since it has nodes perhaps.
func (w *worker) setNone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.none = w.info.Name == "" && w.conn == nil
}

func (w *worker) setRemoved() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = true
}
