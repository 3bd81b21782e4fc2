package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/sdk"
)

// The exit codes of the conformance commands, which say something of a plugin and nothing of a run.
const (
	codeNotConformant = 1
	codePartial       = 2
	codeSuiteUsage    = 3
	codeHarness       = 4
)

func (a *app) conformanceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "conformance",
		Short: "Say whether a plugin keeps the contract, in any language",
		Long: `Says whether a plugin keeps the contract, in any language.

Exit codes of these commands:
  0  conformant: every required case passed, or needs a feature that the plugin does not name
  1  not conformant: at least one required case failed
  2  partial: nothing failed, but not everything was shown, for cases were left out or could not be run
  3  a flag or a file is wrong
  4  the plugin could not be started, or the suite itself failed`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return codeError{usageError{fmt.Errorf("%w: see %q", err, c.CommandPath()+" --help")}, codeSuiteUsage}
	})
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return suiteError(nothingEmpty(c)) }
	c.AddCommand(a.conformanceRunCommand(), a.conformanceRerunCommand(), a.conformanceRepeatCommand(),
		a.conformanceListCommand(), a.conformanceExplainCommand(), a.conformanceSchemaCommand(),
		a.conformanceSelftestCommand(), a.conformanceMutantCommand())
	ownCodes(c)
	return c
}

// ownCodes gives the errors of c and of all commands below it the exit codes of the suite.
func ownCodes(c *cobra.Command) {
	args, run := c.Args, c.RunE
	c.Args = func(c *cobra.Command, given []string) error {
		if err := args(c, given); err != nil {
			return codeError{err, codeSuiteUsage}
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, given []string) error { return suiteError(run(c, given)) }
	for _, c := range c.Commands() {
		ownCodes(c)
	}
}

// suiteError gives an error the suite's exit code.
func suiteError(err error) error {
	switch {
	case err == nil || isType[codeError](err):
		return err
	case isType[usageError](err) || errors.Is(err, sdk.Invalid): // the plugin refuses its settings
		return codeError{err, codeSuiteUsage}
	}
	return codeError{err, codeHarness}
}

func (a *app) conformanceListCommand() *cobra.Command {
	var profiles []string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the cases",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			chosen, err := profilesOf(profiles)
			if err != nil {
				return err
			}
			t := newTable(a.out, "PROFILE", "LEVEL", "CASE", "TITLE")
			for _, c := range conformance.Cases() {
				if len(chosen) == 0 || slices.Contains(chosen, c.Profile) {
					t.row(c.Profile, c.Level, c.ID, c.Title)
				}
			}
			return t.end()
		},
	}
	c.Flags().StringSliceVar(&profiles, "profile", nil, "`profiles` to list: "+strings.Join(profileNames(), ", ")+"; default all")
	return c
}

func (a *app) conformanceExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain CASE|PROMISE",
		Short: "Say what a case checks and why it matters, or what a promise of the contract such as 3b says",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if p, ok := conformance.FindPromise(args[0]); ok {
				return conformance.WritePromise(a.out, p)
			}
			c, err := findCase(args[0])
			if err != nil {
				return err
			}
			return conformance.WriteExplanation(a.out, c)
		},
	}
}

func findCase(name string) (conformance.Case, error) {
	c, ok := conformance.Find(name)
	if !ok {
		return c, usageError{fmt.Errorf("there is no case %q: see \"slipway conformance list\"", name)}
	}
	return c, nil
}

func (a *app) conformanceSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of reports",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.out, conformance.ReportSchema())
			return err
		},
	}
}
