package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host/api"
	"github.com/slipway-run/slipway/host/launch"
)

// readyTime bounds how long a listing waits for plugins; those that are not ready then are listed as they are. It is longer than a host waits for a plugin that does
// not tell its workers, so that the listing says this.
const readyTime = 20 * time.Second

func (a *app) pluginsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugins",
		Short: "List the plugins, what was found of each, and how they are",
		Long: `List the plugins, what was found of each, and how they are.

It exits with 4 if one of them does not run.`,
		Args: knownCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withBackend(c.Context(), readyTime, func(b backend) error {
				plugins, err := b.plugins(c.Context())
				if err != nil {
					return err
				}
				write := writePlugins
				if a.format == formatJSON {
					write = writePluginsJSON
				}
				if err := write(a.out, plugins); err != nil {
					return err
				}
				if slices.ContainsFunc(plugins, func(p launch.Report) bool { return !p.State.Runs() }) {
					return codeError{errPrinted, codeInternal}
				}
				return nil
			})
		},
	}
	a.formatFlag(c)
	c.AddCommand(a.pluginRestartCommand())
	return c
}

func (a *app) pluginRestartCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "restart NAME",
		Short: "End a plugin's process on the daemon, and start it anew",
		Long: `End a plugin's process on the daemon that has the state directory (--state) open, in the orderly way, and start it anew: another program that
was put in its place is taken then. What the plugin's workers have goes on, and whoever watches it sees a pause. It is refused while something is there
that would end with the process, as with slipway-memory without a world. The command waits until the plugin runs again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.onDaemon(c.Context(), "plugins restart", func(d *api.Client) error {
				return mistaken(d.RestartPlugin(c.Context(), args[0], force))
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "though what its workers have is lost with its process")
	return c
}

func writePlugins(to *outlet, plugins []launch.Report) error {
	t := newTable(to, "PLUGIN", "STATE", "RESTARTS", "IS", "VERSION", "SDK", "PROGRAM")
	for _, p := range plugins {
		t.row(p.Name, pluginState(p), p.Restarts, dash(p.Info.Name), dash(p.Info.Version),
			dash(p.Info.SDK), dash(p.Path))
	}
	if err := t.end(); err != nil {
		return err
	}
	for _, p := range plugins {
		if p.Err == nil {
			continue
		}
		fmt.Fprintln(to)
		text := p.Err.Error()
		if p.State.Runs() {
			text = "runs again, after this: " + text
		}
		if err := to.tell(text); err != nil {
			return err
		}
	}
	return nil
}

// pluginState names the states as an operator sees them.
func pluginState(p launch.Report) string {
	if p.State == launch.StateOpen {
		return "failed"
	}
	return string(p.State)
}

type jsonPlugin struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`
	Since    time.Time `json:"since"`
	Is       string    `json:"is,omitempty"` // what it calls itself
	Version  string    `json:"version,omitempty"`
	SDK      string    `json:"sdk,omitempty"`
	Program  string    `json:"program,omitempty"`
	SHA256   string    `json:"sha256,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Restarts int       `json:"restarts"`
	Reason   string    `json:"reason,omitempty"`
	Error    string    `json:"error,omitempty"`
}

func writePluginsJSON(to *outlet, plugins []launch.Report) error {
	out := make([]jsonPlugin, 0, len(plugins))
	for _, p := range plugins {
		j := jsonPlugin{Name: p.Name, State: pluginState(p), Since: p.Since, Is: p.Info.Name, Version: p.Info.Version, SDK: p.Info.SDK,
			Program: p.Path, SHA256: p.SHA256, PID: p.PID, Restarts: p.Restarts}
		if p.Err != nil {
			j.Reason, j.Error = string(p.Err.Reason), p.Err.Error()
		}
		out = append(out, j)
	}
	return to.writeJSON(out)
}
