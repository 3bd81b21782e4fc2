//go:build linux

package runtime

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/examples/runc/engine"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
	"github.com/slipway-run/slipway/sdk/volumetar"
)

// worker implements sdk.Worker. The process half is the embedded driver's.
type worker struct {
	*shim.Driver

	name       string
	config     Config
	log        *slog.Logger
	engine     *engine.Engine
	volumes    shelf[volumeRecord]
	containers shelf[containerRecord]

	volumeStore    string // incarnation
	containerStore string

	mu     sync.Mutex
	making map[sdk.ContainerID]bool // by this process, which may run commands in them already
	ending map[sdk.ContainerID]bool // being destroyed by this process

	probing  chan struct{} // holds a token while somebody probes
	features []sdk.Feature // found by a probe; nil: none has succeeded yet
}

func newWorker(name string, c Config, log *slog.Logger) (*worker, error) {
	w := &worker{
		name: name, config: c, log: log,
		making: make(map[sdk.ContainerID]bool), ending: make(map[sdk.ContainerID]bool), probing: make(chan struct{}, 1),
	}
	unfit := func(err error) error {
		return &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonConfig, Cause: err, Message: fmt.Sprintf("worker %q: state %s: %v", name, c.State, err)}
	}
	if err := os.MkdirAll(c.State, 0o700); err != nil {
		return nil, unfit(err)
	}
	w.volumes = shelf[volumeRecord]{dir: filepath.Join(c.State, "volumes"), trash: w.trash()}
	w.containers = shelf[containerRecord]{dir: filepath.Join(c.State, "containers"), trash: w.trash()}
	for _, dir := range []string{w.trash(), w.drafts(), w.volumes.dir, w.containers.dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, unfit(err)
		}
	}
	var err error
	if w.engine, err = engine.New(filepath.Join(c.State, "engine"), engine.Options{Runc: c.Runc}); err != nil {
		return nil, unfit(err)
	}
	if err := w.readIncarnations(); err != nil {
		return nil, unfit(err)
	}
	if err := errors.Join(w.volumes.sweep(), w.containers.sweep(), w.emptyTrash()); err != nil {
		return nil, unfit(err)
	}
	w.Driver = shim.New(w.exec, shim.Options{Log: log})
	return w, nil
}

func (w *worker) trash() string  { return filepath.Join(w.config.State, "trash") }
func (w *worker) drafts() string { return filepath.Join(w.config.State, "drafts") }

// emptyTrash ends what a process that was killed had begun.
func (w *worker) emptyTrash() error {
	entries, err := os.ReadDir(w.trash())
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(w.trash(), entry.Name())))
	}
	return err
}

// readIncarnations gives the store of volumes the id that was made with the directory; containers begin anew with each start of the machine.
func (w *worker) readIncarnations() error {
	path := filepath.Join(w.config.State, "incarnation")
	id, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		made := filepath.Join(w.drafts(), rand.Text())
		if err := writeWhole(made, []byte(rand.Text())); err != nil {
			return err
		}
		defer os.Remove(made)
		if err := os.Link(made, path); err != nil && !errors.Is(err, fs.ErrExist) { // whoever is first wins
			return err
		}
		id, err = os.ReadFile(path)
	}
	if err != nil {
		return err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	w.volumeStore = string(id)
	w.containerStore = w.volumeStore + "-" + string(bytes.TrimSpace(boot))
	return nil
}

// Status makes one container, once, to see whether that works and what the shim can do in it.
func (w *worker) Status(ctx context.Context) (sdk.Status, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Status{}, err
	}
	s := sdk.Status{
		Health:               sdk.Healthy,
		ContainerIncarnation: w.containerStore,
		VolumeIncarnation:    w.volumeStore,
		Capacity:             sdk.Resources{CPUMillis: int64(goruntime.NumCPU()) * 1000},
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
	count := func(n *int64) error { *n++; return nil }
	err = errors.Join(
		w.volumes.each(func(string, volumeRecord) error { return count(&s.Used.Volumes) }),
		w.containers.each(func(string, containerRecord) error { return count(&s.Used.Containers) }),
	)
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
	features := []sdk.Feature{sdk.FeatureImageVolume, sdk.FeatureNetworkNone, sdk.FeaturePrivileged, sdk.FeatureFileRead}
	for _, controller := range w.engine.Controllers() {
		features = append(features, sdk.Feature("limits."+controller))
	}
	root, err := volumetar.Open(w.config.State, volumetar.Options{})
	if err != nil {
		return nil, err
	}
	defer root.Close()
	tar, err := root.Features()
	if err != nil {
		return nil, err
	}
	features = append(features, tar...)
	if err := w.removeProbes(ctx); err != nil {
		return nil, err
	}
	info, err := w.probeContainer(ctx)
	if err != nil {
		return nil, err
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
func (w *worker) probeContainer(ctx context.Context) (info shim.Info, err error) {
	id := sdk.ContainerID("Probe-" + strings.ToLower(rand.Text()))
	unlock, err := w.containers.make(ctx, string(id))
	if err != nil {
		return shim.Info{}, err
	}
	defer unlock()
	w.mark(w.making, id, true)
	defer w.mark(w.making, id, false)
	rec := containerRecord{Spec: sdk.ContainerSpec{ID: id, Hermetic: true}, State: sdk.ContainerCreating}
	if err := w.containers.write(string(id), rec); err != nil {
		return shim.Info{}, err
	}
	info, err = w.build(ctx, rec, func(sdk.Progress) {})
	return info, errors.Join(err, w.remove(ctx, id))
}

// removeProbes takes away those of processes that were killed meanwhile.
func (w *worker) removeProbes(ctx context.Context) error {
	return w.containers.each(func(id string, _ containerRecord) error {
		if !isProbe(id) {
			return nil
		}
		unlock, err := w.containers.tryLock(id)
		if unlock == nil {
			return err // somebody's own, or gone
		}
		defer unlock()
		return w.remove(ctx, sdk.ContainerID(id))
	})
}

func isProbe(id string) bool { return strings.HasPrefix(id, "Probe-") }

func (w *worker) mark(set map[sdk.ContainerID]bool, id sdk.ContainerID, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on {
		set[id] = true
	} else {
		delete(set, id)
	}
}

func (w *worker) marked(set map[sdk.ContainerID]bool, id sdk.ContainerID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return set[id]
}

// Close has nothing to free: handles are the worker itself, which ends with the runtime.
func (w *worker) Close() error { return nil }

var (
	_ sdk.Worker     = (*worker)(nil)
	_ sdk.FileReader = (*worker)(nil)
	_ sdk.Resizer    = (*worker)(nil)
)
