package host

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/reap"
)

// Owed is what is to be destroyed on a worker and is there still, as far as the host knows. It is tried until it works.
type Owed struct {
	Containers, Volumes int
	Since               time.Time // that of the oldest, as far as this host knows; zero: nothing is owed
	Why                 string    // why the last try of one of them failed; empty: none has failed
}

// None tells whether nothing is owed.
func (o Owed) None() bool { return o.Containers == 0 && o.Volumes == 0 }

// String tells people what is owed, but not since when.
func (o Owed) String() string {
	text := ""
	if o.Containers > 0 {
		text = plural(o.Containers, "container")
	}
	if o.Volumes > 0 {
		if text != "" {
			text += " and "
		}
		text += plural(o.Volumes, "volume")
	}
	if text == "" {
		return "nothing is to be destroyed"
	}
	if text += " still to be destroyed"; o.Why != "" {
		text += ": " + o.Why
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// AwaitOwed waits until all that is to be destroyed on workers has been tried, and gives what is still owed then by worker: to one that is away, or would
// not do it. It is for programs that are about to close the host, so that they leave nothing to the next that could go now.
func (h *Host) AwaitOwed(ctx context.Context) map[string]Owed {
	var waits sync.WaitGroup
	for name, r := range h.allReconcilers() {
		waits.Go(func() { _ = h.awaitGone(ctx, name, destroyPatience, r.askAll()...) }) // what it could not do is owed
	}
	waits.Wait()
	return h.Owed()
}

// Owed is what is to be destroyed, by worker: also on such as the configuration does not have any more. Workers that owe nothing are not in it.
func (h *Host) Owed() map[string]Owed {
	out := make(map[string]Owed)
	for name, r := range h.allReconcilers() {
		if o := r.owed(); !o.None() {
			out[name] = o
		}
	}
	return out
}

func (h *Host) allReconcilers() map[string]*reconciler {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.reconcilers)
}

// askAll has all that is owed tried at once, and lists it.
func (r *reconciler) askAll() []reap.Thing {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]reap.Thing, 0, len(r.debts))
	for t, d := range r.debts {
		out = append(out, t)
		d.asked = r.failed
		r.hasten(t, d)
	}
	return out
}

// stuck is how many things of a kind are owed that could not be destroyed when it was tried last, or wait for such a one.
func (r *reconciler) stuck(kind reap.Kind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.debts {
		if t.Kind != kind {
			continue
		}
		if _, d := r.obstacle(t); d.err != nil {
			n++
		}
	}
	return n
}

// owed tells what is to be destroyed on the worker.
func (r *reconciler) owed() (out Owed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := 0
	for t, d := range r.debts {
		if t.Kind == reap.Container {
			out.Containers++
		} else {
			out.Volumes++
		}
		if out.Since.IsZero() || d.since.Before(out.Since) {
			out.Since = d.since
		}
		if d.failed > last {
			last, out.Why = d.failed, d.err.Error()
		}
	}
	return out
}
