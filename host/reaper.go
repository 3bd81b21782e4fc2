package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
)

const (
	lookTime = time.Minute // bounds a look at one worker

	forgetEvery = 10 * time.Minute // at most: it reads much and finds little
)

// ReapAction is what is done with a thing.
type ReapAction string

// The actions of the reaper.
const (
	ReapKeep    = ReapAction(reap.Keep)
	ReapDestroy = ReapAction(reap.Destroy) // on the worker, then its record
	ReapLose    = ReapAction(reap.Lose)    // the worker does not have it any more: only the record changes
)

// ReapVerdict is what became, or becomes, of one thing.
type ReapVerdict struct {
	Worker string // "": it is on none
	Kind   string // "container", "volume", "artifact" or "run"
	ID     string
	Action ReapAction
	Reason string
	At     time.Time // if kept: when it goes unless something changes; zero: it is in use
	Err    error     // why it could not be done

}

// ReapReport is what one look at everything came to.
type ReapReport struct {
	Verdicts []ReapVerdict     // in the order in which things go; what stays is there too
	Away     map[string]string // workers that could not be asked, and why: nothing of theirs is judged
}

// reap takes away what nobody uses, and forgets what is over for long, until the host closes. A worker that is away or hangs holds up only
// itself.
func (h *Host) reap() {
	var forget time.Duration
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	if err := h.removeStray(h.ctx); err != nil && h.ctx.Err() == nil {
		h.log.Warn("output of processes that are forgotten stays for now", "error", err)
	}
	for {
		changed := h.settings.changes()
		every := h.cfg().Reaping.OrDefault()
		tick := time.NewTimer(every.Every)
		select {
		case <-tick.C:
		case <-changed:
			tick.Stop()
			continue
		case <-h.ctx.Done():
			tick.Stop()
			return
		}
		report := func(v []ReapVerdict, err error) {
			h.logReaped(v)
			for _, v := range v {
				err = errors.Join(err, v.Err)
			}
			if err != nil && h.ctx.Err() == nil {
				h.log.Warn("reaping failed; trying again", "error", err)
			}
		}
		if err := h.stampRuns(h.ctx, h.runsUnderWay()...); err != nil {
			report(nil, fmt.Errorf("note which runs are under way: %w", err))
		}
		report(h.reapRuns(h.ctx, false)) // neither this nor the next asks a worker for anything
		report(h.reapArtifacts(h.ctx, false))
		for _, w := range h.sortedWorkers() {
			s := h.reconciler(w.name)
			select {
			case s.turn <- struct{}{}:
			default:
				continue // the last sweep is under way still
			}
			sweeps.Go(func() {
				defer func() { <-s.turn }()
				report(h.reapWorker(h.ctx, w, s, false))
			})
		}
		if now := h.clock.steady(); now >= forget {
			forget = now + min(forgetEvery, every.Records/10)
			if err := h.forgetOld(h.ctx); err != nil {
				report(nil, err)
			}
			if err := h.removeStray(h.ctx); err != nil {
				report(nil, fmt.Errorf("remove the output of what is forgotten: %w", err))
			}
		}
	}
}

func (h *Host) logReaped(verdicts []ReapVerdict) {
	for _, v := range verdicts {
		if v.Action != ReapKeep && v.Err == nil {
			h.log.Info("reaped", "kind", v.Kind, "id", v.ID, "worker", v.Worker, "action", v.Action, "reason", v.Reason)
		}
	}
}

// Reap looks at everything once and takes away what nobody uses; dry, it only says what it would do. What is only missing or unknown since
// this look has its grace before it: so it takes two of them, unless the host looks by itself all the time.
func (h *Host) Reap(ctx context.Context, dry bool) (*ReapReport, error) {
	out := &ReapReport{Away: make(map[string]string)}
	for _, f := range []func(context.Context, bool) ([]ReapVerdict, error){h.reapRuns, h.reapArtifacts} {
		verdicts, err := f(ctx, dry)
		if err != nil {
			return nil, err
		}
		out.Verdicts = append(out.Verdicts, verdicts...)
	}
	workers := h.sortedWorkers()
	verdicts := make([][]ReapVerdict, len(workers))
	failed := make([]error, len(workers))
	var sweeps sync.WaitGroup
	for i, w := range workers {
		sweeps.Go(func() {
			s := h.reconciler(w.name)
			select {
			case s.turn <- struct{}{}:
				defer func() { <-s.turn }()
				verdicts[i], failed[i] = h.reapWorker(ctx, w, s, dry)
			case <-ctx.Done():
				failed[i] = ctx.Err()
			}
		})
	}
	sweeps.Wait()
	for i, w := range workers {
		out.Verdicts = append(out.Verdicts, verdicts[i]...)
		if failed[i] != nil {
			out.Away[w.name] = failed[i].Error()
		}
	}
	return out, ctx.Err()
}

