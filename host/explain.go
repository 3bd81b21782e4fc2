package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// PlacementState says what an [Explanation] is about.
type PlacementState string

// What is explained.
const (
	PlacementPlaced  PlacementState = "placed"  // it has a worker
	PlacementWaiting PlacementState = "waiting" // every worker that would do is full
	PlacementTurn    PlacementState = "turn"    // as many steps go side by side as may: it comes to be placed when one of them has ended
	PlacementAsked   PlacementState = "asked"   // what would be, if it were asked for now
)

// Explanation says where a container is or could be, and why there and not elsewhere.
type Explanation struct {
	Owner string // empty: of nobody
	State PlacementState

	Worker string        // placed: on which; asked: which is the best now, empty if none takes it
	Held   bool          // its owner had the place already, so nothing was weighed
	Scores []pool.Score  // of Worker, in the order of the chain
	At     time.Time     // placed: when
	Waited time.Duration // placed: before that; waiting, turn: so far

	Position int // waiting, turn: among those who wait, from 1
	Priority int // waiting, turn: its own
	// Reserved is, of one that waits, the worker that takes nobody of the same or a lower priority until it fits there, since too many that
	// came later have passed it; empty: none.
	Reserved string

	// Workers has a verdict on each worker, the best first. Placed: on the others, as things stood then; nil where there were too many
	// to keep, or the record is an older host's.
	Workers []pool.Verdict
	// Err says in words why it would not be placed now; nil if it would.
	Err error
}

// ExplainOwner explains where an owner's container is, or what it waits for. One that has neither is sdk.NotFound.
func (h *Host) ExplainOwner(ctx context.Context, owner string) (*Explanation, error) {
	turns := h.turnWaits() // first: a step whose turn comes meanwhile is found where it is then
	if w, position, ok := h.queue.Find(owner); ok {
		e := &Explanation{Owner: owner, State: PlacementWaiting, Waited: time.Since(w.Since), Position: position, Priority: w.Spec.Priority,
			Reserved: w.Reserved}
		e.Workers, e.Err = h.explainWaiter(ctx, w)
		return e, nil
	}
	var e *Explanation
	err := h.store.View(ctx, func(tx *store.Tx) (err error) {
		e, err = explainPlaced(tx, owner)
		return err
	})
	i := slices.IndexFunc(turns, func(w turnWait) bool { return w.owner == owner })
	if i >= 0 && errors.Is(err, sdk.NotFound) { // else it was placed before, and its run is resumed
		return turns[i].explain(), nil
	}
	return e, err
}

// explainWaiter is [pool.Queue.Explain] that also says what holds the room of full workers.
func (h *Host) explainWaiter(ctx context.Context, w pool.Waiter) ([]pool.Verdict, error) {
	verdicts, err := h.queue.Explain(w)
	failed := h.sayHolders(ctx, verdicts)
	if full, ok := errors.AsType[*pool.FullError](err); ok && failed == nil {
		full.Reasons = verdicts
	}
	return verdicts, err
}

// ExplainRequest explains where a container would be, if it were asked for now. Nothing is made or leased.
func (h *Host) ExplainRequest(ctx context.Context, req ContainerRequest) (*Explanation, error) {
	return h.explainRequest(ctx, req, "")
}

// explainRequest explains a request that may want the worker of what is not there yet.
func (h *Host) explainRequest(ctx context.Context, req ContainerRequest, with string) (*Explanation, error) {
	p, err := req.plan()
	if err != nil {
		return nil, err
	}
	if p, err = h.asIfWithCaches(ctx, p); err != nil {
		return nil, err
	}
	spec, err := h.placementSpec(ctx, req, p, req.Exclude)
	if err != nil {
		return nil, err
	}
	spec.With = cmp.Or(spec.With, with)
	e := &Explanation{State: PlacementAsked, Workers: h.place.Explain(h.index, spec)}
	choice, err := h.place.Choose(h.index, spec)
	if smaller, yes := p.withoutCaches(err); yes {
		spec.Inputs = smaller.wanting
		e.Workers = h.place.Explain(h.index, spec)
		choice, err = h.place.Choose(h.index, spec)
	}
	e.Worker, e.Scores, e.Err = choice.Worker, choice.Scores, err
	return e, nil
}

// ExplainJob is ExplainRequest for each step of a job, by name, without its inputs: where those will be is not known before it runs. A step that runs on another's
// worker is taken to be where that one would be now; one that names a step which the job has not, as no parsed job does, is left out.
func (h *Host) ExplainJob(ctx context.Context, j *job.Job) (map[string]*Explanation, error) {
	out := make(map[string]*Explanation, len(j.Steps))
	for before := -1; len(out) > before; {
		before = len(out)
		for i := range j.Steps {
			s := &j.Steps[i]
			on, known := out[s.With]
			if out[s.Name] != nil || s.With != "" && !known {
				continue // done, or not yet to be
			}
			e, err := h.explainStep(ctx, s, on)
			if err != nil {
				return nil, fmt.Errorf("step %s: %w", s.Name, err)
			}
			out[s.Name] = e
		}
	}
	return out, nil
}

// explainStep explains a step that runs on the worker of another, if on is not nil.
func (h *Host) explainStep(ctx context.Context, s *job.Step, on *Explanation) (*Explanation, error) {
	req := stepRequest(s)
	for _, name := range s.Outputs {
		req.Outputs = append(req.Outputs, Output{Name: name, Path: name})
	}
	if s.Image != nil {
		req.Features = append(req.Features, sdk.FeatureImageVolume)
	}
	if on == nil {
		return h.explainRequest(ctx, req, "")
	}
	e, err := h.explainRequest(ctx, req, on.Worker)
	if err == nil && on.Err != nil {
		e.Worker, e.Scores, e.Err = "", nil, fmt.Errorf("step %s, on whose worker it runs, has none: %w", s.With, on.Err)
	}
	return e, err
}

// explainPlaced reads why a container is where it is.
func explainPlaced(tx *store.Tx, owner string) (*Explanation, error) {
	row, err := tx.ContainerByOwner(owner)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &sdk.Error{Class: sdk.NotFound, Kind: sdk.KindContainer, ID: owner, Message: fmt.Sprintf("%s neither has a container nor waits for one", owner)}
	}
	if err != nil {
		return nil, err
	}
	var r containerRecord
	if err := json.Unmarshal(row.Spec, &r); err != nil {
		return nil, fmt.Errorf("record of container %s: %w", row.ID, err)
	}
	e := &Explanation{Owner: owner, State: PlacementPlaced, Worker: row.Worker, At: row.CreatedAt}
	if p := r.Placed; p != nil {
		e.Held, e.Scores, e.At, e.Waited, e.Workers = p.Held, p.Scores, p.At, p.Waited, p.Others
	}
	return e, nil
}

// Placements explains where the steps of a run were placed, in the order in which they were.
func (r *Records) Placements(ctx context.Context, run string) ([]*Explanation, error) {
	return placements(ctx, r.store, run)
}

func placements(ctx context.Context, st *store.Store, run string) ([]*Explanation, error) {
	var out []*Explanation
	err := st.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Containers(store.ContainerFilter{OwnerPrefix: RunOwner(run, "")})
		if err != nil {
			return err
		}
		out = nil
		for _, row := range rows {
			e, err := explainPlaced(tx, row.Owner)
			if err != nil {
				return err
			}
			out = append(out, e)
		}
		return nil
	})
	return out, err
}
