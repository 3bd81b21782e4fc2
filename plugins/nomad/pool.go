package nomad

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keylock"
)

// pool is one worker block: the nodes of a cluster that it names.
//
// It learns of changes by blocking queries for the whole list, not from the event stream: a stream forgets, repeats, and has to be squared with a
// list in any case, and a list of some thousand nodes is small.
type pool struct {
	name    string
	plugin  string // the name of its block
	c       Config
	cluster *cluster
	log     *slog.Logger

	refusals int // as mostRefused

	// Sums of the programs that nodes fetch.
	shimSum, storeSum, emptySum string

	siblings    []*pool       // all blocks of the plugin, this one too, by their names
	registering keylock.Locks // of the stores' job
	warned      bool          // of other settings of it; with registering held
	moved       time.Time     // when it was last made to fetch from this plugin, since it did not come up; with registering held
	first       chan struct{} // closed once the first list, or its failure, has come

	mu     sync.Mutex
	nodes  map[string]*node // by the worker's name
	seen   map[string]*api.NodeListStub
	traits map[string]traits // by the node's id
	none   string            // why no node of the list is the block's; empty: one is
	err    error             // why the list is not current
}

// nodeName is the worker's name for a node: as `nomad node status` shows its id.
func (p *pool) nodeName(id string) string { return p.name + "/" + id[:min(8, len(id))] }

// follow keeps the list current until ctx ends, and tells of each change.
func (p *pool) follow(ctx context.Context, changed func()) error {
	pause := time.Duration(0)
	var known map[string]traits
	for index := uint64(0); ctx.Err() == nil; {
		q, _, cancel := p.cluster.following(ctx, index)
		q.Params, q.Filter = map[string]string{"resources": "true"}, p.c.Filter
		nodes, meta, err := p.cluster.client.Nodes().List(q)
		err = p.cluster.fail(ctx, "listing nodes", err)
		cancel()
		var found map[string]traits
		var late error
		if err == nil {
			found, late, err = p.look(ctx, nodes, known)
		}
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			p.mu.Lock()
			if p.err == nil || p.err.Error() != err.Error() {
				p.log.Warn("the nodes are not known", "error", err)
			}
			p.err = err
			p.begun()
			p.mu.Unlock()
			changed()
			pause = wait(ctx, pause)
			index = 0
			continue
		}
		if meta.LastIndex < index { // the servers' state was set back
			index = 0
			continue
		}
		index = max(meta.LastIndex, 1)
		p.take(nodes, found)
		known = found
		changed()
		if late == nil {
			pause = 0
			continue
		}
		if pause == 0 && ctx.Err() == nil {
			p.log.Warn("a node is not known as it is now", "error", late)
		}
		pause = wait(ctx, pause)
		index = 0
	}
	return ctx.Err()
}

// wait waits before something is asked for again, longer than the last time, and gives how long.
func wait(ctx context.Context, last time.Duration) time.Duration {
	pause := min(max(2*last, 250*time.Millisecond), 10*time.Second)
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
	return pause
}

// take replaces what is known of nodes.
func (p *pool) take(nodes []*api.NodeListStub, found map[string]traits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traits = found
	p.err, p.seen, p.none = nil, make(map[string]*api.NodeListStub), p.noNode(nodes)
	for _, n := range nodes {
		if p.wants(n) {
			p.seen[p.nodeName(n.ID)] = n
		}
	}
	p.begun()
}

// begun says that something is known. With mu held.
func (p *pool) begun() {
	select {
	case <-p.first:
	default:
		close(p.first)
	}
}

// wants tells whether a node is one of the block's. With mu held.
func (p *pool) wants(n *api.NodeListStub) bool { return p.may(n) && p.foreign(n) == "" }

// may tells whether a node is one of the block's by what a list tells.
func (p *pool) may(n *api.NodeListStub) bool {
	if p.c.Pool != "" && n.NodePool != p.c.Pool || p.c.Class != "" && n.NodeClass != p.c.Class {
		return false
	}
	d := n.Drivers[p.c.Driver]
	return d != nil && d.Detected
}

// infos describes the workers there are.
func (p *pool) infos() map[string]sdk.WorkerInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	infos := make(map[string]sdk.WorkerInfo, len(p.seen))
	for name, n := range p.seen {
		info := sdk.WorkerInfo{Name: name, Platform: "linux", Ephemeral: true, Attributes: map[string]string{
			"node": n.Name, "node_id": n.ID, "datacenter": n.Datacenter, "node_pool": n.NodePool, "driver": p.c.Driver, "nomad": n.Version,
		}}
		if n.NodeClass != "" {
			info.Attributes["node_class"] = n.NodeClass
		}
		p.describe(&info, n)
		infos[name] = info
	}
	if len(infos) == 0 { // somebody has to say why; and a block that is not told before its first list has come would have no nodes, to a host
		infos[p.name] = sdk.WorkerInfo{Name: p.name, Platform: "linux", Ephemeral: true, Attributes: map[string]string{"driver": p.c.Driver}}
	}
	return infos
}

// stub gives what the last list said of a node.
func (p *pool) stub(name string) (*api.NodeListStub, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[name], p.err
}

// worker gives a node of the block. One that was seen once is there for good. Before the first list has come nothing is known of any: a host whose plugin
// was started again asks for its nodes at once, and must not hear that there are none.
func (p *pool) worker(name string) (*node, error) {
	late := time.NewTimer(firstList)
	defer late.Stop()
	select {
	case <-p.first:
	case <-late.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[name]
	switch {
	case n != nil:
		return n, nil
	case p.seen == nil:
		return nil, sdk.NewUnavailable(nil, "%s has not told its nodes yet, so nothing is known of %q: %v", p.cluster, name, p.err)
	case p.seen[name] == nil:
		return nil, sdk.NewNotFound(sdk.KindWorker, name)
	}
	n = newNode(p, name, p.seen[name].ID)
	p.nodes[name] = n
	return n, nil
}

func (p *pool) close() error {
	p.mu.Lock()
	nodes := maps.Clone(p.nodes)
	p.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		errs = append(errs, nodes[name].stop())
	}
	p.cluster.close()
	return errors.Join(errs...)
}

// missing tells whether Nomad says that a thing is not there.
func missing(err error) bool { return status(err) == http.StatusNotFound }

// short is an id as people see it.
func short(id string) string { return strings.SplitN(id, "-", 2)[0] }
