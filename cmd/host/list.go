package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// readyTime bounds how long a listing waits for plugins.
const readyTime = 15 * time.Second

// withHost runs f on a host whose plugins have had time to tell what they have.
func (a *app) withHost(ctx context.Context, f func(*host.Host) error) (err error) {
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeHost(ctx, h)) }()
	rctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := h.Ready(rctx); err != nil && ctx.Err() != nil {
		return err
	}
	return f(h)
}

func (a *app) pluginsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugins",
		Short: "List the plugins, what was found of each, and how they are",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withHost(c.Context(), func(h *host.Host) error {
				if a.format == formatJSON {
					return json.NewEncoder(a.out).Encode(h.Plugins())
				}
				return writePlugins(a.out, h.Plugins())
			})
		},
	}
	a.formatFlag(c)
	return c
}

func writePlugins(w io.Writer, plugins []launch.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PLUGIN\tSTATE\tNAME\tVERSION\tSDK\tRESTARTS\tPROGRAM")
	for _, p := range plugins {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", p.Name, p.State, dash(p.Info.Name), dash(p.Info.Version), dash(p.Info.SDK), p.Restarts, dash(p.Path))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range plugins {
		if p.Err != nil {
			fmt.Fprintf(w, "\n%s\n", p.Err)
		}
	}
	return nil
}

func (a *app) workersCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "workers",
		Short: "List the workers, what they can do, and how they are",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withHost(c.Context(), func(h *host.Host) error {
				if a.format == formatJSON {
					return json.NewEncoder(a.out).Encode(h.Workers())
				}
				return writeWorkers(a.out, h.Workers())
			})
		},
	}
	a.formatFlag(c)
	return c
}

func writeWorkers(w io.Writer, workers []host.WorkerReport) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORKER\tPLUGIN\tPLATFORM\tTEAM\tTAGS\tSTATE\tFEATURES")
	for _, r := range workers {
		state := r.Status.Health.String()
		if !r.Up {
			state = sdk.Away.String()
		}
		var features []string
		for _, f := range r.Status.Features {
			features = append(features, string(f))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Plugin, dash(r.Info.Platform), dash(r.Info.Team),
			dash(strings.Join(r.Info.Tags, ",")), state, dash(strings.Join(features, " ")))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range workers {
		if !r.Up {
			fmt.Fprintf(w, "\nworker %s: %s\n", r.Name, r.Why)
		}
	}
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [JOB.hcl...]",
		Short: "Check the configuration, plugins' own settings too, and job files",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			bad := false
			for _, file := range args {
				_, diags := job.Load(file)
				if len(diags) > 0 {
					a.writeDiagnostics(diags)
				}
				bad = bad || diags.HasErrors()
			}
			err := a.withHost(c.Context(), func(h *host.Host) error { return a.checkPlugins(h) })
			if err != nil {
				return err
			}
			if bad {
				return usageError{errPrinted}
			}
			fmt.Fprintln(a.out, "valid")
			return nil
		},
	}
}

// checkPlugins shows what is wrong with the plugins' settings, at the lines where it is.
func (a *app) checkPlugins(h *host.Host) error {
	var errs []error
	for _, p := range h.Plugins() {
		if p.Err == nil {
			continue
		}
		if bad, ok := errors.AsType[*host.ConfigError](p.Err); ok {
			a.writeDiagnostics(bad.Diagnostics)
			errs = append(errs, usageError{errPrinted})
			continue
		}
		errs = append(errs, p.Err)
	}
	return errors.Join(errs...)
}

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.format == formatJSON {
				return json.NewEncoder(a.out).Encode(map[string]string{"version": version, "sdk": sdk.Version})
			}
			_, err := fmt.Fprintf(a.out, "slipway %s (sdk %s)\n", version, sdk.Version)
			return err
		},
	}
	a.formatFlag(c)
	return c
}
