// Package reap decides what may be destroyed. It looks at values and touches nothing: [Mark] is a pure function of who holds what
// (leases), of what is known of those (owners, artifacts), of what is recorded and listed (inventory), and of the time. It gives a
// reason for everything that goes and for everything that stays. Doing is the host's.
//
// These are the rules, with the graces of [Rules]:
//
//   - What is being made or filled stays. What nobody makes any more, though it was never finished, goes: nothing is creating for ever.
//   - What was to be destroyed goes.
//   - A container stays as long as its owner may still work. One of a run that has ended goes; if its command failed and it was
//     kept for people to look at, after Failed. One of a run that nobody resumes goes after Abandoned. One of another owner goes when
//     that destroys it, or when nothing has run in it and nobody has asked for it for as long as he said.
//   - A container's own volumes share its fate. Of one that is over they go once its owner cannot ask for them any more.
//   - A volume with the content of an artifact goes with that, which is when it was removed or has expired.
//   - Nothing goes before what was cloned from it, has it as its root or mounts it.
//   - What a worker lists that has no record goes after Grace and a second look; what has one and is not listed is believed to be gone
//     after Grace and a second look.
package reap

import "time"

// Kind is what a thing is.
type Kind string

// The kinds of things on a worker.
const (
	Container Kind = "container"
	Volume    Kind = "volume"
)

// Thing names a container or a volume of a worker.
type Thing struct {
	Kind Kind
	ID   string
}

// State is how far a record is.
type State uint8

// The states of records.
const (
	Making State = iota + 1 // it was begun, and is not finished
	There                   // the worker has it
	Going                   // it is to be destroyed
	Over                    // only the record is left
)

// ContainerRecord is what the host knows of a container.
type ContainerRecord struct {
	ID    string
	Owner string
	State State
	Since time.Time // when it came to that
	Busy  bool      // somebody works on it now
	Kept  bool      // its command has failed, and it is kept for people to look at
	Uses  []string  // the volumes that it has without a copy, and its own: its root, and what it mounts

	// TTL is how long one whose owner is no run is kept while nobody uses it; zero: until its owner destroys it.
	TTL     time.Duration
	Used    time.Time // when somebody last asked for it, or something in it ended
	Running bool      // something runs in it
}

// VolumeRecord is what the host knows of a volume.
type VolumeRecord struct {
	ID        string
	State     State
	Sealed    bool
	Busy      bool   // somebody works on it now
	Container string // it belongs to, or ""
	Artifact  string // whose content it has, or ""
	Parent    string // it is a clone of, or ""
}

// Owner is what is known of an owner besides what it holds. One of whom nothing is known holds what it has until it gives it back.
type Owner struct {
	Name   string    // for people
	Active bool      // it works now
	Ended  bool      // it never will again
	Idle   time.Time // if not Active: since when
}

// Artifact is a handle to content.
type Artifact struct {
	Name  string
	Held  string // who has it and may still want it, for people; "": nobody
	Since time.Time
	Keep  time.Duration // how long it is kept from then on, if nobody holds it; zero: for ever
}

// Listed is what a worker says of a thing.
type Listed struct{ Parent string }

// Rules are the graces. They are all more than nothing.
type Rules struct {
	Grace     time.Duration // for what is missing or unknown
	Failed    time.Duration // for the container of a command that failed, from the end of its run
	Abandoned time.Duration // for what belongs to a run that nobody resumes
}

// Sight is what was odd about a thing, and since when on the steady clock.
type Sight struct {
	Odd   string
	Since time.Duration
}

// Sights is the memory from look to look. It holds only what is odd still: a thing that was well or absent in between begins anew.
type Sights map[Thing]Sight

// Snapshot is one look at one worker.
type Snapshot struct {
	Now     time.Time // of the wall clock
	Renewed time.Time // what was idle before counts as idle from then on; zero: nothing does
	Rules   Rules

	// Asked and Answered are when its worker was asked what it has, and when it had answered, on a clock that never jumps. What is odd is so from
	// the end of the first answer, and was so until the last question: an answer may take longer than the grace.
	Asked, Answered time.Duration

	Containers []ContainerRecord
	Volumes    []VolumeRecord
	Owners     map[string]Owner    // of the containers, by key
	Artifacts  map[string]Artifact // by id; one that is not there was removed

	Listed map[Thing]Listed // what the worker lists of this installation; nil: it was not asked
	Seen   Sights           // of the last look
}

// Action is what shall be done with a thing.
type Action string

// The actions.
const (
	Keep    Action = "keep"
	Destroy Action = "destroy" // on the worker, then its record
	Lose    Action = "lose"    // the worker does not have it any more: only the record changes
)

// Verdict is what becomes of a thing, and why.
type Verdict struct {
	Thing
	Action Action
	Reason string
	At     time.Time // if kept: when it goes unless something changes; zero: it is in use
	Rank   int       // what has a lower one goes before
	After  []Thing   // if it is to be destroyed: what must have gone before, for it is made of this
}
