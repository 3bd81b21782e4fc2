package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/sdk"
)

func (a *app) explainCommand() *cobra.Command {
	var inputs []string
	c := &cobra.Command{
		Use:   "explain JOB.hcl|RUN [STEP...]",
		Short: "Say which worker each step of a job would get, or of a run has got, and why no other",
		Long: `Say which worker each step of a job would get, or of a run has got, and why no other.

Of a job file it tells what would be done with each step now, and nothing is run: its worker, what would have to be
copied there and from where, or what it would wait for, and who comes first. What a step takes from another one is
taken to be where that would run, and its size is not known; what the job takes is nowhere yet, unless -i says
where it is: an artifact, or a directory of this machine. Steps of the job do not stand in each other's way. It exits with 4 if a step would have to wait or could not
run. Of a run (--state DIR) it tells how things were when each step was placed, and of a daemon's also what those
wait for that are not placed yet: a place, or their turn.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if a.stateDir == "" || isFile(args[0]) {
				return a.explainJob(c, args[0], args[1:], inputs)
			}
			if len(inputs) > 0 {
				return usageError{fmt.Errorf("-i %s is for a job file: run %s has its inputs", inputs[0], args[0])}
			}
			return a.explainRun(c, args[0], args[1:])
		},
	}
	a.formatFlag(c)
	c.Flags().StringArrayVarP(&inputs, "input", "i", nil, "`NAME=DIR`: the directory or file that is the job's input; or NAME=artifact:NAME, an artifact in --state; may be repeated")
	return c
}

// artifactInputs reads -i flags: those that name artifacts, and those that name directories or files, which are here.
func (a *app) artifactInputs(flags []string) (out, here map[string]string, err error) {
	if out, err = pairs("-i", flags); err != nil {
		return nil, nil, err
	}
	here = make(map[string]string)
	for _, name := range sortedKeys(out) {
		artifact, is := strings.CutPrefix(out[name], artifactInput)
		switch {
		case !is:
			if _, err := os.Stat(out[name]); err != nil {
				return nil, nil, usageError{fmt.Errorf("-i %s: %w", name, err)}
			}
			here[name] = out[name]
			delete(out, name)
		case artifact == "":
			return nil, nil, usageError{fmt.Errorf("-i %s=%s: want NAME=%sNAME", name, artifactInput, artifactInput)}
		case a.stateDir == "":
			return nil, nil, usageError{fmt.Errorf("-i %s=%s...: artifacts need --state DIR, where they are kept", name, artifactInput)}
		default:
			out[name] = artifact
		}
	}
	return out, here, nil
}

// fromHere says of the inputs that are directories or files of this machine that they come from there.
func fromHere(e *host.Explanation, here map[string]string) {
	for i, c := range e.Copies {
		name, is := strings.CutPrefix(c.Name, "input.")
		if path, ok := here[name]; is && ok && len(c.From) == 0 {
			e.Copies[i].From = []string{path}
		}
	}
}

func isFile(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}

// explained is what is told of a step.
type explained struct {
	step string
	*host.Explanation
}

func (a *app) explainJob(c *cobra.Command, file string, only, flags []string) error {
	inputs, here, err := a.artifactInputs(flags)
	if err != nil {
		return err
	}
	j, diags := job.Load(file)
	if len(diags) > 0 {
		a.writeDiagnostics(diags)
	}
	if diags.HasErrors() {
		return usageError{errPrinted}
	}
	var names []string
	for i := range j.Steps {
		names = append(names, j.Steps[i].Name)
	}
	if err := among(only, names, "job "+j.Name, "slipway explain "+file); err != nil {
		return err
	}
	for _, name := range sortedKeys(here) {
		if !slices.ContainsFunc(j.Inputs, func(in job.Input) bool { return in.Name == name }) {
			return usageError{fmt.Errorf("job %s has no input %q", j.Name, name)}
		}
	}
	return a.withBackend(c.Context(), readyTime, func(b backend) error {
		if err := a.checkConfigured(c.Context(), b); err != nil {
			return err
		}
		all, err := b.explainJob(c.Context(), j, inputs)
		if sdk.IsNotFound(err, host.KindArtifact) || errors.Is(err, sdk.Invalid) {
			err = usageError{err}
		}
		if err != nil {
			return err
		}
		var out []explained
		placed := true
		for i := range j.Steps {
			s := &j.Steps[i]
			if len(only) > 0 && !slices.Contains(only, s.Name) {
				continue
			}
			e := all[s.Name]
			fromHere(e, here)
			placed = placed && e.Err == nil
			out = append(out, explained{s.Name, e})
		}
		if err := a.writeExplained(out); err != nil {
			return err
		}
		if !placed {
			return codeError{errPrinted, codeInternal}
		}
		return nil
	})
}

// checkConfigured stops where a plugin's settings are wrong: then nothing that is told would be so.
func (a *app) checkConfigured(ctx context.Context, b backend) error {
	plugins, err := b.plugins(ctx)
	if err != nil {
		return err
	}
	if a.showConfigErrors(failures(plugins)) {
		return usageError{errPrinted}
	}
	return nil
}

func (a *app) explainRun(c *cobra.Command, run string, only []string) (err error) {
	r, err := a.openRecords(c.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	placements, err := r.Placements(c.Context(), run)
	if err != nil {
		return err
	}
	d, err := a.dial(c.Context(), answerTime)
	if err != nil {
		return err
	}
	if d != nil {
		defer d.Close()
		all, err := d.ExplainRun(c.Context(), run)
		if err != nil && !errors.Is(err, sdk.NotFound) {
			return err
		}
		if len(all) > 0 {
			placements = all // and what waits
		}
	}
	if len(placements) == 0 {
		return a.noSteps(c.Context(), r, run)
	}
	var all []explained
	var names []string
	for _, p := range placements {
		step := strings.TrimPrefix(p.Owner, host.RunOwner(run, ""))
		all = append(all, explained{step, p})
		names = append(names, step)
	}
	if err := among(only, names, "run "+run, "slipway explain "+run); err != nil {
		return err
	}
	return a.writeExplained(slices.DeleteFunc(all, func(e explained) bool { return len(only) > 0 && !slices.Contains(only, e.step) }))
}

// among refuses names of steps that there are not.
func among(only, names []string, of, lists string) error {
	for _, o := range only {
		if !slices.Contains(names, o) {
			return usageError{fmt.Errorf("%s has no step %s: %s", of, o, host.Choices(o, names, "it has", lists))}
		}
	}
	return nil
}

func (a *app) writeExplained(all []explained) error {
	if a.format == formatJSON {
		return writeExplainedJSON(a.out, all)
	}
	for i, e := range all {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := a.out.tell("step " + e.step + ": " + outcome(e.Explanation)); err != nil {
			return err
		}
		for _, line := range details(e.Explanation) {
			if err := a.out.tell("  " + line); err != nil {
				return err
			}
		}
		if len(e.Workers) == 0 {
			continue
		}
		t := newTable(a.out, "  WORKER", "TAKES IT", "REASON", "SCORES")
		for _, v := range e.Workers {
			t.row("  "+v.Worker, takes(v.Reason), v.Detail, dash(scores(v.Scores)))
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	return nil
}

// outcome says in a sentence where a container is or would be.
func outcome(e *host.Explanation) string {
	switch {
	case e.State == host.PlacementWaiting:
		text := fmt.Sprintf("waits for %s, number %d in the queue", e.Waited.Round(time.Second), e.Position)
		if e.Reserved != "" {
			text += fmt.Sprintf(", for worker %s, which is reserved for it until %s at the latest", e.Reserved, clock(e.ReservedUntil))
		}
		return text
	case e.State == host.PlacementTurn:
		return fmt.Sprintf("waits for its turn for %s, number %d: %s", e.Waited.Round(time.Second), e.Position, e.Err)
	case e.State == host.PlacementPlaced && e.Held:
		return fmt.Sprintf("on worker %s, which it had already", e.Worker)
	case e.State == host.PlacementPlaced:
		text := "on worker " + e.Worker
		if s := scores(e.Scores); s != "" {
			text += " by " + s
		}
		if e.Waited >= time.Second {
			text += ", after a wait of " + e.Waited.Round(time.Second).String()
		}
		return text
	}
	text := "cannot run: no worker takes it"
	switch {
	case e.Worker != "":
		text = "would run on worker " + e.Worker
		if s := scores(e.Scores); s != "" {
			text += " by " + s
		}
	case e.Position > 0:
		text = fmt.Sprintf("would wait for a place, number %d in the queue", e.Position)
	}
	if e.Turn > 0 {
		return fmt.Sprintf("would wait for its turn, number %d, since as many steps go side by side as may; then, as things are now, it %s", e.Turn, text)
	}
	return text
}

// details are what is to be told of a step besides, a line each.
func details(e *host.Explanation) (lines []string) {
	if len(e.InTheWay) > 0 {
		lines = append(lines, "in its way: "+e.InTheWay.String())
	}
	if n := len(e.Before); n > 0 {
		text := "first comes: " + strings.Join(e.Before, ", ")
		ahead := e.Position - 1
		if e.Turn > 0 {
			ahead = e.Turn - 1
		}
		if more := ahead - n; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		lines = append(lines, text)
	}
	for _, c := range e.Copies {
		text := "would be copied there: " + c.Name
		if c.Bytes > 0 {
			text += ", " + byteSize(c.Bytes)
		}
		switch {
		case len(c.From) > 0:
			text += ", from " + strings.Join(c.From, " or ")
		case strings.HasPrefix(c.Name, "step."):
			text += ", from where that step will run"
		default:
			text += ", from whoever runs the job"
		}
		lines = append(lines, text)
	}
	return lines
}

// takes says whether a worker takes a step.
func takes(r pool.Reason) string {
	switch {
	case r == pool.OK:
		return "yes"
	case r == pool.Pausing:
		return "later"
	case r.Full():
		return "full"
	}
	return "no"
}

func scores(all []pool.Score) string {
	var parts []string
	for _, s := range all {
		if s.Strategy != pool.Random {
			parts = append(parts, fmt.Sprintf("%s %d", s.Strategy, s.Value))
		}
	}
	return strings.Join(parts, ", ")
}
