package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	probes  atomic.Int64 // volumes made for the probe
	life    life
}

// inventory is what a worker's lists hold.
type inventory struct {
	volumes, containers []string
	status              sdk.Status
}

// openSuite opens the target and looks at its worker. An error is the target's: nothing can be said about its cases.
func openSuite(ctx context.Context, target Target, opts Options) (*suite, error) {
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
	ctx, cancel := context.WithTimeout(ctx, opts.OpenTimeout)
	defer cancel()
	late := &opening{}
	err := s.within(ctx, func() error {
		err := s.open(ctx)
		if late.done() {
			s.giveUp(ctx) // nobody waits for it any more
		}
		return err
	})
	if err == nil {
		return s, nil
	}
	// What has a shorter time says by itself what took too long. The other side of a call may see the time end a little before this one does.
	if end, _ := ctx.Deadline(); errors.Is(err, context.DeadlineExceeded) && time.Until(end) < time.Second {
		err = fmt.Errorf("it does not answer in time; look into its log for what it waits for: %w", err)
	}
	err = fmt.Errorf("conformance: %s: %w", target.Name, err)
	if late.abandon() {
		return nil, err
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), opts.CleanupTimeout)
	defer cancel()
	return nil, errors.Join(err, s.within(closing, func() error { s.giveUp(closing); return nil }))
}

// opening is a target that is being opened, by a call that may never return.
type opening struct {
	mu               sync.Mutex
	ended, abandoned bool
}

// done notes that the call has returned, and tells whether it was given up before.
func (o *opening) done() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	return o.abandoned
}

// abandon gives the call up, and tells whether it still goes on.
func (o *opening) abandon() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abandoned = true
	return !o.ended
}

func (s *suite) open(ctx context.Context) error {
	inst, err := s.target.Open(withScale(ctx, s.opts.TimeScale))
	if err != nil {
		return fmt.Errorf("opening it: %w", err)
	}
	s.inst = inst
	name, err := workerName(ctx, inst.Runtime, s.target.Worker)
	if err != nil {
		return err
	}
	w, err := inst.Runtime.Worker(name)
	if err != nil {
		return fmt.Errorf("worker %q: %w", name, err)
	}
	s.name, s.main = name, &slot{w: w}
	if err := s.prepare(ctx, w); err != nil {
		return fmt.Errorf("worker %q: %w", name, err)
	}
	return nil
}

// giveUp frees what was opened of a target that cannot be used. What goes wrong there says nothing new.
func (s *suite) giveUp(ctx context.Context) {
	if s.main != nil {
		s.takeAway(ctx, s.main)
		s.main.get().Close()
	}
	if s.inst != nil {
		s.inst.Close()
	}
}

// prepare brings what cases run to the worker, and looks at what is there.
func (s *suite) prepare(ctx context.Context, w sdk.Worker) error {
	status, err := w.Status(ctx)
	if err != nil {
		return fmt.Errorf("asking for its status: %w", err)
	}
	if status.Health == sdk.Away {
		return fmt.Errorf("it is away: %s", status.Reason)
	}
	if err := s.bring(ctx, s.main); err != nil {
		return err
	}
	s.before, err = take(ctx, w)
	s.status = s.before.status
	return err
}

// close frees the target, also when the run was interrupted.
func (s *suite) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.CleanupTimeout)
	defer cancel()
	err := s.within(ctx, func() error {
		err := errors.Join(s.takeAway(ctx, s.main), s.main.get().Close())
		s.inst.Close()
		return err
	})
	if err != nil {
		return fmt.Errorf("conformance: closing %s, worker %q: %w", s.target.Name, s.name, err)
	}
	return nil
}

// within calls f, and gives it up when it goes on long after the end of ctx.
func (s *suite) within(ctx context.Context, f func() error) error {
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = f()
	}()
	if !wait(ctx, done, s.opts.HangGrace) {
		return fmt.Errorf("it had not returned %v after its time was up", s.opts.HangGrace)
	}
	return err
}

func (s *suite) installation() string { return "conformance-" + s.id }

