package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Reason says in one word why a worker does or does not take a spec. The words
// are part of the interface: programs may act upon them.
type Reason string

const (
	OK Reason = "ok"

	// Not compatible: waiting for a place would not help.
	NotWith       Reason = "with"          // another worker is asked for by name
	Excluded      Reason = "excluded"      // by the spec
	OtherRuntime  Reason = "runtime"       // driven by another plugin
	OtherPlatform Reason = "platform"      // of another platform
	OtherTeam     Reason = "team"          // serves another team only
	MissingTag    Reason = "tags"          // lacks a wanted tag
	TaggedOnly    Reason = "tagged"        // has tags, and the spec asks for none
	NoFeature     Reason = "features"      // lacks a wanted feature
	NoType        Reason = "resource-type" // lacks the wanted resource type
	TooBig        Reason = "too-big"       // the spec claims more than the worker could ever give
	NotRunning    Reason = "state"         // its State is not Running

	// Compatible but full: there will be a place.
	Pausing        Reason = "paused"   // it takes nothing for now, or is away and may be back
	Reserved       Reason = "reserved" // what is or becomes free there goes to a waiter that others have passed too often
	FullContainers Reason = "containers"
	FullTasks      Reason = "tasks"
	FullVolumes    Reason = "volumes"
	FullResources  Reason = "resources"
	FullItself     Reason = "exhausted" // the worker has said so, whatever is known of it here
)

// Compatible reports whether the worker would take the spec if it were idle.
func (r Reason) Compatible() bool { return r == OK || r.Full() }

// Full reports whether the worker lacks nothing but room, or a moment.
func (r Reason) Full() bool {
	return r.lacking() || r == Pausing || r == Reserved || r == FullItself
}

// lacking reports whether the worker lacks room by what is known of it here, so
// that the spec would fit once enough of its leases and volumes have gone.
func (r Reason) lacking() bool {
	return r == FullContainers || r == FullTasks || r == FullVolumes || r == FullResources
}

// phrase completes "3 workers …".
func (r Reason) phrase() string {
	switch r {
	case NotWith:
		return "not the one asked for"
	case Excluded:
		return "excluded"
	case OtherRuntime:
		return "of another runtime"
	case OtherPlatform:
		return "of another platform"
	case OtherTeam:
		return "of another team"
	case MissingTag:
		return "without a wanted tag"
	case TaggedOnly:
		return "for tagged work only"
	case NoFeature:
		return "without a wanted feature"
	case NoType:
		return "without the wanted resource type"
	case TooBig:
		return "too small"
	case NotRunning:
		return "not running"
	case Pausing:
		return "taking nothing just now"
	case Reserved:
		return "reserved for another"
	case FullContainers:
		return "at the limit of containers"
	case FullTasks:
		return "at the limit of tasks"
	case FullVolumes:
		return "at the limit of volumes"
	case FullResources:
		return "without enough to spare"
	case FullItself:
		return "exhausted"
	}
	return "ok"
}

// query is a spec with what the policy makes of it.
type query struct {
	index  *Index
	spec   Spec
	keys   []digest // of its inputs, each once
	chain  []Strategy
	limits Limits // where the worker has none of its own

	exhausted map[string]string // those of the spec that were not asked again yet; the index's lock protects it
}

// limitsOf returns what holds for e.
func (q *query) limitsOf(e *entry) Limits {
	return Limits{
		Containers: cmp.Or(e.Limits.Containers, q.limits.Containers),
		Tasks:      cmp.Or(e.Limits.Tasks, q.limits.Tasks),
		Volumes:    cmp.Or(e.Limits.Volumes, q.limits.Volumes),
	}
}

// judge is the one place that says whether a worker takes a spec. What cannot
// change is asked first, so that a worker that is merely stalled or full says so.
func (q *query) judge(e *entry) Reason {
	r := q.judgeAnew(e)
	if _, no := q.exhausted[e.Name]; no && r == OK {
		return FullItself
	}
	return r
}

// judgeAnew is judge for a worker that may have got room since it said that it had none.
func (q *query) judgeAnew(e *entry) Reason {
	s := &q.spec
	if s.With != "" && s.With != e.Name {
		return NotWith
	}
	if len(s.Exclude) > 0 {
		if _, ok := s.Exclude[e.Name]; ok {
			return Excluded
		}
	}
	if s.Runtime != "" && s.Runtime != e.Runtime {
		return OtherRuntime
	}
	if s.Platform != "" && s.Platform != e.Platform {
		return OtherPlatform
	}
	if e.Team != "" && e.Team != s.Team {
		return OtherTeam
	}
	if len(s.Tags) == 0 && len(e.Tags) > 0 {
		return TaggedOnly
	}
	if !includes(e.Tags, s.Tags) {
		return MissingTag
	}
	if !includes(e.Features, s.Features) {
		return NoFeature
	}
	if s.ResourceType != "" && len(e.ResourceTypes) > 0 && !slices.Contains(e.ResourceTypes, s.ResourceType) {
		return NoType
	}
	l := q.limitsOf(e)
	if l.Volumes > 0 && s.Volumes+len(q.keys) > l.Volumes {
		return TooBig
	}
	if _, no := over(e.Capacity, Resources{}, s.Resources); no {
		return TooBig
	}
	if e.State == Stalled && e.Paused != "" {
		return Pausing
	}
	if e.State != Running && !(e.State == Cordoned && s.With != "") { // what has to be where another container is belongs to what goes on there
		return NotRunning
	}
	if e.Paused != "" {
		return Pausing
	}
	if w := e.reserved; w != nil && w.query != q && s.Priority <= w.query.spec.Priority && q.hinders(w.query, e) {
		return Reserved
	}
	if l.Containers > 0 && e.usage.containers() >= l.Containers {
		return FullContainers
	}
	if l.Tasks > 0 && s.Kind != Check && e.usage.tasks() >= l.Tasks {
		return FullTasks
	}
	if l.Volumes > 0 && q.lacksVolumes(e, l.Volumes) > 0 {
		return FullVolumes
	}
	if q.lacksResources(e) {
		return FullResources
	}
	return OK
}

