package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// orders are what an operator wants of a worker; the zero value is nothing. They are in its row, and hold until others are given.
type orders struct {
	state  pool.State // Cordoned, Landing, Landed, Retiring or Retired
	reason string     // for people
}

// ordersOf are those of a worker's record.
func ordersOf(row store.Worker) orders { return orders{pool.State(row.Orders), row.Reason} }

// lasting tells whether the orders hold though the configuration has their worker no more, and so if it is put back: not those of a worker that
// was not to come back.
func (o orders) lasting() bool {
	return o.state != "" && o.state != pool.Retiring && o.state != pool.Retired
}

// CordonWorker keeps new work from a worker; what runs there goes on. A drain that was under way stops. Idempotent, as all orders
// are: giving one again changes at most its reason. Orders outlive the host. A worker that is not known is sdk.NotFound.
func (h *Host) CordonWorker(ctx context.Context, name, reason string) error {
	return h.order(ctx, name, orders{pool.Cordoned, reason})
}

// UncordonWorker takes all orders back: the worker takes new work again, unless something else keeps it from that, which its [WorkerReport] tells. One that the
// configuration has no more takes none until it is put back, and then does.
func (h *Host) UncordonWorker(ctx context.Context, name string) error {
	return h.order(ctx, name, orders{})
}

// LandWorker begins to empty a worker that will come back, and returns: it takes no new work, what runs there ends by itself, what
// steps of runs under way still need of it is copied to other workers, and then it has landed. [WorkerReport.Drain] tells what it waits
// for, and [Host.AwaitDrained] waits. For one that has been away for as long as the host waits for a worker, nothing is waited for: what ran
// there is lost. What is recorded there stays, and should it come back, containers that it still has can be used by their owners.
func (h *Host) LandWorker(ctx context.Context, name, reason string) error {
	return h.order(ctx, name, orders{pool.Landing, reason})
}

// RetireWorker is LandWorker for a worker that will not come back: every artifact that is only there is copied, and what is left on it
// is destroyed. Of one that has been away for as long as the host waits for a worker, only the records go; of one that the configuration has no more, or whose name is known to
// lead to another place than what is recorded, they go at once.
func (h *Host) RetireWorker(ctx context.Context, name, reason string) error {
	return h.order(ctx, name, orders{pool.Retiring, reason})
}

func (h *Host) order(ctx context.Context, name string, o orders) error {
	if h.stranger(name) {
		return h.orderStranger(ctx, name, o)
	}
	w, err := h.knownWorker(name)
	if err != nil && (o.state == "" || o.state == pool.Retiring) && h.hasKeptOrders(name) {
		if err := h.dropOrders(ctx, name); err != nil {
			return err
		}
		if w, err = h.knownWorker(name); err != nil {
			return nil
		} // else it has been put back meanwhile, with the orders that it had
	}
	if err != nil {
		return err
	}
	w.ordering.Lock()
	defer w.ordering.Unlock()
	if now := w.ordered().state; now == pool.Landed && o.state == pool.Landing || now == pool.Retired && o.state == pool.Retiring {
		return nil // done already
	}
	if w.drain != nil {
		w.drain.stop()
		w.drain = nil
	}
	if err := h.putOrders(ctx, name, o); err != nil { // the old ones stand, and their drain goes on
		return errors.Join(fmt.Errorf("worker %s: %w", name, err), h.startDrain(w))
	}
	w.obey(o)
	if o.state == pool.Retiring {
		w.giveUp()
	}
	h.tellPlacement(w)
	return h.startDrain(w)
}

// putOrders keeps what an operator wants. It survives a loss of power.
func (h *Host) putOrders(ctx context.Context, name string, o orders) error {
	return h.store.Release(ctx, store.PowerSafe, func(tx *store.Tx) error {
		row, err := tx.Worker(name)
		if errors.Is(err, store.ErrNotFound) {
			row, err = store.Worker{ID: name}, nil
		}
		if err != nil {
			return err
		}
		row.Orders, row.Reason, row.OrderedAt = string(o.state), o.reason, time.Now()
		return tx.PutWorker(row)
	})
}

// hasKeptOrders tells whether there are orders of a worker that the configuration has no more.
func (h *Host) hasKeptOrders(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, stranger := h.strangers[name]
	return h.workers[name] == nil && !stranger && h.ordered[name].state != ""
}

// dropOrders forgets a worker of which nothing is left but its orders.
func (h *Host) dropOrders(ctx context.Context, name string) error {
	err := h.store.Release(ctx, store.PowerSafe, func(tx *store.Tx) error { return ignoreNotFound(tx.DeleteWorker(name)) })
	if err != nil {
		return fmt.Errorf("worker %s: %w", name, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ordered, name)
	return nil
}

// loadOrders reads which workers there were before this host began, and what operators wanted of them.
func (h *Host) loadOrders(ctx context.Context) (seen []string, ordered map[string]orders, err error) {
	ordered = make(map[string]orders)
	err = h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Workers()
		for _, row := range rows {
			seen = append(seen, row.ID)
			if row.Orders != "" {
				ordered[row.ID] = ordersOf(row)
			}
		}
		return err
	})
	return seen, ordered, err
}

// knownWorker is worker, with the names that there are in its error.
func (h *Host) knownWorker(name string) (*worker, error) {
	var names []string
	for _, w := range h.sortedWorkers() {
		if w.forgotten() {
			continue
		}
		if w.name == name {
			return w, nil
		}
		names = append(names, w.name)
	}
	message := fmt.Sprintf("there is no worker %q: this host knows none", name)
	if len(names) > 0 {
		message = fmt.Sprintf("there is no worker %q: %s", name, Choices(name, names, "those that this host knows are", "slipway workers"))
	}
	return nil, &sdk.Error{Class: sdk.NotFound, Kind: sdk.KindWorker, ID: name, Message: message}
}

func (w *worker) ordered() orders {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.orders
}

func (w *worker) obey(o orders) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orders, w.waits = o, nil
}
