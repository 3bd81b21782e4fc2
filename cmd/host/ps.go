package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/sdk"
)

func (a *app) psCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "ps [RUN]",
		Short: "List runs and containers, and what runs in them",
		Long: `List runs and containers, and what runs in them; with RUN, only that one and its containers.

Containers that wait for a place on a worker, or for their turn, are told of with who is in their way; slipway explain says what each worker
lacks for them.

A run is running, ended, or stopped: begun by an earlier host, and resumed when it is run again with its --id. Only a daemon can tell
whether a run is under way; without one, what has not ended is unfinished. Nothing is started for the list: containers are told as the
state directory knows them.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withInventory(c.Context(), "ps", func(i inventory, live bool) error {
				l, err := listAll(c.Context(), i, args)
				if err != nil {
					return err
				}
				l.live = live
				if !all && len(args) == 0 {
					l.runs = slices.DeleteFunc(l.runs, func(r host.RunInfo) bool { return r.Ended })
					l.containers = slices.DeleteFunc(l.containers, host.ContainerInfo.Over)
				}
				if a.format == formatJSON {
					return l.writeJSON(a.out)
				}
				return l.write(a.out)
			})
		},
	}
	a.formatFlag(c)
	c.Flags().BoolVarP(&all, "all", "a", false, "also runs that have ended, and containers of which only the record is left")
	return c
}

// listed is what ps tells of.
type listed struct {
	runs       []host.RunInfo
	containers []host.ContainerInfo
	waiting    []*host.Explanation // of a daemon's
	live       bool
}

// listAll reads all runs and containers, or those of one run.
func listAll(ctx context.Context, i inventory, run []string) (l listed, err error) {
	if l.runs, err = i.Runs(ctx); err != nil {
		return l, err
	}
	prefix := ""
	if len(run) > 0 {
		prefix = host.RunOwner(run[0], "")
		l.runs = slices.DeleteFunc(l.runs, func(r host.RunInfo) bool { return r.ID != run[0] })
		if len(l.runs) == 0 {
			return l, usageError{fmt.Errorf("there is no run %s: see slipway ps --all", run[0])}
		}
	}
	l.containers, l.waiting, err = i.Containers(ctx, prefix)
	return l, err
}

// state is a run's, as far as it can be told.
func (l listed) state(r host.RunInfo) string {
	switch {
	case r.Ended:
		return "ended"
	case r.Running:
		return "running"
	case l.live:
		return "stopped"
	}
	return "unfinished"
}

func (l listed) write(to *outlet) error {
	t := newTable(to, "RUN", "STATE", "BEGAN", "ENDED")
	for _, r := range l.runs {
		t.row(r.ID, l.state(r), clock(r.Created), clock(r.EndedAt))
	}
	if err := t.end(); err != nil {
		return err
	}
	fmt.Fprintln(to)
	t = newTable(to, "OWNER", "WORKER", "CONTAINER", "PROCESS", "STATE", "COMMAND", "SINCE", "EXPIRES")
	for _, c := range l.containers {
		if len(c.Processes) == 0 {
			t.row(dash(c.Owner), c.Worker, c.State, "-", "-", "-", clock(c.Created), clock(c.Expires))
		}
		for _, p := range c.Processes {
			since := p.Started
			if !p.Ended.IsZero() {
				since = p.Ended
			}
			t.row(dash(c.Owner), c.Worker, c.State, p.Name, processState(p), dash(p.Path), clock(since), clock(c.Expires))
		}
	}
	if err := t.end(); err != nil || len(l.waiting) == 0 {
		return err
	}
	fmt.Fprintln(to)
	t = newTable(to, "OWNER", "WAITS FOR", "NUMBER", "FOR", "RESERVED", "UNTIL", "IN ITS WAY")
	for _, e := range l.waiting {
		what := "a place"
		if e.State == host.PlacementTurn {
			what = "its turn"
		}
		t.row(e.Owner, what, strconv.Itoa(e.Position), e.Waited.Round(time.Second).String(), dash(e.Reserved), clock(e.ReservedUntil), dash(e.InTheWay.String()))
	}
	return t.end()
}

// clock is a time as lists tell it.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// processState is a process's, with how it ended.
func processState(p host.ProcessInfo) string {
	switch {
	case p.Exit != nil && p.Exit.Signal != "":
		return p.State + " by " + string(p.Exit.Signal)
	case p.Exit != nil:
		return fmt.Sprintf("%s with %d", p.State, p.Exit.Code)
	}
	return p.State
}

type jsonListed struct {
	Runs       []jsonRun       `json:"runs"`
	Containers []jsonContainer `json:"containers"`
	Waiting    []jsonWaiting   `json:"waiting"` // the first to be served first
}

type jsonWaiting struct {
	Owner    string       `json:"owner"`
	State    string       `json:"state"` // waiting, for a place, or turn
	Position int          `json:"position"`
	Priority int          `json:"priority,omitempty"`
	Waited   float64      `json:"waited_seconds"`
	Reserved string       `json:"reserved,omitempty"` // the worker that is reserved for it
	Until    *time.Time   `json:"reserved_until,omitempty"`
	InTheWay []jsonHolder `json:"in_the_way,omitempty"` // who has, on that worker, of what there is too little
}

type jsonRun struct {
	ID    string     `json:"id"`
	State string     `json:"state"` // running, stopped, unfinished or ended
	Began time.Time  `json:"began"`
	Ended *time.Time `json:"ended,omitempty"`
}

type jsonContainer struct {
	ID        string        `json:"id"`
	Owner     string        `json:"owner,omitempty"`
	Worker    string        `json:"worker"`
	State     string        `json:"state"` // creating, ready, destroying, destroyed or lost
	Created   time.Time     `json:"created"`
	Expires   *time.Time    `json:"expires,omitempty"` // when it goes by itself unless it is used before
	Processes []jsonProcess `json:"processes"`
}

type jsonProcess struct {
	Name    string     `json:"name"`
	State   string     `json:"state"` // starting, running, exited, lost or aborted
	Command string     `json:"command"`
	Started *time.Time `json:"started,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
	Exit    *jsonExit  `json:"exit,omitempty"`
	Reason  string     `json:"reason,omitempty"` // why it is lost or aborted
}

