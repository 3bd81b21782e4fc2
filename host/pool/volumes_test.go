package pool_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/host/pool"
)

// shelf is what a plain reading makes of the volumes of all workers.
type shelf struct {
	volumes  []shelved
	contents map[string]map[string]int64 // bytes of what is sealed, by worker, by key
	endless  map[string]bool             // owners of leases without a limit of volumes
}

type shelved struct {
	worker string
	pool.VolumeState
}

func newShelf() *shelf {
	return &shelf{contents: map[string]map[string]int64{}, endless: map[string]bool{}}
}

func (s *shelf) on(worker string) (out []shelved) {
	for _, v := range s.volumes {
		if v.worker == worker {
			out = append(out, v)
		}
	}
	return out
}

// has tells whether a content is on a worker, or comes there.
func (s *shelf) has(worker, key string) bool {
	_, ok := s.contents[worker][key]
	return ok || slices.Contains(s.volumes, shelved{worker, pool.VolumeState{Stage: pool.Making, Key: key}})
}

// make makes a volume with a content, if it may.
func (s *shelf) make(t *rapid.T, q *pool.Queue, worker, key string) bool {
	return s.made(t, q, worker, "", key)
}

// own makes a volume of an owner.
func (s *shelf) own(t *rapid.T, q *pool.Queue, worker, owner string) bool {
	return s.made(t, q, worker, owner, "")
}

func (s *shelf) made(t *rapid.T, q *pool.Queue, worker, owner, key string) bool {
	err := q.Make(worker, owner, key)
	if err == nil {
		s.volumes = append(s.volumes, shelved{worker, pool.VolumeState{Stage: pool.Making, Key: key}})
	} else if full := (*pool.VolumesError)(nil); !errors.As(err, &full) || full.There+full.Claimed < full.Limit {
		t.Fatalf("make: %v", err)
	}
	return err == nil
}

// change takes a volume one stage on.
func (s *shelf) change(t *rapid.T, x *pool.Index) {
	if len(s.volumes) == 0 {
		t.Skip("none")
	}
	i := rapid.IntRange(0, len(s.volumes)-1).Draw(t, "volume")
	v := s.volumes[i]
	next := map[pool.Stage][]pool.Stage{pool.Making: {pool.Sealed, pool.Sealed, pool.Going, pool.Absent}, pool.Sealed: {pool.Going, pool.Absent}, pool.Going: {pool.Absent, pool.Absent, pool.Sealed}}
	c := pool.VolumeChange{Worker: v.worker, Was: v.VolumeState, Is: v.VolumeState, Bytes: rapid.Int64Range(0, 9).Draw(t, "bytes")}
	if c.Is.Stage = rapid.SampledFrom(next[v.Stage]).Draw(t, "stage"); c.Is.Key == "" && c.Is.Stage == pool.Sealed {
		c.Is.Key = rapid.SampledFrom(keys).Draw(t, "key")
	}
	if v.VolumeState = c.Is; v.Stage == pool.Absent {
		s.volumes = slices.Delete(s.volumes, i, i+1)
	} else {
		s.volumes[i] = v
	}
	for _, o := range s.on(v.worker) {
		if o.Stage == pool.Sealed && o.Key == v.Key {
			c.Copies++
		}
	}
	x.ChangeVolume(c)
	if c.Is.Stage != pool.Sealed && c.Was.Stage != pool.Sealed || v.Key == "" {
		return
	}
	if s.contents[v.worker] == nil {
		s.contents[v.worker] = map[string]int64{}
	}
	delete(s.contents[v.worker], v.Key)
	if c.Copies > 0 {
		s.contents[v.worker][v.Key] = c.Bytes
	}
}

// endless tells whether a lease without a limit claims a content on a worker.
func (m *model) endless(worker, key string) bool {
	for o := range m.shelf.endless {
		if m.leases[o].Worker == worker && slices.Contains(m.keys[o], key) {
			return true
		}
	}
	return false
}

// forget forgets what an owner claims of contents.
func (m *model) forget(owner string) {
	delete(m.keys, owner)
	delete(m.shelf.endless, owner)
}

