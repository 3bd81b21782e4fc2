package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Holder is who has, on a worker, of what there is too little there for somebody who waits. It is a container, by its owner, an artifact, a cache, what
// is being destroyed, or, where it names none of these, what nobody owns.
type Holder struct {
	Owner    string // of a container
	Artifact string // its name
	Cache    string // its key
	Going    bool   // all that is being destroyed there
	Others   bool   // all that other teams have there, of which who asks is told no names
	Team     string // whose it is, for [Holders.SeenBy]; empty: everybody's

	Volumes   int       // that are there
	Claimed   int       // volumes that a container is still to get there; a content that several wait for counts for each of them
	Resources Resources // that are promised to a container, of those that are too little
	Why       string    // it stays, for people; empty: there is nothing to say
}

// String tells people who it is, and what it has.
func (o Holder) String() string {
	who := "what nobody owns"
	switch {
	case o.Owner != "":
		who = "the container of " + o.Owner
	case o.Artifact != "":
		who = "artifact " + o.Artifact
	case o.Cache != "":
		who = "cache " + o.Cache
	case o.Going:
		who = "what is being destroyed"
	case o.Others:
		who = "what other teams have"
	}
	var has []string
	if o.Volumes > 0 {
		has = append(has, volumesText(o.Volumes))
	}
	if o.Claimed > 0 {
		has = append(has, volumesText(o.Claimed)+" claimed")
	}
	for _, a := range o.Resources.amounts() {
		if a.asks > 0 {
			has = append(has, fmt.Sprintf("%d %s", a.asks, a.name))
		}
	}
	if len(has) == 0 {
		has = append(has, "a place")
	}
	if o.Why != "" {
		has = append(has, o.Why)
	}
	return fmt.Sprintf("%s (%s)", who, strings.Join(has, ", "))
}

// Holders are all of them on one worker, those that have the most volumes first.
type Holders []Holder

// String names the first of them, and tells how many more there are.
func (all Holders) String() string {
	var parts []string
	for _, o := range all[:min(len(all), maxNamed)] {
		parts = append(parts, o.String())
	}
	if more := len(all) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// AnotherTeams stands for an owner in what a team is told, if it is another team's. No owner has such a name.
const AnotherTeams = "another team's"

// OwnerSeenBy is an owner as a team is told of it: another team's has no name. Who asks for no team is told of all.
func OwnerSeenBy(team, owner, its string) string {
	if team == "" || its == "" || its == team {
		return owner
	}
	return AnotherTeams
}

// SeenBy are all of them as a team is told of them: how much other teams have, but not who has it or why. Who asks for no team is told of all.
func (all Holders) SeenBy(team string) Holders {
	if team == "" {
		return all
	}
	var out Holders
	others := Holder{Others: true}
	hidden := false
	for _, o := range all {
		if OwnerSeenBy(team, "", o.Team) == "" {
			if o.Team == "" {
				o.Why = "" // it may name a run of another team
			}
			out = append(out, o)
			continue
		}
		hidden = true
		others.Volumes += o.Volumes
		others.Claimed += o.Claimed
		others.Resources = others.Resources.plus(o.Resources, 1)
	}
	if hidden {
		out = append(out, others)
	}
	return out
}

// Claims lists the containers that are still to get volumes on a worker, by owner.
func (x *Index) Claims(worker string) (out Holders) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	e := x.byName[worker]
	if e == nil {
		return nil
	}
	for _, g := range x.leases {
		if g.Worker != worker {
			continue
		}
		n := g.Volumes
		for _, d := range g.keys {
			n += count(x.claimedNotThere(e, d))
		}
		if n > 0 {
			out = append(out, Holder{Owner: g.Owner, Team: g.Team, Claimed: n})
		}
	}
	return out.sorted()
}

// InTheWay lists the containers that have a place or resources, on the worker that is reserved for w, of which there is too little there for it. Volumes tells whether there
// is too little room for those, too: who has them the index does not know, but for [Index.Claims].
func (q *Queue) InTheWay(w Waiter) (out Holders, volumes bool) {
	x := q.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	e := x.byName[w.Reserved]
	if e == nil {
		return nil, false
	}
	l, wants := w.query.limitsOf(e), w.query.spec
	lack := wants.Resources.beyond(e.Capacity, e.usage.Resources)
	containers := l.Containers > 0 && e.usage.containers() >= l.Containers
	tasks := l.Tasks > 0 && wants.Kind != Check && e.usage.tasks() >= l.Tasks
	for _, g := range x.leases {
		if g.Worker != e.Name {
			continue
		}
		o := Holder{Owner: g.Owner, Team: g.Team, Resources: g.Resources.only(lack)}
		if containers || tasks && g.Kind != Check || o.Resources != (Resources{}) {
			out = append(out, o)
		}
	}
	return out.sorted(), l.Volumes > 0 && w.query.lacksVolumes(e, l.Volumes) > 0
}

func (all Holders) sorted() Holders {
	slices.SortFunc(all, func(a, b Holder) int { return cmp.Compare(a.Owner, b.Owner) })
	return all
}
