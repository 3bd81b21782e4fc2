//go:build linux

package runc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

// exec is all that the shim's driver asks of a runtime.
func (w *worker) exec(ctx context.Context, id sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	rec, err := w.containers.Read(string(id))
	switch {
	case err != nil:
		return missing(err, id)
	case w.marked(w.ending, rec.Attempt):
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	case rec.State == sdk.ContainerCreating && !w.marked(w.making, rec.Attempt):
		return creating(id)
	case rec.State == sdk.ContainerGone:
		return lost(id)
	}
	err = w.engine.Exec(ctx, string(id), engine.Command{Args: argv}, stdin, stdout, stderr)
	if _, ok := errors.AsType[*engine.ExitError](err); ok || err == nil {
		return nil
	}
	if !errors.Is(err, engine.ErrNotFound) && !errors.Is(err, engine.ErrNotRunning) {
		return err
	}
	if _, readErr := w.containers.Read(string(id)); errors.Is(readErr, fs.ErrNotExist) || w.marked(w.ending, rec.Attempt) {
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	return lost(id)
}

// missing makes an error of the contract from why a record could not be had.
func missing(err error, id sdk.ContainerID) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	case errors.Is(err, fs.ErrInvalid): // no name of anything
		return sdk.CheckID(sdk.KindContainer, string(id))
	}
	return volumedir.Fault(err, sdk.KindContainer, string(id))
}

// StartProcess sees to what the shim cannot know: the state of the container and of what it mounts.
func (w *worker) StartProcess(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	rec, err := w.containers.Read(string(id))
	switch {
	case err != nil:
		return missing(err, id)
	case rec.State == sdk.ContainerCreating:
		return creating(id)
	case rec.State == sdk.ContainerGone:
		return dead(id)
	}
	var writable []sdk.VolumeID
	for _, m := range rec.Spec.Mounts {
		if !m.ReadOnly {
			writable = append(writable, m.Volume)
		}
	}
	volumes, unlock, err := w.Share(ctx, writable...) // so that none is sealed while this starts
	if err != nil {
		return err
	}
	defer unlock()
	for _, m := range rec.Spec.Mounts {
		if !m.ReadOnly && volumes[m.Volume].State == sdk.VolumeSealed {
			return w.started(ctx, id, spec, sealedMount(m))
		}
	}
	spec.Dir = cmp.Or(spec.Dir, rec.Spec.Dir, "/")
	err = w.driver.StartProcess(ctx, id, spec)
	if errors.Is(err, sdk.ReasonRecordLost) {
		return dead(id)
	}
	return err
}

// started answers for a process that cannot start any more, but may have (rule 1).
func (w *worker) started(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec, refusal error) error {
	all, err := w.ListProcesses(ctx, id)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(p sdk.ProcessInfo) bool { return p.ID == spec.ID })
	switch {
	case i < 0:
		return refusal
	case all[i].Token != spec.Token:
		return sdk.NewAlreadyExists(sdk.KindProcess, string(spec.ID))
	}
	return nil
}

// ListProcesses and the following are the driver's.
func (w *worker) ListProcesses(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	return w.driver.ListProcesses(ctx, id)
}

// FollowProcess follows in the container.
func (w *worker) FollowProcess(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, from sdk.Position, follow sdk.Follow) error {
	return w.driver.FollowProcess(ctx, id, process, from, follow)
}

// SignalProcess has the container's keeper send a signal.
func (w *worker) SignalProcess(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, signal sdk.Signal) error {
	return w.driver.SignalProcess(ctx, id, process, signal)
}

// ResizeProcess has it resize a terminal.
func (w *worker) ResizeProcess(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, size sdk.TTY) error {
	return w.driver.ResizeProcess(ctx, id, process, size)
}
