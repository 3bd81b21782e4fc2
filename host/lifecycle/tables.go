package lifecycle

// States of a container.
const (
	ContainerCreating   = "creating"   // the claim of its owner; nothing is promised of the worker
	ContainerReady      = "ready"      // the worker has it
	ContainerDestroying = "destroying" // to be destroyed as soon as the worker can be reached
	ContainerDestroyed  = "destroyed"  // only the record is left, of what ran in it
	ContainerLost       = "lost"       // gone behind the host's back
)

// Events of all kinds of things.
const (
	Claimed   Event = "claimed"   // the intent is kept, before the first call to the worker
	Described Event = "described" // what it is made of is known
	Made      Event = "made"      // the worker has it
	Used      Event = "used"      // its owner has asked for it
	Sealed    Event = "sealed"    // its content never changes from now on
	Doomed    Event = "doomed"    // it is to be destroyed
	Removed   Event = "removed"   // its owner is done with it, and with what ran in it
	Renewed   Event = "renewed"   // its owner has another one
	Destroyed Event = "destroyed" // the worker does not have it any more, since the host said so
	Discarded Event = "discarded" // nothing was ever started in it, and no record of it is kept
	Replaced  Event = "replaced"  // its worker runs another incarnation, which never had it
	Missing   Event = "missing"   // its worker does not have it any more, and nobody here has said so
	Forgotten Event = "forgotten" // its record has been kept for as long as it shall be
	Kept      Event = "kept"      // it is not to be destroyed after all

	Started Event = "started"
	Refused Event = "refused" // the start surely had no effect
	Told    Event = "told"    // somebody wants it to end
	Exited  Event = "exited"
	Lost    Event = "lost"    // nobody can tell how it ended
	Aborted Event = "aborted" // it ended with its container

	Begun     Event = "begun"     // or resumed, or seen under way
	Settled   Event = "settled"   // all its steps have ended, and what they came to is kept
	Abandoned Event = "abandoned" // nobody has resumed it for too long
	Swept     Event = "swept"     // nothing is left of it but its record and output
)

// What several lines say.
const (
	later      = "whoever comes later"
	replacing  = "the first look at another incarnation of its worker; a worker that retires or is forgotten while it is gone"
	renewing   = "who asks for its owner's, where it was removed or nothing was ever started in it"
	itsVolumes = "the destruction of its volumes"

	reconciling = "the reconciler of its worker"
	itsEnd      = "its end, by whoever resumes it or, after the time for that, by the reaper"
)

// Containers is the life of a container.
var Containers = Table{Kind: "container", Lines: []Line{
	{Claimed, []string{None}, ContainerCreating, "who asks for its owner's", "the call, or its undoing"},
	{Described, []string{ContainerCreating}, ContainerCreating, "who makes it", "the call, or its undoing"},
	{Described, []string{ContainerReady}, ContainerReady, "who keeps it after its step has failed", ""},
	{Made, []string{ContainerCreating}, ContainerReady, "who makes it; settling, if the worker lists it with its token", ""},
	{Used, []string{ContainerReady}, ContainerReady, "its owner, of one that has a TTL", ""},
	{Used, []string{None, ContainerDestroying, ContainerDestroyed, ContainerLost}, Stays, later, ""},
	{Doomed, []string{ContainerCreating, ContainerReady, ContainerDestroying}, ContainerDestroying,
		"its owner, the reaper, settling, a run that was given up", "its destruction, then " + itsVolumes},
	{Doomed, []string{None, ContainerDestroyed, ContainerLost}, Stays, later, itsVolumes},
	{Removed, []string{ContainerCreating, ContainerReady, ContainerDestroying}, ContainerDestroying, "its owner", "its destruction, then " + itsVolumes},
	{Removed, []string{ContainerDestroyed}, ContainerDestroyed, "its owner", itsVolumes},
	{Removed, []string{ContainerLost}, ContainerLost, "its owner", itsVolumes},
	{Removed, []string{None}, Stays, later, itsVolumes},
	{Renewed, []string{ContainerDestroyed}, ContainerDestroyed, renewing, itsVolumes},
	{Renewed, []string{ContainerLost}, ContainerLost, renewing, itsVolumes},
	{Destroyed, []string{ContainerDestroying}, ContainerDestroyed, reconciling, itsVolumes},
	{Destroyed, []string{None, ContainerDestroyed, ContainerLost}, Stays, later, itsVolumes},
	{Discarded, []string{ContainerDestroying, ContainerLost}, None, reconciling + ", of what nobody owns; who made it in vain, of what is lost", itsVolumes},
	{Discarded, []string{None}, Stays, later, ""},
	{Replaced, []string{ContainerCreating, ContainerReady}, ContainerLost, replacing, itsVolumes},
	{Replaced, []string{ContainerDestroying}, ContainerDestroyed, replacing, itsVolumes},
	{Missing, []string{ContainerCreating, ContainerReady}, ContainerLost, "who follows its process, and the reaper, after the grace and a second look", itsVolumes},
	{Missing, []string{None, ContainerDestroying, ContainerDestroyed, ContainerLost}, Stays, later, ""},
	{Forgotten, []string{ContainerDestroyed, ContainerLost}, None, "retention, the pruning of its worker", "the removal of its processes' output"},
}, PowerSafe: []Event{Claimed}}

