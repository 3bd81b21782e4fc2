package main

import (
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

const formatJUnit = "junit"

// reportFlags say where results go.
type reportFlags struct {
	format        string
	report, junit string // files
}

func (r *reportFlags) bind(f *pflag.FlagSet) {
	f.StringVarP(&r.format, "output", "o", formatText, "`format` of what is printed: text, json or junit")
	f.StringVar(&r.report, "report", "", "`file` to write a report to as well, as JSON; see \"slipway conformance schema\"")
	f.StringVar(&r.junit, "junit", "", "`file` to write a JUnit report to as well")
}

func (r *reportFlags) check() error {
	if !slices.Contains([]string{formatText, formatJSON, formatJUnit}, r.format) {
		return usageError{fmt.Errorf("-o %s: the formats are text, json and junit", r.format)}
	}
	return nil
}

func (a *app) conformanceRunCommand() *cobra.Command {
	var flags suiteFlags
	var reports reportFlags
	c := &cobra.Command{
		Use:   "run PLUGIN [-- ARG...]",
		Short: "Run the suite against a plugin's program",
		Long:  `Starts the plugin with one worker and runs the cases against it, as a host would use it. "slipway conformance --help" lists the exit codes.`,
		Example: `  slipway conformance run ./my-plugin --worker-settings worker.json --report report.json
  slipway conformance run ./my-plugin --only 'P*' -o junit > report.xml
  slipway conformance run ./my-plugin --probe linux/amd64    # its containers need hold nothing`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.conform(c, flags, reports, args) },
	}
	flags.bind(c.Flags())
	reports.bind(c.Flags())
	return c
}

func (a *app) conform(c *cobra.Command, flags suiteFlags, reports reportFlags, plugin []string) error {
	if err := reports.check(); err != nil {
		return err
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	target, opts, err := flags.suite(c.Context(), plugin, log)
	if err != nil {
		return err
	}
	report, end := func(conformance.Result) {}, func() {}
	if reports.format == formatText {
		p := newSuiteProgress(a, opts)
		opts.Begun, report, end = p.begun, p.report, p.end
	}
	sum, err := conformance.Execute(c.Context(), target, opts, report)
	end()
	if err != nil && len(sum.Results) == 0 {
		return err
	}
	if len(opts.Only) > 0 && !anyChosen(opts.Only) {
		return errors.Join(err, usageError{fmt.Errorf("--only %s: no case has such an id: see \"slipway conformance list\"", strings.Join(opts.Only, ","))})
	}
	sum.Command = flags.args(plugin)
	if err := errors.Join(err, a.write(sum, reports)); err != nil {
		return err
	}
	return verdictError(sum)
}

// anyChosen tells whether one of the patterns means a case.
func anyChosen(only []string) bool {
	return slices.ContainsFunc(conformance.Cases(), func(c conformance.Case) bool { return conformance.Options{Only: only}.Chosen(c) })
}

// verdictError makes an exit code of what came of a run.
func verdictError(sum conformance.Summary) error {
	switch {
	case sum.Counts[conformance.Error] > 0:
		return codeError{errPrinted, codeHarness}
	case sum.Verdict() == conformance.Not:
		return codeError{errPrinted, codeNotConformant}
	case sum.Verdict() == conformance.Partial:
		return codeError{errPrinted, codePartial}
	}
	return nil
}

// write prints the results and puts them into files.
func (a *app) write(sum conformance.Summary, reports reportFlags) error {
	var err error
	switch reports.format {
	case formatJSON:
		err = conformance.WriteJSON(a.out, sum)
	case formatJUnit:
		err = conformance.WriteJUnit(a.out, sum)
	default:
		err = conformance.WriteText(a.out, sum, conformance.TextOptions{Again: func(id string) string { return again(sum.Command, id, sum.Seed) }})
	}
	return errors.Join(err, writeReport(reports.report, sum, conformance.WriteJSON), writeReport(reports.junit, sum, conformance.WriteJUnit))
}

func writeReport(file string, sum conformance.Summary, write func(io.Writer, conformance.Summary) error) error {
	if file == "" {
		return nil
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(write(f, sum), f.Close())
}
