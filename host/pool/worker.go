package pool

import "slices"

// State is where a worker is in its life. Only a running one takes new work.
type State string

const (
	Running  State = "running"
	Stalled  State = "stalled"  // no status for a while
	Cordoned State = "cordoned" // closed by an operator to new work, but not to what asks for it by name
	Landing  State = "landing"  // finishing its work, will come back
	Landed   State = "landed"
	Retiring State = "retiring" // finishing its work, will not come back
	Retired  State = "retired"
)

// Limits bound what a worker holds at a time. Zero is no limit.
type Limits struct {
	Containers int // leases of any kind
	Tasks      int // leases that are not checks; they hold back only specs that are none
	Volumes    int // volumes on the worker, and those that its leases claim and that are still to be made
}

// Worker is one place where containers run.
type Worker struct {
	Name     string // unique in an index
	Runtime  string // the plugin that drives it
	Platform string
	Team     string   // the only team it serves; empty means shared
	Tags     []string // a worker with tags takes only work that asks for one of them or more
	Features []string // what it can do
	State    State
	Reason   string // why it is in State, for people; may be empty

	// Paused is why a running or stalled worker takes nothing for now, though it may soon: what only such workers could take waits in the queue.
	// Empty: a running one takes work, and nobody waits for a stalled one.
	Paused string

	// ResourceTypes are the kinds of images that lie on it by name; nil: it does not tell.
	ResourceTypes []string

	// Capacity is what it has of each resource, zero where that is not known or without limit.
	Capacity Resources

	// Limits always hold for this worker. A zero field leaves the matter to
	// Options.Limits.
	Limits Limits
}

func (w Worker) clone() Worker {
	w.Tags = slices.Clone(w.Tags)
	w.Features = slices.Clone(w.Features)
	w.ResourceTypes = slices.Clone(w.ResourceTypes)
	return w
}

func (w Worker) equal(o Worker) bool {
	return w.Name == o.Name && w.Runtime == o.Runtime && w.Platform == o.Platform && w.Team == o.Team &&
		w.State == o.State && w.Reason == o.Reason && w.Paused == o.Paused && w.Limits == o.Limits && w.Capacity == o.Capacity &&
		slices.Equal(w.Tags, o.Tags) && slices.Equal(w.Features, o.Features) && slices.Equal(w.ResourceTypes, o.ResourceTypes)
}

// Usage is what a worker holds now.
type Usage struct {
	Build, NoInput, Check int       // leases by kind
	Contents              int       // replicas known to be there
	Volumes               int       // that are there or being made, those of Contents among them
	Going                 int       // those of them that are to be destroyed
	ClaimedVolumes        int       // still to be made, of leases' containers
	ClaimedReplicas       int       // still to be made, of contents that leases claim
	Resources             Resources // promised to leases
}

func (u Usage) containers() int { return u.Build + u.NoInput + u.Check }
func (u Usage) tasks() int      { return u.Build + u.NoInput }
func (u Usage) claimed() int    { return u.ClaimedVolumes + u.ClaimedReplicas }
func (u Usage) volumes() int    { return u.Volumes + u.claimed() }
