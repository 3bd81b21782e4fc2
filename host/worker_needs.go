package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
)

// stillThere tells what a worker that is being emptied waits for, and what of that can be copied elsewhere. It does not wait for containers
// that are kept only for people to look at. For a worker that is gone it waits for nothing: what ran there is lost, and nothing there can be
// read or destroyed.
func (h *Host) stillThere(ctx context.Context, w *worker) (d Drain, moves []move, kept []store.Container, err error) {
	leases := h.index.Leases(w.name) // before the rows: a container has either at any moment
	asked := h.demand()              // before the rows: of a run that ends meanwhile they tell that it has
	retiring := w.ordered().state == pool.Retiring
	if w.isGone() || retiring && w.isGivenUp() { // if it was given up, nothing leads to what is there
		return d, nil, nil, nil
	}
	var only []onlyThere
	err = h.store.View(ctx, func(tx *store.Tx) error {
		containers, err := tx.Containers(store.ContainerFilter{Worker: w.name, States: []string{lifecycle.ContainerCreating, lifecycle.ContainerReady, lifecycle.ContainerDestroying}})
		if err != nil {
			return err
		}
		looked := make(map[string]bool) // by people
		for _, c := range containers {
			is, err := isKept(c)
			switch {
			case err != nil:
				return err
			case is:
				kept, looked[c.ID] = append(kept, c), true
			default:
				d.Containers = append(d.Containers, cmp.Or(c.Owner, c.ID))
			}
		}
		volumes, err := tx.Volumes(store.VolumeFilter{Worker: w.name})
		if err != nil {
			return err
		}
		for _, v := range volumes {
			if v.State != lifecycle.VolumeSealed {
				if !looked[v.Container] {
					d.Volumes++
				}
				continue
			}
			if v.Artifact == "" {
				continue
			}
			o, is, err := h.onlyThere(tx, v)
			if err != nil {
				return err
			}
			if is {
				only = append(only, o)
			}
		}
		return nil
	})
	if err != nil {
		return d, nil, nil, err
	}
	for _, l := range leases {
		if !slices.Contains(d.Containers, l.Owner) {
			d.Containers = append(d.Containers, l.Owner)
		}
	}
	for _, o := range only {
		spec, need := asked.need(o)
		if need == needNot && !retiring {
			continue
		}
		moves = append(moves, move{&Artifact{ID: o.artifact.ID, Name: o.artifact.Name}, o.bytes, o.team, spec, need})
		if need == needNow || retiring {
			d.Artifacts = append(d.Artifacts, DrainArtifact{Name: o.artifact.Name, Bytes: o.bytes, id: o.artifact.ID})
		}
	}
	return d, moves, kept, nil
}

// isKept tells whether a container is there only for people to look at.
func isKept(row store.Container) (bool, error) {
	if row.State != lifecycle.ContainerReady {
		return false, nil
	}
	var r containerRecord
	if err := json.Unmarshal(row.Spec, &r); err != nil {
		return false, fmt.Errorf("record of container %s: %w", row.ID, err)
	}
	return r.Kept, nil
}

// onlyThere is an artifact whose only copy is on a worker that is being emptied.
type onlyThere struct {
	artifact store.Artifact
	bytes    int64
	team     string
	going    bool // its run has not ended, here or anywhere
}

// teamOf is whose an artifact is: that of the container which has made it, else its own.
func teamOf(tx *store.Tx, a store.Artifact) (string, error) {
	c, err := tx.ContainerByOwner(a.Owner)
	if errors.Is(err, store.ErrNotFound) {
		return a.Team, nil
	}
	return c.Team, err
}