// A content that two leases need on a worker is claimed once, from before it is made until the last of them lets go of it, and a claim that
// becomes a volume counts as before.
func TestSharedReplicaIsClaimedOnce(t *testing.T) {
	x := index(running("w", func(w *pool.Worker) { w.Limits.Volumes = 5 }))
	q := pool.NewQueue(x, placer(t, pool.Policy{}, pool.Options{}))
	state := func(s pool.Stage) pool.VolumeState { return pool.VolumeState{Stage: s, Key: "i"} }
	is := func(when string, want pool.Usage) {
		t.Helper()
		if got := x.Usage("w"); got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	ask := func(owner string, inputs ...string) error {
		s := pool.Spec{Volumes: 1, WaitLimit: -1}
		for _, k := range inputs {
			s.Inputs = append(s.Inputs, pool.Content{Key: k})
		}
		_, err := q.Acquire(t.Context(), owner, s)
		return err
	}
	for _, o := range []string{"a", "b"} {
		if err := ask(o, "i"); err != nil {
			t.Fatal(err)
		}
	}
	is("two leases", pool.Usage{Build: 2, ClaimedVolumes: 2, ClaimedReplicas: 1})
	if err := ask("c", "j", "i"); err != nil {
		t.Fatalf("up to the limit: %v", err)
	}
	x.GiveBack("c")
	if err := errors.Join(q.Make("w", "", "i"), q.Make("w", "a", ""), q.Make("w", "b", "")); err != nil {
		t.Fatal(err)
	}
	is("all of it is being made", pool.Usage{Build: 2, Volumes: 3})
	x.GiveBack("a")
	x.ChangeVolume(pool.VolumeChange{Worker: "w", Was: state(pool.Making), Is: state(pool.Going)}) // what was to be a replica
	is("one has failed", pool.Usage{Build: 1, Volumes: 3, Going: 1, ClaimedReplicas: 1})
	if err := q.Make("w", "", "i"); err != nil {
		t.Errorf("again: %v", err)
	}
	x.ChangeVolume(pool.VolumeChange{Worker: "w", Was: state(pool.Making), Is: state(pool.Sealed), Copies: 1})
	x.GiveBackUnused("b")
	is("once there is one", pool.Usage{Build: 1, Contents: 1, Volumes: 4, Going: 1})
	if err := q.Make("w", "", "k"); err != nil {
		t.Errorf("what nobody claims, up to the limit: %v", err)
	}
	full := (*pool.VolumesError)(nil)
	if err := q.Make("w", "", "l"); !errors.As(err, &full) || err.Error() != "worker w has no room for another volume: its limit is 5, 5 are there and 0 claimed" {
		t.Errorf("what nobody claims, beyond: %v", err)
	}
	if q.HasRoom("w", "l") || !q.HasRoom("w", "i") {
		t.Error("it has room for what it does not have, or none for what it has")
	}
}

// What was claimed and does not come to be made is free for whoever waits.
func TestUnusedClaimsServeWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{}, running("w", func(w *pool.Worker) { w.Limits.Volumes = 4 }))
		want := func(k string) pool.Spec { return pool.Spec{Volumes: 1, Inputs: []pool.Content{{Key: k}}} }
		l.wait("a", want("i"))
		l.wait("b", want("j"))
		l.want("a", "b")
		l.wait("c", pool.Spec{Volumes: 2})
		l.waiting("c")
		if s := l.q.Shortages(10); len(s) != 1 || s[0].Owner != "c" || fmt.Sprint(s[0].Workers) != "[{w 2 2 0}]" {
			t.Errorf("short of: %+v", s)
		}
		l.x.GiveBackUnused("a") // it has been made without either
		l.want("a", "b", "c")
		if s := l.q.Shortages(10); len(s) != 0 {
			t.Errorf("short of: %+v", s)
		}
	})
}

// The contents of a worker are told in the order of their last use: when they were made there, when somebody claimed them, and let go of them.
func TestLastUse(t *testing.T) {
	x := index(running("w"), running("other"))
	q := pool.NewQueue(x, placer(t, pool.Policy{}, pool.Options{}))
	x.AddVolume("w", "old", 1)
	for _, k := range []string{"i", "j", "k"} {
		x.ChangeVolume(pool.VolumeChange{Worker: "w", Is: pool.VolumeState{Stage: pool.Sealed, Key: k}, Copies: 1})
	}
	order := func(want ...string) {
		t.Helper()
		got := []string{"i", "j", "k", "old"}
		slices.SortFunc(got, func(a, b string) int { return int(x.LastUse("w", a)) - int(x.LastUse("w", b)) })
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	order("old", "i", "j", "k")
	if _, err := q.Acquire(t.Context(), "o", pool.Spec{With: "w", Inputs: []pool.Content{{Key: "i"}}}); err != nil {
		t.Fatal(err)
	}
	order("old", "j", "k", "i")
	if !x.Claimed("w", "i") || x.Claimed("w", "j") || x.Claimed("other", "i") || x.LastUse("w", "old") != 0 || x.LastUse("other", "i") != 0 {
		t.Error("claims or uses of what has none")
	}
	if _, err := q.Acquire(t.Context(), "p", pool.Spec{With: "w", Inputs: []pool.Content{{Key: "j"}}}); err != nil {
		t.Fatal(err)
	}
	x.Release("o")
	order("old", "k", "j", "i")
}
