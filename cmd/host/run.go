package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/job"
)

// runFlags are what run and exec share.
type runFlags struct {
	inputs  []string
	outputs []string // NAME=DIR, or one format
	force   bool
	id      string
	grace   time.Duration
}

func (r *runFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVarP(&r.inputs, "input", "i", nil, "`NAME=DIR`: the directory for an input; may be repeated")
	f.StringArrayVarP(&r.outputs, "output", "o", nil, "`NAME=DIR`: where to put an output; may be repeated. Or a format: text or json")
	f.BoolVar(&r.force, "force", false, "replace output directories that are not empty")
	f.DurationVar(&r.grace, "grace", host.DefaultGrace, "how long an interrupted command may take to end by itself")
}

// request makes the request that the flags ask for, and finds the format among the outputs.
func (r *runFlags) request() (req host.RunRequest, format string, err error) {
	req = host.RunRequest{ID: r.id, Force: r.force, Grace: r.grace}
	format = formatText
	var outputs []string
	for _, o := range r.outputs {
		if strings.Contains(o, "=") {
			outputs = append(outputs, o)
			continue
		}
		if o != formatText && o != formatJSON {
			return req, "", usageError{fmt.Errorf("-o %s: want NAME=DIR, text or json", o)}
		}
		format = o
	}
	if r.grace < 0 {
		return req, "", usageError{fmt.Errorf("--grace %s is negative", r.grace)}
	}
	if req.Inputs, err = pairs("-i", r.inputs); err != nil {
		return req, "", err
	}
	req.Outputs, err = pairs("-o", outputs)
	return req, format, err
}

func (a *app) runCommand() *cobra.Command {
	var flags runFlags
	c := &cobra.Command{
		Use:   "run JOB.hcl",
		Short: "Run a job: its steps in containers, side by side where they can",
		Example: `  slipway run wordcount.hcl -i text=./texts -o counts=./out
  slipway run build.hcl -i src=. -o json | jq .event`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			req, format, err := flags.request()
			if err != nil {
				return err
			}
			j, diags := job.Load(args[0])
			if len(diags) > 0 {
				a.writeDiagnostics(diags)
			}
			if diags.HasErrors() {
				return usageError{errPrinted}
			}
			req.Job = j
			res, err := a.execute(c.Context(), req, format, false)
			return runError(res, err)
		},
	}
	flags.add(c)
	c.Flags().StringVar(&flags.id, "id", "", "`name` of the run; the same one on the same --state resumes it")
	return c
}

// runError is what a run's command ends with.
func runError(res *host.RunResult, err error) error {
	if err != nil {
		return err
	}
	if code := stepsCode(res.Steps); code != 0 {
		return codeError{errPrinted, code}
	}
	return nil
}

// execute opens a host, runs a job on it and shows what happens.
func (a *app) execute(ctx context.Context, req host.RunRequest, format string, plain bool) (res *host.RunResult, err error) {
	ctx, kill, stop := a.interrupts(ctx)
	defer stop()
	req.Kill = kill
	h, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeHost(ctx, h)) }()
	if err := h.Ready(ctx); err != nil {
		return nil, err
	}
	if req.ID == "" {
		req.ID = host.NewRunID()
	}
	shown := context.WithoutCancel(ctx) // what an interrupted step still writes is shown too
	if format == formatJSON {
		v := &jsonView{ctx: shown, enc: json.NewEncoder(a.out)}
		v.print(map[string]any{"time": time.Now(), "event": "run", "id": req.ID})
		req.Events = v.event
		res, err = h.Run(ctx, req)
		return res, errors.Join(err, v.finish())
	}
	var steps []string
	for _, s := range req.Job.Steps {
		steps = append(steps, s.Name)
	}
	v := newView(shown, a.out, a.err, steps)
	v.plain = plain
	if !plain {
		fmt.Fprintf(a.err, "run %s: job %q, %d steps\n", req.ID, req.Job.Name, len(steps))
	}
	req.Events = v.event
	res, err = h.Run(ctx, req)
	err = errors.Join(err, v.finish())
	if res != nil && !plain {
		summary(a.err, res)
	}
	return res, err
}

// interrupts gives a context that ends at the first interrupt, and a channel that is closed at the second.
func (a *app) interrupts(ctx context.Context) (_ context.Context, kill <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hurry := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-signals:
			fmt.Fprintln(a.err, "slipway: interrupted: ending what runs; interrupt again to kill it")
			cancel()
		case <-done:
			return
		}
		select {
		case <-signals:
			close(hurry)
			signal.Stop(signals) // a third one ends slipway itself
		case <-done:
		}
	}()
	return ctx, hurry, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel()
	}
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
