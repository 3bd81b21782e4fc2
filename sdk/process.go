package sdk

import (
	"slices"
	"strings"
	"time"
)

// Limits of the contract on processes. Sizes that a test or a host relies on stand here and nowhere else.
const (
	// MaxProcesses is how many processes a container takes in its life (rule 6).
	MaxProcesses = 4096
	// MaxStdinAhead is how many bytes of stdin a follower may have sent that were not taken yet (rule 7).
	MaxStdinAhead = 1 << 20
	// DefaultSpill is the journal's bound where ProcessSpec.Spill is zero (rule 5).
	DefaultSpill = 64 << 20
	// MaxArgBytes bounds the path, arguments and environment of one process together, with nine bytes more for each argument and entry of
	// the environment: the byte that ends it and the pointer to it, as Linux counts them. So a start fits one message, however many there are.
	MaxArgBytes = 2 << 20
	argOverhead = 9
	// OutputGrace is how long output is awaited after the leader's end (rule 6).
	OutputGrace = 2 * time.Second
)

// ProcessSpec describes one command.
//
// It begins as a login of its user would: a user that is named by User has the group and further groups that the container's own files
// give it, by name or number; one that they do not know must be a number, and has group 0. PATH, HOME and, where User is set, USER are given where Env
// lacks them, and no other variable; PATH is /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin for root, and without the directories
// named sbin for others, HOME is that of /etc/passwd, else one of the runtime's choice. It leads a session and a group of its own, the umask is 022, no
// signal is ignored or blocked, and it has the descriptors 0, 1 and 2 and no other.
type ProcessSpec struct {
	ID    ProcessID
	Token Token

	Path string   // absolute, or a name to seek in the process's PATH, or relative to Dir
	Args []string // without the command's own name
	Env  []string // NAME=value, merged by the host; of two of one name the process has the last alone; never stored, logged or named in errors (rule 13)
	Dir  string   // absolute; empty: the container's Dir; made where missing, the user's own; one that cannot be made is Invalid with [ReasonPath]
	User string   // name, uid, or uid:gid; empty: the image's; needs [FeatureUsers].

	Stdin bool // false: stdin is at its end from the start, with a descriptor 0 that gives no bytes
	TTY   *TTY // needs [FeatureTTY]

	Spill    int64    // bytes of unacknowledged output to keep; zero: DefaultSpill
	WhenFull WhenFull // zero: BlockWriter
}

// TTY asks for a terminal.
type TTY struct {
	Columns, Rows uint16 // zero: 80 and 24
}

// WhenFull says what happens to output beyond ProcessSpec.Spill.
type WhenFull uint8

// The choices for a full journal.
const (
	BlockWriter WhenFull = iota // the writer waits
	DropOldest                  // the oldest unacknowledged bytes go and leave a gap: for services and warm runners
)

// Validate tells the first thing that is wrong with the spec itself, as Invalid: with [ReasonPath] for Dir, [ReasonTooLarge] beyond
// [MaxArgBytes], else with [ReasonSpec]. The error quotes no argument and nothing of the environment (rule 13). A name that comes
// twice in Env is no error: the last entry counts.
func (s ProcessSpec) Validate() error {
	if err := CheckID(KindProcess, string(s.ID)); err != nil {
		return err
	}
	if err := CheckToken(s.Token); err != nil {
		return err
	}
	if s.Path == "" {
		return NewInvalid(ReasonSpec, "process %q: path is empty", s.ID)
	}
	if strings.Contains(s.Path, "\x00") {
		return NewInvalid(ReasonSpec, "process %q: path contains a NUL byte", s.ID)
	}
	if !plainText(s.User) {
		return NewInvalid(ReasonSpec, "process %q: user is not text", s.ID)
	}
	if s.Dir != "" && !cleanAbsolute(s.Dir) {
		return NewInvalid(ReasonPath, "process %q: dir %q is not a clean absolute path", s.ID, s.Dir)
	}
	if s.Spill < 0 {
		return NewInvalid(ReasonSpec, "process %q: spill %d is negative", s.ID, s.Spill)
	}
	if s.WhenFull > DropOldest {
		return NewInvalid(ReasonSpec, "process %q: unknown policy %d for a full journal", s.ID, s.WhenFull)
	}
	size := len(s.Path)
	for i, a := range s.Args {
		size += len(a) + argOverhead
		if strings.Contains(a, "\x00") {
			return NewInvalid(ReasonSpec, "process %q: argument %d contains a NUL byte", s.ID, i+1)
		}
	}
	for i, e := range s.Env {
		size += len(e) + argOverhead
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.Contains(e, "\x00") {
			return NewInvalid(ReasonSpec, "process %q: entry %d of the environment is not NAME=value", s.ID, i+1)
		}
	}
	if size > MaxArgBytes {
		return NewInvalid(ReasonTooLarge, "process %q: path, arguments and environment take %d bytes, with %d counted for each of them, more than %d", s.ID, size, argOverhead, MaxArgBytes)
	}
	return nil
}

