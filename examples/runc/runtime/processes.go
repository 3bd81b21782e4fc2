//go:build linux

package runtime

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/slipway-run/slipway/examples/runc/engine"
	"github.com/slipway-run/slipway/sdk"
)

// exec is all that the shim's driver asks of a runtime.
func (w *worker) exec(ctx context.Context, id sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	rec, err := w.containers.read(string(id))
	switch {
	case err != nil:
		return w.missing(err, sdk.KindContainer, string(id))
	case w.marked(w.ending, id):
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	case rec.State == sdk.ContainerCreating && !w.marked(w.making, id):
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
	if _, readErr := w.containers.read(string(id)); errors.Is(readErr, fs.ErrNotExist) || w.marked(w.ending, id) {
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	return lost(id)
}

// StartProcess sees to what the shim cannot know: the state of the container and of what it mounts.
func (w *worker) StartProcess(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	rec, err := w.containers.read(string(id))
	switch {
	case err != nil:
		return w.missing(err, sdk.KindContainer, string(id))
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
	volumes, unlock, err := w.shareVolumes(ctx, writable) // so that none is sealed while this starts
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
	err = w.Driver.StartProcess(ctx, id, spec)
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
