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
	c := &cobra.Command{
		Use:   "explain JOB.hcl|RUN [STEP...]",
		Short: "Say which worker each step of a job would get, or of a run has got, and why no other",
		Long: `Say which worker each step of a job would get, or of a run has got, and why no other.

Of a job file it tells how things are now, and nothing is run; what the steps will take from one another is not
known then. It exits with 4 if a step would have to wait or could not run. Of a run (--state DIR) it tells how
things were when each step was placed, and of a daemon's also what those wait for that are not placed yet: a
place, or their turn.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if a.stateDir == "" || isFile(args[0]) {
				return a.explainJob(c, args[0], args[1:])
			}
			return a.explainRun(c, args[0], args[1:])
		},
	}
	a.formatFlag(c)
	return c
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

func (a *app) explainJob(c *cobra.Command, file string, only []string) error {
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
	if err := among(only, names, "job "+j.Name); err != nil {
		return err
	}
	return a.withBackend(c.Context(), readyTime, func(b backend) error {
		if err := a.checkConfigured(c.Context(), b); err != nil {
			return err
		}
		all, err := b.explainJob(c.Context(), j)
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
	if err := among(only, names, "run "+run); err != nil {
		return err
	}
	return a.writeExplained(slices.DeleteFunc(all, func(e explained) bool { return len(only) > 0 && !slices.Contains(only, e.step) }))
}

// among refuses names of steps that there are not.
func among(only, names []string, of string) error {
	for _, o := range only {
		if !slices.Contains(names, o) {
			return usageError{fmt.Errorf("%s has no step %s: it has %s", of, o, strings.Join(names, ", "))}
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
			text += fmt.Sprintf(", for worker %s, which is reserved for it", e.Reserved)
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
	case e.Err == nil:
		return "would run on worker " + e.Worker
	}
	if full := (*pool.FullError)(nil); errors.As(e.Err, &full) {
		return "would wait for a place"
	}
	return "cannot run: no worker takes it"
}

// takes says whether a worker takes a step.
func takes(r pool.Reason) string {
	switch {
	case r == pool.OK:
		return "yes"
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

type jsonExplained struct {
	Step     string        `json:"step"`
	State    string        `json:"state"`            // placed, waiting, turn, asked
	Worker   string        `json:"worker,omitempty"` // that it has or would get
	Held     bool          `json:"held,omitempty"`   // its owner had the place already
	Scores   []jsonScore   `json:"scores,omitempty"` // of that worker
	At       *time.Time    `json:"at,omitempty"`     // when it was placed
	Waited   float64       `json:"waited_seconds"`
	Position int           `json:"position,omitempty"` // among those who wait, from 1
	Reserved string        `json:"reserved,omitempty"` // waiting: the worker that is reserved for it
	Error    string        `json:"error,omitempty"`    // why it would not be placed
	Workers  []jsonVerdict `json:"workers"`            // the best first; of a placed step, the others
}

type jsonVerdict struct {
	Worker string      `json:"worker"`
	Takes  string      `json:"takes"`  // yes, no, full
	Reason string      `json:"reason"` // one word, such as ok, tags, containers
	Detail string      `json:"detail"`
	Scores []jsonScore `json:"scores,omitempty"`
}

type jsonScore struct {
	Strategy string `json:"strategy"`
	Value    int64  `json:"value"`
}

func writeExplainedJSON(to *outlet, all []explained) error {
	out := make([]jsonExplained, 0, len(all))
	for _, e := range all {
		j := jsonExplained{Step: e.step, State: string(e.State), Worker: e.Worker, Held: e.Held, Scores: jsonScores(e.Scores),
			Waited: e.Waited.Seconds(), Position: e.Position, Reserved: e.Reserved, Workers: []jsonVerdict{}}
		if !e.At.IsZero() {
			j.At = &e.At
		}
		if e.Err != nil {
			j.Error = e.Err.Error()
		}
		for _, v := range e.Workers {
			j.Workers = append(j.Workers, jsonVerdict{v.Worker, takes(v.Reason), string(v.Reason), v.Detail, jsonScores(v.Scores)})
		}
		out = append(out, j)
	}
	return to.writeJSON(out)
}

func jsonScores(all []pool.Score) []jsonScore {
	var out []jsonScore
	for _, s := range all {
		out = append(out, jsonScore{string(s.Strategy), s.Value})
	}
	return out
}
