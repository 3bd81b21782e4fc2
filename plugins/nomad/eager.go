package nomad

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

// Commands get into a task as soon as it is up, about a second before Nomad says so. Tries are spread after each thing that Nomad tells of it, and become few where
// it is silent.
const (
	eagerFirst = 20 * time.Millisecond  // before the first try, then twice as long
	eagerLast  = 320 * time.Millisecond // between two
	eagerSpan  = 2 * time.Second        // after what was told; then
	eagerLater = 5 * time.Second        // between two
	eagerTry   = time.Second            // for one
	eagerWait  = 2 * time.Second        // for Nomad to tell something
)

// eager says when to try a container that Nomad does not call up yet.
type eager struct {
	told  int // events
	since time.Time
	pause time.Duration
	next  time.Time
}

// due tells whether to try now, and else how long to wait for what Nomad tells.
func (e *eager) due(now time.Time, s *api.TaskState) (bool, time.Duration) {
	told, newest := 0, ""
	if s != nil && len(s.Events) > 0 {
		told = len(s.Events)
		newest = s.Events[told-1].Type
	}
	if e.since.IsZero() || told != e.told {
		e.told, e.since, e.pause, e.next = told, now, eagerFirst, now.Add(eagerFirst)
	}
	switch {
	case newest == api.TaskDownloadingArtifacts, newest == api.TaskDriverMessage: // which may take minutes, and something else is told after it
		return false, eagerWait
	case now.Before(e.next):
		return false, min(e.next.Sub(now), eagerWait)
	case now.Sub(e.since) >= eagerSpan:
		e.pause = eagerLater
	default:
		e.pause = min(2*e.pause, eagerLast)
	}
	e.next = now.Add(e.pause)
	return true, 0
}

// early asks a container's keeper although Nomad does not call its task up. Where the container is becomes known by an answer alone; else it is half made, as far as
// can be told within that time.
func (n *node) early(ctx context.Context, id sdk.ContainerID, a *api.Allocation, within time.Duration) error {
	n.mu.Lock()
	n.eager[id] = &placed{alloc: a}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		delete(n.eager, id)
		n.mu.Unlock()
	}()
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	if _, err := n.Ready(ctx, id); err != nil {
		return err
	}
	n.remember(id, a)
	return nil
}

// pending tells the state of a container whose allocation Nomad does not call up: whole, if its keeper has answered before.
func (n *node) pending(ctx context.Context, id sdk.ContainerID, a *api.Allocation) (sdk.ContainerState, error) {
	n.mu.Lock()
	known, making := n.known[id] != nil, n.making[id]
	n.mu.Unlock()
	switch {
	case known:
		return sdk.ContainerReady, nil
	case making:
		return sdk.ContainerCreating, nil
	}
	const within = 10 * time.Second
	err := n.early(ctx, id, a, within)
	switch {
	case err == nil:
		return sdk.ContainerReady, nil
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, sdk.Unavailable):
		return 0, sdk.NewUnavailable(nil, "container %q: its task begins to run, and it is not known yet whether it is whole: %v", id, err)
	}
	return sdk.ContainerCreating, nil
}
