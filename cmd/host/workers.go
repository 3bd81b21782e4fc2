package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/sdk"
)

func (a *app) workersCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "workers",
		Short: "List the workers, what they can do, and how they are",
		Long: `List the workers, what they can do, and how they are.

It exits with 4 if one of them is away.`,
		Args: knownCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withBackend(c.Context(), readyTime, func(b backend) error {
				workers, err := b.workers(c.Context())
				if err != nil {
					return err
				}
				write := writeWorkers
				if a.format == formatJSON {
					write = writeWorkersJSON
				}
				if err := write(a.out, workers); err != nil {
					return err
				}
				if slices.ContainsFunc(workers, away) {
					return codeError{errPrinted, codeInternal}
				}
				return nil
			})
		},
	}
	a.formatFlag(c)
	a.workerOrders(c)
	return c
}

// reports gives the workers. Where a plugin does not run its workers are away for the plugin's reason, not with when it is tried
// again: this host ends before.
func reports(h *host.Host) []host.WorkerReport {
	why := make(map[string]string)
	for _, p := range h.Plugins() {
		if p.Err != nil && !p.State.Runs() {
			why[p.Name] = p.Err.Error()
		}
	}
	workers := h.Workers()
	for i, w := range workers {
		if reason, ok := why[w.Plugin]; ok && !w.Up {
			workers[i].Why = reason
		}
	}
	return workers
}

// away tells whether a worker is that should be there: not one that the configuration has no more.
func away(r host.WorkerReport) bool {
	return r.Plugin != "" && r.State != pool.Landed && r.State != pool.Retired && (!r.Up && !r.Unused || r.Status.Health == sdk.Away)
}

func writeWorkers(to *outlet, workers []host.WorkerReport) error {
	t := newTable(to, "WORKER", "STATE", "PLUGIN", "PLATFORM", "TEAM", "TAGS", "FEATURES")
	for _, r := range workers {
		t.row(r.Name, workerState(r), dash(r.Plugin), dash(r.Info.Platform), dash(r.Info.Team),
			dash(strings.Join(r.Info.Tags, ",")), dash(strings.Join(features(r), " ")))
	}
	if err := t.end(); err != nil {
		return err
	}
	for _, r := range workers {
		if why := workerReason(r); why != "" {
			fmt.Fprintln(to)
			if err := to.tell("worker " + r.Name + ": " + why); err != nil {
				return err
			}
		}
	}
	return nil
}

func workerState(r host.WorkerReport) string {
	if r.State != pool.Running && r.State != pool.Stalled { // somebody wants it so
		return string(r.State)
	}
	return health(r)
}

// health is how the worker is, whatever is wanted of it.
func health(r host.WorkerReport) string {
	if !r.Up && !r.Unused {
		return sdk.Away.String()
	}
	return r.Status.Health.String()
}

func workerReason(r host.WorkerReport) string {
	reason := stateReason(r)
	if r.Owed.None() {
		return reason
	}
	owed := fmt.Sprintf("since %s it has %v", r.Owed.Since.Local().Format(time.DateTime), r.Owed)
	if reason == "" {
		return owed
	}
	return reason + "; " + owed
}

func stateReason(r host.WorkerReport) string {
	if r.State != pool.Running && r.State != pool.Stalled {
		var parts []string
		for _, part := range []string{r.Reason, r.Why} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		if r.Drain != nil {
			parts = append(parts, "waits for "+r.Drain.String())
		}
		return strings.Join(parts, "; ")
	}
	if !r.Up {
		return r.Why
	}
	return r.Status.Reason
}

func features(r host.WorkerReport) []string {
	out := make([]string, 0, len(r.Status.Features))
	for _, f := range r.Status.Features {
		out = append(out, string(f))
	}
	return out
}

type jsonWorker struct {
	Name      string     `json:"name"`
	Plugin    string     `json:"plugin"`
	State     string     `json:"state"`
	Reason    string     `json:"reason,omitempty"`
	Health    string     `json:"health"`
	Drain     *jsonDrain `json:"drain,omitempty"`
	Owed      *jsonOwed  `json:"owed,omitempty"`
	Since     time.Time  `json:"since"`
	Platform  string     `json:"platform,omitempty"`
	Team      string     `json:"team,omitempty"`
	Tags      []string   `json:"tags,omitempty"`
	Features  []string   `json:"features"`
	Encodings []string   `json:"encodings,omitempty"`
	Zone      string     `json:"zone,omitempty"`
	Capacity  jsonAmount `json:"capacity"` // zero: unknown or without a limit
	Used      jsonAmount `json:"used"`
}

// jsonDrain is what a worker that is being emptied waits for.
type jsonDrain struct {
	Containers []string   `json:"containers,omitempty"` // their owners
	Volumes    int        `json:"volumes,omitempty"`    // that are being written or destroyed
	Artifacts  []jsonMove `json:"artifacts,omitempty"`  // that are to be copied elsewhere
	Moved      int        `json:"moved"`
	MovedBytes int64      `json:"moved_bytes"`
}

type jsonMove struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Copied int64  `json:"copied,omitempty"` // bytes that were sent so far
	Why    string `json:"why,omitempty"`    // it is not there yet
}

// jsonOwed is what is to be destroyed on a worker and is there still.
type jsonOwed struct {
	Containers int       `json:"containers"`
	Volumes    int       `json:"volumes"`
	Since      time.Time `json:"since"`
	Why        string    `json:"why,omitempty"` // the last try of one of them failed
}

func owedJSON(o host.Owed) *jsonOwed {
	if o.None() {
		return nil
	}
	out := jsonOwed(o)
	return &out
}

func drainJSON(d *host.Drain) *jsonDrain {
	if d == nil {
		return nil
	}
	out := &jsonDrain{Containers: d.Containers, Volumes: d.Volumes, Moved: d.Moved, MovedBytes: d.MovedBytes}
	for _, a := range d.Artifacts {
		out.Artifacts = append(out.Artifacts, jsonMove{Name: a.Name, Bytes: a.Bytes, Copied: a.Copied, Why: a.Why})
	}
	return out
}

type jsonAmount struct {
	CPUMillis   int64 `json:"cpu_millis,omitempty"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	DiskBytes   int64 `json:"disk_bytes,omitempty"`
	PIDs        int64 `json:"pids,omitempty"`
	Containers  int64 `json:"containers,omitempty"`
	Volumes     int64 `json:"volumes,omitempty"`
}

func writeWorkersJSON(to *outlet, workers []host.WorkerReport) error {
	out := make([]jsonWorker, 0, len(workers))
	for _, r := range workers {
		out = append(out, jsonWorker{Name: r.Name, Plugin: r.Plugin, State: workerState(r), Reason: workerReason(r), Since: r.Since,
			Health: health(r), Drain: drainJSON(r.Drain), Owed: owedJSON(r.Owed),
			Platform: r.Info.Platform, Team: r.Info.Team, Tags: r.Info.Tags, Features: features(r), Encodings: r.Status.Encodings,
			Zone: r.Status.Zone, Capacity: jsonAmount(r.Status.Capacity), Used: jsonAmount(r.Status.Used)})
	}
	return to.writeJSON(out)
}
