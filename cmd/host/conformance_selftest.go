package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/conformance/mutant"
	"github.com/slipway-run/slipway/host/launch"
)

// selftestFlags say on what the suite is tested.
type selftestFlags struct {
	short         bool
	jobs          int
	only          []string
	probe         string
	linux         string
	linuxSettings string
	linuxProbe    string
}

// workerMark stands for the worker's name in the settings of the Linux plugin's workers: each needs a place of its own.
const workerMark = "{worker}"

func (a *app) conformanceSelftestCommand() *cobra.Command {
	var flags selftestFlags
	c := &cobra.Command{
		Use:   "selftest [PLUGIN]",
		Short: "Say what the suite is worth: whether it tells plugins that are broken on purpose from a good one",
		Long: `Runs the cases on mutants: plugins that are broken in exactly one way each, made of a good one with a defect put in front of it.
The good one is the memory runtime's program, slipway-memory where none is named. Printed is which cases killed which mutant.

Exit codes:
  0  every mutant was killed by every case that should, every required case that could be run killed at least one, and the good plugin passed
  1  something of that does not hold
  3  a flag is wrong
  4  a plugin could not be started`,
		Example: `  slipway conformance selftest --short
  slipway conformance selftest --only 'stdin-*'
  slipway conformance selftest --linux ./slipway-runc --linux-settings runc.json   # {"state": "/var/tmp/selftest/{worker}"}`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.selftest(c.Context(), flags, args) },
	}
	f := c.Flags()
	f.BoolVar(&flags.short, "short", false, "make the loops that look for rare faults ten times shorter, and leave out what takes minutes")
	f.IntVarP(&flags.jobs, "jobs", "j", 4, "`number` of mutants at once")
	f.StringSliceVar(&flags.only, "only", nil, "`patterns` of mutants to run")
	f.StringVar(&flags.probe, "probe", "", "`file` with the suite's program for WASI; without one it is built, where there is a go command")
	f.StringVar(&flags.linux, "linux", "", "`plugin` whose containers are small Linux systems, with a shell like busybox's, for the cases that need such")
	f.StringVar(&flags.linuxSettings, "linux-settings", "", "JSON `file` with the settings of that plugin's workers; "+workerMark+" in it is the worker's name")
	f.StringVar(&flags.linuxProbe, "linux-probe", "", "`file` with the suite's program for Linux; without one it is built, for this machine's kind")
	a.formatFlag(c)
	return c
}

func (a *app) selftest(ctx context.Context, flags selftestFlags, args []string) error {
	log, err := a.logger()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "slipway-selftest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bases, err := flags.bases(append(args, "slipway-memory")[0], dir)
	if err != nil {
		return err
	}
	matrix, err := mutant.Run(ctx, mutant.Options{
		Self: []string{self, "conformance", "mutant"}, Bases: bases, Only: flags.only, Short: flags.short, Jobs: flags.jobs, Log: log,
	}, func(v mutant.Verdict) {
		if a.format == formatText && !v.Killed() && len(v.Missed) > 0 {
			fmt.Fprintf(a.out, "survives  %s: %s\n", v.Mutant, strings.Join(v.Missed, "; "))
		}
	})
	if errors.Is(err, mutant.ErrNoSuch) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	write := mutant.WriteText
	if a.format == formatJSON {
		write = mutant.WriteJSON
	}
	if err := write(a.out, matrix); err != nil {
		return err
	}
	if !matrix.OK() {
		return codeError{errPrinted, codeNotConformant}
	}
	return nil
}

// bases are the good plugins. What is made for them lies in dir.
func (f selftestFlags) bases(memory, dir string) ([]mutant.Base, error) {
	program, err := launch.Resolve(memory, "")
	if err != nil {
		return nil, err
	}
	bases := mutant.Memory(program, dir, os.Environ(), func(ctx context.Context) (conformance.Commands, error) {
		probe, err := loadProbe(ctx, cmp.Or(f.probe, "wasip1/wasm"))
		if err != nil && f.probe == "" {
			return nil, ctx.Err() // without a go command; the report says which cases were not run
		}
		return probe, err
	})
	if f.linux == "" {
		return bases, nil
	}
	linux, err := f.linuxBase()
	if err != nil {
		return nil, err
	}
	return append(bases, linux), nil
}

func (f selftestFlags) linuxBase() (mutant.Base, error) {
	program, err := launch.Resolve(f.linux, "")
	if err != nil {
		return mutant.Base{}, err
	}
	text, err := settings(f.linuxSettings)
	if err != nil {
		return mutant.Base{}, err
	}
	return mutant.Base{
		Name: filepath.Base(program), Command: []string{program}, Shell: true,
		Commands: func(ctx context.Context) (conformance.Commands, error) {
			return loadProbe(ctx, cmp.Or(f.linuxProbe, "linux/"+runtime.GOARCH))
		},
		Worker: func(name string) json.RawMessage {
			return json.RawMessage(strings.ReplaceAll(string(text), workerMark, name))
		},
	}, nil
}

// conformanceMutantCommand is the program of the mutants: slipway runs itself.
func (a *app) conformanceMutantCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "mutant NAME -- PLUGIN [ARG...]",
		Short:  "Be a plugin that is broken on purpose",
		Hidden: true,
		Long: `Is a plugin that is broken on purpose: that of another program, with a defect put in front of it. A host starts it. Try it with:
  slipway conformance run slipway -- conformance mutant late-byte -- ./my-plugin
"none" is no defect.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := mutant.Serve(args[0], args[1:]); err != nil {
				return usageError{err}
			}
			return nil
		},
	}
}
