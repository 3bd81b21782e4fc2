package pool_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/host/pool"
)

func subset(all ...string) *rapid.Generator[[]string] {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, len(all), rapid.ID)
}

func genWorker(name string) *rapid.Generator[pool.Worker] {
	states := []pool.State{pool.Running, pool.Running, pool.Running, pool.Stalled, pool.Cordoned, pool.Landing, pool.Landed, pool.Retiring, pool.Retired}
	return rapid.Custom(func(t *rapid.T) pool.Worker {
		return pool.Worker{
			Name:     name,
			Runtime:  rapid.SampledFrom([]string{"memory", "garden"}).Draw(t, "runtime"),
			Platform: rapid.SampledFrom([]string{"linux", "windows"}).Draw(t, "platform"),
			Team:     rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "team"),
			Tags:     subset("gpu", "big").Draw(t, "tags"),
			Features: subset("tty", "users").Draw(t, "features"),
			State:    rapid.SampledFrom(states).Draw(t, "state"),
			Paused:   rapid.SampledFrom([]string{"", "", "", "back in a moment"}).Draw(t, "paused"),
			Limits: pool.Limits{
				Containers: rapid.IntRange(0, 4).Draw(t, "containers"),
				Tasks:      rapid.IntRange(0, 3).Draw(t, "tasks"),
				Volumes:    rapid.IntRange(0, 6).Draw(t, "volumes"),
			},
			ResourceTypes: subset("git", "time").Draw(t, "types"),
			Capacity:      pool.Resources{CPUMillis: rapid.Int64Range(0, 4).Draw(t, "cpu"), MemoryBytes: rapid.Int64Range(0, 4).Draw(t, "memory")},
		}
	})
}

var keys = []string{"k0", "k1", "k2", "k3", "k4"}

func genSpec(workers []string) *rapid.Generator[pool.Spec] {
	return rapid.Custom(func(t *rapid.T) pool.Spec {
		s := pool.Spec{
			Runtime:      rapid.SampledFrom([]string{"", "", "memory", "garden"}).Draw(t, "runtime"),
			Platform:     rapid.SampledFrom([]string{"", "", "linux", "windows"}).Draw(t, "platform"),
			Team:         rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "team"),
			Tags:         subset("gpu", "big").Draw(t, "tags"),
			Features:     subset("tty", "users").Draw(t, "features"),
			Kind:         rapid.SampledFrom([]pool.Kind{"", pool.Build, pool.NoInput, pool.Check}).Draw(t, "kind"),
			With:         rapid.SampledFrom(append([]string{"", "", "", ""}, workers...)).Draw(t, "with"),
			Volumes:      rapid.IntRange(0, 4).Draw(t, "volumes"),
			Resources:    genResources().Draw(t, "resources"),
			ResourceType: rapid.SampledFrom([]string{"", "", "git"}).Draw(t, "type"),
			Priority:     rapid.IntRange(0, 2).Draw(t, "priority"),
			Exclude:      map[string]string{},
		}
		for _, w := range subset(workers...).Draw(t, "exclude") {
			if rapid.Bool().Draw(t, "really") {
				s.Exclude[w] = "because"
			}
		}
		for _, k := range rapid.SliceOfN(rapid.SampledFrom(keys), 0, 4).Draw(t, "inputs") {
			s.Inputs = append(s.Inputs, pool.Content{Key: k})
		}
		return s
	})
}

func genResources() *rapid.Generator[pool.Resources] {
	return rapid.Custom(func(t *rapid.T) pool.Resources {
		return pool.Resources{CPUMillis: rapid.Int64Range(0, 3).Draw(t, "cpu"), MemoryBytes: rapid.Int64Range(0, 3).Draw(t, "memory")}
	})
}

func genChain() *rapid.Generator[[]pool.Strategy] {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(pool.Strategies()), 0, 6, rapid.ID)
}

// model is what a plain reading of the rules makes of the same events.
type model struct {
	workers map[string]pool.Worker
	shelf   *shelf
	leases  map[string]pool.Lease // by owner
	keys    map[string][]string   // that they claim
}

func newModel() *model {
	return &model{workers: map[string]pool.Worker{}, shelf: newShelf(), leases: map[string]pool.Lease{}, keys: map[string][]string{}}
}

