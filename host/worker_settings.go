package host

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/sdk"
)

// graces are the configuration's patience with workers. They change as a whole: who waits goes on by those that it began with.
type graces struct {
	gone     time.Duration // how long to wait for a worker that is away
	stalled  time.Duration // away for so long, it takes no new work
	patience patience      // how long a call may go on without an answer or progress
}

// goneIn is how long the worker is waited for while it is away: without an end while its name leads elsewhere, since nothing is known of the place that it was.
func (w *worker) goneIn() time.Duration {
	if w.isElsewhere() {
		return math.MaxInt64
	}
	return w.graces.Load().gone
}

func (w *worker) stalled() time.Duration { return w.graces.Load().stalled }

func (w *worker) patienceFor(what string) time.Duration { return w.graces.Load().patience(what) }

// graces are those of the configuration as it is now.
func (h *Host) graces() *graces {
	t := h.cfg().Timing
	g := &graces{gone: t.WorkerGone, stalled: t.Stalled, patience: patienceOf(cmp.Or(t.Answer, DefaultAnswer))}
	if h.opts.patience != nil {
		g.patience = h.opts.patience
	}
	return g
}

// workerBlock is what the operator's block says of a worker that concerns only the host. Its plugin need not know.
type workerBlock struct {
	platform, team string
	tags           []string
	limits         pool.Limits
	ephemeral      bool
}

func blockOf(b config.Worker) workerBlock {
	return workerBlock{b.Platform, b.Team, b.Tags, pool.Limits(b.Limits), b.Ephemeral}
}

// over lays the block over what the plugin says of the worker.
func (b workerBlock) over(info sdk.WorkerInfo) sdk.WorkerInfo {
	info.Platform = cmp.Or(b.platform, info.Platform)
	info.Team = cmp.Or(b.team, info.Team)
	info.Tags = slices.Clone(info.Tags)
	for _, t := range b.tags {
		if !slices.Contains(info.Tags, t) {
			info.Tags = append(info.Tags, t)
		}
	}
	return info
}

// setBlock takes another block, which the operator does not want any more perhaps.
func (w *worker) setBlock(b workerBlock, unwanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.block, w.info, w.unwanted = b, b.over(w.said), unwanted
}

// endsWithPlugin tells whether what is on the worker ends with its plugin's process.
func (w *worker) endsWithPlugin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status.Has(sdk.FeatureVolatile)
}

// hold keeps new work from the worker for a moment, for a reason; with none it takes work again.
func (w *worker) hold(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = reason
}
