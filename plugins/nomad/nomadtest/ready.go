//go:build linux

package nomadtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/nomad/api"
)

// launch starts the program and waits until it is ready; one that is not is killed again.
func (a *Agent) launch(ctx context.Context) error {
	p, err := a.program()
	if err != nil {
		return err
	}
	a.proc = p
	node, err := a.ready(ctx, p)
	if err != nil {
		p.kill()
		return fmt.Errorf("the agent (pid %d) was not ready: %w", p.pid(), err)
	}
	if a.role == serving {
		return nil
	}
	if a.node == "" {
		a.node, a.exec = node.ID, node.Drivers[Exec].Healthy
		return nil
	}
	if node.ID != a.node || node.Drivers[Exec].Healthy != a.exec {
		p.kill()
		return fmt.Errorf("the agent (pid %d) has become another: node %s, not %s", p.pid(), node.ID, a.node)
	}
	return nil
}

// ready waits for the agent's own word that it serves and has registered, then for the node; a server alone has none. After a restart the servers
// know the node as ready from before, which is why the agent's word comes first.
func (a *Agent) ready(ctx context.Context, p *process) (*api.Node, error) {
	marks := []string{markServing, markLeading, markRegistered}
	switch a.role {
	case serving:
		marks = marks[:2]
	case working:
		marks = []string{markServing, markRegistered}
	}
	for _, m := range marks {
		if err := p.await(ctx, m); err != nil {
			return nil, err
		}
	}
	if err := a.bootstrap(ctx); err != nil {
		return nil, fmt.Errorf("the first token: %w", err)
	}
	// Without a key the servers cannot place anything, and wait a second before they try again.
	err := watch(ctx, func(q *api.QueryOptions) (*api.QueryMeta, bool, error) {
		keys, meta, err := a.client.Keyring().List(q)
		return meta, slices.ContainsFunc(keys, func(k *api.RootKeyMeta) bool { return k.State == api.RootKeyStateActive }), err
	})
	if err != nil {
		return nil, fmt.Errorf("the servers' keys: %w", err)
	}
	if a.role == serving {
		return nil, nil
	}
	self, err := a.client.Agent().Self()
	if err != nil {
		return nil, err
	}
	id := self.Stats["client"]["node_id"]
	var node *api.Node
	err = watch(ctx, func(q *api.QueryOptions) (*api.QueryMeta, bool, error) {
		n, meta, err := a.client.Nodes().Info(id, q)
		if err != nil {
			return nil, false, err
		}
		node = n
		raw, exec := n.Drivers[RawExec], n.Drivers[Exec]
		up := n.Status == api.NodeStatusReady && n.SchedulingEligibility == api.NodeSchedulingEligible
		docked := n.Drivers[Docker]
		return meta, up && raw != nil && raw.Healthy && exec != nil && (a.docker == nil || docked != nil && docked.Healthy), nil
	})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", id, err)
	}
	return node, nil
}

// bootstrap has the servers make the first token, once.
func (a *Agent) bootstrap(ctx context.Context) error {
	if !a.acl || a.token != "" {
		return nil
	}
	first, _, err := a.client.ACLTokens().Bootstrap(new(api.WriteOptions).WithContext(ctx))
	if err != nil {
		return err
	}
	a.token = first.SecretID
	a.client.SetSecretID(a.token)
	return nil
}
