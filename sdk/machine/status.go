//go:build linux

package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// Status makes one container, once, to see whether that works and what the shim can do in it.
func (w *Worker) Status(ctx context.Context) (sdk.Status, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Status{}, err
	}
	s := sdk.Status{
		Health:               sdk.Healthy,
		VolumeIncarnation:    w.Incarnation(),
		ContainerIncarnation: w.Incarnation() + "-" + w.boot, // they begin anew with each start of the machine
		Capacity:             sdk.Resources{CPUMillis: int64(runtime.NumCPU()) * 1000},
		Encodings:            []string{sdk.EncodingRaw},
	}
	var err error
	s.Features, err = w.probe(ctx)
	if ctx.Err() != nil {
		return sdk.Status{}, ctx.Err()
	}
	if err != nil {
		s.Health, s.Reason = sdk.Away, fmt.Sprintf("no container can be made on this machine: %v", err)
	}
	var system unix.Sysinfo_t
	if unix.Sysinfo(&system) == nil {
		s.Capacity.MemoryBytes = int64(system.Totalram) * int64(system.Unit)
	}
	var disk unix.Statfs_t
	if unix.Statfs(w.o.Dir, &disk) == nil {
		s.Capacity.DiskBytes = int64(disk.Blocks) * disk.Bsize
		s.Used.DiskBytes = int64(disk.Blocks-disk.Bfree) * disk.Bsize
	}
	s.Used.Volumes, err = w.Count()
	err = errors.Join(err, w.containers.Each(func(string, record) error { s.Used.Containers++; return nil }))
	if err != nil {
		return sdk.Status{}, sdk.NewInternal(err, "worker %q: %v", w.name, err)
	}
	return s, nil
}

// probe tells what this worker can do.
func (w *Worker) probe(ctx context.Context) ([]sdk.Feature, error) {
	select {
	case w.probing <- struct{}{}:
		defer func() { <-w.probing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if w.features != nil {
		return w.features, nil
	}
	archives, err := w.Store.Features()
	if err != nil {
		return nil, err
	}
	if err := w.removeProbes(ctx); err != nil {
		return nil, err
	}
	info, err := w.probeContainer(ctx)
	if err != nil {
		return nil, err
	}
	for _, note := range info.Notes {
		w.o.Log.Info("processes in containers", "note", note)
	}
	features := slices.Concat(w.o.Features, archives, info.Features, []sdk.Feature{sdk.FeatureImageVolume})
	slices.Sort(features)
	w.features = slices.Compact(features)
	return w.features, nil
}

// probeContainer makes a container and destroys it, under an id that no host can give: each process has its own.
func (w *Worker) probeContainer(ctx context.Context) (info shim.Info, err error) {
	id := sdk.ContainerID(probePrefix + rand.Text())
	unlock, err := w.containers.Make(ctx, string(id))
	if err != nil {
		return shim.Info{}, err
	}
	defer unlock()
	spec := sdk.ContainerSpec{ID: id, Hermetic: slices.Contains(w.o.Features, sdk.FeatureNetworkNone)}
	info, err = w.build(ctx, spec, nil, func(sdk.Progress) {})
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	return info, errors.Join(err, w.remove(undo, id))
}

// removeProbes takes away those of processes that were killed meanwhile.
func (w *Worker) removeProbes(ctx context.Context) error {
	return w.containers.Each(func(name string, _ record) error {
		if !isProbe(sdk.ContainerID(name)) {
			return nil
		}
		unlock, err := w.containers.TryLock(name)
		if unlock == nil {
			return err // somebody's own, or gone
		}
		defer unlock()
		return w.remove(ctx, sdk.ContainerID(name))
	})
}

const probePrefix = "Probe-"

func isProbe(id sdk.ContainerID) bool { return strings.HasPrefix(string(id), probePrefix) }

// bootID is the kernel's id of this start of the machine.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}
