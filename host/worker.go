package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/sdk"
)

// worker is one worker across all the sessions of its plugin. While its conn is set, calls go through; while not, they
// wait until it is back, or until it has been away for too long.
type worker struct {
	name   string
	plugin string
	goneIn time.Duration   // how long to wait for a worker that is away
	closed <-chan struct{} // when the host closes, all waiting ends

	placing sync.Mutex   // one at a time tells placement
	left    atomic.Bool  // something could not be destroyed: the monitor tries again
	settled bool         // what an earlier host left on it is settled; of its monitor
	unknown reap.Unknown // what it lists without a row; of the reaper

	mu      sync.Mutex
	info    sdk.WorkerInfo
	status  sdk.Status
	conn    sdk.Worker    // nil: away
	wasAway bool          // it was found away, ever
	up      chan struct{} // closed while conn is set
	down    chan struct{} // closed while conn is not set
	why     error         // while away: what happened
	dead    error         // while away: why it will not be back by itself; ends all waiting
	since   time.Time     // of the last change between up and away
	removed bool          // its plugin does not tell it any more
	probe   chan struct{} // of capacity 1: asks the monitor to look now
}

func newWorker(name, plugin string, goneIn time.Duration, closed <-chan struct{}) *worker {
	w := &worker{name: name, plugin: plugin, goneIn: goneIn, closed: closed, since: time.Now(), probe: make(chan struct{}, 1),
		up: make(chan struct{}), down: make(chan struct{}), why: errors.New("it has not answered yet")}
	close(w.down)
	return w
}

// call makes one idempotent call on the worker, again each time that the worker was away meanwhile.
func (w *worker) call(ctx context.Context, what string, f func(context.Context, sdk.Worker) error) error {
	return w.callWithin(ctx, w.goneIn, what, f)
}

// destroyPatience is how long destroying waits for a worker that is away: longer than a plugin takes to restart. What is not
// destroyed then is by the monitor, once the worker is back, and nobody needs to wait for it.
const destroyPatience = 2 * time.Second

// callWithin is call for a worker that is away no longer than within.
func (w *worker) callWithin(ctx context.Context, within time.Duration, what string, f func(context.Context, sdk.Worker) error) error {
	var b backoff
	var failing time.Time
	for {
		conn, err := w.await(ctx, within, false)
		if err == nil {
			err = f(ctx, conn)
		}
		if err == nil {
			return nil
		}
		if conn == nil || !errors.Is(err, sdk.Unavailable) || ctx.Err() != nil {
			return fmt.Errorf("%s on %s: %w", what, w.name, err)
		}
		w.failed(conn, err)
		if failing.IsZero() {
			failing = time.Now()
		}
		if away := time.Since(failing); away >= within { // though its status may say otherwise
			return fmt.Errorf("%s on %s: %w", what, w.name, &WorkerGoneError{Worker: w.name, Away: away, Cause: err})
		}
		if err := b.wait(ctx, err); err != nil {
			return fmt.Errorf("%s on %s: %w", what, w.name, err)
		}
	}
}

// failed notes that a call found the worker away, and has it looked at.
func (w *worker) failed(conn sdk.Worker, err error) {
	w.setAway(conn, err)
	w.lookNow()
}

// backoff spaces the repetitions of a call.
type backoff struct{ next time.Duration }

// wait waits before the next repetition: for as long as err says, else a little longer each time.
func (b *backoff) wait(ctx context.Context, err error) error {
	b.next = min(max(2*b.next, probeFirst), statusEvery)
	d := b.next
	if e, ok := errors.AsType[*sdk.Error](err); ok && e.RetryAfter > 0 {
		d = min(e.RetryAfter, statusEvery) // a plugin's hint, not its command
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acquire gives the connection, once there is one. It ends with ctx, with a WorkerGoneError, or with the reason why the
// worker will not be back by itself.
func (w *worker) acquire(ctx context.Context) (sdk.Worker, error) {
	return w.await(ctx, w.goneIn, false)
}

// acquirePatiently is acquire for what runs already: that the worker will not be back by itself is no reason to give up before its
// time, since an operator may bring it back.
func (w *worker) acquirePatiently(ctx context.Context) (sdk.Worker, error) {
	return w.await(ctx, w.goneIn, true)
}

func (w *worker) await(ctx context.Context, within time.Duration, patient bool) (sdk.Worker, error) {
	for {
		w.mu.Lock()
		conn, up, why, dead, since := w.conn, w.up, w.why, w.dead, w.since
		w.mu.Unlock()
		if conn != nil {
			return conn, nil
		}
		if dead != nil && !patient {
			return nil, dead
		}
		patience := time.NewTimer(time.Until(since.Add(within)))
		select {
		case <-up:
			patience.Stop()
		case <-ctx.Done():
			patience.Stop()
			return nil, ctx.Err()
		case <-w.closed:
			patience.Stop()
			return nil, ErrClosed
		case <-patience.C:
			w.mu.Lock()
			away := w.conn == nil && w.since.Equal(since)
			w.mu.Unlock()
			if away {
				return nil, &WorkerGoneError{Worker: w.name, Away: time.Since(since), Cause: why}
			}
		}
	}
}

// lookNow asks the monitor for a status at once.
func (w *worker) lookNow() {
	select {
	case w.probe <- struct{}{}:
	default: // asked already
	}
}

func (w *worker) setUp(conn sdk.Worker, s sdk.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = s
	if w.conn == conn {
		return
	}
	if w.conn == nil {
		close(w.up)
		w.down = make(chan struct{})
		w.since = time.Now()
	}
	w.conn, w.why, w.dead = conn, nil, nil
}

// setAway notes that conn does not work; an older conn than the present one changes nothing. A nil conn stands for
// whichever there is.
func (w *worker) setAway(conn sdk.Worker, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if conn != nil && w.conn != nil && w.conn != conn {
		return
	}
	w.wasAway = true
	w.takeDown(why)
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

// alive notes that a new session of the plugin may bring the worker back.
func (w *worker) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = nil
}

// WorkerReport describes a worker to people.
type WorkerReport struct {
	Name   string
	Plugin string
	Info   sdk.WorkerInfo
	Status sdk.Status
	Up     bool
	Why    string // while not up
	Since  time.Time
}

func (w *worker) report() WorkerReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := WorkerReport{Name: w.name, Plugin: w.plugin, Info: w.info, Status: w.status, Up: w.conn != nil, Since: w.since}
	if w.conn == nil && w.why != nil {
		r.Why = w.why.Error()
	}
	return r
}

// placement is the worker as placement shall see it; known is whether anything was ever heard of it, removed whether its plugin
// has taken it back. An absence shorter than stalled does not count: calls wait for it.
func (w *worker) placement(stalled time.Duration) (_ pool.Worker, known, removed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := pool.Worker{Name: w.name, Runtime: w.plugin, Platform: w.info.Platform, Team: w.info.Team, Tags: w.info.Tags, State: pool.Running}
	for _, f := range w.status.Features {
		p.Features = append(p.Features, string(f))
	}
	never := w.wasAway && w.status.Health == sdk.HealthUnknown // no call waits for what was never there
	if w.conn == nil && (w.dead != nil || never || time.Since(w.since) >= stalled) {
		p.State, p.Reason = pool.Stalled, w.why.Error()
	}
	return p, w.conn != nil || w.status.Health != sdk.HealthUnknown || p.State == pool.Stalled, w.removed
}

func (w *worker) setInfo(i sdk.WorkerInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.info, w.removed = i, false
}

func (w *worker) setRemoved() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = true
}
