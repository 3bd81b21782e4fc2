package garden

import (
	"context"

	"github.com/slipway-run/slipway/sdk"
)

// listing is the handles of a server's containers.
type listing struct {
	made    int // creations by this process that had ended before it was asked for
	handles []string
}

func (w *worker) listing() listing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return listing{made: w.made}
}

// begin marks a container as being made, if there is room for it beside those that there are and those that other calls are making. A list that is
// older than the end of such a call may lack its container, and is asked for again.
func (w *worker) begin(ctx context.Context, id sdk.ContainerID, list listing) error {
	for {
		if begun, err := w.tryBegin(id, list); begun || err != nil {
			return err
		}
		var err error
		list = w.listing()
		if list.handles, err = w.garden.List(ctx, nil); err != nil {
			return err
		}
	}
}

// tryBegin says false if the list is too old.
func (w *worker) tryBegin(id sdk.ContainerID, list listing) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if most := w.config.MaxContainers; most > 0 {
		if list.made != w.made {
			return false, nil
		}
		all := make(map[string]bool, len(list.handles))
		for _, h := range list.handles {
			all[h] = true
		}
		for other := range w.making {
			all[string(other)] = true
		}
		delete(all, string(id))
		if len(all) >= most {
			return false, sdk.NewExhausted("", "container %q: %s has %d containers, and takes no more than max_containers = %d", id, w.garden, len(all), most)
		}
	}
	w.making[id] = true
	return true, nil
}

// end says that a container is not being made any more.
func (w *worker) end(id sdk.ContainerID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.making, id)
	w.made++
}
