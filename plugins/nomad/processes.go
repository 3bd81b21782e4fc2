package nomad

import (
	"cmp"
	"context"
	"errors"

	"github.com/slipway-run/slipway/sdk"
)

// StartProcess sees to what the shim cannot know: whether the container is whole, and where relative things begin.
func (n *node) StartProcess(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
	c, err := n.lookup(ctx, id)
	switch {
	case sdk.ClassOf(err) == sdk.AlreadyExists:
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	case err != nil:
		return err
	case c.stopped:
		return dead(id)
	}
	spec.Dir = cmp.Or(spec.Dir, c.spec.Dir, "/")
	err = n.Driver.StartProcess(ctx, id, spec)
	if errors.Is(err, sdk.ReasonRecordLost) {
		return dead(id)
	}
	return err
}
