package reap

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// history is a host, one worker of it and the world around, which do at random what such do. It knows of everything whether it is in use, and
// since when it is not, by what happened, not by what the records say.
type history struct {
	t      *rapid.T
	steady time.Duration
	wall   time.Time
	jumped time.Time                // the wall clock
	jump   time.Duration            // when, on the steady one
	back   time.Duration            // by how much in all it was set back
	began  map[string]time.Duration // by id: when a run was left or ended, an artifact made, a container ended

	alone      bool // there are no runs and artifacts, only containers that others made and use
	n          int
	runs       map[string]*Owner
	containers map[string]*ContainerRecord
	volumes    map[string]*VolumeRecord
	artifacts  map[string]*Artifact
	holder     map[string]string // of artifacts: the run
	onWorker   map[Thing]string  // with the parent of volumes
	seen       Sights

	unused map[Thing]*idleness
}

// idleness is how long nobody has used a thing.
type idleness struct {
	since time.Duration
	why   string
	looks int // at it, idle for the same reason
}

func (h *history) id(kind string) string {
	h.n++
	return fmt.Sprintf("%s%d", kind, h.n)
}

// pick gives one of the keys, or "".
func pick[V any](h *history, of map[string]V, ok func(V) bool) string {
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		if ok(of[k]) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return rapid.SampledFrom(keys).Draw(h.t, "which")
}

