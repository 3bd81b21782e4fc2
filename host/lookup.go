package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// ProcessInfo is what is remembered of a process.
type ProcessInfo struct {
	Name    string
	State   string // starting, running, exited, lost or aborted
	Path    string // of its command
	Exit    *sdk.Exit
	Reason  string // why it is lost or aborted
	Started time.Time
	Ended   time.Time
}

// ContainerInfo is what is remembered of a container.
type ContainerInfo struct {
	ID        string
	Owner     string
	Worker    string
	State     string // creating, ready, destroying, destroyed or lost
	Created   time.Time
	Expires   time.Time // when it goes by itself unless it is used before; zero: it does not, or something runs in it
	Processes []ProcessInfo
}

// Over tells whether only the record is left.
func (c ContainerInfo) Over() bool {
	return c.State == lifecycle.ContainerDestroyed || c.State == lifecycle.ContainerLost
}

// RunInfo is what is remembered of a run.
type RunInfo struct {
	ID      string
	Running bool // by this host
	Ended   bool
	Created time.Time
	EndedAt time.Time // zero until it has
}

// Runs lists the runs that are remembered, the oldest first.
func (h *Host) Runs(ctx context.Context) ([]RunInfo, error) {
	rows, err := runsIn(ctx, h.store)
	if err != nil {
		return nil, err
	}
	out := make([]RunInfo, 0, len(rows))
	for _, row := range rows {
		out = append(out, h.runInfo(row))
	}
	return out, nil
}

// RunByID tells what is remembered of a run. One that is not is sdk.NotFound.
func (h *Host) RunByID(ctx context.Context, id string) (RunInfo, error) {
	row, err := runIn(ctx, h.store, id)
	if err != nil {
		return RunInfo{}, err
	}
	return h.runInfo(row), nil
}

func runIn(ctx context.Context, st *store.Store, id string) (row store.Run, err error) {
	err = st.View(ctx, func(tx *store.Tx) error {
		row, err = tx.Run(id)
		return err
	})
	return row, noRun(id, err)
}

func (h *Host) runInfo(row store.Run) RunInfo {
	i := runInfo(row)
	h.mu.Lock()
	defer h.mu.Unlock()
	i.Running = h.runs[row.ID]
	return i
}

func runInfo(row store.Run) RunInfo {
	i := RunInfo{ID: row.ID, Ended: row.State != lifecycle.RunGoing, Created: row.CreatedAt}
	if i.Ended {
		i.EndedAt = row.EndedAt
	}
	return i
}

// Check tells whether the host works at all: its store answers.
func (h *Host) Check(ctx context.Context) error {
	return h.store.View(ctx, func(tx *store.Tx) error {
		_, err := tx.Run("")
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
}

// Containers lists what is remembered of the containers whose owners begin with a prefix, in the order in which they were made.
func (h *Host) Containers(ctx context.Context, ownerPrefix string) ([]ContainerInfo, error) {
	return containersIn(ctx, h.store, ownerPrefix, h.goes)
}

// containersIn is Host.Containers of a store; goes is as for expires.
func containersIn(ctx context.Context, st *store.Store, ownerPrefix string, goes func(at time.Time, ttl time.Duration) time.Time) ([]ContainerInfo, error) {
	var out []ContainerInfo
	err := st.View(ctx, func(tx *store.Tx) error {
		out = nil
		rows, err := tx.Containers(store.ContainerFilter{OwnerPrefix: ownerPrefix})
		if err != nil {
			return err
		}
		for _, row := range rows {
			c := ContainerInfo{ID: row.ID, Owner: row.Owner, Worker: row.Worker, State: row.State, Created: row.CreatedAt}
			processes, err := tx.Processes(store.ProcessFilter{Container: row.ID})
			if err != nil {
				return err
			}
			if c.Expires, err = expires(row, processes, goes); err != nil {
				return err
			}
			for _, p := range processes {
				i, err := processInfo(p)
				if err != nil {
					return err
				}
				c.Processes = append(c.Processes, i)
			}
			out = append(out, c)
		}
		return nil
	})
	return out, err
}

func processInfo(row store.Process) (ProcessInfo, error) {
	var spec sdk.ProcessSpec
	if err := json.Unmarshal(row.Spec, &spec); err != nil {
		return ProcessInfo{}, fmt.Errorf("record of process %s: %w", row.ID, err)
	}
	i := ProcessInfo{Name: string(spec.ID), State: row.State, Path: spec.Path, Reason: row.Reason, Started: row.StartedAt, Ended: row.EndedAt}
	if len(row.Exit) > 0 {
		i.Exit = new(sdk.Exit)
		if err := json.Unmarshal(row.Exit, i.Exit); err != nil {
			return ProcessInfo{}, fmt.Errorf("record of process %s: %w", row.ID, err)
		}
	}
	return i, nil
}

// FindContainer gives an owner's container without making one. One that is not there is sdk.NotFound.
func (h *Host) FindContainer(ctx context.Context, owner string) (*Container, error) {
	row, err := h.containerByOwner(ctx, owner)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &sdk.Error{Class: sdk.NotFound, Kind: sdk.KindContainer, ID: owner, Message: fmt.Sprintf("%s has no container", owner)}
	}
	if err != nil {
		return nil, err
	}
	c, err := h.found(ctx, row)
	if err != nil {
		return nil, fmt.Errorf("container of %s: %w", owner, err)
	}
	return c, nil
}

// FindProcess gives a process that was started, without starting one. One that was not is sdk.NotFound. One whose start is not settled yet is
// sdk.Unavailable.
func (h *Host) FindProcess(ctx context.Context, owner, name string) (*Process, error) {
	var container store.Container
	var row store.Process
	err := h.store.View(ctx, func(tx *store.Tx) (err error) {
		if container, err = tx.ContainerByOwner(owner); err != nil {
			return err
		}
		row, err = tx.Process(rowID(sdk.ContainerID(container.ID), sdk.ProcessID(name)))
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, &sdk.Error{Class: sdk.NotFound, Kind: sdk.KindProcess, ID: name, Message: fmt.Sprintf("%s has no process %q", owner, name)}
	}
	if err != nil {
		return nil, err
	}
	w, err := h.workerOf(container)
	if err != nil {
		return nil, err
	}
	if row.State == lifecycle.ProcessStarting {
		return nil, &sdk.Error{Class: sdk.Unavailable, RetryAfter: time.Second,
			Message: fmt.Sprintf("whether process %q of %s was started is not known yet: start it again, which never starts it twice", name, owner)}
	}
	return h.attach(ctx, row, owner, w)
}
