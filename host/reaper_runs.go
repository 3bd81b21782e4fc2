package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// enterRun notes that a run is under way in this host, unless it is already.
func (h *Host) enterRun(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs[id] {
		return false
	}
	h.runs[id] = true
	return true
}

// leaveRun notes that it is not any more, and when that was if it can be resumed.
func (h *Host) leaveRun(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime) // the host may be closing: the next one goes by it
	defer cancel()
	err := h.stampRuns(ctx, id)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.runs, id)
	if err != nil {
		h.leftRuns[id] = h.clock.wall()
		return
	}
	delete(h.leftRuns, id)
}

func (h *Host) runsUnderWay() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.runs))
}

// stampRuns notes of runs that they are under way now, except of those that have ended.
func (h *Host) stampRuns(ctx context.Context, ids ...string) error {
	going := func(tx *store.Tx) (rows []store.Run, err error) {
		for _, id := range ids {
			row, err := tx.Run(id)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
			if err == nil && row.State == lifecycle.RunGoing {
				rows = append(rows, row)
			}
		}
		return rows, nil
	}
	var any bool
	err := h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := going(tx)
		any = len(rows) > 0
		return err
	})
	if err != nil || !any {
		return err
	}
	now := h.clock.wall()
	return h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		rows, err := going(tx)
		for _, row := range rows {
			_, e := runLife.move(tx, row.ID, lifecycle.Described, func(r *store.Run) error {
				r.ActiveAt = now
				return nil
			})
			err = errors.Join(err, e)
		}
		return err
	})
}

// stampLast is stampRuns before the store closes: whoever runs them may leave later.
func (h *Host) stampLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	if err := h.stampRuns(ctx, h.runsUnderWay()...); err != nil {
		h.log.Warn("it is not noted that runs were under way until now", "error", err)
	}
}

// runState tells what the reaper has to know of a run. One that has not ended is idle since it was last seen to do anything.
func (h *Host) runState(tx *store.Tx, row store.Run) (reap.Owner, error) {
	h.mu.Lock()
	o := reap.Owner{Name: "run " + row.ID, Active: h.runs[row.ID], Ended: row.State != lifecycle.RunGoing, Idle: row.EndedAt}
	h.mu.Unlock()
	if o.Ended {
		return o, nil
	}
	var err error
	if o.Idle, err = h.lastActive(tx, row); err != nil {
		return o, err
	}
	// However long there was no host: who wants to resume it may take a while from when there is one, this or an earlier one.
	since := h.clock.wall().Add(h.openedAt - h.clock.steady())
	kept, err := soFar(row)
	if found := kept.Overdue; found.After(o.Idle) && found.Before(since) {
		since = found
	}
	o.Idle = later(o.Idle, since.Add(h.cfg().Timing.MissingGrace-h.rules().Abandoned))
	return o, err
}

// lastActive is when a run that has not ended was last seen to do anything.
func (h *Host) lastActive(tx *store.Tx, row store.Run) (time.Time, error) {
	h.mu.Lock()
	last := later(later(row.CreatedAt, row.ActiveAt), h.leftRuns[row.ID])
	h.mu.Unlock()
	containers, err := tx.Containers(store.ContainerFilter{OwnerPrefix: RunOwner(row.ID, "")})
	for _, c := range containers {
		last = later(last, c.UpdatedAt)
	}
	return last, err
}

