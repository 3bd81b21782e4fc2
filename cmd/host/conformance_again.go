package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slipway-run/slipway/conformance"
)

func (a *app) conformanceRerunCommand() *cobra.Command {
	var reports reportFlags
	var env []string
	c := &cobra.Command{
		Use:   "rerun REPORT",
		Short: "Run the cases again that failed in a report, on the same plugin with the same seed",
		Long: `Reads a report that "run --report" has written, and runs what failed in it once more: the same plugin, settings and seed. A report keeps no
values of variables: they come from the environment here, or from -e.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			old, err := readReport(args[0])
			if err != nil {
				return err
			}
			flags, plugin, err := recordedRun(old.Command)
			if err != nil {
				return usageError{fmt.Errorf("%s: its command: %w", args[0], err)}
			}
			end := conformance.NothingLeft().ID // it is always run
			for _, r := range old.Results {
				if r.Status == conformance.Fail || r.Status == conformance.Error {
					flags.only = append(flags.only, r.ID)
				}
			}
			if slices.Equal(flags.only, []string{end}) {
				return usageError{fmt.Errorf("%s: only %s failed, which no single case shows: run all of them again", args[0], end)}
			}
			if len(flags.only) == 0 {
				_, err := fmt.Fprintf(a.out, "nothing failed in %s that could be run again\n", args[0])
				return err
			}
			for _, id := range flags.only {
				if _, err := findCase(id); err != nil {
					return err
				}
			}
			flags.seed, flags.env = old.Seed, mergeEnv(flags.env, env)
			return a.conform(c, flags, reports, plugin)
		},
	}
	reports.bind(c.Flags())
	c.Flags().StringArrayVarP(&env, "env", "e", nil, "`NAME=VALUE` for the plugin; may be repeated")
	return c
}

func readReport(file string) (conformance.Summary, error) {
	var sum conformance.Summary
	text, err := os.ReadFile(file)
	if err != nil {
		return sum, usageError{err}
	}
	if err := json.Unmarshal(text, &sum); err != nil {
		return sum, usageError{fmt.Errorf("%s: it is no report of \"slipway conformance run --report\": %w", file, err)}
	}
	if len(sum.Command) == 0 {
		return sum, usageError{fmt.Errorf("%s: it does not say what was run: make it with \"slipway conformance run --report\"", file)}
	}
	return sum, nil
}

// recordedRun reads what targetFlags.args has written.
func recordedRun(args []string) (suiteFlags, []string, error) {
	var flags suiteFlags
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	flags.bind(f)
	if err := f.Parse(args); err != nil {
		return flags, nil, err
	}
	if f.NArg() == 0 {
		return flags, nil, errors.New("it names no plugin")
	}
	return flags, f.Args(), nil
}

// mergeEnv puts given variables in the place of recorded ones.
func mergeEnv(recorded, given []string) []string {
	name := func(e string) string { n, _, _ := strings.Cut(e, "="); return n }
	kept := slices.DeleteFunc(slices.Clone(recorded), func(r string) bool {
		return slices.ContainsFunc(given, func(g string) bool { return name(g) == name(r) })
	})
	return append(kept, given...)
}

func (a *app) conformanceRepeatCommand() *cobra.Command {
	var flags targetFlags
	var n, parallel int
	var untilFail bool
	var seed uint64
	budget := defaultBudget
	c := &cobra.Command{
		Use:   "repeat CASE PLUGIN [-- ARG...]",
		Short: "Run one case many times and tell how often it fails",
		Long: `Runs one case many times on one start of the plugin, several at once, and tells the rate of failures with an upper bound of 95 % confidence: none in 1000 runs
means less than 0.3 %.`,
		Example: `  slipway conformance repeat X08-quick-output ./my-plugin -n 1000 --until-fail`,
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			kase, err := findCase(args[0])
			if err != nil {
				return err
			}
			if n <= 0 || parallel <= 0 {
				return usageError{fmt.Errorf("-n %d --parallel %d: both must be more than zero", n, parallel)}
			}
			log, err := a.logger()
			if err != nil {
				return err
			}
			all := suiteFlags{targetFlags: flags, seed: seed, budget: budget}
			target, opts, err := all.suite(c.Context(), args[1:], log)
			if err != nil {
				return err
			}
			opts.Parallel = parallel
			rep, err := conformance.Repeat(c.Context(), target, opts, kase.ID, n, untilFail, func(r conformance.Result) {
				if r.Status == conformance.Fail && a.format == formatText {
					_ = a.out.tell("fail: " + r.Failures[0].What)
				}
			})
			if err != nil {
				return err
			}
			return a.tellRepetition(rep)
		},
	}
	f := c.Flags()
	flags.bind(f)
	f.IntVarP(&n, "runs", "n", 100, "how `often`")
	f.IntVar(&parallel, "parallel", 4, "how `many` at once")
	f.BoolVar(&untilFail, "until-fail", false, "stop at the first failure")
	f.Uint64Var(&seed, "seed", 0, "`number` that repeats an earlier run's random choices")
	f.DurationVar(&budget, "budget", defaultBudget, "`time` after which no run begins or goes on any more")
	a.formatFlag(c)
	return c
}

func (a *app) tellRepetition(rep conformance.Repetition) error {
	if a.format == formatJSON {
		e := json.NewEncoder(a.out)
		e.SetIndent("", "  ")
		if err := e.Encode(struct {
			conformance.Repetition
			Rate  float64 `json:"rate"`
			Bound float64 `json:"bound"`
		}{rep, rep.Rate(), rep.Bound()}); err != nil {
			return err
		}
	} else {
		if rep.Undecided > 0 {
			_ = a.out.tell(fmt.Sprintf("%s: %s", rep.Last.Status, rep.Last.Note))
		}
		fmt.Fprintf(a.out, "%s: %d of %d runs failed, %.2f %%; with 95 %% confidence less than %.2f %% do; the slowest took %.2f s\n",
			rep.ID, rep.Failed, rep.Runs, 100*rep.Rate(), 100*rep.Bound(), rep.Slowest)
	}
	switch {
	case rep.Last != nil && rep.Last.Status == conformance.Error:
		return codeError{errPrinted, codeHarness}
	case rep.Failed > 0:
		return codeError{errPrinted, codeNotConformant}
	case rep.Undecided > 0:
		return codeError{errPrinted, codePartial}
	}
	return nil
}
