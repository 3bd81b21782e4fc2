package shim

import (
	"context"
	"io/fs"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/record"
)

// Records are what the keeper of a container has left on its scratch volume, for runtimes that can read that without the container. They
// are read as they are, and never changed.
type Records struct{ remains record.Remains }

// Remains reads the records in fsys, the scratch volume of a container whose keeper is gone, or a copy of it.
func Remains(fsys fs.FS) Records { return Records{record.Remains{Scratch: fsys}} }

// ListProcesses tells all processes: those without an exit are abandoned. Where nothing can be read it is FailedPrecondition with
// [sdk.ReasonRecordLost]. The slice is nil if there are none.
func (r Records) ListProcesses() ([]sdk.ProcessInfo, error) { return r.remains.List() }

// SignalProcess succeeds for a process that has its exit. Any other is FailedPrecondition with [sdk.ReasonDead], for nobody is left to signal
// it. ResizeProcess is answered in the same way.
func (r Records) SignalProcess(process sdk.ProcessID) error {
	return onlyLive(r.remains.Ended(process), process)
}

// FollowProcess delivers what is left of a journal, then the exit, or FailedPrecondition with [sdk.ReasonAbandoned]. Acknowledging is not
// needed. A process that is not there is FailedPrecondition with [sdk.ReasonDead], for only a live keeper can say that it never was.
func (r Records) FollowProcess(ctx context.Context, process sdk.ProcessID, from sdk.Position, follow sdk.Follow) error {
	return onlyLive(r.remains.Follow(ctx, process, from, follow), process)
}

// onlyLive makes of NotFound of a process what a keeper that is gone can say.
func onlyLive(err error, process sdk.ProcessID) error {
	if sdk.IsNotFound(err, sdk.KindProcess) {
		return sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, "",
			"process %q: the container's keeper is gone, and its records do not tell of the process: destroy the container", process)
	}
	return err
}
