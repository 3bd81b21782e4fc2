package nomad

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// look is the search for what a node can do: a container is made, and says it. It goes on in its own time, for a node may have no room for one, or its
// image may be long in coming, while it works as ever.
type look struct {
	found   []sdk.Feature // nil: none has succeeded yet
	mounts  error         // why the shim can mount nothing, where it is to; nil: it can, or it is not known
	err     error         // of the last that failed
	running chan struct{} // closed when the one under way is over; nil: none is
	pause   time.Duration // after the last that failed
	next    time.Time     // not before then
}

const (
	firstPause = 2 * time.Second
	mostPause  = time.Minute
)

var errLooking = errors.New("the container that shows it is on its way")

// able gives what the node can do. It waits for a look that is under way, or due, as long as ctx lets it. Where none has succeeded, it is
// what the driver has in any case, and why that is all.
func (n *node) able(ctx context.Context) ([]sdk.Feature, error) {
	if running := n.seek(); running != nil {
		select {
		case <-running:
		case <-ctx.Done():
		}
	}
	n.mu.Lock()
	found, err := n.look.found, n.look.err
	n.mu.Unlock()
	if found != nil {
		return found, nil
	}
	if err == nil {
		err = errLooking
	}
	return n.sure(), err
}

// seek begins a look if one is due, and gives the one that is under way.
func (n *node) seek() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &n.look
	if l.running != nil {
		return l.running
	}
	if l.found != nil || n.life.Err() != nil || time.Now().Before(l.next) {
		return nil
	}
	done := make(chan struct{})
	l.running = done
	n.own.Go(func() {
		found, err := n.probe(n.life)
		n.mu.Lock()
		defer n.mu.Unlock()
		l.found, l.err, l.running = found, err, nil
		if err != nil {
			l.pause = min(max(2*l.pause, firstPause), mostPause)
			l.next = time.Now().Add(l.pause)
		}
		close(done)
	})
	return done
}

// sure are the features that need no look.
func (n *node) sure() []sdk.Feature {
	features := []sdk.Feature{sdk.FeatureLimitsCPU}
	switch n.pool.c.Driver {
	case "docker":
		features = append(features, sdk.FeatureImageRef, sdk.FeatureLimitsMemory, sdk.FeatureLimitsPIDs, sdk.FeatureNetworkNone)
		if n.pool.emptySum != "" && n.mounts() == nil {
			features = append(features, sdk.FeatureImageVolume)
		}
		if n.privileged() {
			features = append(features, sdk.FeaturePrivileged)
		}
	case "raw_exec":
		if n.mounts() == nil {
			features = append(features, sdk.FeatureImageVolume)
		}
	case "exec":
		features = append(features, sdk.FeatureLimitsMemory)
	}
	slices.Sort(features)
	return features
}

// cannotMount keeps why a node's shim mounts nothing.
func (n *node) cannotMount(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.look.mounts = &sdk.Error{Class: sdk.Unsupported, Cause: err,
		Message: fmt.Sprintf("worker %q: steps with inputs or outputs need docker, or an agent and a shim that are root on node %s: %v", n.name, short(n.id), err)}
}
