package memory

import (
	"context"

	"github.com/slipway-run/slipway/sdk"
)

// ContainerUsage tells how many processes live in a container and what its own files take, mounts aside. Processor time and memory are the whole
// plugin's, and of nobody in particular.
func (w *worker) ContainerUsage(_ context.Context, id sdk.ContainerID) (sdk.Usage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, err := w.container(id)
	if err != nil {
		return sdk.Usage{}, err
	}
	var u sdk.Usage
	for _, p := range c.processes {
		select {
		case <-p.ended:
		default:
			u.PIDs++
		}
	}
	if c.root != nil {
		u.DiskBytes = c.root.Usage().Bytes
	}
	return u, nil
}

var _ sdk.UsageReporter = (*worker)(nil)