func (l listed) writeJSON(to *outlet) error {
	out := jsonListed{Runs: []jsonRun{}, Containers: []jsonContainer{}, Waiting: []jsonWaiting{}}
	for _, e := range l.waiting {
		out.Waiting = append(out.Waiting, jsonWaiting{e.Owner, string(e.State), e.Position, e.Priority, e.Waited.Seconds(), e.Reserved, known(e.ReservedUntil), jsonHolders(e.InTheWay)})
	}
	for _, r := range l.runs {
		out.Runs = append(out.Runs, jsonRun{ID: r.ID, State: l.state(r), Began: r.Created, Ended: known(r.EndedAt)})
	}
	for _, c := range l.containers {
		j := jsonContainer{ID: c.ID, Owner: c.Owner, Worker: c.Worker, State: c.State, Created: c.Created, Expires: known(c.Expires), Processes: []jsonProcess{}}
		for _, p := range c.Processes {
			j.Processes = append(j.Processes, jsonProcess{Name: p.Name, State: p.State, Command: p.Path, Started: known(p.Started), Ended: known(p.Ended),
				Exit: exitJSON(p.Exit), Reason: p.Reason})
		}
		out.Containers = append(out.Containers, j)
	}
	return to.writeJSON(out)
}

// known leaves times out that are not.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func exitJSON(x *sdk.Exit) *jsonExit {
	if x == nil {
		return nil
	}
	return &jsonExit{x.Code, string(x.Signal), string(x.Reason), x.Message, x.StartedAt, x.EndedAt, x.PeakMemoryBytes, x.OutputCut}
}
