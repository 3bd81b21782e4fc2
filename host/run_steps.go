package host

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/slipway-run/slipway/host/store"
)

// What a step came to is kept before anybody is told of it, and is not asked again: whoever resumes the run is told the same, whatever has become of
// the step's worker, or of who aborted it. Once the run has a result, that has it, and these rows go.

// keptStep is what a step came to, as the store keeps it.
type keptStep struct {
	stepRecord
	Fed   bool `json:",omitempty"` // it was given the stdin of the run's client
	Again bool `json:",omitempty"` // it was lost in the attempt that this tells of, and is tried again: it has not ended
}

// keepStep keeps what a step came to, or an attempt at it that is made again, unless this host closes: the step goes on when the run is resumed then. A full disk is waited for, since it is told next.
func (r *run) keepStep(ctx context.Context, res StepResult, again bool) {
	if r.h.ctx.Err() != nil {
		return
	}
	text, err := json.Marshal(keptStep{recordStep(res), r.hasRead(res.Step), again})
	if err == nil {
		tell := func(e Event) {
			e.Step = res.Step
			r.tell(e)
		}
		within, stop := r.h.outliving(ctx)
		defer stop()
		err = r.storing(within, res.Worker, whileKeeping, tell, func() error {
			return r.h.store.Release(context.WithoutCancel(ctx), store.KillSafe, func(tx *store.Tx) error {
				return tx.PutStep(store.Step{ID: r.owner(res.Step), Result: text})
			})
		})
	}
	if err != nil && r.h.ctx.Err() == nil {
		r.h.log.Warn("what a step came to is not kept: if this host is killed before the run has ended, who resumes the run finds it out anew",
			"run", r.id, "step", res.Step, "state", res.State, "error", err)
	}
}

// keptSteps gives what the steps of a run came to that have ended, by their names, and of the others the last attempt that was told to be lost.
func keptSteps(tx *store.Tx, run string) (ended map[string]keptStep, lost map[string]int, err error) {
	rows, err := tx.Steps(store.StepFilter{OwnerPrefix: RunOwner(run, "")})
	if err != nil {
		return nil, nil, err
	}
	ended, lost = make(map[string]keptStep, len(rows)), make(map[string]int)
	for _, row := range rows {
		var kept keptStep
		if err := json.Unmarshal(row.Result, &kept); err != nil {
			return nil, nil, fmt.Errorf("record of %s: %w", row.ID, err)
		}
		if kept.Again {
			lost[kept.Step] = kept.Attempts
		} else {
			ended[kept.Step] = kept
		}
	}
	return ended, lost, nil
}

// forgetSteps removes what keepStep has kept, in the transaction that keeps the run's result.
func forgetSteps(tx *store.Tx, run string) error {
	return tx.DeleteSteps(store.StepFilter{OwnerPrefix: RunOwner(run, "")})
}

// tellAgain tells of a step that had ended before this host: what it wrote, if that is still there, and how it ended.
func (r *run) tellAgain(ctx context.Context, res StepResult) {
	if p, err := r.h.FindProcess(ctx, AttemptOwner(r.id, res.Step, res.Attempts), MainProcess); err == nil {
		r.tell(Event{Step: res.Step, Kind: EventStarted, Worker: res.Worker, Process: p})
	}
	if res.Exit != nil {
		r.tell(Event{Step: res.Step, Kind: EventExited, Worker: res.Worker, Exit: res.Exit})
	}
}
