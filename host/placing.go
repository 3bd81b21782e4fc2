package host

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
)

// Placing is an output of a run that was about to be put into its target, as a directory of the same file system: whoever comes later can see
// whether it was.
type Placing struct {
	Target    string // absolute
	Directory string // what tells that directory from others
}

// NewPlacing describes a directory that was filled for a target. ok is false where the system cannot tell directories apart.
func NewPlacing(target, filled string) (_ Placing, ok bool, err error) {
	p := Placing{}
	if p.Target, err = filepath.Abs(target); err == nil {
		p.Directory, err = stream.Identity(filled)
	}
	return p, p.Directory != "", err
}

// done tells whether the target is the directory that was to be put there.
func (p Placing) done(target string) bool {
	path, err := filepath.Abs(target)
	if err != nil || path != p.Target {
		return false
	}
	there, err := stream.Identity(path)
	return err == nil && there != "" && there == p.Directory
}

// Placed tells which outputs are in their targets already. It looks at this machine's.
func Placed(placing map[string]Placing, targets map[string]string) map[string]bool {
	out := make(map[string]bool)
	for name, p := range placing {
		if target, ok := targets[name]; ok && p.done(target) {
			out[name] = true
		}
	}
	return out
}

// NotePlacing notes that an output of a run is about to be put into its target, where the run is resumed without that: until the run has ended. A full disk is waited for where
// the run is under way: who watches it is told.
func (h *Host) NotePlacing(ctx context.Context, run, output string, p Placing) error {
	h.mu.Lock()
	r := h.going[run]
	h.mu.Unlock()
	note := func() error { return h.notePlacing(ctx, run, output, p) }
	if r == nil {
		return note()
	}
	return r.storing(ctx, "", whileEnding, r.tell, note)
}

func (h *Host) notePlacing(ctx context.Context, run, output string, p Placing) error {
	err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error { // the run's end waits for it, which frees much
		row, err := tx.Run(run)
		if err != nil || row.State != lifecycle.RunGoing {
			return err
		}
		return describeRun(tx, run, func(kept *runRecord) {
			if kept.Placing == nil {
				kept.Placing = make(map[string]Placing)
			}
			kept.Placing[output] = p
		})
	})
	return noRun(run, err)
}

// describeRun changes what is kept of a run that has not ended.
func describeRun(tx *store.Tx, id string, change func(*runRecord)) error {
	_, err := runLife.move(tx, id, lifecycle.Described, func(row *store.Run) error {
		kept, err := soFar(*row)
		if err != nil {
			return err
		}
		change(&kept)
		row.Result, err = json.Marshal(kept)
		return err
	})
	return err
}

// soFar is what is kept of a run that has not ended.
func soFar(row store.Run) (kept runRecord, err error) {
	if len(row.Result) == 0 {
		return kept, nil
	}
	if err := json.Unmarshal(row.Result, &kept); err != nil {
		return kept, fmt.Errorf("record of run %s: %w", row.ID, err)
	}
	return kept, nil
}

// RunPlacing gives the outputs of a run that were about to be put into their targets, by name. One that is not there, or has ended, has none.
func (h *Host) RunPlacing(ctx context.Context, id string) (map[string]Placing, error) {
	var kept runRecord
	err := h.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.Run(id)
		if err == nil && row.State == lifecycle.RunGoing {
			kept, err = soFar(row)
		}
		return err
	})
	return kept.Placing, ignoreNotFound(err)
}

// placed tells whether an output is in its target already, and shall stay as it is.
func (r *run) placed(output string) bool {
	return r.req.Deliver == nil && r.req.Placed[output] && !r.req.Force
}

// write puts an output into its target.
func (r *run) write(ctx context.Context, output string, a *Artifact, target string) error {
	err := r.h.downloadDir(ctx, a, target, r.req.Force, func(filled string) error {
		p, ok, err := NewPlacing(target, filled)
		if err != nil || !ok {
			return err
		}
		if err := r.h.NotePlacing(ctx, r.id, output, p); err != nil {
			return err
		}
		r.h.fault("output-placing")
		return nil
	})
	if err == nil {
		r.h.fault("output-placed")
	}
	return err
}
