package host

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Every change of a row that has a state is an event of the tables in package lifecycle, and is written here and nowhere else. The row is read
// in the transaction that writes it: what a caller has read before may have changed since, and is never written back.

// life is how the rows of one kind are read and written.
type life[T any] struct {
	table *lifecycle.Table
	get   func(*store.Tx, string) (T, error)
	put   func(*store.Tx, T) error
	del   func(*store.Tx, string) error
	state func(*T) *string
	event func(T, lifecycle.Event) lifecycle.Event // what an event comes to for a row; nil: itself
}

var (
	containerLife = life[store.Container]{&lifecycle.Containers, (*store.Tx).Container, (*store.Tx).PutContainer, (*store.Tx).DeleteContainer,
		func(r *store.Container) *string { return &r.State }, unowned}
	volumeLife = life[store.Volume]{&lifecycle.Volumes, (*store.Tx).Volume, (*store.Tx).PutVolume, (*store.Tx).DeleteVolume,
		func(r *store.Volume) *string { return &r.State }, nil}
	processLife = life[store.Process]{&lifecycle.Processes, (*store.Tx).Process, (*store.Tx).PutProcess, (*store.Tx).DeleteProcess,
		func(r *store.Process) *string { return &r.State }, nil}
	runLife = life[store.Run]{&lifecycle.Runs, (*store.Tx).Run, (*store.Tx).PutRun, (*store.Tx).DeleteRun,
		func(r *store.Run) *string { return &r.State }, nil}
)

// unowned: of a container that was to be destroyed and that nobody owns, no record is kept once its worker does not have it.
func unowned(row store.Container, e lifecycle.Event) lifecycle.Event {
	if row.Owner == "" && row.State == lifecycle.ContainerDestroying && (e == lifecycle.Destroyed || e == lifecycle.Replaced) {
		return lifecycle.Discarded
	}
	return e
}

// moved is what became of an event.
type moved[T any] struct {
	was T    // before it; the zero row if there was none
	row T    // as it is now; the state of what is not there any more is None
	yes bool // it was written: the event was not too late
}

// move takes a row through an event. Change, if not nil, changes the rest of it; its error is given as it is, and nothing is written. An event that
// the table does not have for the row's state is a *lifecycle.Error.
func (l life[T]) move(tx *store.Tx, id string, e lifecycle.Event, change func(*T) error) (m moved[T], err error) {
	m.was, err = l.get(tx, id)
	if err = ignoreNotFound(err); err != nil {
		return m, err
	}
	m.row = m.was
	if l.event != nil {
		e = l.event(m.was, e)
	}
	to, err := l.table.Next(id, *l.state(&m.was), e)
	if err != nil || to == lifecycle.Stays {
		return m, err
	}
	if slices.Contains(l.table.PowerSafe, e) && tx.Durability() < store.PowerSafe {
		return m, &careless{l.table.Kind, id, e}
	}
	if change != nil {
		if err := change(&m.row); err != nil {
			return m, err
		}
	}
	m.yes = true
	*l.state(&m.row) = to
	if to == lifecycle.None {
		return m, l.del(tx, id)
	}
	return m, l.put(tx, m.row)
}

// careless is a mistake in the host: an event that has to survive a loss of power came in a transaction that may not.
type careless struct {
	kind, id string
	event    lifecycle.Event
}

func (e *careless) Error() string {
	return fmt.Sprintf("%s %s cannot be %s in a transaction that a loss of power may undo", e.kind, e.id, e.event)
}

// moveContainer is move of a container. Its lease ends with it.
func (h *Host) moveContainer(tx *store.Tx, id string, e lifecycle.Event, change func(*store.Container) error) (moved[store.Container], error) {
	m, err := containerLife.move(tx, id, e, func(row *store.Container) error {
		if ended := e == lifecycle.Doomed || e == lifecycle.Removed || e == lifecycle.Renewed; !ended || !over(row.State) { // else it tells since when it is so
			row.UpdatedAt = h.clock.wall()
		}
		if change == nil {
			return nil
		}
		return change(row)
	})
	if err != nil || !m.yes {
		return m, err
	}
	if leased(m.was) && !leased(m.row) {
		tx.Committed(func() { h.index.Release(m.was.Owner) })
	}
	if m.row.State == lifecycle.None || m.row.State == lifecycle.ContainerDestroyed || m.row.State == lifecycle.ContainerLost {
		tx.Committed(func() { h.containerOver(id) })
	}
	h.owes(tx, m.row.Worker, containerThing(id), m.row.UpdatedAt, m.was.State == lifecycle.ContainerDestroying, m.row.State == lifecycle.ContainerDestroying)
	return m, nil
}

