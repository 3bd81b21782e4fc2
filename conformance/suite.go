package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// suite is one run: an opened target and what it had before.
type suite struct {
	target  Target
	opts    Options
	id      string // in every id and label of the run
	inst    *Instance
	name    string // of the worker
	main    *slot
	status  sdk.Status
	before  inventory
	started time.Time
}

// inventory is what a worker's lists hold.
type inventory struct {
	volumes, containers []string
	status              sdk.Status
}

// openSuite opens the target and looks at its worker. An error is the target's: nothing can be said about its cases.
func openSuite(ctx context.Context, target Target, opts Options) (_ *suite, err error) {
	opts = opts.withDefaults()
	if target.Commands == nil {
		target.Commands = Shell{}
	}
	for _, e := range opts.Expected {
		if e.ID == "" || e.Reason == "" || e.Until.IsZero() {
			return nil, fmt.Errorf("conformance: expected failure of %q needs a reason and a day when it ends", e.ID)
		}
	}
	s := &suite{target: target, opts: opts, id: strings.ToLower(rand.Text()[:10]), started: time.Now()}
	if s.inst, err = target.Open(ctx); err != nil {
		return nil, fmt.Errorf("conformance: opening %s: %w", target.Name, err)
	}
	defer func() {
		if err != nil {
			s.inst.Close()
		}
	}()
	if s.name, err = workerName(ctx, s.inst.Runtime, target.Worker); err != nil {
		return nil, fmt.Errorf("conformance: %s: %w", target.Name, err)
	}
	w, err := s.inst.Runtime.Worker(s.name)
	if err != nil {
		return nil, fmt.Errorf("conformance: %s: worker %q: %w", target.Name, s.name, err)
	}
	s.main = &slot{w: w}
	if s.before, err = take(ctx, w); err != nil {
		w.Close()
		return nil, fmt.Errorf("conformance: %s: worker %q: %w", target.Name, s.name, err)
	}
	s.status = s.before.status
	if s.status.Health == sdk.Away {
		w.Close()
		return nil, fmt.Errorf("conformance: %s: worker %q is away: %s", target.Name, s.name, s.status.Reason)
	}
	return s, nil
}

func (s *suite) close() error {
	err := s.main.get().Close()
	s.inst.Close()
	return err
}

func (s *suite) installation() string { return "conformance-" + s.id }

func (s *suite) summary(results []Result) Summary {
	return summarize(Summary{
		Target: s.target.Name, Worker: s.name, SDK: sdk.Version, Features: s.status.Features, Seed: s.opts.Seed,
		Started: s.started, Seconds: time.Since(s.started).Seconds(),
	}, results)
}

var errEnough = errors.New("the snapshot is all that is needed")

// workerName checks the wanted name against the first snapshot, or takes the first one.
func workerName(ctx context.Context, rt sdk.Runtime, want string) (string, error) {
	var names []string
	err := rt.Workers(ctx, func(e sdk.WorkerEvent) error {
		if e.Kind != sdk.WorkerSnapshot {
			return fmt.Errorf("the first event is of kind %d, want a snapshot", e.Kind)
		}
		for _, w := range e.Workers {
			names = append(names, w.Name)
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		return "", fmt.Errorf("asking for its workers: %w", err)
	}
	slices.Sort(names)
	if want == "" && len(names) > 0 {
		return names[0], nil
	}
	if !slices.Contains(names, want) {
		return "", fmt.Errorf("no worker %q; it reports %q", want, names)
	}
	return want, nil
}

// take lists everything on a worker.
func take(ctx context.Context, w sdk.Worker) (i inventory, err error) {
	if i.status, err = w.Status(ctx); err != nil {
		return i, fmt.Errorf("asking for its status: %w", err)
	}
	err = w.ListVolumes(ctx, sdk.Filter{}, func(v sdk.VolumeInfo) error {
		i.volumes = append(i.volumes, string(v.ID))
		return nil
	})
	if err != nil {
		return i, fmt.Errorf("listing its volumes: %w", err)
	}
	err = w.ListContainers(ctx, sdk.Filter{}, func(c sdk.ContainerInfo) error {
		i.containers = append(i.containers, string(c.ID))
		return nil
	})
	if err != nil {
		return i, fmt.Errorf("listing its containers: %w", err)
	}
	slices.Sort(i.volumes)
	slices.Sort(i.containers)
	return i, nil
}

const nothingLeftID = "Q03-nothing-left"

// NothingLeft is the case that ends every run: the worker's lists are what they were.
func NothingLeft() Case {
	return Case{
		ID: nothingLeftID, Title: "after the run the worker lists what it listed before", Rules: []int{1, 9}, Level: Must, Profile: Core,
		Exclusive: true,
		Doc: "What was destroyed is gone when the call returns, and nothing that a plugin makes for itself is ever listed. " +
			"Things that only seem destroyed fill a worker until somebody looks.",
		Run: func(ctx context.Context, c *C) {
			after, err := take(ctx, c.W)
			c.OK(err, "looking at the worker")
			before := c.suite.before
			c.compareLists("volumes", before.volumes, after.volumes, before.status.VolumeIncarnation, after.status.VolumeIncarnation)
			c.compareLists("containers", before.containers, after.containers, before.status.ContainerIncarnation, after.status.ContainerIncarnation)
		},
	}
}

func (c *C) compareLists(what string, before, after []string, was, is string) {
	if was != is {
		c.Errorf("a store keeps its incarnation while nothing happens to it; a new one makes a host give up all it had there",
			"the incarnation of %s was %q and is %q", what, was, is)
		return
	}
	for _, id := range after {
		if !slices.Contains(before, id) {
			c.Errorf("what was destroyed must be gone", "%s: %q is listed and was not before the run", what, id)
		}
	}
	for _, id := range before {
		if !slices.Contains(after, id) {
			c.Errorf("nothing is destroyed that nobody named", "%s: %q was listed before the run and is not any more", what, id)
		}
	}
}
