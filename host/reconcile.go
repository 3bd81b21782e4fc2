package host

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// A reconciler brings one worker in line with what is recorded of it, for as long as the host is open and knows the worker. It alone destroys: whoever wants a thing
// gone notes that in its row, which makes it owed, and may then wait for it. What is owed is tried until it has worked, at once when it becomes
// owed, when somebody asks for it, and when its worker comes back, and else ever less often. Things that are owed go side by side, but a
// container goes before what it mounts, and a clone before what it is a clone of.
type reconciler struct {
	h      *Host
	worker string

	turn chan struct{} // of capacity 1: held by who judges what the worker has
	seen reap.Sights   // of who has the turn

	mu      sync.Mutex
	debts   map[reap.Thing]*debt
	due     map[reap.Kind][]reap.Thing  // to be tried, the first first; some may be paid by now
	trying  map[reap.Kind]int           // under way
	waiting map[reap.Thing][]reap.Thing // what cannot go before a thing
	held    map[reap.Thing]int          // by how many: not to be tried now
	next    time.Time                   // when something is due again that has failed; zero: nothing is
	failed  int                         // tries that have failed
	changed chan struct{}               // closed, and replaced, whenever something was tried
	wake    chan struct{}               // of capacity 1
	started bool
	dropped bool // its worker is forgotten: nothing becomes owed here any more
}

// debt is a thing that is owed: to be destroyed.
type debt struct {
	since  time.Time // when it became so, as far as this host knows
	state  debtState
	again  bool         // somebody has asked for it while it was tried
	err    error        // of the last try
	tries  int          // that have failed
	failed int          // the number of the last of them, among all of its reconciler
	asked  int          // the number of the last before somebody asked for it
	at     time.Time    // of the next try, if it is late
	after  []reap.Thing // what has to go before it, if it is blocked
	back   backoff
}

type debtState int

const (
	debtDue debtState = iota
	debtTrying
	debtLate    // it has failed, and is tried again when its time comes
	debtBlocked // until one of those has gone that have to go before it
)

// atOnce is how many calls destroy things of one kind on a worker at a time.
const atOnce = 20

const (
	lateMost = 30 * time.Second // between two tries, at most
	slowTry  = 30 * time.Second // a try that takes longer goes on, and makes room for others
)

func containerThing(id string) reap.Thing { return reap.Thing{Kind: reap.Container, ID: id} }

func volumeThing(id string) reap.Thing { return reap.Thing{Kind: reap.Volume, ID: id} }

func (h *Host) reconciler(worker string) *reconciler {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.reconcilers[worker]
	if r == nil {
		r = &reconciler{h: h, worker: worker, turn: make(chan struct{}, 1), debts: make(map[reap.Thing]*debt), due: make(map[reap.Kind][]reap.Thing),
			trying: make(map[reap.Kind]int), waiting: make(map[reap.Thing][]reap.Thing), held: make(map[reap.Thing]int), changed: make(chan struct{}), wake: make(chan struct{}, 1)}
		h.reconcilers[worker] = r
	}
	return r
}

// loadDebts makes owed what the state directory says is to be destroyed.
func (h *Host) loadDebts(ctx context.Context) error {
	return h.store.View(ctx, func(tx *store.Tx) error {
		containers, err := tx.Containers(store.ContainerFilter{States: []string{lifecycle.ContainerDestroying}})
		if err != nil {
			return err
		}
		for _, c := range containers {
			h.owe(c.Worker, c.UpdatedAt, containerThing(c.ID))
		}
		volumes, err := tx.Volumes(store.VolumeFilter{States: []string{lifecycle.VolumeDestroying}})
		for _, v := range volumes {
			since := v.DoomedAt
			if since.IsZero() {
				since = h.clock.wall()
			}
			h.owe(v.Worker, since, volumeThing(v.ID))
		}
		return err
	})
}

// owe makes a thing owed, and has it tried at once.
func (h *Host) owe(worker string, since time.Time, t reap.Thing) {
	r := h.reconciler(worker)
	r.mu.Lock()
	for ; r.dropped; r.mu.Lock() {
		r.mu.Unlock()
		h.removeReconciler(r)
		r = h.reconciler(worker)
	}
	defer r.mu.Unlock()
	d := r.debts[t]
	if d == nil {
		d = &debt{since: since, state: debtBlocked}
		r.debts[t] = d
	}
	d.asked = r.failed
	r.hasten(t, d)
	r.start()
}

// dropReconciler forgets that of a worker that is forgotten, unless something is owed there.
func (h *Host) dropReconciler(worker string) {
	r := h.reconciler(worker)
	r.mu.Lock()
	r.dropped = len(r.debts) == 0
	dropped := r.dropped
	r.mu.Unlock()
	if dropped {
		h.removeReconciler(r)
	}
}

func (h *Host) removeReconciler(r *reconciler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reconcilers[r.worker] == r {
		delete(h.reconcilers, r.worker)
	}
}

// hasten has a debt tried at once. The lock is held.
func (r *reconciler) hasten(t reap.Thing, d *debt) {
	switch d.state {
	case debtDue:
		return
	case debtTrying:
		d.again = true
		return
	}
	d.state = debtDue
	r.due[t.Kind] = append(r.due[t.Kind], t)
	r.wakeUp()
}

// start has the reconciler run, from the first debt on until there is none. The lock is held.
func (r *reconciler) start() {
	if !r.started {
		r.started = r.h.spawn(r.run) == nil // else the host closes: the next one finds it in the rows
	}
}

func (r *reconciler) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// back has all that has failed tried at once: the worker was away, and is there.
func (r *reconciler) back() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t, d := range r.debts {
		if d.state == debtLate {
			r.hasten(t, d)
		}
	}
	r.wakeUp()
}

