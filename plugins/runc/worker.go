//go:build linux

package runc

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shelf"
	"github.com/slipway-run/slipway/sdk/shim"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

// worker implements sdk.Worker. The volume half is the embedded store's, the process half the driver's.
type worker struct {
	*volumedir.Store

	driver     *shim.Driver
	name       string
	config     Config
	log        *slog.Logger
	engine     *engine.Engine
	containers *shelf.Shelf[containerRecord]
	boot       string // id of this start of the machine

	mu     sync.Mutex
	making map[string]bool // attempts to make containers, by this process, which may run commands in them already
	ending map[string]bool // attempts whose outcome is being destroyed by this process

	probing  chan struct{} // holds a token while somebody probes
	features []sdk.Feature // found by a probe; nil: none has succeeded yet
}

func newWorker(ctx context.Context, name string, c Config, log *slog.Logger) (*worker, error) {
	w := &worker{
		name: name, config: c, log: log,
		making: make(map[string]bool), ending: make(map[string]bool), probing: make(chan struct{}, 1),
	}
	unfit := func(err error) error {
		return &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonConfig, Cause: err, Message: fmt.Sprintf("worker %q: state %s: %v", name, c.State, err)}
	}
	if err := os.MkdirAll(c.State, 0o700); err != nil {
		return nil, unfit(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, unfit(err)
	}
	w.boot = string(bytes.TrimSpace(boot))
	if w.containers, err = shelf.Open[containerRecord](filepath.Join(c.State, "containers")); err != nil {
		return nil, unfit(err)
	}
	if w.Store, err = volumedir.Open(ctx, filepath.Join(c.State, "volumes"), volumedir.Options{Quiesce: w.quiesce, Privileged: true}); err != nil {
		return nil, unfit(err)
	}
	if w.engine, err = engine.New(filepath.Join(c.State, "engine"), engine.Options{Runc: c.Runc}); err != nil {
		return nil, unfit(err)
	}
	if err := w.containers.Sweep(ctx); err != nil {
		return nil, unfit(err)
	}
	w.driver = shim.New(w.exec, shim.Options{Log: log})
	return w, nil
}

// Status makes one container, once, to see whether that works and what the shim can do in it.
func (w *worker) Status(ctx context.Context) (sdk.Status, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Status{}, err
	}
	s := sdk.Status{
		Health:               sdk.Healthy,
		ContainerIncarnation: w.Incarnation() + "-" + w.boot, // they begin anew with each start of the machine
		VolumeIncarnation:    w.Incarnation(),
		Capacity:             sdk.Resources{CPUMillis: int64(runtime.NumCPU()) * 1000},
		Encodings:            []string{sdk.EncodingRaw},
	}
	features, err := w.probe(ctx)
	if ctx.Err() != nil {
		return sdk.Status{}, ctx.Err()
	}
	if err != nil {
		s.Health, s.Reason = sdk.Away, fmt.Sprintf("no container can be made by %s on this machine: %v", w.config.Runc, err)
	}
	s.Features = features
	var system unix.Sysinfo_t
	if unix.Sysinfo(&system) == nil {
		s.Capacity.MemoryBytes = int64(system.Totalram) * int64(system.Unit)
	}
	var disk unix.Statfs_t
	if unix.Statfs(w.config.State, &disk) == nil {
		s.Capacity.DiskBytes = int64(disk.Blocks) * disk.Bsize
		s.Used.DiskBytes = int64(disk.Blocks-disk.Bfree) * disk.Bsize
	}
	s.Used.Volumes, err = w.Count()
	err = errors.Join(err, w.containers.Each(func(string, containerRecord) error { s.Used.Containers++; return nil }))
	if err != nil {
		return sdk.Status{}, sdk.NewInternal(err, "worker %q: %v", w.name, err)
	}
	return s, nil
}

// probe tells what this worker can do.
func (w *worker) probe(ctx context.Context) ([]sdk.Feature, error) {
	select {
	case w.probing <- struct{}{}:
		defer func() { <-w.probing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if w.features != nil {
		return w.features, nil
	}
	features := []sdk.Feature{sdk.FeatureImageVolume, sdk.FeatureNetworkNone, sdk.FeaturePrivileged}
	for _, controller := range w.engine.Controllers() {
		features = append(features, sdk.Feature("limits."+controller))
	}
	archives, err := w.Store.Features()
	if err != nil {
		return nil, err
	}
	features = append(features, archives...)
	if err := w.removeProbes(ctx); err != nil {
		return nil, err
	}
	info, err := w.probeContainer(ctx, sdk.Resources{DiskBytes: 1 << 20})
	if err == nil {
		features = append(features, sdk.FeatureLimitsDisk)
	} else {
		w.log.Info("containers have no limit of disk, unless they cannot be made at all", "error", err)
		if info, err = w.probeContainer(ctx, sdk.Resources{}); err != nil {
			return nil, err
		}
	}
	for _, note := range info.Notes {
		w.log.Info("processes in containers", "note", note)
	}
	features = append(features, info.Features...)
	slices.Sort(features)
	w.features = slices.Compact(features)
	return w.features, nil
}

// probeContainer makes a container and destroys it, under an id that no host can give: each process has its own.
func (w *worker) probeContainer(ctx context.Context, limits sdk.Resources) (info shim.Info, err error) {
	id := sdk.ContainerID("Probe-" + strings.ToLower(rand.Text()))
	unlock, err := w.containers.Make(ctx, string(id))
	if err != nil {
		return shim.Info{}, err
	}
	defer unlock()
	rec := containerRecord{Spec: sdk.ContainerSpec{ID: id, Hermetic: true, Limits: limits}, State: sdk.ContainerCreating, Attempt: rand.Text()}
	defer w.mark(w.making, rec.Attempt)()
	if err := w.containers.Write(string(id), rec); err != nil {
		return shim.Info{}, err
	}
	info, err = w.build(ctx, rec, func(sdk.Progress) {})
	return info, errors.Join(err, w.remove(ctx, id))
}

// removeProbes takes away those of processes that were killed meanwhile.
func (w *worker) removeProbes(ctx context.Context) error {
	return w.containers.Each(func(id string, _ containerRecord) error {
		if !isProbe(id) {
			return nil
		}
		unlock, err := w.containers.TryLock(id)
		if unlock == nil {
			return err // somebody's own, or gone
		}
		defer unlock()
		return w.remove(ctx, sdk.ContainerID(id))
	})
}

func isProbe(id string) bool { return strings.HasPrefix(id, "Probe-") }

// mark marks an attempt until unmark is called. Attempts are told by more than the container's id, for the next one may begin as soon as the files
// of this one are gone, and before unmark.
func (w *worker) mark(set map[string]bool, attempt string) (unmark func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set[attempt] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(set, attempt)
	}
}

func (w *worker) marked(set map[string]bool, attempt string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return set[attempt]
}

// Close has nothing to free: handles are the worker itself, which ends with the runtime.
func (w *worker) Close() error { return nil }

var (
	_ sdk.Worker     = (*worker)(nil)
	_ sdk.FileReader = (*worker)(nil)
	_ sdk.Resizer    = (*worker)(nil)
)
