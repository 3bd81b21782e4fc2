package host

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Records reads what a state directory remembers, whether or not a host has it open. It changes nothing.
type Records struct {
	store *store.Store
	spool *spool.Spool
}

// StepRecord is what is remembered of a run's step.
type StepRecord struct {
	Run, Step string
	Worker    string
	State     string // of its process: starting, running, exited, lost, aborted
	Reason    string
	Exit      *sdk.Exit
	id        string
}

// OpenRecords opens a state directory for reading.
func OpenRecords(ctx context.Context, dir string) (*Records, error) {
	st, err := store.OpenReadOnly(ctx, dir)
	if err != nil {
		return nil, err
	}
	sp, err := spool.Open(filepath.Join(dir, "spool"), spool.Options{ReadOnly: true})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &Records{store: st, spool: sp}, nil
}

// Close closes the files.
func (r *Records) Close() error { return errors.Join(r.spool.Close(), r.store.Close()) }

// Steps lists the steps of a run that were started, in the order in which they were. An unknown run has none.
func (r *Records) Steps(ctx context.Context, run string) ([]StepRecord, error) {
	var out []StepRecord
	err := r.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.Run(run)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		containers, err := tx.Containers(store.ContainerFilter{OwnerPrefix: RunOwner(run, "")})
		if err != nil {
			return err
		}
		for _, c := range containers {
			processes, err := tx.Processes(store.ProcessFilter{Container: c.ID})
			if err != nil {
				return err
			}
			for _, p := range processes {
				s := StepRecord{Run: run, Step: strings.TrimPrefix(c.Owner, RunOwner(run, "")), Worker: c.Worker,
					State: p.State, Reason: p.Reason, id: p.ID}
				over := row.State == lifecycle.RunEnding || row.State == lifecycle.RunEnded // as RunInfo says
				if over && (s.State == lifecycle.ProcessStarting || s.State == lifecycle.ProcessRunning) {
					s.State, s.Reason = unfollowed(c) // the host that gave the run up was gone before it noted that
				}
				if len(p.Exit) > 0 {
					s.Exit = new(sdk.Exit)
					if err := json.Unmarshal(p.Exit, s.Exit); err != nil {
						return err
					}
				}
				out = append(out, s)
			}
		}
		return nil
	})
	return out, err
}

// unfollowed is how a process ended of which nobody learnt more than what became of its container.
func unfollowed(c store.Container) (state, reason string) {
	if c.State == lifecycle.ContainerLost {
		return lifecycle.ProcessLost, c.Reason
	}
	return lifecycle.ProcessAborted, containerDestroyed
}

// Output reads what a step wrote, from the beginning. Where a host still follows the step, the reader gives spool.ErrNoMore at what is
// stored so far. fs.ErrNotExist: nothing was stored. Of a step that has no exit this is no loss: its host may have been killed before it
// followed the step.
func (r *Records) Output(s StepRecord) (*spool.Reader, error) { return r.spool.Reader(s.id, 0) }
