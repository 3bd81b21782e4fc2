//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
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

// bootID is the kernel's id of this start of the machine.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}