// States of a volume.
const (
	VolumeCreating   = "creating" // the intent; nothing is promised of the worker
	VolumeOpen       = "open"     // it is being filled
	VolumeSealed     = "sealed"
	VolumeDestroying = "destroying" // to be destroyed as soon as the worker can be reached, and nothing is made of it
)

// Volumes is the life of a volume.
var Volumes = Table{Kind: "volume", Lines: []Line{
	{Claimed, []string{None}, VolumeCreating, "who makes it", "the call, or its undoing"},
	{Made, []string{VolumeCreating}, VolumeOpen, "who makes it", "its undoing, if nothing comes of it"},
	{Sealed, []string{VolumeOpen, VolumeSealed}, VolumeSealed, "who has filled it; its container's step, for an output or a cache", ""},
	{Doomed, []string{VolumeCreating, VolumeOpen, VolumeSealed, VolumeDestroying}, VolumeDestroying,
		"with its container or its artifact; settling, the reaper; who has another in its place; who makes room for volumes, of what is spare", "its destruction, after what is made of it"},
	{Doomed, []string{None}, Stays, later, ""},
	{Kept, []string{VolumeDestroying}, VolumeSealed, "who doomed it, and then found it in use", ""},
	{Destroyed, []string{VolumeDestroying}, None, reconciling, ""},
	{Destroyed, []string{None}, Stays, later, ""},
	{Replaced, []string{VolumeCreating, VolumeOpen, VolumeSealed, VolumeDestroying}, None, replacing, ""},
	{Missing, []string{VolumeSealed}, None, "the reaper, after the grace and a second look", ""},
	{Missing, []string{None, VolumeCreating, VolumeOpen, VolumeDestroying}, Stays, later, ""},
}}

// States of a process.
const (
	ProcessStarting = "starting" // a start is about to be sent, or was sent with an unknown effect
	ProcessRunning  = "running"
	ProcessExited   = "exited"
	ProcessLost     = "lost"
	ProcessAborted  = "aborted" // its container was destroyed by the host while it ran
)

// Processes is the life of a process.
var Processes = Table{Kind: "process", Lines: []Line{
	{Claimed, []string{None}, ProcessStarting, "who starts it", "the start, or word that it had no effect"},
	{Started, []string{ProcessStarting}, ProcessRunning, "who started it; settling, if the worker lists it with its token", "to follow it to its end"},
	{Started, []string{ProcessRunning, ProcessExited, ProcessLost, ProcessAborted}, Stays, later, ""},
	{Described, []string{ProcessRunning}, ProcessRunning, "who finds that the wall clock was set: its deadline moves with that", "to follow it to its end"},
	{Refused, []string{ProcessStarting}, None, "who started it", ""},
	{Told, []string{ProcessRunning}, ProcessRunning, "who aborts it, before the first signal", "the destruction of its container"},
	{Told, []string{ProcessStarting, ProcessExited, ProcessLost, ProcessAborted}, Stays, later, ""},
	{Exited, []string{ProcessStarting, ProcessRunning}, ProcessExited, "who follows it", ""},
	{Lost, []string{ProcessStarting, ProcessRunning}, ProcessLost, "who follows it; who started it and cannot learn whether that took effect", ""},
	{Aborted, []string{ProcessStarting, ProcessRunning}, ProcessAborted, "who follows it", ""},
	{Exited, []string{ProcessExited, ProcessLost, ProcessAborted}, Stays, "whoever comes later: the first verdict stays", ""},
	{Lost, []string{ProcessExited, ProcessLost, ProcessAborted}, Stays, later, ""},
	{Aborted, []string{ProcessExited, ProcessLost, ProcessAborted}, Stays, later, ""},
	{Forgotten, []string{ProcessStarting, ProcessRunning, ProcessExited, ProcessLost, ProcessAborted}, None, "with its container", "the removal of its output"},
}, PowerSafe: []Event{Claimed}}

// States of a run.
const (
	RunGoing  = "going"
	RunEnding = "ending" // all its steps have ended; what is left of it goes
	RunEnded  = "ended"
)

// Runs is the life of a run.
var Runs = Table{Kind: "run", Lines: []Line{
	{Begun, []string{None, RunGoing}, RunGoing, "who runs or resumes it", itsEnd},
	{Described, []string{RunGoing}, RunGoing, "who runs it: that it is under way, and where its outputs go", itsEnd},
	{Settled, []string{RunGoing, RunEnding}, RunEnding, "who ran it", "the destruction of all it has"},
	{Abandoned, []string{RunGoing}, RunEnding, "the reaper", "the destruction of all it has"},
	{Swept, []string{RunEnding}, RunEnded, "who ran it; the reaper", ""},
	{Swept, []string{RunEnded}, Stays, later, ""},
	{Forgotten, []string{RunEnded}, None, "retention", "the removal of its processes' output"},
}, PowerSafe: []Event{Begun}}
