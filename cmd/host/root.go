package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/config"
)

// app holds what all commands share.
type app struct {
	in       io.Reader
	out, err *outlet
	hurry    <-chan struct{} // closed at the second interrupt
	hangups  *hangups
	host     atomic.Pointer[host.Host] // that is open

	executes bool              // the command is exec
	raw      bool              // what steps write is shown as it is
	run      string            // id of the run that is shown, if there is one
	told     map[string]string // by worker: its plugin, if it was told why that does not run

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

Exit codes, the first that applies:
  141  nobody reads the output any more
    2  a flag, a file or an input is wrong
  130  interrupted, by SIGINT, SIGTERM or SIGHUP; SIGINT and SIGHUP do nothing where they were
       ignored when slipway began, as under nohup, and "slipway serve" reads its configuration
       anew at SIGHUP
    3  a step is lost: it was started, and nobody can tell how it ended
    4  something could not be run or written
    5  a step timed out
    1  a step's command failed
    0  all went well
"slipway exec" exits with the command's own code, 128 and the number of the signal that ended
it, or
  125  Slipway could not run it to its end
  126  the command cannot be executed
  127  there is no such command

SIGQUIT ends slipway at once and prints what each of its goroutines does: for a report of a hang.`,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			c.SetContext(host.TellSlow(c.Context(), (&slowWorkers{say: a.say}).tell))
			return nothingEmpty(c)
		},

		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w: see %q", err, c.CommandPath()+" --help")}
	})
	f := root.PersistentFlags()
	f.StringVarP(&a.configFile, "config", "c", os.Getenv("SLIPWAY_CONFIG"), "configuration `file` (SLIPWAY_CONFIG); without one, everything runs in memory")
	f.StringVar(&a.stateDir, "state", os.Getenv("SLIPWAY_STATE"), "state `directory` to keep (SLIPWAY_STATE); without one, a temporary one")
	f.StringVar(&a.logLevel, "log-level", levelNone, "how much to log to stderr, for finding faults: debug, info, warn, error, none")
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run jobs and commands:", []*cobra.Command{a.runCommand(), a.execCommand(), a.logsCommand(), a.explainCommand(), a.validateCommand()}},
		{"Look at a state directory, and clear it:", []*cobra.Command{a.psCommand(), a.runsCommand(), a.volumesCommand(), a.artifactsCommand(), a.gcCommand(), a.rmCommand()}},
		{"Operate a daemon, workers and plugins:", []*cobra.Command{a.serveCommand(), a.reloadCommand(), a.workersCommand(), a.pluginsCommand()}},
		{"Test a plugin:", []*cobra.Command{a.conformanceCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(a.versionCommand(), a.completionCommand())
	usageOfArgs(root)
	a.completions(root)
	return root
}

// nothingEmpty refuses flags that were given empty, by a variable that is not set perhaps: they would count as not given.
func nothingEmpty(c *cobra.Command) error {
	for _, name := range []string{"config", "state", "id"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return usageError{fmt.Errorf("--%s is empty: give a value, or leave it out", name)}
		}
	}
	return nil
}

// usageOfArgs makes wrong arguments of all commands below c mistakes of usage.
func usageOfArgs(c *cobra.Command) {
	for _, c := range c.Commands() {
		inner := c.Args
		c.Args = func(c *cobra.Command, args []string) error {
			if err := inner(c, args); err != nil {
				return usageError{fmt.Errorf("%w; see %q", err, c.CommandPath()+" --help")}
			}
			return nil
		}
		usageOfArgs(c)
	}
}

// knownCommand refuses what is no command.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	hint := fmt.Sprintf("see %q", c.CommandPath()+" --help")
	if like := c.SuggestionsFor(args[0]); len(like) > 0 {
		hint = "did you mean " + strings.Join(like, " or ") + "?"
	}
	return usageError{fmt.Errorf("there is no command %q: %s", args[0], hint)}
}

// rawFlag adds --raw for commands that show what steps write.
func (a *app) rawFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.raw, "raw", false, "show what steps write as it is; without, what a terminal would obey is spelled out")
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

// levelNone logs nothing: what concerns a person is told in any case.
const levelNone = "none"

func (a *app) logger() (*slog.Logger, error) {
	if a.logLevel == levelNone {
		return slog.New(slog.DiscardHandler), nil
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level %s: the levels are debug, info, warn, error and none", a.logLevel)}
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

// withHost runs f on an embedded host, once its plugins have told what they have or failed to. A positive patience bounds the wait
// for those that are slow at it.
func (a *app) withHost(ctx context.Context, patience time.Duration, f func(*host.Host) error) (err error) {
	log, err := a.logger()
	if err != nil {
		return err
	}
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	opts := host.Options{StateDir: a.stateDir, Log: log, Version: version,
		KeepFailed: cfg.Reaping.KeepFailed && a.stateDir != ""} // else nothing outlives this command
	h, err := host.Open(ctx, cfg, opts)
	if err != nil && a.stateDir == "" && isType[*fs.PathError](err) {
		return fmt.Errorf("%w: set TMPDIR to a directory that can be written, or give --state DIR", err)
	}
	if err != nil {
		return err
	}
	a.host.Store(h)
	defer func() { err = errors.Join(err, a.closeHost(ctx, h)) }()
	rctx, cancel := ctx, context.CancelFunc(func() {})
	if patience > 0 {
		rctx, cancel = context.WithTimeout(ctx, patience)
	}
	told := a.whileSlow(func() string { return unready(h) })
	err = h.Ready(rctx)
	told()
	cancel()
	if err != nil && (ctx.Err() != nil || patience <= 0) {
		return err
	}
	return f(h)
}

// closeTime bounds the stopping of the plugins at the end of a command, and hurriedClose once somebody hurries.
const (
	closeTime    = 15 * time.Second
	hurriedClose = 500 * time.Millisecond
)

func (a *app) closeHost(ctx context.Context, h *host.Host) error {
	ctx, cancel := a.closing(ctx)
	defer cancel()
	defer a.whileSlow(func() string { return unstopped(h) })()
	return h.Close(ctx)
}

// closing gives a context for the end of a command, though ctx may have ended.
func (a *app) closing(ctx context.Context) (_ context.Context, release func()) {
	return boundedBy(context.WithoutCancel(ctx), closeTime, a.hurry, hurriedClose)
}
