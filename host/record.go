package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// runRecord is a run's result as the store keeps it.
type runRecord struct {
	Steps   []stepRecord
	Outputs map[string]string
	Took    time.Duration
}

type stepRecord struct {
	StepResult
	Err string // in place of the error itself
}

func record(r *RunResult) runRecord {
	out := runRecord{Outputs: r.Outputs, Took: r.Took}
	for _, s := range r.Steps {
		kept := stepRecord{StepResult: s}
		if s.Err != nil {
			kept.Err = s.Err.Error()
		}
		kept.StepResult.Err = nil
		out.Steps = append(out.Steps, kept)
	}
	return out
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
	digest, err := digestOf(req.Job)
	if err != nil {
		return nil, err
	}
	if string(row.Job) != string(digest) {
		return nil, sdk.NewInvalid(sdk.ReasonSpec, "run %s was begun with another job: resume it with that file, or give another id", req.ID)
	}
	if row.State == runGoing {
		return nil, nil
	}
	if row.State == runEnding { // an earlier host died while it cleaned up
		ctx, cancel := h.cleanup(ctx)
		defer cancel()
		if err := (&run{h: h, id: req.ID}).sweep(ctx); err != nil {
			return nil, err
		}
	}
	var kept runRecord
	if err := json.Unmarshal(row.Result, &kept); err != nil {
		return nil, fmt.Errorf("record of run %s: %w", req.ID, err)
	}
	out := &RunResult{ID: req.ID, Outputs: kept.Outputs, Took: kept.Took, Recorded: true}
	for _, s := range kept.Steps {
		if s.Err != "" {
			s.StepResult.Err = errors.New(s.Err)
		}
		out.Steps = append(out.Steps, s.StepResult)
	}
	for name, target := range req.Outputs {
		if kept.Outputs[name] != target {
			return out, sdk.NewInvalid(sdk.ReasonSpec, "run %s has ended, and its output %q is not kept any more: give another id to make it again", req.ID, name)
		}
	}
	return out, nil
}

// digestOf tells jobs apart.
func digestOf(j *job.Job) ([]byte, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return json.Marshal(hex.EncodeToString(sum[:]))
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
