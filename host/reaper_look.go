package host

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// busy are the ids of the containers and volumes that somebody in this host works on: from before their row until they are finished or given
// up. A row that is not finished and not here is one that nobody will finish.
type busy struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (b *busy) add(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ids == nil {
		b.ids = make(map[string]bool)
	}
	b.ids[id] = true
}

func (b *busy) remove(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ids, id)
}

func (b *busy) has(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ids[id]
}

// rules are the reaper's.
func (h *Host) rules() reap.Rules {
	r := h.cfg().Reaping.OrDefault()
	return reap.Rules{Grace: h.cfg().Timing.MissingGrace, Failed: r.Failed, Abandoned: r.Abandoned}
}

// lookAt takes a snapshot of a worker: what it lists, if it is there to be asked, and then what is recorded of it. In this order, what is
// made in between has its row.
func (h *Host) lookAt(ctx context.Context, w *worker, ask bool) (reap.Snapshot, error) {
	s := reap.Snapshot{Rules: h.rules(), Owners: make(map[string]reap.Owner), Artifacts: make(map[string]reap.Artifact)}
	var before map[string]doubt
	if ask {
		before = h.doubts.on(w.name)
		s.Asked = h.clock.steady()
		if err := h.listAll(ctx, w, &s); err != nil {
			return s, err
		}
		s.Answered = h.clock.steady()
	}
	err := h.store.View(ctx, func(tx *store.Tx) error {
		return h.inventory(tx, w.name, &s)
	})
	if err == nil {
		h.doubts.settle(before, &s)
	}
	s.Now, s.Renewed = h.jumps.look(h.clock)
	return s, err
}

// listAll asks a worker for all that this installation has on it.
func (h *Host) listAll(ctx context.Context, w *worker, s *reap.Snapshot) error {
	ours := sdk.Filter{Labels: map[string]string{sdk.LabelInstallation: h.Installation()}}
	return w.call(ctx, "list", func(ctx context.Context, c sdk.Worker) error {
		s.Listed = make(map[reap.Thing]reap.Listed)
		err := c.ListContainers(ctx, ours, func(i sdk.ContainerInfo) error {
			if ours.Match(string(i.ID), i.Labels) { // nothing of others is ever touched, whatever a worker answers
				s.Listed[containerThing(string(i.ID))] = reap.Listed{}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return c.ListVolumes(ctx, ours, func(i sdk.VolumeInfo) error {
			if ours.Match(string(i.ID), i.Labels) {
				s.Listed[volumeThing(string(i.ID))] = reap.Listed{Parent: string(i.Parent)}
			}
			return nil
		})
	})
}

// inventory reads what is recorded of a worker, and of those who hold it. Of containers that are over there may be very many: only those
// are read of which there is something.
func (h *Host) inventory(tx *store.Tx, worker string, s *reap.Snapshot) error {
	containers, err := tx.Containers(store.ContainerFilter{Worker: worker, States: []string{lifecycle.ContainerCreating, lifecycle.ContainerReady, lifecycle.ContainerDestroying}})
	if err != nil {
		return err
	}
	read := make(map[string]bool)
	for _, c := range containers {
		read[c.ID] = true
		if err := h.addContainer(tx, c, s); err != nil {
			return err
		}
	}
	volumes, err := tx.Volumes(store.VolumeFilter{Worker: worker})
	if err != nil {
		return err
	}
	over := func(id string) error {
		if read[id] || id == "" {
			return nil
		}
		read[id] = true
		c, err := tx.Container(id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return h.addContainer(tx, c, s)
	}
	for _, v := range volumes {
		s.Volumes = append(s.Volumes, reap.VolumeRecord{ID: v.ID, Sealed: v.State == lifecycle.VolumeSealed, Busy: h.busy.has(v.ID),
			Container: v.Container, Artifact: v.Artifact, Parent: v.Parent, State: volumeStates(v.State)})
		if err := errors.Join(over(v.Container), h.addArtifact(tx, v.Artifact, s)); err != nil {
			return err
		}
	}
	for t := range s.Listed {
		if t.Kind == reap.Container {
			if err := over(t.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *Host) addContainer(tx *store.Tx, c store.Container, s *reap.Snapshot) error {
	r, err := h.recordOf(tx, c)
	if err != nil {
		return err
	}
	s.Containers = append(s.Containers, r)
	return h.ownerOf(tx, c.Owner, s.Owners)
}

func (h *Host) addArtifact(tx *store.Tx, id string, s *reap.Snapshot) error {
	if _, known := s.Artifacts[id]; known || id == "" {
		return nil
	}
	a, err := tx.Artifact(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil {
		s.Artifacts[id], err = h.artifactOf(tx, a, s.Owners)
	}
	return err
}

func containerStates(s string) reap.State {
	switch s {
	case lifecycle.ContainerCreating:
		return reap.Making
	case lifecycle.ContainerDestroying:
		return reap.Going
	case lifecycle.ContainerDestroyed, lifecycle.ContainerLost:
		return reap.Over
	}
	return reap.There
}

func volumeStates(s string) reap.State {
	switch s {
	case lifecycle.VolumeCreating:
		return reap.Making
	case lifecycle.VolumeDestroying:
		return reap.Going
	}
	return reap.There
}

// RunOf is the id of the run whose step, input or output an owner is; "" for other owners. No id of a run has a "/".
func RunOf(owner string) string {
	rest, ok := strings.CutPrefix(owner, runPrefix)
	id, _, whole := strings.Cut(rest, "/")
	if !ok || !whole {
		return ""
	}
	return id
}

// ownerOf adds what is known of an owner.
func (h *Host) ownerOf(tx *store.Tx, owner string, to map[string]reap.Owner) error {
	id := RunOf(owner)
	if _, known := to[owner]; known || id == "" {
		return nil
	}
	row, err := tx.Run(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil // somebody gave an owner that looks like a run's: runs have their row for as long as anything is left of them
	}
	if err != nil {
		return err
	}
	to[owner], err = h.runState(tx, row)
	return err
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// artifactOf tells what the reaper has to know of an artifact.
func (h *Host) artifactOf(tx *store.Tx, a store.Artifact, owners map[string]reap.Owner) (reap.Artifact, error) {
	out := reap.Artifact{Name: a.Name}
	if err := h.ownerOf(tx, a.Owner, owners); err != nil {
		return out, err
	}
	empty, err := h.isEmptyCache(tx, a)
	if err != nil {
		return out, err
	}
	o, ofRun := owners[a.Owner]
	switch {
	case h.inUse(a.ID):
		out.Held = "it is in use"
	case ofRun && o.Active:
		out.Held = o.Name + " is under way"
	case ofRun && !o.Ended:
		out.Held = o.Name + " is not under way, and can be resumed"
	case ofRun: // what a run leaves goes with it, or as soon as nothing is made of it any more
		out.Since, out.Keep = o.Idle, 1
	case a.Owner != "":
		out.Held = a.Owner + " owns it"
	case empty: // there is nothing to keep
		out.Since, out.Keep = a.CreatedAt, 1
	case !a.ExpiresAt.IsZero():
		out.Since, out.Keep = h.kept(a)
	}
	return out, nil
}

// kept is since when an artifact that nobody owns is kept, and for how long from then on.
func (h *Host) kept(a store.Artifact) (since time.Time, keep time.Duration) {
	keep = h.ttlOf(a)
	return h.artifactGoes(a).Add(-keep), keep
}
