package host

import (
	"cmp"
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// hooked is a runtime whose calls a test can answer itself: on by the call's name, else hook for all of them. Each gets
// the number of the call, from 1, and what makes the real one.
type hooked struct {
	sdk.Runtime
	on      map[string]func(n int, real func() error) error
	hook    func(ctx context.Context, call, id string, n int, real func() error) error
	status  func(ctx context.Context, n int, s *sdk.Status) error
	workers func(ctx context.Context, emit func(sdk.WorkerEvent) error) error
	follow  func(container string, f sdk.Follow) sdk.Follow // what the runtime is given in place of the host's callbacks
	lists   func(things *listing)                           // changes what the worker has into what it lists; nil: that is the same
	whole   bool                                            // what makes or starts something does so though it is cut meanwhile
	spill   int64                                           // of each process that is started: so much of its output is taken without being acknowledged

	mu     sync.Mutex
	n      map[string]int     // calls so far
	tokens map[sdk.Token]bool // of the starts that were asked for
	asked  []created          // containers that were asked for, in order
}

// created is a container that a worker was asked for.
type created struct {
	id     sdk.ContainerID
	worker string
}

func (o *hooked) count(call string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == nil {
		o.n = make(map[string]int)
	}
	o.n[call]++
	return o.n[call]
}

// pluggable is a runtime whose worker is away for as long as that is set.
func pluggable(rt sdk.Runtime) (*hooked, *atomic.Bool) {
	away := new(atomic.Bool)
	return &hooked{Runtime: rt, hook: func(_ context.Context, _, _ string, _ int, real func() error) error {
		if away.Load() {
			return errAway
		}
		return real()
	}, status: func(_ context.Context, _ int, s *sdk.Status) error {
		if away.Load() {
			s.Health, s.Reason = sdk.Away, "unplugged"
		}
		return nil
	}}, away
}

// calls tells how often a call has come so far.
func (o *hooked) calls(call string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n[call]
}

// usedTokens tells with how many tokens starts were asked for.
func (o *hooked) usedTokens() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.tokens)
}

func (o *hooked) run(ctx context.Context, call, id string, real func() error) error {
	n := o.count(call)
	if f := o.on[call]; f != nil {
		return f(n, real)
	}
	if o.hook == nil {
		return real()
	}
	return o.hook(ctx, call, id, n, real)
}