func (s *suite) summary(results []Result) Summary {
	sum := summarize(Summary{
		Asked: s.opts.asked(), Target: s.target.Name, Worker: s.name, SDK: sdk.Version, Features: s.status.Features, Seed: s.opts.Seed,
		Started: s.started, Seconds: time.Since(s.started).Seconds(),
	}, results)
	sum.Untested = s.untested(results)
	if sum.Counts[Fail]+sum.Counts[Error] > 0 && s.inst.Said != nil {
		sum.Said = lastLines(s.inst.Said())
	}
	return sum
}

// untested gives the features that the worker names and that nothing was tried with.
func (s *suite) untested(results []Result) []sdk.Feature {
	if len(s.opts.Only)+len(s.opts.Skip) > 0 || slices.ContainsFunc(Usual(), func(p Profile) bool { return !slices.Contains(s.opts.asked(), p) }) {
		return nil // the user left out some of the cases
	}
	tried := make(map[sdk.Feature]bool)
	if s.target.Image.Ref != "" {
		tried[sdk.FeatureImageRef] = true // every container has it
	}
	needs := make(map[string][]sdk.Feature)
	for _, kase := range s.opts.Cases {
		needs[kase.ID] = kase.Needs
	}
	for _, r := range results {
		if r.Status == Pass || r.Status == Fail || r.Status == ExpectedFailure {
			for _, f := range needs[r.ID] {
				tried[f] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(s.status.Features), func(f sdk.Feature) bool {
		return tried[f] || strings.HasPrefix(string(f), sdk.ResourceTypePrefix)
	})
}

// saidLines is how many lines of a plugin's a report shows: the end of a traceback of most languages.
const saidLines = 20

func lastLines(text string) []string {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-saidLines):]
}

var errEnough = errors.New("the snapshot is all that is needed")

// workerName checks the wanted name against the first snapshot, or takes the first one.
func workerName(ctx context.Context, rt sdk.Runtime, want string) (string, error) {
	names, err := workerNames(ctx, rt)
	if err != nil {
		return "", err
	}
	if want == "" && len(names) > 0 {
		return names[0], nil
	}
	if !slices.Contains(names, want) {
		return "", fmt.Errorf("no worker %q; it reports %q", want, names)
	}
	return want, nil
}

// workerNames gives the names of the first snapshot, in order.
func workerNames(ctx context.Context, rt sdk.Runtime) (names []string, err error) {
	err = rt.Workers(ctx, func(e sdk.WorkerEvent) error {
		if e.Kind != sdk.WorkerSnapshot {
			return fmt.Errorf("the first event is of kind %d, want a snapshot", e.Kind)
		}
		for _, w := range e.Workers {
			names = append(names, w.Name)
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("asking for its workers: %w", err)
	}
	slices.Sort(names)
	return names, nil
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
		ID: nothingLeftID, Title: "after the run the worker lists what it listed before", Promises: []string{"1f", "9w"}, Level: Must, Profile: Core,
		Exclusive: true,
		Doc: "What was destroyed is gone when the call returns, and nothing that a plugin makes for itself is ever listed. " +
			"Things that only seem destroyed fill a worker until somebody looks.",
		Run: func(ctx context.Context, c *C) {
			after, err := take(ctx, c.W)
			if errors.Is(err, sdk.ReasonPluginGone) {
				c.tellEnd(ctx)
			}
			c.OK(err, "looking at the worker")
			before := c.suite.before
			c.compareLists("volumes", before.volumes, after.volumes, before.status.VolumeIncarnation, after.status.VolumeIncarnation)
			c.compareLists("containers", before.containers, after.containers, before.status.ContainerIncarnation, after.status.ContainerIncarnation)
		},
	}
}

// tellEnd says how the plugin's process ended, which has gone away.
func (c *C) tellEnd(ctx context.Context) {
	how := c.suite.over(ctx)
	if how == "" { // under a case that had it to itself, or not at all
		how = c.suite.ended(ctx)
	}
	if how != "" {
		c.Errorf("a plugin lives until it is told to end; one of the cases that ran then has ended it, and what failed after it says nothing", "it did not live to the end of the run: %s", how)
	}
}

// patience is how long it may take until it is known how a process has ended that is gone.
func (s *suite) patience() time.Duration {
	return s.scaled(DefaultTimeout / 3)
}

func (s *suite) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.opts.TimeScale)
}

func (c *C) compareLists(what string, before, after []string, was, is string) {
	if was != "" && was != is { // none is not known yet, which is no other
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
