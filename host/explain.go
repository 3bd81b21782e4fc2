package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

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

	Position int // waiting, turn: among those who wait, from 1; asked: the place that it would have in the queue, zero: it would not wait for a worker
	Priority int // waiting, turn, asked: its own
	// Turn is, of one that is asked for, the place that it would have among those who wait for their turn; zero: it would have its turn at once.
	Turn int
	// Before is, of one that is asked for and would wait, who would be served before it: their owners, the first [maxBefore] of them. Where it is
	// asked for a team, [pool.AnotherTeams] stands for each that is another one's.
	Before []string
	// Copies are, of one that is asked for, what would have to be brought to Worker.
	Copies []Copy

	// Reserved is, of one that waits, the worker that takes nobody of the same or a lower priority who would be in its way until it fits
	// there, since too many that came later have passed it; empty: none. ReservedUntil is when that ends at the latest, and InTheWay who has, on that
	// worker, of what there is too little for it.
	Reserved      string
	ReservedUntil time.Time
	InTheWay      pool.Holders

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
		e, err := h.explainWaiter(ctx, w, position)
		if err == nil {
			e.Workers, e.Err, err = h.explainWait(ctx, w, "") // who asks for an owner names no team
		}
		return e, err
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

// ExplainRequest explains where a container would be, if it were asked for now. Nothing is made or leased.
func (h *Host) ExplainRequest(ctx context.Context, req ContainerRequest) (*Explanation, error) {
	return h.explainRequest(ctx, req, "", nil)
}

// explainRequest explains a request that may want the worker of what is not there yet, and contents of which a job says more, by the ids of their artifacts.
func (h *Host) explainRequest(ctx context.Context, req ContainerRequest, with string, known map[string]jobContent) (*Explanation, error) {
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
	for i := range spec.Inputs {
		spec.Inputs[i].On = known[spec.Inputs[i].Key].on
	}
	spec.With = cmp.Or(spec.With, with)
	e := &Explanation{State: PlacementAsked, Priority: req.Priority, Workers: h.place.Explain(h.index, spec)}
	choice, err := h.place.Choose(h.index, spec)
	if smaller, yes := p.withoutCaches(err); yes {
		p, spec.Inputs = smaller, smaller.wanting
		e.Workers = h.place.Explain(h.index, spec)
		choice, err = h.place.Choose(h.index, spec)
	}
	e.Worker, e.Scores, e.Err = choice.Worker, choice.Scores, err
	switch {
	case err == nil:
		e.Copies, err = h.wouldCopy(ctx, e.Worker, req, p, known)
		return e, err
	case errors.As(err, new(*pool.FullError)):
		before := h.queue.Before(spec)
		e.Position = len(before) + 1
		for _, w := range before[:min(len(before), maxBefore)] {
			e.Before = append(e.Before, pool.OwnerSeenBy(spec.Team, w.Owner, w.Team()))
		}
	}
	return e, nil
}

// maxBefore bounds how many are named who would be served before one.
const maxBefore = 16

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
