// Package monitor is the small process that owns one command: it starts it, signals it, ends its whole tree, and reaps what the tree
// leaves. Its parent, the supervisor, has the command's pipes and its journal. The two talk over a socket pair; when the supervisor is
// gone, the monitor ends its tree and itself.
package monitor

import (
	"time"

	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// Verb is the argument that makes the program a monitor.
const Verb = "monitor"

// Socket is the file descriptor of a monitor's socket to the supervisor. Stdin, stdout and stderr are the keeper's log: what this program
// itself has to say, should it panic, is no output of the command and never waits for who reads that. All others are closed on exec
// before Main is called; the command's own come over the socket.
const Socket = 3

// The frames on the socket, each a message of that kind.
const (
	KindCommand = wire.KindRequest // Command: the first from the supervisor
	KindSignal  = wire.KindAck     // Signal: any later one
	KindEvent   = wire.KindReply   // Event: from the monitor
)

// Command is what to start.
type Command struct {
	Path []byte
	Args [][]byte
	Env  [][]byte
	Dir  []byte
	User string
	TTY  bool // stdin, stdout and stderr are a terminal, and become the controlling one
}

// Signal is what to send.
type Signal struct {
	Number int // to the leader's group; KILL to the whole tree
}

// Event is what the monitor tells: Ready before it takes files and a command, Started or Failed, then Ended, then Empty, after which it exits.
type Event struct {
	Ready   bool          `json:",omitempty"` // it has all the threads that it needs; until then nothing was started for certain
	Failed  *wire.Failure `json:",omitempty"` // nothing was started
	Started bool          `json:",omitempty"`
	Ended   *Ended        `json:",omitempty"` // the leader is gone
	Empty   bool          `json:",omitempty"` // and so is all that it left
}

// Ended is how the leader ended.
type Ended struct {
	Status          uint32 // as of wait(2)
	PeakMemoryBytes int64
	At              time.Time
	Left            bool // something that it started is still there
}