// onlyThere tells whether what a volume has is nowhere else that stays. What can be had again, as a cache can, does not count, nor what the
// host keeps itself.
func (h *Host) onlyThere(tx *store.Tx, v store.Volume) (onlyThere, bool, error) {
	a, err := tx.Artifact(v.Artifact)
	if err != nil {
		return onlyThere{}, false, ignoreNotFound(err)
	}
	if a.Key != "" || a.Blob != "" {
		return onlyThere{}, false, nil
	}
	copies, err := tx.Volumes(store.VolumeFilter{Artifact: a.ID, States: []string{lifecycle.VolumeSealed}})
	if err != nil {
		return onlyThere{}, false, err
	}
	passing := false // a copy is on a worker that comes and goes
	for _, c := range copies {
		w, err := h.worker(c.Worker)
		if c.Worker == v.Worker || err != nil {
			continue
		}
		if s := w.report().State; s != pool.Running && s != pool.Cordoned {
			continue
		}
		if !w.passing() {
			return onlyThere{}, false, nil
		}
		passing = true
	}
	o := onlyThere{artifact: a, bytes: v.Bytes}
	if o.team, err = teamOf(tx, a); err != nil {
		return o, false, err
	}
	if passing && h.lasting(v.Worker, o.team, "") == nil {
		return onlyThere{}, false, nil // there is no better place
	}
	if id := RunOf(a.Owner); id != "" {
		row, err := tx.Run(id)
		if err != nil {
			return o, true, ignoreNotFound(err)
		}
		o.going = row.State == lifecycle.RunGoing
	}
	return o, true, nil
}

// How much an artifact is needed.
type need uint8

const (
	needNot   need = iota
	needLater      // by a run that has not ended and that nobody runs now
	needNow        // by a step of a run that this host runs, or by a container that it makes
)

// demand is who may need artifacts at a moment.
type demand struct {
	going   []*run
	holders counts
	waiting []pool.Waiter // for places
}

func (h *Host) demand() demand {
	waiting := h.queue.Waiting()
	h.mu.Lock()
	defer h.mu.Unlock()
	return demand{slices.Collect(maps.Values(h.going)), maps.Clone(h.holders), waiting}
}

// need tells whether steps that have not ended, or containers that are being made, need an artifact, and what the first
// of them asks of its worker.
func (d demand) need(o onlyThere) (pool.Spec, need) {
	spec := pool.Spec{Team: o.team, Kind: pool.NoInput}
	holders, here := d.holders[o.artifact.ID], false
	for _, r := range d.going {
		if s, wants := r.wants(o.artifact); wants {
			if s != nil {
				spec = pool.Spec{Team: s.Team, Runtime: s.Runtime, Platform: s.Platform, Tags: s.Tags}
			}
			return spec, needNow
		}
		holders -= r.given(o.artifact.ID) // to its end, though none of its steps may need it any more
		here = here || r.id == RunOf(o.artifact.Owner)
	}
	if holders > 0 {
		wants := func(c pool.Content) bool { return c.Key == o.artifact.ID }
		for _, w := range d.waiting {
			if slices.ContainsFunc(w.Spec.Inputs, wants) {
				return w.Spec, needNow
			}
		}
		return spec, needNow
	}
	if o.going && !here {
		return spec, needLater
	}
	return spec, needNot
}

// goingRuns are the runs that are under way in this host.
func (h *Host) goingRuns() []*run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.going))
}

// wants tells whether an artifact is needed by a step that has not ended, which is told, or for an output of the job.
func (r *run) wants(a store.Artifact) (*job.Step, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := func(ref job.Ref) bool {
		if ref.Step != "" { // by its name: what a step made that ended under an earlier host is not among r.artifacts
			return a.Name == r.outputName(ref)
		}
		have := r.artifacts[job.Ref{Input: ref.Input}]
		return have != nil && have.ID == a.ID
	}
	for i := range r.req.Job.Steps {
		s := &r.req.Job.Steps[i]
		if _, ended := r.results[s.Name]; ended {
			continue
		}
		if strings.HasPrefix(a.Owner+"/", r.owner(s.Name)+"/") { // it is just being made
			return nil, true
		}
		for _, ref := range s.Takes() {
			if is(ref) {
				return s, true
			}
		}
	}
	for _, o := range r.req.Job.Outputs {
		if _, taken := r.req.Outputs[o.Name]; taken && is(o.From) {
			return nil, true
		}
	}
	return nil, false
}

// given is how often a run was given an artifact as an input; it holds it as often.
func (r *run) given(id string) (n int) {
	for _, inputs := range []map[string]*Artifact{r.req.Artifacts, r.req.Brought} {
		for _, a := range inputs {
			if a.ID == id {
				n++
			}
		}
	}
	return n
}