// ProcessState is what a container's own record says of a process (rule 3).
type ProcessState uint8

// The states of a process.
const (
	ProcessRunning ProcessState = iota + 1
	ProcessExited
	ProcessAbandoned // has a start, no exit, and nobody is left to write one
)

// String gives the word that the CLI shows.
func (s ProcessState) String() string {
	switch s {
	case ProcessRunning:
		return "running"
	case ProcessExited:
		return "exited"
	case ProcessAbandoned:
		return "abandoned"
	}
	return "unknown"
}

// ProcessInfo is a listed process.
type ProcessInfo struct {
	ID        ProcessID
	Token     Token
	State     ProcessState
	Exit      *Exit // set if and only if State is ProcessExited
	StartedAt time.Time
}

// ExitReason says why a process ended.
type ExitReason string

// The reasons of an exit.
const (
	ExitExited    ExitReason = "exited"
	ExitSignalled ExitReason = "signalled"
	ExitOOM       ExitReason = "out-of-memory" // where [FeatureExitOOM]
	ExitLimit     ExitReason = "limit"         // another limit of the container ended it
)

// Exit is how a process ended. It is written once and never changes.
type Exit struct {
	Code            int    // 0 to 255; 128 plus the signal's number where a signal ended it
	Signal          Signal // that ended it; else empty
	Reason          ExitReason
	Message         string    // more about Reason, in the runtime's own words
	StartedAt       time.Time // for display only, as EndedAt (rule 12)
	EndedAt         time.Time
	PeakMemoryBytes int64 // zero: unknown
	// OutputCut says that output was still open OutputGrace after the leader's end. What the pipes held then is in the journal, also
	// where it had to wait for room; what came later was thrown away.
	OutputCut bool
}

// maxSignalName is the most bytes of a signal's name: RTMIN+15 has 8.
const maxSignalName = 16

// Validate is Internal for an exit that no process can have had: a code outside 0 to 255, a signal without a code above 128, a code of 0
// for another reason than that it exited. A host takes none of them for any other exit, and least of all for success.
func (e Exit) Validate() error {
	switch {
	case e.Code < 0 || e.Code > 255:
	case e.Signal != "" && e.Code <= 128:
	case len(e.Signal) > maxSignalName || strings.Trim(string(e.Signal), "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-") != "":
	case e.Code == 0 && e.Reason != ExitExited && e.Reason != "":
	default:
		return nil
	}
	return NewInternal(nil, "no process ends with code %d, signal %.20q and reason %.20q", e.Code, e.Signal, e.Reason)
}

// Signal is a signal's name without SIG.
type Signal string

// The signals of the contract.
const (
	HUP  Signal = "HUP"
	INT  Signal = "INT"
	QUIT Signal = "QUIT"
	KILL Signal = "KILL"
	USR1 Signal = "USR1"
	USR2 Signal = "USR2"
	TERM Signal = "TERM"
	CONT Signal = "CONT"
	STOP Signal = "STOP"
	// WINCH is not here: a size goes through Resizer.
)

var signalNumbers = map[Signal]int{HUP: 1, INT: 2, QUIT: 3, KILL: 9, USR1: 10, USR2: 12, TERM: 15, CONT: 18, STOP: 19}

// Signals lists the signals of the contract in the order of their numbers.
func Signals() []Signal { return []Signal{HUP, INT, QUIT, KILL, USR1, USR2, TERM, CONT, STOP} }

// Number gives the signal's number on Linux, 0 for one outside the contract.
func (s Signal) Number() int { return signalNumbers[s] }

// Validate is Invalid with [ReasonSignal] for a signal outside the contract.
func (s Signal) Validate() error {
	if slices.Contains(Signals(), s) {
		return nil
	}
	return NewInvalid(ReasonSignal, "signal %q is not one of %v", s, Signals())
}
