package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// runRecord is a run's result as the store keeps it.
type runRecord struct {
	Steps   []stepRecord
	Outputs map[string]string
	Took    time.Duration

	// While the run has not ended, these are all that is kept of it.
	Placing map[string]Placing `json:",omitempty"` // by output
	Overdue time.Time          `json:",omitzero"`  // when a host first found that nobody had resumed it for too long

	Abandoned string `json:",omitempty"`
}

type stepRecord struct {
	StepResult
	Err string // in place of the error itself
}

func record(r *RunResult) runRecord {
	out := runRecord{Outputs: r.Outputs, Took: r.Took, Abandoned: r.Abandoned}
	for _, s := range r.Steps {
		out.Steps = append(out.Steps, recordStep(s))
	}
	return out
}

func recordStep(s StepResult) stepRecord {
	kept := stepRecord{StepResult: s}
	if s.Err != nil {
		kept.Err = s.Err.Error()
	}
	kept.StepResult.Err = nil
	return kept
}

func (s stepRecord) result() StepResult {
	if s.Err != "" {
		s.StepResult.Err = errors.New(s.Err)
	}
	return s.StepResult
}

// recorded gives the result of a run that has ended, so that repeating its command is harmless. Nil: it has not, or there is no such
// run.
func (h *Host) recorded(ctx context.Context, req RunRequest) (*RunResult, error) {
	var row store.Run
	err := h.store.View(ctx, func(tx *store.Tx) (err error) {
		row, err = tx.Run(req.ID)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	digest, err := json.Marshal(req.Job.Digest())
	if err != nil {
		return nil, err
	}
	if string(row.Job) != string(digest) {
		return nil, sdk.NewInvalid(sdk.ReasonSpec, "run %s was begun with another job: resume it with that file, or give another id", req.ID)
	}
	if row.State == lifecycle.RunGoing {
		return nil, nil
	}
	if row.State == lifecycle.RunEnding { // an earlier host died while it cleaned up
		ctx, cancel := h.cleanup(ctx)
		defer cancel()
		if err := (&run{h: h, id: req.ID}).sweep(ctx); err != nil {
			return nil, err
		}
	}
	out, err := resultOf(row)
	if err != nil {
		return nil, err
	}
	if err := out.Failure(); err != nil {
		return out, err
	}
	for _, name := range slices.Sorted(maps.Keys(req.Outputs)) {
		switch at := out.Outputs[name]; at {
		case req.place(req.Outputs[name]):
		case "":
			return out, sdk.NewInvalid(sdk.ReasonSpec, "run %s has ended, and its output %q is not kept any more: give another id to make it again", req.ID, name)
		default:
			return out, sdk.NewInvalid(sdk.ReasonSpec, "run %s has ended, and its output %q was put into %s: give another id to make it again", req.ID, name, at)
		}
	}
	return out, nil
}

// noRun says of a run that its row is not there; any other error stays as it is.
func noRun(id string, err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return &sdk.Error{Class: sdk.NotFound, Kind: "run", ID: id, Message: fmt.Sprintf("there is no run %q", id)}
}

// resultOf gives what a run that has ended came to.
func resultOf(row store.Run) (*RunResult, error) {
	var kept runRecord
	if err := json.Unmarshal(row.Result, &kept); err != nil {
		return nil, fmt.Errorf("record of run %s: %w", row.ID, err)
	}
	out := &RunResult{ID: row.ID, Outputs: kept.Outputs, Took: kept.Took, Recorded: true, Abandoned: kept.Abandoned}
	for _, s := range kept.Steps {
		out.Steps = append(out.Steps, s.result())
	}
	return out, nil
}

// RunResult gives what a run came to that has ended, or was given up. One that has not is sdk.FailedPrecondition, an unknown one store.ErrNotFound.
func (h *Host) RunResult(ctx context.Context, id string) (*RunResult, error) {
	var row store.Run
	err := h.store.View(ctx, func(tx *store.Tx) (err error) {
		row, err = tx.Run(id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	if row.State == lifecycle.RunGoing {
		return nil, &sdk.Error{Class: sdk.FailedPrecondition, Kind: "run", ID: id, Message: fmt.Sprintf("run %s has not ended", id)}
	}
	return resultOf(row)
}

// overlap tells whether two paths are the same, or one lies in the other.
func overlap(a, b string) bool {
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	if errA != nil || errB != nil {
		return false
	}
	inside := func(in, of string) bool { return in == of || strings.HasPrefix(in, strings.TrimSuffix(of, "/")+"/") }
	return inside(a, b) || inside(b, a)
}
