package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
)

func (a *app) runsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "runs",
		Short: "List the runs, how they stand, and what each has on workers",
		Long: `List the runs, how they stand, and what each has on workers.

A run is running, ended, or stopped: begun by an earlier host, and resumed when it is run again with its --id, or
given up by "slipway run --abort ID". Only a daemon can tell whether a run is under way; without one, what has not
ended is unfinished. HOLDS is what it has on workers, as the state directory knows it, and SINCE when the first of
that was made.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withInventory(c.Context(), "runs", func(i inventory, live bool) error {
				runs, err := i.Runs(c.Context())
				if err != nil {
					return err
				}
				held, err := holdings(c.Context(), i)
				if err != nil {
					return err
				}
				l := listed{runs: runs, live: live}
				if a.format == formatJSON {
					return writeRunsJSON(a.out, l, held)
				}
				return writeRuns(a.out, l, held)
			})
		},
	}
	a.formatFlag(c)
	return c
}

// holding is what a run has on workers.
type holding struct {
	Containers int       `json:"containers"`
	Volumes    int       `json:"volumes"`
	Bytes      int64     `json:"bytes,omitempty"` // of volumes, as far as it is known
	Since      time.Time `json:"since"`
}

func (h *holding) String() string {
	if h == nil {
		return "-"
	}
	text := plural(h.Containers, "container") + ", " + plural(h.Volumes, "volume")
	if h.Bytes > 0 {
		text += ", " + byteSize(h.Bytes)
	}
	return text
}

func (h *holding) since() string {
	if h == nil {
		return "-"
	}
	return clock(h.Since)
}

// holdings gives what each run has, by its id.
func holdings(ctx context.Context, i inventory) (map[string]*holding, error) {
	out := make(map[string]*holding)
	of := func(made time.Time, owners ...string) *holding {
		for _, owner := range owners {
			run := host.RunOf(owner)
			if run == "" {
				continue
			}
			h := out[run]
			if h == nil {
				h = &holding{Since: made}
				out[run] = h
			}
			if made.Before(h.Since) {
				h.Since = made
			}
			return h
		}
		return &holding{} // nobody's
	}
	containers, _, err := i.Containers(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, c := range slices.DeleteFunc(containers, host.ContainerInfo.Over) {
		of(c.Created, c.Owner).Containers++
	}
	volumes, err := i.Volumes(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, v := range volumes {
		h := of(v.Created, v.Owner, v.Artifact)
		h.Volumes++
		h.Bytes += v.Bytes
	}
	return out, nil
}

func writeRuns(to *outlet, l listed, held map[string]*holding) error {
	t := newTable(to, "RUN", "STATE", "BEGAN", "ENDED", "HOLDS", "SINCE")
	for _, r := range l.runs {
		h := held[r.ID]
		t.row(r.ID, l.state(r), clock(r.Created), clock(r.EndedAt), fmt.Sprint(h), h.since())
	}
	return t.end()
}

func writeRunsJSON(to *outlet, l listed, held map[string]*holding) error {
	type run struct {
		jsonRun
		Holds *holding `json:"holds,omitempty"`
	}
	out := make([]run, 0, len(l.runs))
	for _, r := range l.runs {
		out = append(out, run{jsonRun{ID: r.ID, State: l.state(r), Began: r.Created, Ended: known(r.EndedAt)}, held[r.ID]})
	}
	return to.writeJSON(out)
}