// reapWorker looks at a worker, and sweeps it unless dry. The caller has its turn.
func (h *Host) reapWorker(ctx context.Context, w *worker, s *reconciler, dry bool) ([]ReapVerdict, error) {
	if r := w.report(); !r.Up {
		return nil, errors.New(cmp.Or(r.Why, "it has not answered yet"))
	}
	if w.withoutContainers() { // what it has cannot be listed now
		return nil, errors.New(w.report().Status.Reason)
	}
	lctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	look, err := h.lookAt(lctx, w, true)
	if err != nil {
		return nil, err
	}
	look.Seen = s.seen
	verdicts, seen := reap.Mark(look)
	s.seen = seen
	out := make([]ReapVerdict, 0, len(verdicts))
	for _, v := range verdicts {
		out = append(out, ReapVerdict{Worker: w.name, Kind: string(v.Kind), ID: v.ID, Action: ReapAction(v.Action), Reason: v.Reason, At: v.At})
	}
	if !dry {
		h.sweep(ctx, w, verdicts, out)
	}
	return out, nil
}

// sweep does what the verdicts say, rank by rank, and writes to out, which is parallel to them, what failed, and what stays since it has
// changed. What stays though it should have gone keeps what it is made of.
func (h *Host) sweep(ctx context.Context, w *worker, verdicts []reap.Verdict, out []ReapVerdict) {
	stuck, changed := make(map[reap.Thing]bool), make(map[reap.Thing]bool)
	for from := 0; from < len(verdicts); {
		to := from
		for to < len(verdicts) && verdicts[to].Rank == verdicts[from].Rank && verdicts[to].Kind == verdicts[from].Kind {
			to++
		}
		lanes := make(chan struct{}, atOnce)
		var group sync.WaitGroup
		for i := from; i < to; i++ {
			v := verdicts[i]
			if v.Action == reap.Keep {
				continue
			}
			if out[i].Err = ctx.Err(); out[i].Err != nil {
				continue
			}
			if j := slices.IndexFunc(v.After, func(t reap.Thing) bool { return changed[t] }); j >= 0 {
				out[i].Action, out[i].Reason = ReapKeep, fmt.Sprintf("%s %s needs it; else it would go: %s", v.After[j].Kind, v.After[j].ID, v.Reason)
				changed[v.Thing] = true
				continue
			}
			if j := slices.IndexFunc(v.After, func(t reap.Thing) bool { return stuck[t] }); j >= 0 {
				out[i].Err = fmt.Errorf("%s %s, which is made of it, could not be destroyed", v.After[j].Kind, v.After[j].ID)
				continue
			}
			lanes <- struct{}{}
			group.Go(func() {
				defer func() { <-lanes }()
				out[i].Err = h.carryOut(ctx, w, v)
			})
		}
		group.Wait()
		for i := from; i < to; i++ {
			if errors.Is(out[i].Err, errChanged) {
				out[i].Action, out[i].Err = ReapKeep, nil
				out[i].Reason = fmt.Sprintf("%v, and is judged anew; else it would go: %s", errChanged, verdicts[i].Reason)
				changed[verdicts[i].Thing] = true
			}
			stuck[verdicts[i].Thing] = out[i].Err != nil
		}
		from = to
	}
}

// errChanged: it is not as it was when it was judged. The next look judges anew.
var errChanged = errors.New("it has changed meanwhile")

// carryOut does what a verdict says; errChanged: it does not hold any more.
func (h *Host) carryOut(ctx context.Context, w *worker, v reap.Verdict) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	switch {
	case v.Action == reap.Lose && v.Kind == reap.Container:
		return h.loseContainer(ctx, v.ID, v.Reason)
	case v.Action == reap.Lose:
		return h.loseVolume(ctx, w, v.ID)
	case v.Kind == reap.Container:
		return h.reapContainer(ctx, w, v.ID)
	}
	return h.reapVolume(ctx, w, v.ID)
}

// ExplainReap tells what becomes of everything that an id or a name stands for: a container, a volume, an artifact, a run, or an owner and
// what it holds. What is not known is an error that says so.
func (h *Host) ExplainReap(ctx context.Context, id string) ([]ReapVerdict, error) {
	report, err := h.Reap(ctx, true)
	if err != nil {
		return nil, err
	}
	var names []string
	err = h.store.View(ctx, func(tx *store.Tx) error {
		names, err = standsFor(tx, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []ReapVerdict
	for _, v := range report.Verdicts {
		if slices.Contains(names, v.ID) {
			out = append(out, v)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	if why, err := h.explainRecord(ctx, id); why != nil || err != nil {
		return why, err
	}
	if len(report.Away) > 0 {
		return nil, fmt.Errorf("nothing is known of %s, and these workers could not be asked: %q", id, slices.Sorted(maps.Keys(report.Away)))
	}
	return nil, &UnknownThingError{ID: id}
}

// UnknownThingError says that an id or a name stands for nothing.
type UnknownThingError struct{ ID string }

func (e *UnknownThingError) Error() string {
	return fmt.Sprintf("there is no container, volume, artifact, run or owner %s: see slipway gc --dry-run", e.ID)
}
