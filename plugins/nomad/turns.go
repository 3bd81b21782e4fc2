package nomad

import (
	"context"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// turns are for commands on agents, each of which takes so many connections from one address. Its zero value has none.
type turns struct {
	most int // on one agent

	mu sync.Mutex
	of map[string]chan struct{} // by agent; holds a word for each command that is under way
}

// take waits for a turn, and gives what ends it. While it waits it calls wanted again and again, if that is not nil: whoever has a turn that he does not
// need may end it.
func (t *turns) take(ctx context.Context, agent string, wanted func()) (func(), error) {
	t.mu.Lock()
	if t.of == nil {
		t.of = make(map[string]chan struct{})
	}
	turn := t.of[agent]
	if turn == nil {
		turn = make(chan struct{}, t.most)
		t.of[agent] = turn
	}
	t.mu.Unlock()
	over := func() { <-turn }
	select {
	case turn <- struct{}{}:
		return over, nil
	default:
	}
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for {
		if wanted != nil {
			wanted()
		}
		select {
		case turn <- struct{}{}:
			return over, nil
		case <-again.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// forStores is how many of a node's commands are kept for its store.
const forStores = 4

// commands divides the connections to an agent that commands may take: those of containers, and those of the store.
func (c Config) commands() (containers, stores int) {
	all := max(1, c.MaxConnections/2)
	if c.Store == nil {
		return all, 0
	}
	stores = max(1, min(forStores, all/2))
	return max(1, all-stores), stores
}

// turn is one for a command in a container. Commands go to the node's own agent, and where that is not reached to the one at the block's address.
func (n *node) turn(ctx context.Context, _ sdk.ContainerID) (func(), error) {
	if n.detour.Load() {
		return n.cluster.containers.take(ctx, "", n.pool.restIdle)
	}
	return n.cluster.containers.take(ctx, n.id, n.RestIdle)
}

// followable is the number of containers of the node in which processes can be followed at a time. Nodes whose commands all go to the agent at the block's
// address share what that one takes.
func (n *node) followable() int {
	all, _ := n.pool.c.commands()
	if !n.detour.Load() {
		return all
	}
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	sharing := 0
	for _, other := range n.pool.nodes {
		if other.detour.Load() {
			sharing++
		}
	}
	return max(1, all/max(1, sharing))
}

// restIdle has all nodes of the block give up what they keep open for later.
func (p *pool) restIdle() {
	p.mu.Lock()
	nodes := make([]*node, 0, len(p.nodes))
	for _, n := range p.nodes {
		nodes = append(nodes, n)
	}
	p.mu.Unlock()
	for _, n := range nodes {
		n.RestIdle()
	}
}