func (m *model) usage(worker string) pool.Usage {
	u := pool.Usage{Contents: len(m.shelf.contents[worker])}
	for _, v := range m.shelf.on(worker) {
		u.Volumes++
		if v.Stage == pool.Going {
			u.Going++
		}
	}
	u.ClaimedReplicas = len(m.claimed(worker))
	for _, l := range m.leases {
		if l.Worker != worker {
			continue
		}
		u.ClaimedVolumes += l.Volumes
		u.Resources.CPUMillis += l.Resources.CPUMillis
		u.Resources.MemoryBytes += l.Resources.MemoryBytes
		switch l.Kind {
		case pool.Check:
			u.Check++
		case pool.NoInput:
			u.NoInput++
		default:
			u.Build++
		}
	}
	return u
}

// claimed are the contents that leases need on a worker and that are still to be brought there.
func (m *model) claimed(worker string) map[string]bool {
	out := map[string]bool{}
	for o, all := range m.keys {
		for _, k := range all {
			if m.leases[o].Worker == worker && !m.shelf.has(worker, k) {
				out[k] = true
			}
		}
	}
	return out
}

// wants is how many volumes a spec needs in all, and how many of them a worker would get for it.
func (m *model) wants(worker string, s pool.Spec) (all, more int) {
	claimed, seen := m.claimed(worker), map[string]bool{}
	all, more = s.Volumes, s.Volumes
	for _, in := range s.Inputs {
		if seen[in.Key] {
			continue
		}
		seen[in.Key] = true
		all++
		if !m.shelf.has(worker, in.Key) && !claimed[in.Key] {
			more++
		}
	}
	return all, more
}

// takes says whether w is compatible with s, and whether it has room as well.
func (m *model) takes(w pool.Worker, s pool.Spec) (compatible, room bool) {
	lacks := func(has, wants []string) bool {
		return slices.ContainsFunc(wants, func(v string) bool { return !slices.Contains(has, v) })
	}
	_, excluded := s.Exclude[w.Name]
	all, more := m.wants(w.Name, s)
	open := w.State == pool.Running || w.State == pool.Stalled && w.Paused != "" || w.State == pool.Cordoned && s.With != "" // which is what goes on there
	compatible = open && !excluded &&
		(s.With == "" || s.With == w.Name) &&
		(s.Runtime == "" || s.Runtime == w.Runtime) &&
		(s.Platform == "" || s.Platform == w.Platform) &&
		(w.Team == "" || w.Team == s.Team) &&
		(len(w.Tags) == 0) == (len(s.Tags) == 0) && !lacks(w.Tags, s.Tags) && !lacks(w.Features, s.Features) &&
		(w.Limits.Volumes == 0 || all <= w.Limits.Volumes) &&
		(s.ResourceType == "" || len(w.ResourceTypes) == 0 || slices.Contains(w.ResourceTypes, s.ResourceType)) &&
		(w.Capacity.CPUMillis == 0 || s.Resources.CPUMillis <= w.Capacity.CPUMillis) &&
		(w.Capacity.MemoryBytes == 0 || s.Resources.MemoryBytes <= w.Capacity.MemoryBytes)
	u, l, task := m.usage(w.Name), w.Limits, s.Kind != pool.Check
	fits := func(has, used, asks int64) bool { return has == 0 || asks == 0 || used+asks <= has }
	room = w.Paused == "" && (l.Containers == 0 || u.Build+u.NoInput+u.Check < l.Containers) &&
		(l.Tasks == 0 || !task || u.Build+u.NoInput < l.Tasks) &&
		fits(w.Capacity.CPUMillis, u.Resources.CPUMillis, s.Resources.CPUMillis) &&
		fits(w.Capacity.MemoryBytes, u.Resources.MemoryBytes, s.Resources.MemoryBytes) &&
		(l.Volumes == 0 || u.Volumes+u.ClaimedVolumes+u.ClaimedReplicas+more <= l.Volumes)
	return compatible, compatible && room
}

// own reports whether w belongs to the spec's team, and local how much of its inputs w has.
func (m *model) local(w string, s pool.Spec) (sum int64) {
	seen := map[string]bool{}
	for _, in := range s.Inputs {
		if b, ok := m.shelf.contents[w][in.Key]; ok && !seen[in.Key] {
			seen[in.Key] = true
			sum += max(b, 1)
		}
	}
	return sum
}

