package nomad

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/sdk"
)

// traits are what is known of a node beside what a list of nodes tells.
type traits struct {
	index        uint64 // of the node, when it was looked at
	kernel, arch string
	meta         map[string]string
	agent        agent
}

// look gives the traits of the nodes that may be the block's. Those of nodes that have not changed are as they were known. Late is why a node could not be looked
// at: it has the traits that were known, or none yet. The first time, where nothing is known, that is the error, for a node that is left out then is taken for gone.
func (p *pool) look(ctx context.Context, nodes []*api.NodeListStub, known map[string]traits) (_ map[string]traits, late, err error) {
	const atATime = 4
	var asking errgroup.Group
	asking.SetLimit(atATime)
	all, failed := make([]*traits, len(nodes)), make([]error, len(nodes))
	for i, n := range nodes {
		if !p.may(n) {
			continue
		}
		if t, ok := known[n.ID]; ok && t.index == n.ModifyIndex {
			all[i] = &t
			continue
		}
		asking.Go(func() error {
			asking, cancel := p.cluster.in(ctx)
			defer cancel()
			info, _, err := p.cluster.client.Nodes().Info(n.ID, p.cluster.query(asking))
			if missing(err) { // since the list
				return nil
			}
			if err != nil {
				failed[i] = p.cluster.fail(ctx, "looking at node "+short(n.ID), err)
				if known == nil {
					return failed[i]
				}
				if t, ok := known[n.ID]; ok {
					all[i] = &t
				}
				return nil
			}
			all[i] = &traits{
				index: n.ModifyIndex, kernel: info.Attributes["kernel.name"], arch: info.Attributes["cpu.arch"], meta: info.Meta,
				agent: agent{address: info.HTTPAddr, tls: info.TLSEnabled},
			}
			return nil
		})
	}
	if err := asking.Wait(); err != nil {
		return nil, nil, err
	}
	found := make(map[string]traits, len(nodes))
	for i, n := range nodes {
		if all[i] != nil {
			found[n.ID] = *all[i]
		}
	}
	return found, errors.Join(failed...), nil
}

const (
	fromClass = "class"
	fromPool  = "pool"
	fromMeta  = "meta."
)

// checkTraits finds sources of tags and of the team that there are not.
func (c Config) checkTraits(bad func(string, ...any) (Config, error)) error {
	known := func(s string) bool {
		key, meta := strings.CutPrefix(s, fromMeta)
		return s == fromClass || s == fromPool || meta && key != ""
	}
	for _, s := range c.TagsFrom {
		if !known(s) {
			_, err := bad("tags_from: %q is none of class, pool and meta.KEY", s)
			return err
		}
	}
	if c.TeamFrom != "" && !known(c.TeamFrom) {
		_, err := bad("team_from: %q is none of class, pool and meta.KEY", c.TeamFrom)
		return err
	}
	return nil
}

// from gives what a setting's source says of a node; empty: nothing.
func (t traits) from(source string, n *api.NodeListStub) string {
	switch source {
	case "":
		return ""
	case fromClass:
		return n.NodeClass
	case fromPool:
		return n.NodePool
	}
	return strings.TrimSpace(t.meta[strings.TrimPrefix(source, fromMeta)])
}

// describe adds a node's tags and its team. With mu held.
func (p *pool) describe(info *sdk.WorkerInfo, n *api.NodeListStub) {
	t := p.traits[n.ID]
	for _, source := range p.c.TagsFrom {
		for _, tag := range strings.Split(t.from(source, n), ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				info.Tags = append(info.Tags, tag)
			}
		}
	}
	slices.Sort(info.Tags)
	info.Tags = slices.Compact(info.Tags)
	info.Team = t.from(p.c.TeamFrom, n)
	info.Attributes["arch"] = t.arch
}

// foreign says why the programs that a block gives to nodes do not run on one; empty: they do.
func (p *pool) foreign(n *api.NodeListStub) string {
	if t := p.traits[n.ID]; t.kernel != "linux" || t.arch != p.c.Architecture {
		return fmt.Sprintf("%s/%s", t.kernel, t.arch)
	}
	return ""
}
