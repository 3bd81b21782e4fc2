package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/config"
)

// app holds what all commands share.
type app struct {
	in       io.Reader
	out, err io.Writer

	configFile string
	stateDir   string
	logLevel   string
	format     string // "text" or "json"
}

const formatText, formatJSON = "text", "json"

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "slipway",
		Short: "Run jobs and commands in containers on whatever you have",
		Long: `Slipway runs jobs and commands in containers. Runtimes are plugins that a configuration
names; without one, everything runs in memory, by the plugin slipway-memory.

Exit codes: 0 all went well; 1 a step's command failed; 2 a flag, file or input is wrong;
3 a step is lost: it was started and nobody can tell how it ended; 4 something could not be
run or written; 5 a step timed out; 130 interrupted. "slipway exec" exits with the command's
own code, with 125 if Slipway failed, 126 if the command cannot be executed, 127 if there is
no such command.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w: see %q", err, c.CommandPath()+" --help")}
	})
	f := root.PersistentFlags()
	f.StringVarP(&a.configFile, "config", "c", os.Getenv("SLIPWAY_CONFIG"), "configuration `file` (SLIPWAY_CONFIG); without one, everything runs in memory")
	f.StringVar(&a.stateDir, "state", os.Getenv("SLIPWAY_STATE"), "state `directory` to keep (SLIPWAY_STATE); without one, a temporary one")
	f.StringVar(&a.logLevel, "log-level", "error", "how much to log to stderr: debug, info, warn, error")
	root.AddCommand(a.runCommand(), a.execCommand(), a.logsCommand(), a.validateCommand(), a.pluginsCommand(), a.workersCommand(), a.versionCommand())
	for _, c := range root.Commands() {
		inner := c.Args
		c.Args = func(c *cobra.Command, args []string) error {
			if inner == nil {
				return nil
			}
			if err := inner(c, args); err != nil {
				return usageError{fmt.Errorf("%w: see %q", err, c.CommandPath()+" --help")}
			}
			return nil
		}
	}
	return root
}

// formatFlag adds -o for commands that only print.
func (a *app) formatFlag(c *cobra.Command) {
	c.Flags().StringVarP(&a.format, "output", "o", formatText, "`format`: text or json")
	pre := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if a.format != formatText && a.format != formatJSON {
			return usageError{fmt.Errorf("-o %s: the formats are text and json", a.format)}
		}
		return pre(c, args)
	}
}

func (a *app) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level %s: the levels are debug, info, warn and error", a.logLevel)}
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level})), nil
}

// loadConfig reads the configuration. Its diagnostics are printed here.
func (a *app) loadConfig() (*config.Config, error) {
	if a.configFile == "" {
		return config.Default(), nil
	}
	cfg, diags := config.Load(a.configFile)
	if len(diags) > 0 {
		a.writeDiagnostics(diags)
	}
	if diags.HasErrors() {
		return nil, usageError{errPrinted}
	}
	return cfg, nil
}

// open opens an embedded host.
func (a *app) open(ctx context.Context) (*host.Host, error) {
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	cfg, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	return host.Open(ctx, cfg, host.Options{StateDir: a.stateDir, Log: log, Version: version})
}

// closeTime bounds the stopping of the plugins at the end of a command.
const closeTime = 15 * time.Second

func closeHost(ctx context.Context, h *host.Host) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return h.Close(ctx)
}

// pairs reads NAME=VALUE flags.
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