// Whatever the events were: the index counts as the model does, Choose and
// Explain agree with it and with each other, and the chosen worker is the best.
func TestChooseAndExplainAgree(t *testing.T) {
	names := []string{"w0", "w1", "w2", "w3", "w4"}
	owners := []string{"o0", "o1", "o2", "o3", "o4", "o5"}
	rapid.Check(t, func(t *rapid.T) {
		chain := genChain().Draw(t, "chain")
		p, err := pool.NewPlacer(pool.Policy{Build: chain, Check: chain}, pool.Options{Rand: rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)})
		if err != nil {
			t.Fatal(err)
		}
		x, m := pool.NewIndex(), newModel()
		name := func(t *rapid.T) string { return rapid.SampledFrom(names).Draw(t, "worker") }
		owner := func(t *rapid.T) string { return rapid.SampledFrom(owners).Draw(t, "owner") }
		key := func(t *rapid.T) string { return rapid.SampledFrom(keys).Draw(t, "key") }
		upsert := func(t *rapid.T) {
			w := genWorker(name(t)).Draw(t, "as")
			x.Upsert(w)
			m.workers[w.Name] = w
		}
		q := pool.NewQueue(x, p)
		change := func(t *rapid.T) { m.shelf.change(t, x) }
		t.Repeat(map[string]func(*rapid.T){
			"upsert":  upsert,
			"upsert2": upsert,
			"remove": func(t *rapid.T) {
				w := name(t)
				x.Remove(w)
				delete(m.workers, w)
				delete(m.shelf.contents, w)
			},
			"change":  change,
			"change2": change,
			"make": func(t *rapid.T) {
				w, k := name(t), key(t)
				claimed := m.claimed(w)[k]
				u, limit := m.usage(w), m.workers[w].Limits.Volumes
				if m.shelf.make(t, q, w, k) && limit > 0 && !m.endless(w, k) && (u.Volumes+1 > limit || !claimed && u.Volumes+u.ClaimedVolumes+u.ClaimedReplicas+1 > limit) {
					t.Fatalf("%s got one of %s, claimed %t, with %+v and the limit %d", w, k, claimed, u, limit)
				}
			},
			"make own": func(t *rapid.T) {
				o := owner(t)
				l, held := m.leases[o]
				u, limit := m.usage(l.Worker), m.workers[l.Worker].Limits.Volumes
				if !held || !m.shelf.own(t, q, l.Worker, o) {
					return
				}
				if limit > 0 && (u.Volumes+1 > limit || l.Volumes == 0 && u.Volumes+u.ClaimedVolumes+u.ClaimedReplicas+1 > limit) {
					t.Fatalf("%s got one of %s, which claims %d, with %+v and the limit %d", l.Worker, o, l.Volumes, u, limit)
				}
				l.Volumes = max(l.Volumes-1, 0)
				m.leases[o] = l
			},
			"place": func(t *rapid.T) {
				o, s := owner(t), genSpec(names).Draw(t, "spec")
				s.WaitLimit = -1
				c, err := q.Acquire(context.Background(), o, s)
				if err != nil || c.Held {
					return
				}
				m.leases[o] = pool.Lease{Owner: o, Worker: c.Worker, Team: s.Team, Kind: cmp.Or(s.Kind, pool.Build), Volumes: s.Volumes, Resources: s.Resources}
				for _, in := range s.Inputs {
					m.keys[o] = append(m.keys[o], in.Key)
				}
				if m.workers[c.Worker].Limits.Volumes == 0 {
					m.shelf.endless[o] = true
				}
			},
			"give back": func(t *rapid.T) {
				o := owner(t)
				x.GiveBackUnused(o)
				if l, held := m.leases[o]; held {
					l.Volumes = 0
					m.leases[o] = l
				}
				m.forget(o)
			},
			"acquire": func(t *rapid.T) {
				l := pool.Lease{Owner: owner(t), Worker: name(t), Kind: rapid.SampledFrom([]pool.Kind{pool.Build, pool.NoInput, pool.Check}).Draw(t, "kind"), Volumes: rapid.IntRange(0, 3).Draw(t, "volumes"), Resources: genResources().Draw(t, "resources")}
				err := x.Acquire(l)
				old, held := m.leases[l.Owner]
				var other *pool.HeldError
				if held && old.Worker != l.Worker {
					if !errors.As(err, &other) || other.Held != old.Worker {
						t.Fatalf("a second worker for %s: %v", l.Owner, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if !held {
					m.leases[l.Owner] = l
				}
			},
			"release": func(t *rapid.T) {
				o := owner(t)
				_, held := m.leases[o]
				if x.Release(o) != held || x.Release(o) {
					t.Fatalf("release of %s, held %t", o, held)
				}
				delete(m.leases, o)
				m.forget(o)
			},
			"": func(t *rapid.T) {
				for _, n := range names {
					if got, want := x.Usage(n), m.usage(n); got != want {
						t.Fatalf("usage of %s = %+v, want %+v", n, got, want)
					}
				}
				for _, o := range owners {
					got, ok := x.Held(o)
					if want, held := m.leases[o]; ok != held || got != want {
						t.Fatalf("lease of %s = %+v, %t", o, got, ok)
					}
				}
				checkChoice(t, x, p, m, chain, genSpec(names).Draw(t, "spec"))
			},
		})
	})
}

func checkChoice(t *rapid.T, x *pool.Index, p *pool.Placer, m *model, chain []pool.Strategy, s pool.Spec) {
	verdicts := p.Explain(x, s)
	if len(verdicts) != len(m.workers) {
		t.Fatalf("%d verdicts on %d workers", len(verdicts), len(m.workers))
	}
	var ok []pool.Verdict
	anyCompatible := false
	for _, v := range verdicts {
		w, known := m.workers[v.Worker]
		compatible, room := m.takes(w, s)
		if !known || v.OK != room || v.Reason.Compatible() != compatible || v.OK != (v.Reason == pool.OK) {
			t.Fatalf("verdict %+v on %+v for %+v: compatible %t, room %t", v, w, s, compatible, room)
		}
		anyCompatible = anyCompatible || compatible
		if v.OK {
			ok = append(ok, v)
		}
	}
	c, err := p.Choose(x, s)
	var none *pool.NoWorkerError
	var full *pool.FullError
	switch {
	case !anyCompatible:
		if !errors.As(err, &none) || len(none.Reasons) != len(verdicts) {
			t.Fatalf("nothing compatible: %v", err)
		}
		return
	case len(ok) == 0:
		if !errors.As(err, &full) || len(full.Reasons) != len(verdicts) {
			t.Fatalf("all full: %v", err)
		}
		return
	case err != nil:
		t.Fatalf("%d workers would do: %v", len(ok), err)
	}
	best := slices.MaxFunc(ok, func(a, b pool.Verdict) int { return m.compare(a.Worker, b.Worker, chain, s) })
	if m.compare(c.Worker, best.Worker, chain, s) != 0 || m.compare(ok[0].Worker, best.Worker, chain, s) != 0 {
		t.Fatalf("%+v was chosen and %+v explained as best, but %s is better", c, ok[0], best.Worker)
	}
	i := slices.IndexFunc(ok, func(v pool.Verdict) bool { return v.Worker == c.Worker })
	if i < 0 || fmt.Sprint(ok[i].Scores) != fmt.Sprint(c.Scores) {
		t.Fatalf("chosen %+v, explained %+v", c, ok)
	}
}

// compare orders two workers by the rules; positive if a is the better.
func (m *model) compare(a, b string, chain []pool.Strategy, s pool.Spec) int {
	own := func(w string) int {
		if m.workers[w].Team != "" {
			return 1
		}
		return 0
	}
	if c := cmp.Compare(own(a), own(b)); c != 0 {
		return c
	}
	u, v := m.usage(a), m.usage(b)
	for _, st := range chain {
		c := 0
		switch st {
		case pool.VolumeLocality:
			c = cmp.Compare(m.local(a, s), m.local(b, s))
		case pool.FewestBuildContainers:
			c = cmp.Compare(v.Build+v.NoInput, u.Build+u.NoInput)
		case pool.LimitActiveTasks:
			if s.Kind != pool.Check {
				c = cmp.Compare(v.Build+v.NoInput, u.Build+u.NoInput)
			}
		}
		if c != 0 {
			return c
		}
	}
	return 0
}
