package nomad

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
)

// One installation may have several blocks on the same nodes, and hosts take away what a worker lists and they do not know. So a worker lists only what is
// its own block's, and what is left of a block that its plugin has no more: then the first of the plugin's blocks that could have it does.

// blockKey is the key of the label that says whose a volume is: the plugin's name and the block's, with a slash between them.
const blockKey = "slipway.nomad/block"

// claims tells whether this worker answers for what was made on its node for a block. Heirs are the blocks that may take over from one that is no more.
func (n *node) claims(plugin, block string, heir func(*pool) bool) bool {
	p := n.pool
	if plugin != p.plugin || block == p.name {
		return plugin == p.plugin
	}
	var first *pool
	for _, other := range p.siblings {
		if other.name == block {
			return false
		}
		if first == nil && (other == p || other.has(n.id)) && heir(other) {
			first = other
		}
	}
	return first == p
}

// owns tells whether a container is this worker's.
func (n *node) owns(c container) bool {
	return c.node == n.id && n.claims(c.plugin, c.block, func(other *pool) bool { return other.c.Namespace == n.pool.c.Namespace })
}

// inherits tells whether this worker answers for a container because its node is in the cluster no more, as one that was rented for a while: hosts ask no worker of
// that node again, and its job would wait for it for ever. Of the block's nodes that are there the first does. Known are the nodes that were asked for.
func (n *node) inherits(ctx context.Context, c container, known map[string]bool) (bool, error) {
	if c.node == n.id || n.pool.has(c.node) || n.pool.firstReady() != n.name || !n.claims(c.plugin, c.block, func(other *pool) bool { return other.c.Namespace == n.pool.c.Namespace }) {
		return false, nil
	}
	there, asked := known[c.node]
	if asked {
		return !there, nil
	}
	k := n.cluster
	asking, cancel := k.in(ctx)
	defer cancel()
	_, _, err := k.client.Nodes().Info(c.node, k.query(asking))
	if err != nil && !missing(err) {
		return false, k.fail(ctx, "looking for node "+short(c.node), err)
	}
	known[c.node] = err == nil
	return err != nil, nil
}

// firstReady names the first worker of the block whose node is up; empty: none is.
func (p *pool) firstReady() (first string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, stub := range p.seen {
		if stub.Status == api.NodeStatusReady && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// keeps tells whether a volume in the node's store is one that this worker lists for such a filter. Who does not say whose he is has no heritage.
func (n *node) keeps(labels map[string]string, filter sdk.Filter) bool {
	label, ok := labels[blockKey]
	if !ok || label == n.pool.label() { // without one: of a caller who fills all labels himself; hosts do not
		return true
	}
	if filter.Labels[sdk.LabelInstallation] == "" {
		return false
	}
	plugin, block, _ := strings.Cut(label, "/")
	return n.claims(plugin, block, func(other *pool) bool {
		return other.c.Store != nil && other.c.Store.HostVolume == n.pool.c.Store.HostVolume
	})
}

// labelled gives a volume's labels with that of its block, if there is room for it.
func (p *pool) labelled(labels map[string]string) map[string]string {
	more := make(map[string]string, len(labels)+1)
	maps.Copy(more, labels)
	more[blockKey] = p.label()
	if sdk.CheckLabels(more) != nil {
		return labels
	}
	return more
}

func (p *pool) label() string { return p.plugin + "/" + p.name }

// has tells whether a node is one of the block's.
func (p *pool) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.seen[p.nodeName(id)]
	return n != nil && n.ID == id
}

// remains are containers of which only a volume of their own is left: their making was cut off before there was a job, or the job was taken away by others. The
// key is the id. Without a store that answers, now, there are none to be told of: the next list has them.
func (n *node) remains(ctx context.Context, filter sdk.Filter) map[sdk.ContainerID]sdk.ContainerInfo {
	store := n.volumes.now()
	if store == nil || filter.ID != "" { // who asks for one asks what became of it
		return nil
	}
	const patience = 5 * time.Second
	within, stop := context.WithTimeout(ctx, patience)
	defer stop()
	found := make(map[sdk.ContainerID]sdk.ContainerInfo)
	var whose sdk.Filter
	if installation, ok := filter.Labels[sdk.LabelInstallation]; ok {
		whose.Labels = map[string]string{sdk.LabelInstallation: installation}
	}
	err := store.ListVolumes(within, whose, func(v sdk.VolumeInfo) error {
		id := sdk.ContainerID(v.Labels[ownKey])
		if !isOwn(v.Labels) || v.Labels[blockKey] == "" || !n.keeps(v.Labels, filter) {
			return nil
		}
		labels := maps.Clone(v.Labels)
		delete(labels, ownKey)
		delete(labels, blockKey)
		if filter.Match(string(id), labels) {
			found[id] = sdk.ContainerInfo{ID: id, Token: v.Token, Labels: labels, State: sdk.ContainerGone, Reason: "nothing is left of it but a volume of its own"}
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		n.log.Warn("what containers left in the store is not known", "error", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.making { // since before the jobs are listed: what is made by then has one
		delete(found, id)
	}
	return found
}

// beginMaking says that a container is being made, until the func that it gives is called. Its lock is held.
func (n *node) beginMaking(id sdk.ContainerID) func() {
	n.mu.Lock()
	n.making[id] = true
	n.mu.Unlock()
	return func() {
		n.mu.Lock()
		delete(n.making, id)
		n.mu.Unlock()
	}
}

// now gives the store if it is open; it waits for nothing.
func (v *nodeStore) now() *storenet.Store {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	return v.client
}
