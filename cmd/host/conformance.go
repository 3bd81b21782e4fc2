package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

const formatJUnit = "junit"

func (a *app) conformanceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "conformance",
		Short: "Say whether a plugin keeps the contract, in any language",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.conformanceRunCommand(), a.conformanceListCommand(), a.conformanceExplainCommand())
	return c
}

// suiteFlags say what to run on what.
type suiteFlags struct {
	profiles       []string
	only, skip     []string
	short          bool
	bare, linux    bool
	seed           uint64
	pluginSettings string
	workerSettings string
	worker         string
	env            []string
}

func (a *app) conformanceRunCommand() *cobra.Command {
	var flags suiteFlags
	var format string
	c := &cobra.Command{
		Use:   "run PLUGIN [-- ARG...]",
		Short: "Run the suite against a plugin's program",
		Long: `Starts the plugin with one worker and runs the cases against it, as a host would use it.
Exit codes: 0 no profile failed; 1 one did; 2 a flag or a file is wrong; 4 the suite itself failed.`,
		Example: `  slipway conformance run ./my-plugin --worker-settings worker.json
  slipway conformance run ./my-plugin --only 'P*' -o junit > report.xml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			log, err := a.logger()
			if err != nil {
				return err
			}
			target, opts, err := flags.suite(args, log)
			if err != nil {
				return err
			}
			if !slices.Contains([]string{formatText, formatJSON, formatJUnit}, format) {
				return usageError{fmt.Errorf("-o %s: the formats are text, json and junit", format)}
			}
			return a.conform(c, target, opts, format)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&flags.profiles, "profile", nil, "`profiles` to run: "+strings.Join(profileNames(), ", ")+"; default all")
	f.StringSliceVar(&flags.only, "only", nil, "`patterns` of case ids to run, such as 'P*'")
	f.StringSliceVar(&flags.skip, "skip", nil, "`patterns` of case ids to leave out")
	f.BoolVar(&flags.short, "short", false, "make the loops that look for rare faults ten times shorter")
	f.BoolVar(&flags.bare, "bare", false, "the plugin's containers without an image hold nothing but the programs that the cases run")
	f.BoolVar(&flags.linux, "linux", false, "the plugin's containers without an image are small Linux systems, run by root, with /proc and what busybox has")
	f.Uint64Var(&flags.seed, "seed", 0, "`number` that repeats an earlier run's random choices")
	f.StringVar(&flags.pluginSettings, "plugin-settings", "", "JSON `file` with the settings of the plugin's block")
	f.StringVar(&flags.workerSettings, "worker-settings", "", "JSON `file` with the settings of the worker's block")
	f.StringVar(&flags.worker, "worker", "suite", "`name` of the worker's block")
	f.StringArrayVarP(&flags.env, "env", "e", nil, "`NAME=VALUE` for the plugin, which gets nothing else; may be repeated")
	f.StringVarP(&format, "output", "o", formatText, "`format`: text, json or junit")
	return c
}

func (s *suiteFlags) suite(args []string, log *slog.Logger) (conformance.Target, conformance.Options, error) {
	var none conformance.Target
	opts := conformance.Options{Only: s.only, Skip: s.skip, Short: s.short, Seed: s.seed}
	for _, p := range s.profiles {
		if !slices.Contains(profileNames(), p) {
			return none, opts, usageError{fmt.Errorf("--profile %s: the profiles are %s", p, strings.Join(profileNames(), ", "))}
		}
		opts.Profiles = append(opts.Profiles, conformance.Profile(p))
	}
	env, err := environment(s.env)
	if err != nil {
		return none, opts, err
	}
	plugin, err := settings(s.pluginSettings)
	if err != nil {
		return none, opts, err
	}
	worker, err := settings(s.workerSettings)
	if err != nil {
		return none, opts, err
	}
	target := conformance.Command(conformance.Program{
		Path: args[0], Args: args[1:], Env: env, Plugin: sdk.Block{Name: "suite", Values: plugin},
		Workers: []sdk.Block{{Name: s.worker, Values: worker}}, Launch: launch.Options{Logger: log},
	})
	target.Bare, target.Linux = s.bare, s.linux
	return target, opts, nil
}

// settings reads a block's settings.
func settings(file string) (json.RawMessage, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usageError{err}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, usageError{fmt.Errorf("%s: want a JSON object: %w", file, err)}
	}
	return text, nil
}

func (a *app) conform(c *cobra.Command, target conformance.Target, opts conformance.Options, format string) error {
	progress := func(r conformance.Result) {
		if format == formatText && r.Status != conformance.Skipped {
			fmt.Fprintf(a.out, "%-18s %s\n", r.Status, r.Name())
		}
	}
	sum, err := conformance.Execute(c.Context(), target, opts, progress)
	if err != nil && len(sum.Results) == 0 {
		return err
	}
	end := conformance.NothingLeft().ID // it is always run
	if len(opts.Only) > 0 && !slices.ContainsFunc(sum.Results, func(r conformance.Result) bool {
		return r.ID != end && r.Status != conformance.Skipped
	}) {
		return usageError{fmt.Errorf("--only %s: no case has such an id: see \"slipway conformance list\"", strings.Join(opts.Only, ","))}
	}
	switch format {
	case formatJSON:
		err = errors.Join(err, conformance.WriteJSON(a.out, sum))
	case formatJUnit:
		err = errors.Join(err, conformance.WriteJUnit(a.out, sum))
	default:
		err = errors.Join(err, conformance.WriteText(a.out, sum, conformance.TextOptions{}))
	}
	switch {
	case err != nil:
		return err
	case sum.Counts[conformance.Error] > 0:
		return codeError{errPrinted, codeInternal}
	case !sum.OK():
		return codeError{errPrinted, codeStepFailed}
	}
	return nil
}

func profileNames() []string {
	var names []string
	for _, p := range conformance.Profiles() {
		names = append(names, string(p))
	}
	return names
}

func (a *app) conformanceListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the cases",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			t := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "PROFILE\tLEVEL\tCASE\tTITLE")
			for _, c := range conformance.Cases() {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.Profile, c.Level, c.ID, c.Title)
			}
			return t.Flush()
		},
	}
}

func (a *app) conformanceExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain CASE",
		Short: "Say what a case checks, by which rule, and why it matters",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, ok := conformance.Find(args[0])
			if !ok {
				return usageError{fmt.Errorf("there is no case %q: see \"slipway conformance list\"", args[0])}
			}
			return conformance.WriteExplanation(a.out, c)
		},
	}
}
