package wire

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slipway-run/slipway/sdk"
)

// Verb is what a request asks for.
type Verb string

// The verbs. All but the last two go over a session.
const (
	VerbStart   Verb = "start"   // Request.Start
	VerbList    Verb = "list"    // Reply.Processes, in several replies, the last one empty
	VerbFollow  Verb = "follow"  // Request.Process, Follow
	VerbSignal  Verb = "signal"  // Request.Process, Signal
	VerbResize  Verb = "resize"  // Request.Process, Size
	VerbQuiesce Verb = "quiesce" // refuse starts from now on, if nothing runs
	VerbStat    Verb = "stat"    // Request.Root, Path; Reply.Files has one
	VerbFiles   Verb = "files"   // as stat: Reply.Files, in several replies, the last one empty
	VerbRead    Verb = "read"    // and Offset, Length; KindData, then a Reply
	VerbIn      Verb = "in"      // Request.Root, Path; KindData, KindEnd; then a Reply
	VerbOut     Verb = "out"     // as in: KindData, then a Reply
)

// Request is what the driver wants.
type Request struct {
	Verb    Verb
	Process sdk.ProcessID `json:",omitempty"`
	Start   *Start        `json:",omitempty"`
	Follow  *Follow       `json:",omitempty"`
	Signal  sdk.Signal    `json:",omitempty"`
	Size    *sdk.TTY      `json:",omitempty"`

	Root           string `json:",omitempty"` // an absolute path that Path stays below
	Path           []byte `json:",omitempty"` // as bytes, for names need not be UTF-8
	Offset, Length int64  `json:",omitempty"`
}

// Start is sdk.ProcessSpec with bytes where they need not be UTF-8.
type Start struct {
	ID       sdk.ProcessID
	Token    sdk.Token
	Path     []byte
	Args     [][]byte `json:",omitempty"`
	Env      [][]byte `json:",omitempty"`
	Dir      []byte   `json:",omitempty"`
	User     string   `json:",omitempty"`
	Stdin    bool     `json:",omitempty"`
	TTY      *sdk.TTY `json:",omitempty"`
	Spill    int64    `json:",omitempty"`
	WhenFull sdk.WhenFull
}

// NewStart makes a Start of a spec.
func NewStart(s sdk.ProcessSpec) *Start {
	return &Start{
		ID: s.ID, Token: s.Token, Path: []byte(s.Path), Args: toBytes(s.Args), Env: toBytes(s.Env), Dir: []byte(s.Dir), User: s.User,
		Stdin: s.Stdin, TTY: s.TTY, Spill: s.Spill, WhenFull: s.WhenFull,
	}
}

// Spec makes it a spec again.
func (s *Start) Spec() sdk.ProcessSpec {
	return sdk.ProcessSpec{
		ID: s.ID, Token: s.Token, Path: string(s.Path), Args: toStrings(s.Args), Env: toStrings(s.Env), Dir: string(s.Dir), User: s.User,
		Stdin: s.Stdin, TTY: s.TTY, Spill: s.Spill, WhenFull: s.WhenFull,
	}
}

func toBytes(s []string) [][]byte {
	b := make([][]byte, len(s))
	for i := range s {
		b[i] = []byte(s[i])
	}
	return b
}

func toStrings(b [][]byte) []string {
	s := make([]string, len(b))
	for i := range b {
		s[i] = string(b[i])
	}
	return s
}

// Follow asks for a journal.
type Follow struct {
	From sdk.Position
	// Name is a random word, the same over all relays that one call takes. With Resume the request is refused as superseded if
	// another name has followed since.
	Name   string
	Resume bool `json:",omitempty"`
	// Caller is a random word, the same for all requests of one driver, and Turn grows with each of them: a keeper may come to a request after the relay
	// that brought it is gone, and after a later one.
	Caller string `json:",omitempty"`
	Turn   int64  `json:",omitempty"`
	Stdin  bool   `json:",omitempty"` // KindStdin will come
}