// made is the context of a call that makes or starts something.
func (o *hooked) made(ctx context.Context) context.Context {
	if o.whole {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (o *hooked) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	if o.workers != nil {
		return o.workers(ctx, emit)
	}
	return o.Runtime.Workers(ctx, emit)
}

func (o *hooked) Worker(name string) (sdk.Worker, error) {
	w, err := o.Runtime.Worker(name)
	if err != nil {
		return nil, err
	}
	return &hookedWorker{w, o, name}, nil
}

type hookedWorker struct {
	sdk.Worker
	o    *hooked
	name string
}

func (w *hookedWorker) Status(ctx context.Context) (sdk.Status, error) {
	s, err := w.Worker.Status(ctx)
	n := w.o.count("status")
	if w.o.status != nil && err == nil {
		err = w.o.status(ctx, n, &s)
	}
	return s, err
}
func (w *hookedWorker) CreateVolume(ctx context.Context, s sdk.VolumeSpec) error {
	return w.o.run(ctx, "create-volume", string(s.ID), func() error { return w.Worker.CreateVolume(w.o.made(ctx), s) })
}
func (w *hookedWorker) SealVolume(ctx context.Context, id sdk.VolumeID) error {
	return w.o.run(ctx, "seal", string(id), func() error { return w.Worker.SealVolume(ctx, id) })
}
func (w *hookedWorker) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	return w.o.run(ctx, "destroy-volume", string(id), func() error { return w.Worker.DestroyVolume(ctx, id) })
}
func (w *hookedWorker) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	return w.o.run(ctx, "stream-in", w.name, func() error { return w.Worker.StreamIn(ctx, id, in, r) })
}
func (w *hookedWorker) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
	return w.o.run(ctx, "stream-out", w.name, func() error { return w.Worker.StreamOut(ctx, id, out, dst) })
}
func (w *hookedWorker) CreateContainer(ctx context.Context, s sdk.ContainerSpec, p func(sdk.Progress)) error {
	w.o.mu.Lock()
	w.o.asked = append(w.o.asked, created{s.ID, w.name})
	w.o.mu.Unlock()
	return w.o.run(ctx, "create", w.name, func() error { return w.Worker.CreateContainer(w.o.made(ctx), s, p) })
}
func (w *hookedWorker) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	return w.o.run(ctx, "destroy", string(id), func() error { return w.Worker.DestroyContainer(ctx, id) })
}
func (w *hookedWorker) StartProcess(ctx context.Context, c sdk.ContainerID, s sdk.ProcessSpec) error {
	w.o.mu.Lock()
	if w.o.tokens == nil {
		w.o.tokens = make(map[sdk.Token]bool)
	}
	w.o.tokens[s.Token] = true
	s.Spill = cmp.Or(w.o.spill, s.Spill)
	w.o.mu.Unlock()
	return w.o.run(ctx, "start", string(c), func() error { return w.Worker.StartProcess(w.o.made(ctx), c, s) })
}
func (w *hookedWorker) FollowProcess(ctx context.Context, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	if w.o.follow != nil {
		f = w.o.follow(string(c), f)
	}
	return w.o.run(ctx, "follow", string(c), func() error { return w.Worker.FollowProcess(ctx, c, p, from, f) })
}
func (w *hookedWorker) ListContainers(ctx context.Context, f sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	return w.o.run(ctx, "list", w.name, func() error {
		if w.o.lists == nil {
			return w.Worker.ListContainers(ctx, f, emit)
		}
		var has listing
		err := w.Worker.ListContainers(ctx, f, func(i sdk.ContainerInfo) error { has.containers = append(has.containers, i); return nil })
		if err != nil {
			return err
		}
		w.o.lists(&has)
		return emitAll(has.containers, emit)
	})
}
func (w *hookedWorker) ListVolumes(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	if w.o.lists == nil {
		return w.Worker.ListVolumes(ctx, f, emit)
	}
	has := listing{ofVolumes: true}
	err := w.Worker.ListVolumes(ctx, f, func(i sdk.VolumeInfo) error { has.volumes = append(has.volumes, i); return nil })
	if err != nil {
		return err
	}
	w.o.lists(&has)
	return emitAll(has.volumes, emit)
}

// listing is what a worker lists in one call: containers, or volumes.
type listing struct {
	ofVolumes  bool
	containers []sdk.ContainerInfo
	volumes    []sdk.VolumeInfo
}

func emitAll[T any](all []T, emit func(T) error) error {
	for _, one := range all {
		if err := emit(one); err != nil {
			return err
		}
	}
	return nil
}

func (w *hookedWorker) ListProcesses(ctx context.Context, c sdk.ContainerID) (infos []sdk.ProcessInfo, err error) {
	err = w.o.run(ctx, "list-processes", string(c), func() (err error) { infos, err = w.Worker.ListProcesses(ctx, c); return err })
	return infos, err
}

// openUnready opens a host without waiting for it and without closing it at the end.
func openUnready(t *testing.T, rt sdk.Runtime, dir string, timing func(*Host), workers ...string) *Host {
	t.Helper()
	cfg := testConfig(workers...)
	h, err := Open(t.Context(), cfg, Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": rt}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h) })
	return h
}

// onWorker lists what is on a memory's worker.
func onWorker(t testing.TB, rt sdk.Runtime, worker string) (left []string) {
	t.Helper()
	conn, err := rt.Worker(worker)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.ListContainers(t.Context(), sdk.Filter{}, func(i sdk.ContainerInfo) error {
		left = append(left, "container "+string(i.ID))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.ListVolumes(t.Context(), sdk.Filter{}, func(i sdk.VolumeInfo) error {
		left = append(left, "volume "+string(i.ID))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return left
}

func containerRows(t testing.TB, h *Host) (rows []store.Container) {
	t.Helper()
	if err := h.store.View(t.Context(), func(tx *store.Tx) (err error) {
		rows, err = tx.Containers(store.ContainerFilter{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}
