package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
)

func (a *app) logsCommand() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:   "logs RUN [STEP...]",
		Short: "Show what the steps of a run wrote, so far if it still runs",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("logs needs a run: slipway logs --state DIR RUN")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			if a.stateDir == "" {
				return usageError{errors.New("logs needs --state DIR: a run without one leaves no records")}
			}
			r, err := a.openRecords(c.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, r.Close()) }()
			if follow {
				return a.followLogs(c.Context(), r, args[0], args[1:])
			}
			return a.logs(c.Context(), r, args[0], args[1:])
		},
	}
	a.formatFlag(c)
	a.rawFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what its steps write, also those that begin later, until the run has ended")
	return c
}

func (a *app) logs(ctx context.Context, r *host.Records, run string, only []string) error {
	steps, err := r.Steps(ctx, run)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		return a.noSteps(ctx, r, run)
	}
	var names []string
	for _, s := range steps {
		names = append(names, s.Step)
	}
	for _, o := range only {
		if !slices.Contains(names, o) {
			return usageError{fmt.Errorf("step %s of run %s was not started: %s", o, run, host.Choices(o, names, "those that were are", "slipway ps "+run))}
		}
	}
	text := newStepsView(a, names)
	whole := true
	for _, s := range steps {
		if len(only) > 0 && !slices.Contains(only, s.Step) {
			continue
		}
		shown := a.stored(text, s.Step)
		if err := stepLog(ctx, r, s, shown); err != nil {
			return fmt.Errorf("output of step %s: %w", s.Step, err)
		}
		whole = whole && !shown.broken
		if a.format == formatText {
			text.note(s.Step, recorded(s))
		}
	}
	if !whole {
		return codeError{errPrinted, codeInternal}
	}
	return nil
}

// stored is where a step's stored output goes.
func (a *app) stored(text *textView, step string) *careful {
	if a.format == formatJSON {
		return &careful{sink: jsonSink{&jsonView{to: a.out}, step}}
	}
	return &careful{sink: text.output(step)}
}

// careful notes whether a sink was given less than all.
type careful struct {
	sink
	broken bool
}

func (s *careful) end(failure error) {
	s.broken = s.broken || failure != nil
	s.sink.end(failure)
}

func (a *app) noSteps(ctx context.Context, r *host.Records, run string) error {
	rows, err := r.Runs(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(rows, func(a, b host.RunInfo) int { return b.Created.Compare(a.Created) })
	var runs []string
	for _, row := range rows {
		runs = append(runs, row.ID)
	}
	if slices.Contains(runs, run) {
		return usageError{fmt.Errorf("no step of run %s was started", run)}
	}
	if len(runs) == 0 {
		return usageError{fmt.Errorf("there is no run %s, nor any other in %s", run, a.stateDir)}
	}
	return usageError{fmt.Errorf("there is no run %s: %s", run, host.Choices(run, runs, "the latest in "+a.stateDir+" are", "slipway ps --all"))}
}

func stepLog(ctx context.Context, r *host.Records, s host.StepRecord, to sink) (err error) {
	rd, err := r.Output(s)
	if err != nil {
		if neverWrote(s, err) {
			err = nil
		}
		to.end(err)
		return nil
	}
	defer func() { err = errors.Join(err, rd.Close()) }()
	copyRecords(ctx, to, rd)
	return ctx.Err()
}

// neverWrote tells whether there is no output because none was ever stored: err is why it cannot be read. An exit is stored after output.
func neverWrote(s host.StepRecord, err error) bool {
	return s.Exit == nil && errors.Is(err, fs.ErrNotExist)
}

// recorded says how a step stands or ended.
func recorded(s host.StepRecord) string {
	switch {
	case s.Exit != nil && s.Exit.Signal != "":
		return fmt.Sprintf("ended by signal %s, on worker %s", s.Exit.Signal, s.Worker)
	case s.Exit != nil:
		return fmt.Sprintf("exit code %d, on worker %s", s.Exit.Code, s.Worker)
	case s.Reason != "":
		return fmt.Sprintf("%s on worker %s: %s", s.State, s.Worker, s.Reason)
	}
	return fmt.Sprintf("%s on worker %s", s.State, s.Worker)
}
