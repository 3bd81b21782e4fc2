package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/sdk"
)

// reaper is what gc works on.
type reaper interface {
	reap(ctx context.Context, dry bool) (*host.ReapReport, error)
	explainReap(ctx context.Context, id string) ([]host.ReapVerdict, error)
}

func (a *app) gcCommand() *cobra.Command {
	var dry bool
	var wait time.Duration
	c := &cobra.Command{
		Use:   "gc",
		Short: "Take away what nobody uses, and say why",
		Long: `Take away what nobody uses, and say why.

A daemon does so by itself all the time, and is asked to do it now; this is for state directories
without one. What is only missing or unknown since now, and what is left of runs that nobody
resumed, goes after a grace (timing.missing_grace, 5m if not configured): give --wait to see it
out. It exits with 4 if something could not be taken away or a worker is away.
"slipway gc explain" tells of one thing why it stays or goes.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withState(c.Context(), func(r reaper) error { return a.gc(c.Context(), r, dry, wait) })
		},
	}
	a.formatFlag(c)
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would go, and what stays")
	c.Flags().DurationVar(&wait, "wait", 0, "wait for graces that end within this `time`")
	c.AddCommand(a.gcExplainCommand())
	return c
}

func (a *app) gcExplainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain ID",
		Short: "Say why a container, volume, artifact, run or what an owner has stays or goes",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withState(c.Context(), func(r reaper) error {
				verdicts, err := r.explainReap(c.Context(), args[0])
				if err != nil {
					return usageIfUnknown(err)
				}
				if a.format == formatJSON {
					return a.out.writeJSON(jsonFates(verdicts))
				}
				for _, v := range verdicts {
					if err := a.out.tell(thingOf(v) + ": " + fate(v)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	a.formatFlag(c)
	return c
}

// withState is withBackend for commands that make no sense without a state directory.
func (a *app) withState(ctx context.Context, f func(reaper) error) error {
	if a.stateDir == "" {
		return usageError{errors.New("gc needs --state DIR: without one, nothing is left behind")}
	}
	return a.withBackend(ctx, 0, func(b backend) error { return f(b) })
}

func (e *embedded) reap(ctx context.Context, dry bool) (*host.ReapReport, error) {
	return e.h.Reap(ctx, dry)
}

func (e *embedded) explainReap(ctx context.Context, id string) ([]host.ReapVerdict, error) {
	return e.h.ExplainReap(ctx, id)
}

func (d *daemon) reap(ctx context.Context, dry bool) (*host.ReapReport, error) {
	defer d.answer()()
	return d.c.Reap(ctx, dry)
}

func (d *daemon) explainReap(ctx context.Context, id string) ([]host.ReapVerdict, error) {
	defer d.answer()()
	return d.c.ExplainReap(ctx, id)
}

func usageIfUnknown(err error) error {
	if isType[*host.UnknownThingError](err) || errors.Is(err, sdk.NotFound) {
		return usageError{err}
	}
	return err
}

func (a *app) gc(ctx context.Context, r reaper, dry bool, wait time.Duration) error {
	end := time.Now().Add(wait)
	var done []host.ReapVerdict // of earlier looks
	for {
		report, err := r.reap(ctx, dry)
		if err != nil {
			return err
		}
		at := next(report)
		if dry || at.IsZero() || at.After(end) {
			report.Verdicts = append(done, report.Verdicts...)
			return a.tellGC(report, dry)
		}
		done = append(done, slices.DeleteFunc(report.Verdicts, func(v host.ReapVerdict) bool { return v.Action == host.ReapKeep || v.Err != nil })...)
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next is when the first thing goes of those that stay now; zero: none does.
func next(r *host.ReapReport) (at time.Time) {
	for _, v := range r.Verdicts {
		if !v.At.IsZero() && (at.IsZero() || v.At.Before(at)) {
			at = v.At
		}
	}
	return at
}

func (a *app) tellGC(r *host.ReapReport, dry bool) error {
	write := writeGC
	if a.format == formatJSON {
		write = writeGCJSON
	}
	if err := write(a.out, r, dry); err != nil {
		return err
	}
	failed := len(r.Away) > 0
	for _, v := range r.Verdicts {
		failed = failed || v.Err != nil
	}
	if failed {
		return codeError{errPrinted, codeInternal}
	}
	return nil
}

func writeGC(to *outlet, r *host.ReapReport, dry bool) error {
	t := newTable(to)
	kept, gone := 0, 0
	for _, v := range r.Verdicts {
		if v.Action == host.ReapKeep {
			kept++
			if !dry {
				continue
			}
		} else if v.Err == nil {
			gone++
		}
		t.row(thingOf(v), fate(v))
	}
	if err := t.end(); err != nil {
		return err
	}
	for name, why := range r.Away {
		_ = to.tell("worker " + name + " is away, and what it has stays: " + why) // the last line tells a failure
	}
	what := "gone"
	if dry {
		what = "would go"
	}
	_, err := fmt.Fprintf(to, "%d %s, %d stay\n", gone, what, kept)
	return err
}

func thingOf(v host.ReapVerdict) string {
	if v.Worker == "" {
		return v.Kind + " " + v.ID
	}
	return v.Kind + " " + v.ID + " on " + v.Worker
}

// fate says what becomes of a thing, and why.
func fate(v host.ReapVerdict) string {
	switch {
	case v.Err != nil:
		return fmt.Sprintf("goes, and could not be taken away: %s (%v)", v.Reason, v.Err)
	case v.Action != host.ReapKeep:
		return "goes: " + v.Reason
	case v.At.IsZero():
		return "stays: " + v.Reason
	}
	return fmt.Sprintf("stays until %s: %s", v.At.Local().Format(time.DateTime), v.Reason)
}

type jsonReap struct {
	DryRun bool              `json:"dry_run"`
	Things []jsonFate        `json:"things"`
	Away   map[string]string `json:"away,omitempty"`
}

type jsonFate struct {
	Kind   string     `json:"kind"`
	ID     string     `json:"id"`
	Worker string     `json:"worker,omitempty"`
	Action string     `json:"action"` // keep, destroy or lose
	Reason string     `json:"reason"`
	Until  *time.Time `json:"until,omitempty"` // if kept: when it goes unless something changes
	Error  string     `json:"error,omitempty"` // why it could not be taken away
}

func jsonFates(verdicts []host.ReapVerdict) []jsonFate {
	out := make([]jsonFate, 0, len(verdicts))
	for _, v := range verdicts {
		j := jsonFate{Kind: v.Kind, ID: v.ID, Worker: v.Worker, Action: string(v.Action), Reason: v.Reason}
		if !v.At.IsZero() {
			j.Until = &v.At
		}
		if v.Err != nil {
			j.Error = v.Err.Error()
		}
		out = append(out, j)
	}
	return out
}

func writeGCJSON(to *outlet, r *host.ReapReport, dry bool) error {
	return to.writeJSON(jsonReap{DryRun: dry, Things: jsonFates(r.Verdicts), Away: r.Away})
}