// owes has the reconciler told, once the change is stored, that a thing is to be destroyed, or that it is not any more.
func (h *Host) owes(tx *store.Tx, worker string, t reap.Thing, since time.Time, was, is bool) {
	switch {
	case is:
		tx.Committed(func() { h.owe(worker, since, t) })
	case was:
		tx.Committed(func() { h.settled(worker, t) })
	}
}

// leased tells whether a container takes a place on its worker, by the name of its owner.
func leased(c store.Container) bool {
	return c.Owner != "" && (c.State == lifecycle.ContainerCreating || c.State == lifecycle.ContainerReady || c.State == lifecycle.ContainerDestroying)
}

// moveVolume is move of a volume. Placement is told where there is content now.
func (h *Host) moveVolume(tx *store.Tx, id string, e lifecycle.Event, change func(*store.Volume) error) (moved[store.Volume], error) {
	m, err := volumeLife.move(tx, id, e, func(row *store.Volume) error {
		if e == lifecycle.Doomed && row.DoomedAt.IsZero() {
			row.DoomedAt = h.clock.wall()
		}
		if change == nil {
			return nil
		}
		return change(row)
	})
	if err != nil || !m.yes {
		return m, err
	}
	if m.row.State != lifecycle.VolumeCreating && m.row.State != lifecycle.VolumeOpen {
		tx.Committed(func() { h.busy.remove(id) })
	}
	h.owes(tx, m.row.Worker, volumeThing(id), m.row.DoomedAt, m.was.State == lifecycle.VolumeDestroying, m.row.State == lifecycle.VolumeDestroying)
	c := pool.VolumeChange{Worker: m.row.Worker, Was: volumeState(m.was), Is: volumeState(m.row)}
	if c.Was == c.Is || c.Was.Stage == pool.Absent { // what is new was counted before it was noted
		return m, nil
	}
	if m.row.Artifact != "" && (c.Was.Stage == pool.Sealed || c.Is.Stage == pool.Sealed) {
		copies, err := tx.Volumes(store.VolumeFilter{Worker: m.row.Worker, Artifact: m.row.Artifact, States: []string{lifecycle.VolumeSealed}})
		if err != nil {
			return m, err
		}
		if c.Copies = len(copies); c.Copies > 0 {
			c.Bytes = copies[0].Bytes
		}
	}
	tx.Committed(func() { h.index.ChangeVolume(c) })
	return m, nil
}

// volumeState is a volume as placement counts it.
func volumeState(v store.Volume) pool.VolumeState {
	s := pool.VolumeState{Key: v.Artifact}
	switch v.State {
	case lifecycle.VolumeCreating, lifecycle.VolumeOpen:
		s.Stage = pool.Making
	case lifecycle.VolumeSealed:
		s.Stage = pool.Sealed
	case lifecycle.VolumeDestroying:
		s.Stage = pool.Going
	}
	return s
}

// tooLate tells whether an error says that a thing is in another state by now than it was thought to be.
func tooLate(err error) bool { return errors.As(err, new(*lifecycle.Error)) }

// lostMeanwhile makes an error of a thing that is not there any more, since its worker has lost it, one that is Unavailable: what was to be done
// can be done anew.
func lostMeanwhile(worker string, err error) error {
	late, ok := errors.AsType[*lifecycle.Error](err)
	if ok && (late.State == lifecycle.None || late.State == lifecycle.ContainerLost) {
		return fmt.Errorf("worker %s has lost what it had: %w: %w", worker, err, sdk.Unavailable)
	}
	return err
}
