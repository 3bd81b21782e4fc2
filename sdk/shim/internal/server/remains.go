package server

import (
	"context"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/record"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// Remains is the Keeper of a container whose keeper is gone: what its records tell can be read, and nothing starts any more.
type Remains struct{ record.Remains }

// Start is FailedPrecondition, for what was started before, too (rule 3).
func (r Remains) Start(context.Context, sdk.ProcessSpec) error {
	return sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, "",
		"the container's keeper is gone, and all that ran in it with it; destroy the container")
}

// Follow is record.Remains's.
func (r Remains) Follow(ctx context.Context, id sdk.ProcessID, by wire.Follow, f sdk.Follow) error {
	return r.Remains.Follow(ctx, id, by.From, f)
}

// Signal succeeds for a process that has exited. Of any other nobody is left to signal it, and what it started may live.
func (r Remains) Signal(_ context.Context, id sdk.ProcessID, _ sdk.Signal) error { return r.Ended(id) }

// Resize is as Signal.
func (r Remains) Resize(_ context.Context, id sdk.ProcessID, _ sdk.TTY) error { return r.Ended(id) }

// Quiesce is refused: what lost its monitor together with the keeper has nobody to kill it, and from here nobody can tell.
func (r Remains) Quiesce(context.Context) error {
	return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindContainer, "",
		"the container's keeper is gone, so nobody can say that nothing in it writes any more; destroy the container")
}
