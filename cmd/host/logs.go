package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/spool"
)

func (a *app) logsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "logs RUN [STEP...]",
		Short: "Show what the steps of a run wrote, also while it runs elsewhere",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if a.stateDir == "" {
				return usageError{errors.New("logs needs --state DIR: a run without one leaves no records")}
			}
			r, err := host.OpenRecords(c.Context(), a.stateDir)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, r.Close()) }()
			return a.logs(c.Context(), r, args[0], args[1:])
		},
	}
	a.formatFlag(c)
	return c
}

func (a *app) logs(ctx context.Context, r *host.Records, run string, only []string) error {
	steps, err := r.Steps(ctx, run)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		runs, err := r.Runs(ctx)
		if err != nil {
			return err
		}
		return usageError{fmt.Errorf("no step of run %q was started; runs in %s: %s", run, a.stateDir, strings.Join(runs, ", "))}
	}
	names := make(map[string]bool)
	for _, s := range steps {
		names[s.Step] = true
	}
	wanted := make(map[string]bool)
	for _, o := range only {
		if !names[o] {
			return usageError{fmt.Errorf("run %q has no step %q that was started", run, o)}
		}
		wanted[o] = true
	}
	v := newView(ctx, a.out, a.err, sortedNames(names))
	enc := json.NewEncoder(a.out)
	for _, s := range steps {
		if len(only) > 0 && !wanted[s.Step] {
			continue
		}
		if err := a.stepLog(ctx, r, s, v, enc); err != nil {
			return fmt.Errorf("output of step %s: %w", s.Step, err)
		}
	}
	return v.finish()
}

func (a *app) stepLog(ctx context.Context, r *host.Records, s host.StepRecord, v *view, enc *json.Encoder) (err error) {
	rd, err := r.Output(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rd.Close()) }()
	next := func() (spool.Record, error) { return rd.Next(ctx) }
	if a.format == formatJSON {
		for {
			rec, err := next()
			if err != nil {
				return endOfLog(err)
			}
			if err := enc.Encode(outputEvent(s.Step, rec)); err != nil {
				return err
			}
		}
	}
	return endOfLog(v.copyRecords(s.Step, next))
}

// endOfLog is nil where a log is at its end, or at what there is so far.
func endOfLog(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, spool.ErrNoMore) {
		return nil
	}
	return err
}

func sortedNames(m map[string]bool) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}
