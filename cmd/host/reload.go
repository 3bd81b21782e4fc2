package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api"
	"github.com/slipway-run/slipway/sdk"
)

func (a *app) reloadCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "reload",
		Short: "Have a daemon read its configuration file anew",
		Long: `Have the daemon that has the state directory (--state) open read its configuration file anew, as SIGHUP does, and print what came of it.

  - Workers and plugins that are new begin.
  - Where a plugin's settings have changed, or which workers it has, or what their config blocks say, its process is ended and
    started anew. What its workers have goes on. A plugin with whose process that would end, as slipway-memory without a world, is
    refused while something is there. One that does not run with its new settings is given back those that it had. So is one of
    whose workers one has something and would be another place with them (another server, directory or world), or would not answer.
  - Workers that are there no more go. One on which something is left stays, without new work: "slipway workers retire" empties it.
  - All else holds at once, but for what needs a restart of the daemon: output_size, and which plugin a worker belongs to.
    Where it listens and its state directory are flags, and stay as they are.

What was refused or needs a restart stays as it was, and the rest is done. A file with which something is wrong changes nothing.

It exits with 0 if all that the file says is so now, and with 2 if something of it is not.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.onDaemon(c.Context(), "reload", func(d *api.Client) error {
				changes, err := d.Reload(c.Context())
				if err != nil {
					return mistaken(err)
				}
				write := a.writeChanges
				if a.format == formatJSON {
					write = a.writeChangesJSON
				}
				if err := write(changes); err != nil {
					return err
				}
				if slices.ContainsFunc(changes, func(c host.Change) bool { return !c.Done() }) {
					return codeError{errPrinted, codeUsage}
				}
				return nil
			})
		},
	}
	a.formatFlag(c)
	return c
}

// mistaken is an error of what the operator wrote or asked for, as far as it is one.
func mistaken(err error) error {
	if errors.Is(err, sdk.Invalid) || errors.Is(err, sdk.FailedPrecondition) || errors.Is(err, sdk.NotFound) {
		return usageError{err}
	}
	return err
}

// onDaemon runs f on the daemon that has the state directory open. There has to be one.
func (a *app) onDaemon(ctx context.Context, command string, f func(*api.Client) error) error {
	if a.stateDir == "" {
		return usageError{fmt.Errorf("%s needs --state DIR: that of the daemon", command)}
	}
	d, err := a.dial(ctx, answerTime)
	if err != nil {
		return err
	}
	if d == nil {
		return usageError{fmt.Errorf("no daemon has the state directory %s open: start one with \"slipway serve\"", a.stateDir)}
	}
	defer d.Close()
	defer a.whileSlow(func() string { return changing(ctx, d) })()
	return f(d)
}

// changing names what a daemon that makes a change waits for.
func changing(ctx context.Context, d *api.Client) string {
	ctx, cancel := context.WithTimeout(ctx, slowAfter)
	defer cancel()
	info, err := d.Info(ctx)
	if err != nil || len(info.Changing) == 0 {
		return "the daemon at " + d.Address()
	}
	return strings.Join(info.Changing, ", and for ")
}

func (a *app) writeChanges(changes []host.Change) error {
	if len(changes) == 0 {
		return a.out.tell("nothing has changed")
	}
	for _, c := range changes {
		if err := a.out.tell(c.String()); err != nil {
			return err
		}
	}
	return nil
}

type jsonChange struct {
	What string `json:"what"`
	Kind string `json:"kind"`
	Why  string `json:"why,omitempty"`
}

func (a *app) writeChangesJSON(changes []host.Change) error {
	out := make([]jsonChange, 0, len(changes))
	for _, c := range changes {
		out = append(out, jsonChange{c.What, string(c.Kind), c.Why})
	}
	return a.out.writeJSON(out)
}
