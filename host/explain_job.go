package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Copy is a content that a worker lacks and would have to be brought.
type Copy struct {
	Name  string // as a job file has it, such as input.src or step.build.bin; of a cache its key
	Bytes int64  // 0: not known yet
	// From are workers that have it, or would by then; "host" is the disk of this host. None: of an input, whoever runs the job brings it; of what another
	// step makes, that one has no worker yet.
	From []string
}

// jobContent is what a job says of a content.
type jobContent struct {
	name   string
	absent bool   // it is not there before the job runs
	on     string // absent: the worker that it would be on; empty: none is known
}

// ExplainJob says for each step of a job, by name, where its container would be if it were asked for now, what would have to be brought there, and who
// would come first. Inputs are artifacts for the job's inputs; one that it lacks is brought by whoever runs the job, and is nowhere yet. What a step takes
// from another one is taken to be on the worker where that would be now, and of a size that is not known; so is the worker of a step that runs on another's. A
// step is explained as if it were the only one: for steps of the same job it does not wait. One that names a step which the job has not, as no parsed job does, is left out.
func (h *Host) ExplainJob(ctx context.Context, j *job.Job, inputs map[string]*Artifact) (map[string]*Explanation, error) {
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if !slices.ContainsFunc(j.Inputs, func(in job.Input) bool { return in.Name == name }) {
			return nil, sdk.NewInvalid(sdk.ReasonSpec, "job %s has no input %q", j.Name, name)
		}
	}
	out := make(map[string]*Explanation, len(j.Steps))
	for before := -1; len(out) > before; {
		before = len(out)
		for i := range j.Steps {
			s := &j.Steps[i]
			if out[s.Name] != nil || slices.ContainsFunc(needed(s), func(n string) bool { return out[n] == nil }) {
				continue // done, or not yet to be
			}
			e, err := h.explainStep(ctx, j, s, inputs, out)
			if err != nil {
				return nil, fmt.Errorf("step %s: %w", s.Name, err)
			}
			out[s.Name] = e
		}
	}
	return out, nil
}

// needed lists the steps that have to be explained before one.
func needed(s *job.Step) (out []string) {
	for _, ref := range s.Takes() {
		out = append(out, ref.Step)
	}
	return slices.DeleteFunc(append(out, s.With), func(n string) bool { return n == "" })
}

// explainStep explains a step, those that it needs having been explained.
func (h *Host) explainStep(ctx context.Context, j *job.Job, s *job.Step, inputs map[string]*Artifact, done map[string]*Explanation) (*Explanation, error) {
	known := make(map[string]jobContent)
	artifact := func(ref job.Ref) *Artifact {
		if a := inputs[ref.Input]; ref.Step == "" && a != nil {
			known[a.ID] = jobContent{name: ref.String()}
			return a
		}
		a := &Artifact{ID: "?" + ref.String(), Name: ref.String()} // no artifact's id begins so
		c := jobContent{name: ref.String(), absent: true}
		if e := done[ref.Step]; e != nil {
			c.on = e.Worker
		}
		known[a.ID] = c
		return a
	}
	req := stepRequest(s)
	for _, path := range slices.Sorted(maps.Keys(s.Inputs)) {
		req.Inputs = append(req.Inputs, Input{Artifact: artifact(s.Inputs[path]), Path: path})
	}
	for _, path := range slices.Sorted(maps.Keys(s.Shared)) {
		req.Shared = append(req.Shared, Input{Artifact: artifact(s.Shared[path]), Path: path})
	}
	for _, name := range s.Outputs {
		req.Outputs = append(req.Outputs, Output{Name: name, Path: name})
	}
	for _, path := range s.Caches {
		req.Caches = append(req.Caches, Cache{Key: TaskCacheKey(s.Team, j.Name, s.Name, path), Path: path})
	}
	if s.Image != nil {
		req.Image = artifact(*s.Image)
	}
	on := done[s.With]
	with := ""
	if on != nil {
		with = on.Worker
	}
	e, err := h.explainRequest(ctx, req, with, known)
	if err != nil {
		return nil, err
	}
	if on != nil && on.Worker == "" {
		e.Worker, e.Scores, e.Copies, e.Err = "", nil, nil, fmt.Errorf("step %s, on whose worker it runs, has none: %w", s.With, on.Err)
	}
	h.explainTurn(e, s)
	return e, nil
}

// explainTurn says whether a step would have to wait for its turn before it came to be placed.
func (h *Host) explainTurn(e *Explanation, s *job.Step) {
	waits, most := h.turns.ahead(comer{team: s.Team, priority: s.Priority})
	if most == 0 {
		return
	}
	e.Turn = len(waits) + 1
	e.Before = waits[:min(len(waits), maxBefore)] // only after these does it come to be placed
	if e.Err == nil {
		e.Err = &TurnError{Most: most}
	}
}

// TurnError says that as many steps go side by side as may.
type TurnError struct{ Most int }

func (e *TurnError) Error() string {
	return fmt.Sprintf("as many steps go side by side as may, with those that wait for a place: %d", e.Most)
}

// wouldCopy lists what a worker lacks of what a container needs.
func (h *Host) wouldCopy(ctx context.Context, worker string, req ContainerRequest, p plan, known map[string]jobContent) (out []Copy, err error) {
	seen := make(map[string]bool)
	add := func(a *Artifact, name string) error {
		if a == nil || seen[a.ID] || h.index.Has(worker, a.ID) {
			return nil
		}
		seen[a.ID] = true
		of := known[a.ID]
		c := Copy{Name: cmp.Or(of.name, name)}
		switch {
		case of.absent && of.on == worker:
			return nil
		case of.absent && of.on != "":
			c.From = []string{of.on}
		case !of.absent:
			var err error
			if c.Bytes, c.From, err = h.contentOf(ctx, a); err != nil {
				return err
			}
		}
		out = append(out, c)
		return nil
	}
	if err := add(req.Image, "image"); err != nil {
		return nil, err
	}
	for _, m := range p.mounts {
		name := m.cache
		if m.input != nil && name == "" {
			name = m.input.Name
		}
		if err := add(m.input, name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// contentOf tells how big an artifact is, as far as that is known, and where it can be had.
func (h *Host) contentOf(ctx context.Context, a *Artifact) (bytes int64, from []string, err error) {
	sources, err := h.sources(ctx, a)
	if err != nil {
		return 0, nil, err
	}
	for _, s := range sources {
		from = append(from, s.name)
		bytes = max(bytes, s.volume.Bytes)
	}
	if bytes > 0 {
		return bytes, from, nil
	}
	err = h.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.Artifact(a.ID)
		bytes = row.Bytes
		return noArtifact(a.Name, err)
	})
	return bytes, from, err
}