// happen is one thing that happens.
func (h *history) happen() {
	what := rapid.IntRange(0, 16).Draw(h.t, "what")
	if h.alone {
		what = rapid.SampledFrom([]int{3, 5, 13, 13, 14, 16, 16, 16}).Draw(h.t, "what, of that")
	}
	switch what {
	case 0: // a run begins
		id := h.id("run")
		h.runs[id] = &Owner{Name: id, Active: true}
	case 1: // a run is left, or taken up again
		if id := pick(h, h.runs, func(o *Owner) bool { return !o.Ended }); id != "" {
			o := h.runs[id]
			o.Active, o.Idle, h.began[id] = !o.Active, h.wall, h.steady
		}
	case 2: // a run ends, and perhaps leaves its containers
		if id := pick(h, h.runs, func(o *Owner) bool { return o.Active }); id != "" {
			o := h.runs[id]
			o.Active, o.Ended, o.Idle, h.began[id] = false, true, h.wall, h.steady
			for a, run := range h.holder {
				if run == id {
					h.holder[a] = ""
				}
			}
			for _, c := range h.containers {
				if c.Owner == id {
					c.Busy = false
				}
			}
		}
	case 3, 4: // a container is begun, with a volume of its own, perhaps a clone
		run := pick(h, h.runs, func(o *Owner) bool { return o.Active })
		if run == "" && rapid.Bool().Draw(h.t, "owner is a run") {
			return
		}
		id := h.id("c")
		image := pick(h, h.volumes, func(v *VolumeRecord) bool { return h.replica(v) })
		mounted := pick(h, h.volumes, func(v *VolumeRecord) bool { return h.replica(v) })
		parent := pick(h, h.volumes, func(v *VolumeRecord) bool { return h.replica(v) })
		owner := run
		if owner == "" {
			owner = "someone"
		}
		h.containers[id] = &ContainerRecord{ID: id, Owner: owner, State: Making, Since: h.wall, Busy: true, Uses: []string{image, mounted}}
		v := h.id("v")
		h.volumes[v] = &VolumeRecord{ID: v, State: There, Container: id, Parent: parent}
		h.onWorker[volume(v)] = parent
	case 5: // it is there
		if id := pick(h, h.containers, func(c *ContainerRecord) bool { return c.State == Making && c.Busy }); id != "" {
			c := h.containers[id]
			c.State, c.Busy, c.Since = There, false, h.wall
			c.Kept = rapid.Bool().Draw(h.t, "kept")
			if c.Owner == "someone" && rapid.Bool().Draw(h.t, "goes when nobody uses it") {
				c.TTL = time.Duration(rapid.SampledFrom([]int{2, 60, 600}).Draw(h.t, "minutes to live")) * time.Minute
				h.use(c)
			}
			h.onWorker[container(id)] = ""
		}
	case 6: // or whoever made it gives up without a trace
		if id := pick(h, h.containers, func(c *ContainerRecord) bool { return c.Busy }); id != "" {
			h.containers[id].Busy = false
			if rapid.Bool().Draw(h.t, "it had an effect") {
				h.onWorker[container(id)] = ""
			}
		}
	case 7: // an artifact comes into being, on this worker
		a, v := h.id("a"), h.id("v")
		h.began[a] = h.steady
		h.artifacts[a] = &Artifact{Name: a, Since: h.wall, Keep: 12 * time.Hour}
		h.holder[a] = pick(h, h.runs, func(o *Owner) bool { return o.Active })
		h.volumes[v] = &VolumeRecord{ID: v, State: There, Artifact: a, Busy: true}
		h.onWorker[volume(v)] = ""
	case 8: // it is filled, or given up
		if id := pick(h, h.volumes, func(v *VolumeRecord) bool { return v.Busy }); id != "" {
			h.volumes[id].Busy, h.volumes[id].Sealed = false, rapid.Bool().Draw(h.t, "filled")
		}
	case 9: // an artifact is removed
		if id := pick(h, h.artifacts, func(*Artifact) bool { return true }); id != "" && !h.artifactUsed(id) {
			delete(h.artifacts, id)
		}
	case 10: // somebody destroys a container, and it does not get far
		if id := pick(h, h.containers, func(c *ContainerRecord) bool { return c.State == There }); id != "" {
			h.containers[id].State = Going
		}
	case 11: // the worker loses something
		if things := slices.Collect(maps.Keys(h.onWorker)); len(things) > 0 {
			slices.SortFunc(things, func(a, b Thing) int { return compareThings(a, b) })
			delete(h.onWorker, rapid.SampledFrom(things).Draw(h.t, "lost"))
		}
	case 12: // something late comes to the worker, perhaps a clone
		h.onWorker[volume(h.id("late"))] = pick(h, h.volumes, func(v *VolumeRecord) bool { return h.replica(v) })
		h.onWorker[container(h.id("late"))] = ""
	case 13: // the owner of a container asks for it, or something begins or ends in it
		if id := pick(h, h.containers, func(c *ContainerRecord) bool { return c.TTL > 0 && c.State == There }); id != "" {
			c := h.containers[id]
			if rapid.Bool().Draw(h.t, "runs") {
				c.Running = !c.Running
			}
			h.use(c)
		}
	case 14: // somebody sets the clock
		by := time.Duration(rapid.IntRange(-90, 90).Draw(h.t, "minutes")) * time.Minute
		h.wall, h.back = h.wall.Add(by), h.back+max(-by, 0)
		h.jumped, h.jump = h.wall, h.steady
	default:
		d := time.Duration(rapid.SampledFrom([]int{1, 2, 5, 30, 60, 600, 1500}).Draw(h.t, "minutes")) * time.Minute
		h.steady, h.wall = h.steady+d, h.wall.Add(d)
	}
}

// use has a container used now.
func (h *history) use(c *ContainerRecord) { c.Used, h.began[useOf(c.ID)] = h.wall, h.steady }

// useOf is what the last use of a container is remembered by.
func useOf(id string) string { return "use of " + id }

// replica tells whether a volume can be cloned: it is sealed, and its artifact is there.
func (h *history) replica(v *VolumeRecord) bool {
	_, there := h.onWorker[volume(v.ID)]
	return v.Sealed && v.State == There && h.artifacts[v.Artifact] != nil && there
}

// artifactUsed tells whether something on the worker is made of an artifact.
func (h *history) artifactUsed(id string) bool {
	for _, v := range h.volumes {
		if v.Artifact == id && len(h.users(v.ID)) > 0 {
			return true
		}
	}
	return false
}

