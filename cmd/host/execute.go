package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// runFlags are what run and exec share.
type runFlags struct {
	inputs  []string
	outputs []string // NAME=DIR, or one format
	force   bool
	id      string
	grace   time.Duration
	most    int
}

func (r *runFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVarP(&r.inputs, "input", "i", nil, "`NAME=DIR`: the directory for an input, or a single file, which is then NAME/file; or NAME=artifact:NAME, an artifact in --state; may be repeated")
	f.StringArrayVarP(&r.outputs, "output", "o", nil, "`NAME=DIR`: where to put an output; may be repeated. Or a format: text or json")
	f.BoolVar(&r.force, "force", false, "replace output directories that are not empty")
	f.DurationVar(&r.grace, "grace", host.DefaultGrace, "how long an interrupted command may take to end by itself; after that it is killed, and a worker that does not answer to that is waited for half a minute more")
}

// request makes the request that the flags ask for, and finds the format among the outputs.
func (r *runFlags) request() (req host.RunRequest, format string, err error) {
	req = host.RunRequest{ID: r.id, Force: r.force, Grace: r.grace, Parallel: r.most}
	format = formatText
	var outputs []string
	var told string
	for _, o := range r.outputs {
		if strings.Contains(o, "=") {
			outputs = append(outputs, o)
			continue
		}
		if told != "" && o != told {
			return req, "", usageError{fmt.Errorf("-o %s and -o %s: choose one", told, o)}
		}
		if o != formatText && o != formatJSON {
			return req, "", usageError{fmt.Errorf("-o %s: want NAME=DIR, text or json", o)}
		}
		format, told = o, o
	}
	if r.id != "" {
		if err := host.CheckRunID(r.id); err != nil { // before there is a state directory
			return req, "", usageError{err}
		}
	}
	if r.most < 0 {
		return req, "", usageError{fmt.Errorf("--parallel %d: want a number of steps, or 0 for as many as can be", r.most)}
	}
	if r.grace <= 0 {
		return req, "", usageError{fmt.Errorf("--grace %s: want more than nothing", r.grace)}
	}
	if req.Inputs, err = pairs("-i", r.inputs); err != nil {
		return req, "", err
	}
	req.Artifacts = make(map[string]*host.Artifact)
	for name, value := range req.Inputs {
		artifact, is := strings.CutPrefix(value, artifactInput)
		if !is {
			continue
		}
		if artifact == "" {
			return req, "", usageError{fmt.Errorf("-i %s=%s: want NAME=%sNAME", name, value, artifactInput)}
		}
		req.Artifacts[name] = &host.Artifact{Name: artifact} // whose it is, who has the state directory knows
		delete(req.Inputs, name)
	}
	req.Outputs, err = pairs("-o", outputs)
	return req, format, err
}

// artifactInput begins an input that is an artifact; a directory that is called so is ./artifact:...
const artifactInput = "artifact:"

// pairs reads NAME=DIR flags.
func pairs(flag string, values []string) (map[string]string, error) {
	out := make(map[string]string, len(values))
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" || value == "" {
			return nil, usageError{fmt.Errorf("%s %s: want NAME=DIR", flag, v)}
		}
		if _, twice := out[name]; twice {
			return nil, usageError{fmt.Errorf("%s %s is given twice", flag, name)}
		}
		out[name] = value
	}
	return out, nil
}

// execute runs a job and shows what happens: plain is the output alone.
func (a *app) execute(ctx context.Context, req host.RunRequest, format string, plain bool) (res *host.RunResult, err error) {
	if req.ID == "" {
		req.ID = host.NewRunID()
	}
	if len(req.Artifacts) > 0 && a.stateDir == "" {
		return nil, usageError{fmt.Errorf("-i %s=%s...: artifacts need --state DIR, where they are kept", sortedKeys(req.Artifacts)[0], artifactInput)}
	}
	a.run, req.Kill = req.ID, a.hurry
	err = a.withBackend(ctx, 0, func(b backend) error {
		if err := a.usablePlugins(ctx, b); err != nil {
			return err
		}
		var v view
		switch {
		case format == formatJSON:
			v = newJSONView(a.out, req)
		default:
			v = newTextView(a, req, plain)
		}
		told := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(told)
			if _, ok := errors.AsType[interrupted](context.Cause(ctx)); ok {
				v.say("interrupted: ending what runs; interrupt again to kill it")
			}
		})
		defer func() {
			if !stop() {
				<-told
			}
		}()
		f := newFeed(v)
		var err error
		res, err = b.run(ctx, req, f.put)
		if res == nil && sdk.IsNotFound(err, host.KindArtifact) {
			err = usageError{err}
		}
		f.finish()
		v.end(res, err)
		return err
	})
	return res, err
}

// tellLeft tells what stays on workers for now.
func (a *app) tellLeft(left map[string]host.Owed) {
	if a.stateDir == "" { // it goes with the plugin
		return
	}
	for _, worker := range sortedKeys(left) {
		a.say(fmt.Sprintf("worker %s has %v; the next slipway that uses %s tries again, if its configuration has that worker", worker, left[worker], a.stateDir))
	}
}

// usablePlugins stops what a wrong configuration would make of a run, and tells what cannot be used in it.
func (a *app) usablePlugins(ctx context.Context, b backend) error {
	plugins, err := b.plugins(ctx)
	if err != nil {
		return err
	}
	errs := failures(plugins)
	if a.showConfigErrors(errs) {
		return usageError{errPrinted}
	}
	if len(errs) == len(plugins) {
		return errors.Join(errs...)
	}
	failed := make(map[string]bool)
	for _, p := range plugins {
		if p.Failing() {
			a.complain(p.Err)
			failed[p.Name] = true
		}
	}
	workers, err := b.workers(ctx)
	if err != nil {
		return err
	}
	a.told = make(map[string]string)
	for _, w := range workers {
		if failed[w.Plugin] {
			a.told[w.Name] = w.Plugin
		}
	}
	return nil
}

// failures tells why plugins do not run.
func failures(plugins []launch.Report) []error {
	var errs []error
	for _, p := range plugins {
		if p.Failing() {
			errs = append(errs, p.Err)
		}
	}
	return errs
}

// showConfigErrors shows what is wrong with plugins' settings, at the lines where it is, and tells whether there was any.
func (a *app) showConfigErrors(errs []error) (any bool) {
	for _, err := range errs {
		if bad, ok := errors.AsType[*host.ConfigError](err); ok {
			a.writeDiagnostics(bad.Diagnostics)
			any = true
		}
	}
	return any
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
