package host

import (
	"context"
	"fmt"

	"github.com/slipway-run/slipway/sdk"
)

// RestartPlugin ends a plugin's process in the orderly way, starts it anew, and returns once it runs. What its workers have goes on; where that ends with the process,
// as FeatureVolatile says, it is refused while something is there, as FailedPrecondition, unless force says that it may be lost. A plugin that is not known
// is NotFound; why one does not run again, a *launch.Error. When ctx ends, only the waiting for it does.
func (h *Host) RestartPlugin(ctx context.Context, name string, force bool) error {
	_, err := changing(ctx, h, func(ctx context.Context) (struct{}, error) { return struct{}{}, h.restartPlugin(ctx, name, force) })
	return err
}

func (h *Host) restartPlugin(ctx context.Context, name string, force bool) error {
	p := h.plugin(name)
	if p == nil {
		return h.noPlugin(name)
	}
	held, used, err := h.holdVolatile(ctx, p)
	defer func() {
		for _, w := range held {
			w.hold("")
			h.tellPlacement(w)
		}
	}()
	if err != nil {
		return err
	}
	if used != "" && !force {
		return &sdk.Error{Class: sdk.FailedPrecondition,
			Message: fmt.Sprintf("plugin %q is not restarted: what its workers have ends with its process, and %s: wait until nothing is there, or say that it may be lost (--force)", name, used)}
	}
	next := p.proc.State().Epoch + 1
	if !p.proc.Restart() {
		return &sdk.Error{Class: sdk.FailedPrecondition, Message: fmt.Sprintf("plugin %q is a part of this program, and has no process", name)}
	}
	defer h.waits.on(p.toStart)()
	return tried(ctx, p.proc, next)
}

func (h *Host) noPlugin(name string) error {
	var names []string
	for _, p := range h.allPlugins() {
		names = append(names, p.cfg.Name)
	}
	message := fmt.Sprintf("there is no plugin %q: this host has none", name)
	if len(names) > 0 {
		message = fmt.Sprintf("there is no plugin %q: %s", name, Choices(name, names, "those of this host are", "slipway plugins"))
	}
	return &sdk.Error{Class: sdk.NotFound, ID: name, Message: message}
}
