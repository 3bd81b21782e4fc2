package reap

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// What is odd about a thing.
const (
	oddUnknown = "unknown"
	oddMissing = "missing"
)

// Mark tells what becomes of everything that is recorded or listed, in the order in which it can be done, and gives the memory for the next
// look. Of a container that is over and not listed there is nothing to tell.
func Mark(s Snapshot) ([]Verdict, Sights) {
	m := newMarker(s)
	for _, c := range s.Containers {
		if c.State != Over {
			m.put(m.container(c))
		}
	}
	for _, v := range s.Volumes {
		m.put(m.volume(v))
	}
	for t := range s.Listed {
		if _, judged := m.verdicts[t]; !judged {
			m.put(m.unknown(t))
		}
	}
	for t := range m.verdicts {
		m.settle(t)
	}
	out := slices.Collect(maps.Values(m.verdicts))
	slices.SortFunc(out, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	return out, m.sights
}

type marker struct {
	Snapshot
	containers map[string]ContainerRecord
	users      map[string][]Thing // of volumes: what is a clone of it, or has or mounts it
	verdicts   map[Thing]Verdict
	settled    map[Thing]bool
	sights     Sights
}

func newMarker(s Snapshot) *marker {
	m := &marker{Snapshot: s, containers: make(map[string]ContainerRecord), users: make(map[string][]Thing),
		verdicts: make(map[Thing]Verdict), settled: make(map[Thing]bool), sights: make(Sights)}
	uses := func(volume string, by Thing) {
		if volume != "" && !slices.Contains(m.users[volume], by) {
			m.users[volume] = append(m.users[volume], by)
		}
	}
	for _, c := range s.Containers {
		m.containers[c.ID] = c
		if c.State != Over {
			for _, volume := range c.Uses {
				uses(volume, Thing{Container, c.ID})
			}
		}
	}
	for _, v := range s.Volumes {
		uses(v.Parent, Thing{Volume, v.ID})
	}
	for t, l := range s.Listed {
		uses(l.Parent, t)
	}
	return m
}

func (m *marker) put(v Verdict) { m.verdicts[v.Thing] = v }

func verdict(kind Kind, id string, a Action, format string, args ...any) Verdict {
	return Verdict{Thing: Thing{kind, id}, Action: a, Reason: fmt.Sprintf(format, args...)}
}

// odd remembers that a thing is odd, and tells whether it has been so for the grace and more than one look, else for how long it may
// stay so.
func (m *marker) odd(t Thing, what string) (long bool, left time.Duration) {
	seen, before := m.Seen[t]
	if !before || seen.Odd != what {
		seen, before = Sight{Odd: what, Since: m.Answered}, false
	}
	m.sights[t] = seen
	left = m.Rules.Grace - (m.Asked - seen.Since)
	return before && left <= 0, max(left, 0)
}

// after keeps a thing until a grace has passed since a time.
func (m *marker) after(v Verdict, since time.Time, grace time.Duration) Verdict {
	if since.Before(m.Renewed) {
		since = m.Renewed
	}
	if since.After(m.Now) { // the clock went back
		since = m.Now
	}
	if at := since.Add(grace); m.Now.Before(at) {
		v.Action, v.At = Keep, at
		return v
	}
	v.Action = Destroy
	return v
}

func (m *marker) container(c ContainerRecord) Verdict {
	say := func(a Action, format string, args ...any) Verdict {
		return verdict(Container, c.ID, a, format, args...)
	}
	switch {
	case c.State == Going:
		return say(Destroy, "it is to be destroyed")
	case c.Busy:
		return say(Keep, "it is being made")
	case c.State == Making:
		return say(Destroy, "it was never finished, and nobody makes it any more")
	}
	if v, missing := m.missing(Thing{Container, c.ID}); missing {
		return v
	}
	return m.held(say(Keep, ""), c)
}

// missing judges what is recorded and not listed.
func (m *marker) missing(t Thing) (Verdict, bool) {
	if _, there := m.Listed[t]; there || m.Listed == nil {
		return Verdict{}, false
	}
	long, left := m.odd(t, oddMissing)
	if long {
		return verdict(t.Kind, t.ID, Lose, "its worker has not listed it for %s", m.Rules.Grace), true
	}
	v := verdict(t.Kind, t.ID, Keep, "its worker does not list it; if that stays so, it is taken for lost")
	v.At = m.Now.Add(left)
	return v, true
}

// held judges by a container's owner.
func (m *marker) held(v Verdict, c ContainerRecord) Verdict {
	o, known := m.Owners[c.Owner]
	switch {
	case c.Owner == "":
		v.Action, v.Reason = Destroy, "nobody owns it"
		return v
	case !known && c.State != There: // it works no more
		v.Reason = fmt.Sprintf("its owner %s may still want what its container left", c.Owner)
		return m.after(v, c.Since, m.Rules.Abandoned)
	case !known && c.TTL > 0 && c.Running:
		v.Reason = fmt.Sprintf("something runs in it; when that has ended, and its owner %s has not used it for %s, it goes", c.Owner, c.TTL)
		return v
	case !known && c.TTL > 0:
		v.Reason = fmt.Sprintf("its owner %s has not destroyed it; it goes when nobody has used it for %s", c.Owner, c.TTL)
		if v = m.after(v, c.Used, c.TTL); v.Action == Destroy {
			v.Reason = fmt.Sprintf("its owner %s has not used it for %s", c.Owner, c.TTL)
		}
		return v
	case !known:
		v.Reason = fmt.Sprintf("its owner %s has not destroyed it", c.Owner)
		return v
	case o.Active:
		v.Reason = o.Name + " is under way"
		return v
	case o.Ended && c.Kept && c.State == There:
		v.Reason = "its command failed, and " + o.Name + " has ended: it is kept to be looked at"
		return m.after(v, o.Idle, m.Rules.Failed)
	case o.Ended:
		v.Action, v.Reason = Destroy, o.Name+" has ended"
		return v
	}
	v.Reason = o.Name + " is not under way, and can be resumed"
	if v = m.after(v, o.Idle, m.Rules.Abandoned); v.Action == Destroy {
		v.Reason = fmt.Sprintf("nobody has resumed %s for %s", o.Name, m.Rules.Abandoned)
	}
	return v
}

// Expired tells whether an artifact that nobody holds has been kept for long enough.
func (s Snapshot) Expired(a Artifact) bool {
	m := marker{Snapshot: s}
	return a.Held == "" && a.Keep != 0 && m.after(Verdict{}, a.Since, a.Keep).Action == Destroy
}

// Idle tells whether a container whose owner is no run has not been used for as long as that wanted it kept.
func (s Snapshot) Idle(c ContainerRecord) bool {
	if _, known := s.Owners[c.Owner]; known || c.State != There || c.TTL == 0 {
		return false
	}
	m := marker{Snapshot: s}
	return m.held(Verdict{}, c).Action == Destroy
}

// Left tells whether nobody wants any more what a container left that is over: its owner may still make artifacts of it. A run that can be
// resumed wants it until it is ended.
func (s Snapshot) Left(c ContainerRecord) bool {
	if o, known := s.Owners[c.Owner]; known && !o.Ended {
		return false
	}
	m := marker{Snapshot: s}
	return c.State == Over && m.held(Verdict{}, c).Action == Destroy
}

// Abandoned tells whether a run that has not ended is given up at that time: nobody resumes it any more.
func (s Snapshot) Abandoned(o Owner) bool {
	m := marker{Snapshot: s}
	return !o.Active && !o.Ended && m.after(Verdict{}, o.Idle, s.Rules.Abandoned).Action == Destroy
}

func (m *marker) volume(r VolumeRecord) Verdict {
	say := func(a Action, format string, args ...any) Verdict { return verdict(Volume, r.ID, a, format, args...) }
	switch {
	case r.State == Going:
		return say(Destroy, "it is to be destroyed")
	case r.Busy:
		return say(Keep, "it is being filled")
	case r.Container != "":
		return m.volumeOf(r)
	case !r.Sealed:
		return say(Destroy, "it was never filled to its end, and nobody does so any more")
	}
	if v, missing := m.missing(Thing{Volume, r.ID}); missing {
		return v
	}
	a, known := m.Artifacts[r.Artifact]
	switch {
	case r.Artifact == "":
		return say(Destroy, "it belongs to nothing")
	case !known:
		return say(Destroy, "its artifact was removed")
	case a.Held != "":
		return say(Keep, "artifact %s: %s", a.Name, a.Held)
	case a.Keep == 0:
		return say(Keep, "artifact %s does not expire", a.Name)
	case m.Expired(a):
		return say(Destroy, "artifact %s has expired", a.Name)
	}
	return m.after(say(Keep, "artifact %s expires", a.Name), a.Since, a.Keep)
}

// volumeOf judges a volume that belongs to a container.
func (m *marker) volumeOf(r VolumeRecord) Verdict {
	c, known := m.containers[r.Container]
	if !known {
		return verdict(Volume, r.ID, Destroy, "its container %s is gone", r.Container)
	}
	if c.State == Over || c.State == Going { // its outputs may be about to be sealed: those that are not wanted are themselves to be destroyed
		return m.held(verdict(Volume, r.ID, Keep, ""), c)
	}
	v := m.verdicts[Thing{Container, c.ID}]
	v.Thing = Thing{Volume, r.ID}
	if v.Action == Lose { // the container is taken for lost; at the next look it is over
		v.Action = Keep
	}
	v.Reason = fmt.Sprintf("it belongs to container %s: %s", c.ID, v.Reason)
	return v
}

// unknown judges what is listed without a record, or with that of a container that is over.
func (m *marker) unknown(t Thing) Verdict {
	why := "this installation made it and has no record of it"
	if _, over := m.containers[t.ID]; over && t.Kind == Container {
		why = "it is recorded as gone, and is there"
	}
	long, left := m.odd(t, oddUnknown)
	if long {
		return verdict(t.Kind, t.ID, Destroy, "%s", why)
	}
	v := verdict(t.Kind, t.ID, Keep, "%s; if that stays so, it is destroyed", why)
	v.At = m.Now.Add(left)
	return v
}

// settle gives a thing its rank, and keeps it for those who use it and stay.
func (m *marker) settle(t Thing) {
	if m.settled[t] {
		return
	}
	m.settled[t] = true
	v := m.verdicts[t]
	if v.Action != Destroy || t.Kind == Container {
		return
	}
	v.Rank = 1
	for _, user := range m.users[t.ID] {
		m.settle(user)
		u := m.verdicts[user]
		if u.Action != Destroy {
			v.Action, v.At, v.After = Keep, u.At, nil
			v.Reason = fmt.Sprintf("%s %s needs it; else it would go: %s", user.Kind, user.ID, v.Reason)
			break
		}
		v.Rank, v.After = max(v.Rank, u.Rank+1), append(v.After, user)
	}
	m.verdicts[t] = v
}
