package host

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// inputName is the name of the artifact that is an input of a run and of nothing else, of no step called input either.
func (r *run) inputName(input string) string { return r.owner("@input/" + input) }

// RunInput is an input that a run has taken.
type RunInput struct {
	Artifact
	Source string // what it was made of, if that was said: see [Upload]
}

// RunInputs gives the inputs that a run has taken, by their names: whoever resumes it need not bring them again. A run that is not there,
// or that has ended, has none.
func (h *Host) RunInputs(ctx context.Context, id string) (map[string]RunInput, error) {
	r := &run{h: h, id: id}
	out := make(map[string]RunInput)
	err := h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Artifacts(store.ArtifactFilter{OwnerPrefix: r.owner("")})
		if err != nil {
			return err
		}
		for _, row := range rows {
			input, ok := strings.CutPrefix(row.Name, r.inputName(""))
			if !ok {
				continue
			}
			whole, err := hasContent(tx, row)
			if err != nil {
				return err
			}
			if whole {
				out[input] = RunInput{Artifact{ID: row.ID, Name: row.Name}, row.Source}
			}
		}
		return nil
	})
	return out, err
}

// hasContent tells whether an artifact's content is somewhere else than in a directory of this machine.
func hasContent(tx *store.Tx, a store.Artifact) (bool, error) {
	if a.Blob != "" {
		return true, nil
	}
	rows, err := tx.Volumes(store.VolumeFilter{Artifact: a.ID, States: []string{lifecycle.VolumeSealed}})
	return len(rows) > 0, err
}

// takeBrought makes what was brought the run's own, unless it has that input already.
func (r *run) takeBrought(tx *store.Tx) error {
	for _, input := range slices.Sorted(maps.Keys(r.req.Brought)) {
		a, err := r.take(tx, input, r.req.Brought[input])
		if err != nil {
			return err
		}
		r.artifacts[job.Ref{Input: input}] = a
	}
	return nil
}

func (r *run) take(tx *store.Tx, input string, brought *Artifact) (*Artifact, error) {
	old, err := tx.ArtifactByName(r.inputName(input))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if err == nil {
		whole, err := hasContent(tx, old)
		if whole || err != nil {
			return &Artifact{ID: old.ID, Name: old.Name}, err
		}
		if err := r.h.deleteArtifact(tx, old.ID); err != nil { // its content was in a directory that nobody names now
			return nil, err
		}
	}
	row, err := tx.Artifact(brought.ID)
	if err != nil {
		return nil, noArtifact(brought.Name, err)
	}
	if row.Owner != "" {
		return nil, sdk.NewInvalid(sdk.ReasonSpec, "input %q: artifact %s is owned by %s: bring one that is the run's alone", input, row.Name, row.Owner)
	}
	row.Name, row.Owner = r.inputName(input), r.owner("")
	return &Artifact{ID: row.ID, Name: row.Name}, r.h.putArtifact(tx, row)
}