func (q *query) lacksResources(e *entry) bool {
	_, no := over(e.Capacity, e.usage.Resources, q.spec.Resources)
	return no
}

// lacksVolumes is how many volumes e has too many for the spec; nothing or less: it has room.
func (q *query) lacksVolumes(e *entry, limit int) int {
	over := e.usage.volumes() + q.spec.Volumes - limit
	if over+len(q.keys) <= 0 { // whatever of the inputs is there already
		return over + len(q.keys)
	}
	return over + q.missing(e)
}

// missing is how many of the inputs have to be brought to e: they are neither there nor on their way, and no lease has claimed them.
func (q *query) missing(e *entry) (n int) {
	for _, d := range q.keys {
		n += count(q.brings(e, d))
	}
	return n
}

// brings tells whether one of the inputs has to be brought to e for this one.
func (q *query) brings(e *entry, d digest) bool {
	return e.promised[d].claims == 0 && !q.index.has(e, d)
}

// detail says what judge's verdict means on this worker, for people.
func (q *query) detail(e *entry, r Reason) string {
	text := q.about(e, r)
	if w := e.reserved; w != nil && w.query == q {
		text += fmt.Sprintf("; reserved for it, for another %s at most: nobody gets a place there who would be in its way", w.left())
	}
	return text
}

func (q *query) about(e *entry, r Reason) string {
	s, l := &q.spec, q.limitsOf(e)
	switch r {
	case NotWith:
		return fmt.Sprintf("worker %q is asked for", s.With)
	case Excluded:
		return cmp.Or(s.Exclude[e.Name], "no reason given")
	case OtherRuntime:
		return fmt.Sprintf("%q, not %q", e.Runtime, s.Runtime)
	case OtherPlatform:
		return fmt.Sprintf("%q, not %q", e.Platform, s.Platform)
	case OtherTeam:
		return fmt.Sprintf("team %q only", e.Team)
	case MissingTag:
		return "lacks " + missing(e.Tags, s.Tags)
	case TaggedOnly:
		return "tags " + strings.Join(e.Tags, ", ")
	case NoFeature:
		return "lacks " + missing(e.Features, s.Features)
	case NoType:
		return fmt.Sprintf("has %s, not %q", strings.Join(e.ResourceTypes, ", "), s.ResourceType)
	case TooBig:
		if a, no := over(e.Capacity, Resources{}, s.Resources); no {
			return fmt.Sprintf("%d %s wanted, it has %d", a.asks, a.name, a.has)
		}
		return fmt.Sprintf("%s wanted, %d allowed", wantedVolumes(s.Volumes, len(q.keys)), l.Volumes)
	case NotRunning:
		if e.Reason == "" {
			return string(e.State)
		}
		return string(e.State) + ", " + e.Reason
	case Pausing:
		return e.Paused
	case Reserved:
		w := e.reserved
		return w.reservedText(s.Team)
	case FullContainers:
		return fmt.Sprintf("%d of %d containers", e.usage.containers(), l.Containers)
	case FullTasks:
		return fmt.Sprintf("%d of %d tasks", e.usage.tasks(), l.Tasks)
	case FullVolumes:
		text := fmt.Sprintf("%d of %d volumes, of which %d are claimed; %s wanted", e.usage.volumes(), l.Volumes, e.usage.claimed(), wantedVolumes(s.Volumes, q.missing(e)))
		switch n := e.usage.Going; {
		case n == 1:
			text += "; room is being made: 1 is being destroyed"
		case n > 1:
			text += fmt.Sprintf("; room is being made: %d are being destroyed", n)
		}
		return text
	case FullResources:
		a, _ := over(e.Capacity, e.usage.Resources, s.Resources)
		return fmt.Sprintf("%d of %d %s are promised, %d wanted", a.used, a.has, a.name, a.asks)
	case FullItself:
		return s.Exhausted[e.Name]
	}
	if e.Team != "" {
		return "own worker of the team"
	}
	return "shared worker"
}

// reservedText says that a worker is reserved for w, as a team may hear of it; empty: as the operator may.
func (w *waiter) reservedText(team string) string {
	who := strconv.Quote(w.owner)
	if OwnerSeenBy(team, w.owner, w.query.spec.Team) != w.owner {
		who = AnotherTeams
	}
	return fmt.Sprintf("for %s, passed by %d that came later, for another %s at most", who, w.passed, w.left())
}

// wantedVolumes says how many volumes a container needs: its own, and those of its inputs.
func wantedVolumes(own, inputs int) string {
	text := volumesText(own + inputs)
	if inputs > 0 {
		text += fmt.Sprintf(" (%d of its own, %d for its inputs)", own, inputs)
	}
	return text
}

func volumesText(n int) string {
	if n == 1 {
		return "1 volume"
	}
	return fmt.Sprintf("%d volumes", n)
}

func includes(has, wants []string) bool {
	for _, w := range wants {
		if !slices.Contains(has, w) {
			return false
		}
	}
	return true
}

func missing(has, wants []string) string {
	var lack []string
	for _, w := range wants {
		if !slices.Contains(has, w) {
			lack = append(lack, w)
		}
	}
	return strings.Join(lack, ", ")
}