// noteOverdue notes of runs that nobody has resumed for too long when that was found first. Hosts that live for less than the grace give them up, too, then.
func (h *Host) noteOverdue(ctx context.Context) error {
	now := h.clock.wall()
	before := now.Add(-h.rules().Abandoned)
	overdue := func(tx *store.Tx) (rows []store.Run, err error) {
		all, err := tx.Runs(store.RunFilter{States: []string{lifecycle.RunGoing}})
		if err != nil {
			return nil, err
		}
		for _, row := range all {
			last, err := h.lastActive(tx, row)
			if err != nil {
				return nil, err
			}
			kept, err := soFar(row)
			if err != nil {
				return nil, err
			}
			if last.Before(before) && !kept.Overdue.After(last) {
				rows = append(rows, row)
			}
		}
		return rows, nil
	}
	var any bool
	err := h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := overdue(tx)
		any = len(rows) > 0
		return err
	})
	if err != nil || !any {
		return err
	}
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		rows, err := overdue(tx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			err := describeRun(tx, row.ID, func(kept *runRecord) { kept.Overdue = now })
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// reapRuns ends what is left of runs: of those whose steps have ended under a host that died then, and of those that nobody resumes.
func (h *Host) reapRuns(ctx context.Context, dry bool) (out []ReapVerdict, err error) {
	if !dry {
		if err := h.noteOverdue(ctx); err != nil {
			return nil, err
		}
	}
	var overdue []string
	why := make(map[string]string)
	err = h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Runs(store.RunFilter{States: []string{lifecycle.RunGoing, lifecycle.RunEnding}})
		if err != nil {
			return err
		}
		for _, row := range rows {
			o, err := h.runState(tx, row)
			if err != nil {
				return err
			}
			if reason := h.overdue(row, o); reason != "" {
				overdue, why[row.ID] = append(overdue, row.ID), reason
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, id := range overdue {
		v := ReapVerdict{Kind: "run", ID: id, Action: ReapDestroy, Reason: why[id]}
		if !dry {
			h.fault("run-overdue")
			v.Err = h.reapRun(ctx, id)
		}
		if !errors.Is(v.Err, errChanged) {
			out = append(out, v)
		}
	}
	return out, nil
}

// overdue tells why a run is to be ended by the reaper; "": it is not.
func (h *Host) overdue(row store.Run, o reap.Owner) string {
	look := reap.Snapshot{Rules: h.rules()}
	look.Now, look.Renewed = h.jumps.look(h.clock)
	switch {
	case o.Active:
		return ""
	case row.State == lifecycle.RunEnding:
		return "it has ended, and what is left of it goes"
	case look.Abandoned(o):
		return fmt.Sprintf("nobody has resumed it for %s", look.Rules.Abandoned)
	}
	return ""
}

// reapRun ends a run if that is due still; errChanged: it is not.
func (h *Host) reapRun(ctx context.Context, id string) error {
	if !h.enterRun(id) {
		return errChanged
	}
	defer h.visited(id)
	return h.endRun(ctx, id, func(tx *store.Tx, row store.Run) (string, error) {
		o, err := h.runState(tx, row)
		o.Active = false // but for this
		return h.overdue(row, o), err
	})
}

// visited ends what enterRun began, for a visit that does not keep the run.
func (h *Host) visited(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.runs, id)
}

// endRun ends a run for a reason, which due tells; errChanged: there is none. What it has on workers is owed then.
func (h *Host) endRun(ctx context.Context, id string, due func(*store.Tx, store.Run) (why string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	var artifacts []store.Artifact
	err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		row, err := tx.Run(id)
		if errors.Is(err, store.ErrNotFound) {
			return errChanged
		}
		if err != nil {
			return err
		}
		why, err := due(tx, row)
		if err != nil {
			return err
		}
		if why == "" {
			return errChanged
		}
		if row.State == lifecycle.RunGoing {
			if err := h.abandon(tx, row, why); err != nil {
				return err
			}
		}
		artifacts, err = tx.Artifacts(store.ArtifactFilter{OwnerPrefix: RunOwner(id, "")})
		return err
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	delete(h.leftRuns, id)
	h.mu.Unlock()
	waits, err := removeArtifacts(artifacts, func(a *Artifact) error {
		_, err := h.giveUpArtifact(ctx, a, nil)
		return err
	})
	if waits {
		err = nil // they expire once nothing is made of them any more
	}
	return errors.Join(err, h.sweptRun(ctx, id))
}

// abandon keeps what a run came to that nobody resumes, and notes that all it has on workers is to be destroyed.
func (h *Host) abandon(tx *store.Tx, row store.Run, why string) error {
	containers, err := tx.Containers(store.ContainerFilter{OwnerPrefix: RunOwner(row.ID, "")})
	if err != nil {
		return err
	}
	ended, _, err := keptSteps(tx, row.ID)
	if err != nil {
		return err
	}
	result := RunResult{ID: row.ID, Abandoned: why}
	for _, c := range containers {
		s, err := lastOf(tx, row.ID, c, why)
		if err != nil {
			return err
		}
		if kept, ok := ended[s.Step]; ok {
			s = kept.result()
		}
		i := slices.IndexFunc(result.Steps, func(other StepResult) bool { return other.Step == s.Step })
		switch {
		case i < 0:
			result.Steps = append(result.Steps, s)
		case result.Steps[i].Attempts < s.Attempts:
			result.Steps[i] = s
		}
		if _, err := h.doomContainer(tx, c.ID, doom{volumes: true}); err != nil {
			return err
		}
	}
	kept, err := json.Marshal(record(&result))
	if err != nil {
		return err
	}
	return h.endRunRow(tx, row.ID, lifecycle.Abandoned, kept)
}

// lastOf tells what an attempt at a step of an abandoned run came to: how its process ended if it had, else that it was aborted for why.
func lastOf(tx *store.Tx, run string, c store.Container, why string) (StepResult, error) {
	s := StepResult{State: StepAborted, Worker: c.Worker, Err: errors.New(why)}
	s.Step, s.Attempts = attemptOf(run, c.Owner)
	p, err := tx.Process(rowID(sdk.ContainerID(c.ID), MainProcess))
	if errors.Is(err, store.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	ended := p.State == lifecycle.ProcessExited || p.State == lifecycle.ProcessLost || p.State == lifecycle.ProcessAborted
	if ended && !p.StartedAt.IsZero() {
		s.Run = max(p.EndedAt.Sub(p.StartedAt), 0)
	}
	switch {
	case p.State == lifecycle.ProcessExited && p.Reason == "":
		s.Exit, s.Err = new(sdk.Exit), nil
		if err := json.Unmarshal(p.Exit, s.Exit); err != nil {
			return s, fmt.Errorf("record of process %s: %w", p.ID, err)
		}
		s.State = StepSucceeded
		if s.Exit.Code != 0 {
			s.State = StepFailed
		}
	case ended && p.State != lifecycle.ProcessLost && p.Reason != "": // it ended because it was told to
		s.Err = errors.New(p.Reason)
	case p.State == lifecycle.ProcessLost, !ended && c.State == lifecycle.ContainerLost:
		s.State, s.Err = StepLost, &LostError{Owner: c.Owner, Worker: c.Worker, Reason: cmp.Or(p.Reason, c.Reason)}
	}
	return s, nil
}

// attemptOf is the reverse of AttemptOwner.
func attemptOf(run, owner string) (step string, n int) {
	rest := strings.TrimPrefix(owner, RunOwner(run, ""))
	if step, after, ok := strings.Cut(rest, "/"); ok {
		if n, err := strconv.Atoi(after); err == nil && n > 1 {
			return step, n
		}
	}
	return rest, 1
}