// users are all that is made of a volume.
func (h *history) users(id string) (out []Thing) {
	for _, c := range h.containers {
		if slices.Contains(c.Uses, id) && c.State != Over {
			out = append(out, container(c.ID))
		}
	}
	for _, v := range h.volumes {
		if v.Parent == id {
			out = append(out, volume(v.ID))
		}
	}
	for t, parent := range h.onWorker {
		if parent == id && t.Kind == Volume && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

func compareThings(a, b Thing) int {
	switch {
	case a == b:
		return 0
	case fmt.Sprint(a) < fmt.Sprint(b):
		return -1
	}
	return 1
}

// grace tells whether a thing is in use, and if not for how long it stays, and what that is counted from: the id of what is over, or "".
func (h *history) grace(t Thing) (used bool, why string, most time.Duration, since string) {
	_, there := h.onWorker[t]
	if v := h.volumes[t.ID]; t.Kind == Volume && v != nil && v.Sealed && !there && v.Container == "" {
		return false, "missing", rules.Grace, "" // whoever is made of it
	}
	if t.Kind == Volume && slices.ContainsFunc(h.users(t.ID), func(u Thing) bool { return u != t }) {
		return true, "", 0, "" // its users come first
	}
	c, known := h.containers[t.ID]
	if t.Kind == Container && known {
		switch {
		case c.State == Over:
			return !there, "back", rules.Grace, ""
		case c.State == Going || c.State == Making && !c.Busy:
			return false, "half", 0, ""
		case c.Busy:
			return true, "", 0, ""
		case !there:
			return false, "missing", rules.Grace, ""
		}
		if c.TTL > 0 {
			return c.Running, "idle", c.TTL, useOf(c.ID)
		}
		return h.graceOf(c.Owner, c.Kept)
	}
	v, known := h.volumes[t.ID]
	if !known {
		return !there, "unknown", rules.Grace, ""
	}
	switch {
	case v.Busy:
		return true, "", 0, ""
	case v.Container != "":
		of := h.containers[v.Container]
		if of != nil && of.State != Over {
			return true, "", 0, "" // with it, or after it
		}
		if of == nil {
			return false, "orphan", 0, ""
		}
		if of.Owner == "someone" {
			return false, "left", rules.Abandoned, of.ID
		}
		return h.graceOf(of.Owner, false)
	case !v.Sealed:
		return false, "half", 0, ""
	case h.artifacts[v.Artifact] == nil:
		return false, "removed", 0, ""
	}
	if run := h.holder[v.Artifact]; run != "" && !h.runs[run].Ended {
		return true, "", 0, ""
	}
	return false, "expires", 12 * time.Hour, v.Artifact
}

func (h *history) graceOf(run string, kept bool) (used bool, why string, most time.Duration, since string) {
	o := h.runs[run]
	switch {
	case o == nil || o.Active:
		return true, "", 0, ""
	case o.Ended && kept:
		return false, "kept", rules.Failed, run
	case o.Ended:
		return false, "ended", 0, ""
	}
	return false, "idle", rules.Abandoned, run
}

// look has everything judged, checks that, and does it.
func (h *history) look() {
	s := Snapshot{Now: h.wall, Asked: h.steady, Answered: h.steady, Renewed: h.jumped, Rules: rules, Seen: h.seen,
		Owners: make(map[string]Owner), Artifacts: make(map[string]Artifact), Listed: make(map[Thing]Listed)}
	for _, c := range h.containers {
		s.Containers = append(s.Containers, *c)
	}
	for _, v := range h.volumes {
		s.Volumes = append(s.Volumes, *v)
	}
	for id, o := range h.runs {
		s.Owners[id] = *o
	}
	for id, a := range h.artifacts {
		if run := h.holder[id]; run != "" && !h.runs[run].Ended {
			a := *a
			a.Held = run + " has it"
			s.Artifacts[id] = a
			continue
		}
		s.Artifacts[id] = *a
	}
	for t, parent := range h.onWorker {
		s.Listed[t] = Listed{Parent: parent}
	}
	var verdicts []Verdict
	verdicts, h.seen = Mark(s)
	done := make(map[Thing]bool)
	for _, v := range verdicts {
		h.check(v, done)
		if v.Action == Keep {
			continue
		}
		done[v.Thing] = v.Action == Lose || rapid.IntRange(0, 9).Draw(h.t, "works") > 0 &&
			!slices.ContainsFunc(v.After, func(t Thing) bool { return !done[t] })
		if done[v.Thing] {
			h.carryOut(v)
		}
	}
}

// check holds a verdict against what the history knows. done has what went or could not go before it in this look.
func (h *history) check(v Verdict, done map[Thing]bool) {
	if v.Reason == "" {
		h.t.Fatalf("no reason: %+v", v)
	}
	for _, user := range v.After {
		gone, judged := done[user]
		if !judged {
			h.t.Fatalf("%v, which is made of it, does not go before: %+v", user, v)
		}
		if !gone {
			return // the host leaves it: what is made of it could not be destroyed
		}
	}
	if _, there := h.onWorker[v.Thing]; !there && v.Kind == Volume && h.volumes[v.ID] == nil {
		return // it went with its container just now
	}
	used, why, most, since := h.grace(v.Thing)
	i := h.unused[v.Thing]
	if used {
		delete(h.unused, v.Thing)
		if own := h.volumes[v.ID]; v.Kind == Volume && own != nil && own.Container != "" && h.containers[own.Container] != nil {
			if used, _, _, _ := h.grace(container(own.Container)); !used {
				return // it goes with its container, or stays with it
			}
		}
		if v.Action != Keep {
			h.t.Fatalf("in use, and %s: %+v", v.Action, v)
		}
		return
	}
	if i == nil || i.why != why {
		i = &idleness{since: h.steady, why: why}
		h.unused[v.Thing] = i
	}
	i.looks++
	if lasted := h.steady - max(i.since, h.began[since], h.jump); v.Action == Keep && i.looks > 1 && lasted >= most+h.back {
		h.t.Fatalf("unused (%s) for %s and kept, with a grace of %s: %+v", why, lasted, most, v)
	}
	switch why {
	case "missing", "unknown", "back":
		if v.Action != Keep && (i.looks < 2 || h.steady-i.since < most) {
			h.t.Fatalf("%s at look %d after %s, and %s: %+v", why, i.looks, h.steady-i.since, v.Action, v)
		}
	default:
		if lasted := h.steady - max(h.began[since], h.jump); v.Action != Keep && lasted < most {
			h.t.Fatalf("unused (%s) for only %s and %s, with a grace of %s: %+v", why, lasted, v.Action, most, v)
		}
	}
}

// carryOut does what a verdict says, as the host does.
func (h *history) carryOut(v Verdict) {
	if v.Action == Destroy {
		delete(h.onWorker, v.Thing)
	}
	if v.Kind == Volume {
		delete(h.volumes, v.ID)
		return
	}
	c := h.containers[v.ID]
	if c == nil {
		return
	}
	if v.Action == Lose {
		c.State, c.Since, h.began[c.ID] = Over, h.wall, h.steady
		return
	}
	for id, own := range h.volumes {
		if own.Container == v.ID && len(h.users(id)) == 0 {
			delete(h.volumes, id)
			delete(h.onWorker, volume(id))
		}
	}
	c.State, c.Since, h.began[c.ID] = Over, h.wall, h.steady
}

// TestHistories: over random histories nothing that is in use is ever doomed, what is made of something goes before it, nothing goes on a
// worker's word alone before the grace and a second look, and everything that nobody uses goes within its grace.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{t: t, wall: start, runs: make(map[string]*Owner), containers: make(map[string]*ContainerRecord),
			volumes: make(map[string]*VolumeRecord), artifacts: make(map[string]*Artifact), holder: make(map[string]string),
			onWorker: make(map[Thing]string), unused: make(map[Thing]*idleness), began: make(map[string]time.Duration), alone: rapid.Bool().Draw(t, "alone")}
		for range rapid.IntRange(10, 120).Draw(t, "events") {
			h.happen()
			if rapid.Bool().Draw(t, "look") {
				h.look()
			}
		}
	})
}
