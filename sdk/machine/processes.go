//go:build linux

package machine

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

// read gives a container's record, or an error fit for the caller.
func (w *Worker) read(ctx context.Context, id sdk.ContainerID) (record, error) {
	if err := ctx.Err(); err != nil {
		return record{}, err
	}
	if !isProbe(id) {
		if err := sdk.CheckID(sdk.KindContainer, string(id)); err != nil {
			return record{}, err
		}
	}
	rec, err := w.containers.Read(string(id))
	if errors.Is(err, fs.ErrNotExist) {
		return rec, sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	return rec, volumedir.Fault(err, sdk.KindContainer, string(id))
}

// exec is all that the shim's driver asks of a runtime.
func (w *Worker) exec(ctx context.Context, id sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	rec, err := w.read(ctx, id)
	switch {
	case err != nil:
		return err
	case w.marked(w.ending, rec.Attempt):
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	case rec.State == sdk.ContainerCreating && !w.marked(w.making, rec.Attempt):
		return creating(id)
	case rec.State == sdk.ContainerGone:
		return lost(id)
	case rec.Boot != w.boot:
		return lost(id)
	}
	failed := w.f.Exec(ctx, w.container(rec), argv, stdin, stdout, stderr)
	if failed == nil || ctx.Err() != nil {
		return failed
	}
	now, err := w.read(ctx, id)
	if err != nil {
		return err
	}
	if now.Attempt != rec.Attempt || w.marked(w.ending, rec.Attempt) {
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	ok, _, err := w.runs(ctx, rec)
	if err == nil && !ok {
		return lost(id)
	}
	return failed
}

func creating(id sdk.ContainerID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonCreating, sdk.KindContainer, string(id), "container %q is half made; create it again or destroy it", id)
}

func lost(id sdk.ContainerID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonRecordLost, sdk.KindContainer, string(id), "container %q runs no more; destroy it", id)
}

// StartProcess sees to what the shim cannot know: the state of the container and of what it mounts.
func (w *Worker) StartProcess(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	rec, err := w.read(ctx, id)
	if err != nil {
		return err
	}
	switch rec.State {
	case sdk.ContainerCreating:
		return creating(id)
	case sdk.ContainerGone:
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
func (w *Worker) started(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec, refusal error) error {
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

// ListProcesses asks the container, or reads what it left.
func (w *Worker) ListProcesses(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	all, err := w.driver.ListProcesses(ctx, id)
	if !errors.Is(err, sdk.ReasonRecordLost) {
		return all, err
	}
	err = w.remains(ctx, id, func(r shim.Records) (err error) { all, err = r.ListProcesses(); return err })
	return all, err
}

// FollowProcess follows in the container, or reads what it left: that has an end, and a follower that was cut off finds it there.
func (w *Worker) FollowProcess(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, from sdk.Position, follow sdk.Follow) error {
	at := from
	follow, rest := told(follow, &at)
	err := w.driver.FollowProcess(ctx, id, process, from, follow)
	if !errors.Is(err, sdk.ReasonRecordLost) {
		return err
	}
	return w.remains(ctx, id, func(r shim.Records) error { return r.FollowProcess(ctx, process, at, *rest) })
}

// told gives a follower that moves at on with what it has got, and one that goes on from there: it is not told again what is told once.
func told(follow sdk.Follow, at *sdk.Position) (first sdk.Follow, rest *sdk.Follow) {
	kept := follow
	rest = &kept
	if opened := follow.Opened; opened != nil {
		follow.Opened = func(o sdk.Opened) error { rest.Opened = nil; return opened(o) }
	}
	if output := follow.Output; output != nil {
		follow.Output = func(records []sdk.Record) error {
			err := output(records)
			if err == nil && len(records) > 0 {
				*at = records[len(records)-1].End()
			}
			return err
		}
	}
	if exit := follow.Exit; exit != nil {
		follow.Exit = func(e sdk.Exit) error { rest.Exit = nil; return exit(e) }
	}
	return follow, rest
}

// SignalProcess has the container's keeper send a signal.
func (w *Worker) SignalProcess(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, signal sdk.Signal) error {
	return w.ended(ctx, id, process, w.driver.SignalProcess(ctx, id, process, signal))
}

// ResizeProcess has it resize a terminal.
func (w *Worker) ResizeProcess(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, size sdk.TTY) error {
	return w.ended(ctx, id, process, w.driver.ResizeProcess(ctx, id, process, size))
}

// ended answers for a process of which the container could not be asked, from what it left.
func (w *Worker) ended(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, err error) error {
	if !errors.Is(err, sdk.ReasonRecordLost) {
		return err
	}
	return w.remains(ctx, id, func(r shim.Records) error { return r.SignalProcess(process) })
}

// remains reads what a container that runs no more has left of its processes.
func (w *Worker) remains(ctx context.Context, id sdk.ContainerID, read func(shim.Records) error) error {
	rec, err := w.read(ctx, id)
	if err != nil {
		return err
	}
	// While anything runs in it, somebody may still write there what is missing now.
	if ok, _, err := w.runs(ctx, rec); ok || err != nil {
		return lost(id)
	}
	root, err := os.OpenRoot(w.containers.Path(string(id), "root"))
	if err != nil {
		return lost(id)
	}
	defer root.Close()
	scratch, err := root.OpenRoot(strings.TrimPrefix(scratchPath, "/"))
	if err != nil {
		return lost(id)
	}
	defer scratch.Close()
	return read(shim.Remains(scratch.FS()))
}
