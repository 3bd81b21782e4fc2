package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// placed is why a container is where it is, as its record keeps it.
type placed struct {
	Worker string
	Held   bool         // its owner had the place already, so nothing was weighed
	Scores []pool.Score // of the chosen worker, in the order of the chain
	At     time.Time
	Waited time.Duration
	Others []pool.Verdict // on the other workers; nil where there were more than maxVerdicts
}

// maxVerdicts is how many workers a record says why not of.
const maxVerdicts = 256

// claims are what a container's lease takes of its worker besides a place, for as long as the container is there. What it claims of volumes
// is over once they are made: then they are there.
type claims struct {
	Resources pool.Resources
}

// placementSpec says what a request asks of its worker.
func (h *Host) placementSpec(ctx context.Context, req ContainerRequest, p plan, exclude map[string]string) (pool.Spec, error) {
	spec := pool.Spec{Team: req.Team, Platform: req.Platform, Runtime: req.Runtime, Tags: req.Tags, Kind: req.Kind, Inputs: p.wanting,
		Volumes: p.ownVolumes(), Resources: req.Resources, ResourceType: p.resourceType, Exclude: exclude,
		Priority: req.Priority, WaitLimit: req.WaitLimit}
	for _, f := range p.needs {
		spec.Features = append(spec.Features, string(f))
	}
	if req.With == "" {
		return spec, nil
	}
	var err error
	spec.With, err = h.workerOfOwner(ctx, req.With)
	return spec, err
}

// workerOfOwner is the worker that an owner's container is on, or will be.
func (h *Host) workerOfOwner(ctx context.Context, owner string) (string, error) {
	row, err := h.containerByOwner(ctx, owner)
	if err == nil {
		return row.Worker, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	if l, ok := h.index.Held(owner); ok {
		return l.Worker, nil
	}
	return "", &sdk.Error{Class: sdk.NotFound, Kind: sdk.KindContainer, ID: owner,
		Message: fmt.Sprintf("%s, whose worker is asked for, has no container yet: make that first", owner)}
}

// acquirePlace leases a place to an owner. Where it has to wait, it tells why.
func (h *Host) acquirePlace(ctx context.Context, owner string, spec pool.Spec, req ContainerRequest) (*placed, error) {
	began := time.Now()
	req.tell(Event{Kind: EventWaiting})
	at := spec
	at.WaitLimit = -1
	choice, err := h.queue.Acquire(ctx, owner, at)
	if full, ok := errors.AsType[*pool.FullError](err); ok && spec.WaitLimit >= 0 {
		req.tell(Event{Kind: EventWaiting, Message: full.Error()})
		defer h.hearRoom(owner, func(text string) { req.tell(Event{Kind: EventWaiting, Message: text}) })()
		choice, err = h.queue.Acquire(ctx, owner, spec)
		if full, ok := errors.AsType[*pool.FullError](err); ok { // it has waited in vain
			if failed := h.sayHolders(context.WithoutCancel(ctx), full.Reasons, spec.Team); failed != nil {
				h.log.Warn("what holds the room of workers is not told", "owner", owner, "error", failed)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	p := &placed{Worker: choice.Worker, Held: choice.Held, Scores: choice.Scores, At: time.Now(), Waited: time.Since(began)}
	if !p.Held && h.index.Len() <= maxVerdicts {
		p.Others = slices.DeleteFunc(h.place.Explain(h.index, spec), func(v pool.Verdict) bool { return v.Worker == p.Worker })
	}
	return p, nil
}
