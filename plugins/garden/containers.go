package garden

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"code.cloudfoundry.org/garden"
	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/plugins/garden/internal/claim"
	"github.com/slipway-run/slipway/sdk"
)

// The properties that containers have beside their labels, in which there is no colon. Servers are never asked for containers by one of them: Concourse's
// containerd backend fails at a name with a colon.
const (
	propID     = "slipway:id"
	propToken  = "slipway:token"
	propLabels = "slipway:labels" // their keys
	propDir    = "slipway:dir"
	propMounts = "slipway:mounts" // how many it has
	propWrites = "slipway:writes" // the volumes that it can write
	propReady  = "slipway:ready"  // it was made whole
	propMade   = "slipway:made"   // the same, of the volume that has its shim
	propProbe  = "slipway:probe"  // it is the plugin's own, and when it was made, in seconds since 1970
)

// Values of those that say so.
const (
	yes = "1"
	no  = "0"
)

// facts is what is known of a container.
type facts struct {
	token  sdk.Token
	labels map[string]string
	dir    string
	mounts int
	writes []string
	ready  bool
}

// facts gives what is known of one of ours in which something may run; another's is not found.
func (w *worker) facts(ctx context.Context, id sdk.ContainerID) (facts, error) {
	if w.over(id) {
		return facts{}, sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	return w.recorded(ctx, id)
}

// recorded gives what the server knows of one of ours.
func (w *worker) recorded(ctx context.Context, id sdk.ContainerID) (facts, error) {
	w.mu.Lock()
	f, ok := w.known[id]
	w.mu.Unlock()
	if ok {
		return f, nil
	}
	p, err := w.garden.Properties(ctx, string(id))
	if err != nil {
		return facts{}, err
	}
	if p[propID] != string(id) {
		return facts{}, sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	f = facts{token: sdk.Token(p[propToken]), dir: p[propDir], ready: p[propReady] == yes, labels: make(map[string]string)}
	f.mounts, _ = strconv.Atoi(p[propMounts])
	f.writes = strings.Split(p[propWrites], ",")
	for k := range strings.SplitSeq(p[propLabels], ",") { // servers have properties of their own
		if k != "" {
			f.labels[k] = p[k] // Concourse's containerd backend loses what is empty
		}
	}
	if f.ready {
		w.know(id, f)
	}
	return f, nil
}

// know keeps the facts of a container that is ready.
func (w *worker) know(id sdk.ContainerID, f facts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ending[id] {
		w.known[id] = f
	}
}

func (w *worker) forget(id sdk.ContainerID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, id)
}

// listAtOnce bounds the questions that are under way for a list.
const listAtOnce = 8

// ListContainers emits what the server has, and what has gone from it but for its volumes.
func (w *worker) ListContainers(ctx context.Context, filter sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// The volumes come first: a container that is made meanwhile is then only in the other list, and one that is destroyed in neither.
	volumes, err := w.store.Owned(ctx, filter.Labels)
	if err != nil {
		return err
	}
	all, err := w.ours(ctx, filter)
	if err != nil {
		return err
	}
	var infos []sdk.ContainerInfo
	for id, f := range all {
		state := sdk.ContainerCreating
		if f.ready {
			state = sdk.ContainerReady
		}
		infos = append(infos, sdk.ContainerInfo{ID: id, Token: f.token, Labels: f.labels, State: state})
	}
	listed := make(map[sdk.ContainerID]bool, len(infos))
	for _, info := range infos {
		listed[info.ID] = true
	}
	gone, err := w.goneAmong(ctx, volumes, listed)
	if err != nil {
		return err
	}
	for _, info := range append(infos, gone...) {
		if !filter.Match(string(info.ID), info.Labels) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(info); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// ours gives the facts of the plugin's containers that the server has, of all that pass the filter at least.
func (w *worker) ours(ctx context.Context, filter sdk.Filter) (map[sdk.ContainerID]facts, error) {
	wanted := make(garden.Properties)
	for k, v := range filter.Labels {
		if askable(k) && askable(v) {
			wanted[k] = v
		}
	}
	handles, err := w.garden.List(ctx, wanted)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	all := make(map[sdk.ContainerID]facts, len(handles))
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(listAtOnce)
	for _, handle := range handles {
		id := sdk.ContainerID(handle)
		if filter.ID != "" && handle != filter.ID {
			continue
		}
		g.Go(func() error {
			if err := w.check(each, id); err != nil {
				return err
			}
			f, err := w.facts(each, id)
			if sdk.IsNotFound(err, sdk.KindContainer) {
				return nil // gone meanwhile, or not ours
			}
			mu.Lock()
			defer mu.Unlock()
			all[id] = f
			return err
		})
	}
	return all, g.Wait()
}

// askable tells whether any server takes a name, or a value, in what it is asked to list. Concourse's containerd backend puts them into a filter as they are.
func askable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// goneAmong tells of containers that have left nothing but their volumes: what somebody else destroyed, and what a plugin that was killed had begun.
func (w *worker) goneAmong(ctx context.Context, volumes []claim.Volume, listed map[sdk.ContainerID]bool) ([]sdk.ContainerInfo, error) {
	var gone []sdk.ContainerInfo
	for _, v := range volumes {
		id := sdk.ContainerID(v.Properties[claim.OwnProperty])
		if string(v.ID) != slipwayVolume(id) || listed[id] {
			continue
		}
		f := sdk.ContainerInfo{ID: id, Token: sdk.Token(v.Properties[propToken]), Labels: v.Labels, State: sdk.ContainerCreating}
		if v.Properties[propMade] == yes {
			// It may have been destroyed since the volumes were listed.
			if _, there, err := w.store.Lookup(ctx, string(v.ID)); err != nil {
				return nil, err
			} else if !there {
				continue
			}
			f.State, f.Reason = sdk.ContainerGone, w.goneFrom(id)
		}
		gone = append(gone, f)
	}
	return gone, nil
}

// DestroyContainer takes the container away, and then its volumes. What is not ours stays.
func (w *worker) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	unlock, err := w.locks.Lock(ctx, string(id))
	if err != nil {
		return err
	}
	defer unlock()
	w.mark(w.ending, id, true)
	defer w.mark(w.ending, id, false)
	return w.remove(ctx, id, true)
}

// remove takes away all that there is of a container. Its lock is held. Last says that it will not be made again.
func (w *worker) remove(ctx context.Context, id sdk.ContainerID, last bool) error {
	f, err := w.recorded(ctx, id)
	known := err == nil
	if known {
		w.rest(ctx, id)
		err = w.garden.Destroy(ctx, string(id))
	}
	if !known && sdk.IsNotFound(err, sdk.KindContainer) {
		err = w.destroyUnlisted(ctx, id)
	}
	if err != nil && !sdk.IsNotFound(err, sdk.KindContainer) {
		return err
	}
	w.forget(id)
	w.Forget(id)
	w.suspect(id, false)
	w.mark(w.dead, id, false)
	own := []string{rootVolume(id), slipwayVolume(id)}
	for i := range f.mounts {
		own = append(own, mountVolume(id, i))
	}
	if known {
		return w.store.Remove(ctx, own...)
	}
	// Then the server has to be asked for them, which costs as much as it has volumes.
	if last {
		return w.store.RemoveOwn(ctx, id, own...)
	}
	if own, err = w.store.OwnOf(ctx, id); err != nil {
		return err
	}
	return w.store.Remove(ctx, own...)
}

// destroyUnlisted destroys a container that the server does not list. Guardian does not list one that is half made, nor, after it was killed, any that it had
// before: it keeps properties in memory until it is stopped in order. What runs there runs on, and the handle is taken.
func (w *worker) destroyUnlisted(ctx context.Context, id sdk.ContainerID) error {
	there, err := w.garden.Has(ctx, string(id))
	if err != nil || there { // somebody else's
		return err
	}
	return w.garden.Destroy(ctx, string(id))
}

// restTime is how long a relay that is not used any more may take to end; it does so in milliseconds.
const restTime = time.Second

// rest ends the plugin's own command in a container that is about to go: some servers take twice as long to destroy one in which commands run.
func (w *worker) rest(ctx context.Context, id sdk.ContainerID) {
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	w.Rest(ctx, id)
}

func dead(id sdk.ContainerID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, string(id), "container %q is gone and takes no process; destroy it", id)
}

func sealedMount(m sdk.Mount) error {
	return sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(m.Volume),
		"volume %q at %q is sealed and can only be mounted read-only", m.Volume, m.Path)
}

func creating(id sdk.ContainerID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonCreating, sdk.KindContainer, string(id), "container %q is half made; create it again or destroy it", id)
}