// run tries what is due until nothing is owed, or the host closes.
func (r *reconciler) run() {
	var tries sync.WaitGroup
	defer tries.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		wait, over := r.begin(&tries)
		if over {
			return
		}
		if wait > 0 {
			timer.Reset(wait)
		}
		select {
		case <-r.wake:
		case <-timer.C:
		case <-r.h.ctx.Done():
			return
		}
	}
}

// begin begins to try what is due, as much as there is room for, and tells how long it takes until more is; 0: nothing will be by itself. Over says that
// nothing is owed: who owes something next starts the reconciler anew.
func (r *reconciler) begin(tries *sync.WaitGroup) (wait time.Duration, over bool) {
	var conn sdk.Worker
	w, err := r.h.worker(r.worker)
	if err == nil {
		conn = w.connection()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.debts) == 0 {
		r.started = false
		return 0, true
	}
	if conn == nil || r.h.ctx.Err() != nil { // it is not in the configuration, or wakes this when it is back
		return 0, false
	}
	r.recall()
	for kind := range r.due {
		for len(r.due[kind]) > 0 && r.trying[kind] < atOnce {
			t := r.due[kind][0]
			r.due[kind] = r.due[kind][1:]
			d := r.debts[t]
			if d == nil || d.state != debtDue {
				continue
			}
			if r.held[t] > 0 {
				d.state = debtBlocked
				continue
			}
			d.state = debtTrying
			r.trying[kind]++
			tries.Go(func() { r.try(w, conn, t, d) })
		}
	}
	if r.next.IsZero() {
		return 0, false
	}
	return max(time.Until(r.next), time.Millisecond), false
}

// try tries once to pay a debt.
func (r *reconciler) try(w *worker, conn sdk.Worker, t reap.Thing, d *debt) {
	leave := sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.trying[t.Kind]--
		r.wakeUp()
	})
	slow := time.AfterFunc(cmp.Or(r.h.opts.slowTry, slowTry), leave)
	defer slow.Stop()
	err := r.pay(w, conn, t, leave)
	leave()
	r.tried(w, t, d, err)
}

// recall makes due what is late and whose time has come. The lock is held.
func (r *reconciler) recall() {
	now := time.Now()
	if r.next.IsZero() || now.Before(r.next) {
		return
	}
	r.next = time.Time{}
	for t, d := range r.debts {
		switch {
		case d.state != debtLate:
		case d.at.After(now):
			r.dueAt(d.at)
		default:
			r.hasten(t, d)
		}
	}
}

// dueAt notes that something is due at a time. The lock is held.
func (r *reconciler) dueAt(at time.Time) {
	if r.next.IsZero() || at.Before(r.next) {
		r.next = at
	}
}

// tried notes what a try came to.
func (r *reconciler) tried(w *worker, t reap.Thing, d *debt, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.wakeUp()
	blocked, _ := errors.AsType[*blockedError](err)
	if err == nil && d.tries > 0 {
		r.h.log.Info("destroyed at last", "kind", t.Kind, "id", t.ID, "worker", r.worker, "tries", d.tries+1)
	}
	switch {
	case r.debts[t] != d: // it is settled already
	case err == nil:
		r.paid(t)
	case r.h.ctx.Err() != nil: // the next host finds it in the rows
		d.state = debtLate
	case blocked != nil:
		d.state, d.after = debtBlocked, blocked.by
		known := false
		for _, by := range blocked.by {
			if r.debts[by] != nil {
				known = true
				r.waiting[by] = append(r.waiting[by], t)
			}
		}
		if !known { // it has gone just now, or is not to be destroyed itself
			r.late(d, nil)
		}
	default:
		if d.tries == 0 {
			r.h.log.Warn("something stays on a worker; trying again", "kind", t.Kind, "id", t.ID, "worker", r.worker, "error", err)
		}
		r.failed++
		d.tries, d.failed, d.err = d.tries+1, r.failed, err
		r.late(d, err)
		r.h.queue.Nudge() // another may have to go in its place
		if errors.Is(err, sdk.Unavailable) {
			w.lookNow()
		}
	}
	if d.again && (d.state == debtLate || d.state == debtBlocked) {
		d.again = false
		r.hasten(t, d)
	}
	r.tell()
}

// tell wakes who waits for something. The lock is held.
func (r *reconciler) tell() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// late puts the next try of a debt off. The lock is held.
func (r *reconciler) late(d *debt, err error) {
	d.state = debtLate
	d.at = time.Now().Add(d.back.within(lateMost, err))
	r.dueAt(d.at)
}

// paid ends a debt. The lock is held.
func (r *reconciler) paid(t reap.Thing) {
	delete(r.debts, t)
	for _, other := range r.waiting[t] {
		if d := r.debts[other]; d != nil && d.state == debtBlocked {
			r.hasten(other, d)
		}
	}
	delete(r.waiting, t)
}

// settled notes that a thing is not to be destroyed any more, since it is gone or shall stay.
func (h *Host) settled(worker string, t reap.Thing) {
	r := h.reconciler(worker)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.debts[t] == nil {
		return
	}
	r.paid(t) // a try that is under way comes too late: its worker may be another one by now, and never answer
	r.tell()
}

// hold keeps a thing that becomes owed from being tried, until it is let go.
func (r *reconciler) hold(t reap.Thing) (letGo func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[t]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.held[t]--; r.held[t] > 0 {
			return
		}
		delete(r.held, t)
		if d := r.debts[t]; d != nil {
			r.hasten(t, d)
		}
	}
}