// Opened answers it.
type Opened struct {
	State           sdk.ProcessState
	StdinTaken      int64
	StdinGeneration int64
}

// SDK checks it against what was asked for.
func (o Opened) SDK() (sdk.Opened, error) {
	if o.State < sdk.ProcessRunning || o.State > sdk.ProcessAbandoned || o.StdinTaken < 0 || o.StdinGeneration < 0 {
		return sdk.Opened{}, broken("a journal opened in state %d, with %d bytes of stdin taken, in generation %d", o.State, o.StdinTaken, o.StdinGeneration)
	}
	return sdk.Opened(o), nil
}

// PerReply is how many processes or files one reply holds, so that it fits a frame.
const PerReply = 8

// Reply ends a call, or is a part of a list.
type Reply struct {
	Error     *Failure  `json:",omitempty"`
	Processes []Process `json:",omitempty"`
	Files     []File    `json:",omitempty"`
}

// Process is sdk.ProcessInfo.
type Process struct {
	ID        sdk.ProcessID
	Token     sdk.Token
	State     sdk.ProcessState
	Exit      *Exit `json:",omitempty"`
	StartedAt time.Time
}

// NewProcess makes a Process of what the contract says.
func NewProcess(i sdk.ProcessInfo) Process {
	p := Process{ID: i.ID, Token: i.Token, State: i.State, StartedAt: i.StartedAt}
	if i.Exit != nil {
		p.Exit = NewExit(*i.Exit)
	}
	return p
}

// SDK checks it.
func (p Process) SDK() (sdk.ProcessInfo, error) {
	i := sdk.ProcessInfo{ID: p.ID, Token: p.Token, State: p.State, StartedAt: p.StartedAt}
	if sdk.CheckID(sdk.KindProcess, string(p.ID)) != nil || sdk.CheckToken(p.Token) != nil {
		return i, broken("a process with an id or token that nobody gave")
	}
	if p.State < sdk.ProcessRunning || p.State > sdk.ProcessAbandoned || (p.Exit != nil) != (p.State == sdk.ProcessExited) {
		return i, broken("process %q in state %d", p.ID, p.State)
	}
	if p.Exit != nil {
		e, err := p.Exit.SDK()
		if err != nil {
			return i, err
		}
		i.Exit = &e
	}
	return i, nil
}

// Exit is sdk.Exit.
type Exit struct {
	Code            int
	Signal          sdk.Signal `json:",omitempty"`
	Reason          sdk.ExitReason
	Message         string `json:",omitempty"`
	StartedAt       time.Time
	EndedAt         time.Time
	PeakMemoryBytes int64 `json:",omitempty"`
	OutputCut       bool  `json:",omitempty"`
}

// NewExit makes an Exit of what the contract says.
func NewExit(e sdk.Exit) *Exit { return (*Exit)(&e) }

const (
	maxText   = 4 << 10 // of a message for people
	maxSignal = 16      // of a signal's name
)

// SDK checks it. An exit that nobody can have had is an error: taking it for another one would be a wrong success.
func (e *Exit) SDK() (sdk.Exit, error) {
	s := sdk.Exit(*e)
	s.Message = Text(s.Message)
	switch {
	case s.Code < 0 || s.Code > 255 || s.PeakMemoryBytes < 0 || len(s.Signal) > maxSignal:
	case s.Signal != "" && s.Code <= 128:
	case s.Reason == sdk.ExitExited && s.Signal == "":
		return s, nil
	case (s.Reason == sdk.ExitSignalled || s.Reason == sdk.ExitOOM || s.Reason == sdk.ExitLimit) && s.Signal != "" && plain(string(s.Signal)):
		return s, nil
	}
	return sdk.Exit{}, broken("an exit with code %d, signal %q and reason %q", e.Code, Text(string(e.Signal)), Text(string(e.Reason)))
}

func plain(s string) bool {
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-") == ""
}

// Text makes what came from a container fit to be shown: bounded, UTF-8, without control characters.
func Text(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
