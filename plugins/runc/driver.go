//go:build linux

package runc

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk/machine"
)

// driver is what machine asks of a plugin, by runc.
type driver struct {
	engine *engine.Engine
}

// first is a container's process 1. Where it is noted, a look at it takes no runc.
func first(c machine.Container) machine.Process {
	return machine.ProcessIn(filepath.Join(c.Dir, "first"))
}

func (d driver) create(ctx context.Context, c machine.Container) error {
	s := engine.Spec{
		ID:          string(c.ID),
		Rootfs:      c.Root,
		Args:        c.Command,
		MemoryBytes: c.Limits.MemoryBytes,
		PIDs:        c.Limits.PIDs,
		CPUMillis:   c.Limits.CPUMillis,
		DiskBytes:   c.Limits.DiskBytes,
		Privileged:  c.Privileged,
		HostNetwork: !c.Hermetic,
		Annotations: map[string]string{"slipway.container": string(c.ID)},
	}
	for _, m := range slices.Concat(c.Own, c.Mounts) { // the own ones always: so the container cannot remove its shim by mistake
		s.Mounts = append(s.Mounts, engine.Mount{Source: m.Source, Path: m.Path, ReadOnly: m.ReadOnly})
	}
	if err := d.engine.Create(ctx, s); err != nil {
		return err
	}
	pid, err := d.engine.PID(s.ID)
	if err != nil {
		return err
	}
	return first(c).Note(pid)
}

func (d driver) exec(ctx context.Context, c machine.Container, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	err := d.engine.Exec(ctx, string(c.ID), engine.Command{Args: argv}, stdin, stdout, stderr)
	if _, ok := errors.AsType[*engine.ExitError](err); ok {
		return nil // the command's own affair
	}
	return err
}

func (d driver) destroy(ctx context.Context, c machine.Container) error {
	return d.engine.Delete(ctx, string(c.ID))
}

// runs tells also what process 1 has said last, if it has ended: that may be why.
func (d driver) runs(_ context.Context, c machine.Container) (bool, string, error) {
	_, runs, err := first(c).PID()
	if runs || err != nil {
		return runs, "", err
	}
	why := "its process 1 has ended"
	if said, err := d.engine.Output(string(c.ID), 1<<10); err == nil && len(said) > 0 {
		why += "; it said: " + strings.ToValidUTF8(string(said), "?")
	}
	return false, why, nil
}
