package memory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agext/levenshtein"

	"github.com/slipway-run/slipway/sdk"
)

// Fault makes calls of one operation of a worker go wrong, so that whoever calls it can be tested. What it does is outside of the
// worker, which itself goes on as ever.
type Fault struct {
	Operation string // a method of sdk.Worker or of one of its abilities: one of FaultOperations
	Kind      FaultKind
	After     int // calls that go well first
	Count     int // calls that go wrong then; 0: one; negative: all that follow

	Class  sdk.Class     // of the error, for FaultFail; empty: Unavailable
	Reason sdk.Reason    // of the error, for FaultFail; may be empty
	Delay  time.Duration // for FaultDelay
	Bytes  int64         // that pass before the end, for FaultCut
	Effect bool          // for FaultHang and FaultCrash: the call takes effect first
}

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults.
const (
	FaultFail  FaultKind = "fail"  // the call fails and has no effect
	FaultDelay FaultKind = "delay" // the call begins later
	FaultCut   FaultKind = "cut"   // the stream breaks off, Unavailable
	FaultLose  FaultKind = "lose"  // the call has its effect, its answer is lost: Unavailable
	FaultHang  FaultKind = "hang"  // the call goes on until its context ends
	FaultCrash FaultKind = "crash" // the plugin's process exits, with CrashCode
)

// CrashCode is the exit code of a plugin that a fault has ended.
const CrashCode = 70

// FaultKinds lists the kinds.
func FaultKinds() []FaultKind {
	return []FaultKind{FaultFail, FaultDelay, FaultCut, FaultLose, FaultHang, FaultCrash}
}

// FaultOperations lists the operations that a fault can be of.
func FaultOperations() []string {
	return []string{
		"Status", "CreateVolume", "SealVolume", "ListVolumes", "DestroyVolume", "StreamIn", "StreamOut",
		"CreateContainer", "ListContainers", "DestroyContainer",
		"StartProcess", "ListProcesses", "FollowProcess", "SignalProcess",
		"StatFile", "ListFiles", "ReadFile", "ResizeProcess", "PeerTicket", "PeerSend",
	}
}

// cuttable are the operations with a stream of bytes.
func cuttable() []string { return []string{"StreamIn", "StreamOut", "FollowProcess", "ReadFile"} }

func faultClasses() []sdk.Class {
	return []sdk.Class{
		sdk.NotFound, sdk.AlreadyExists, sdk.Invalid, sdk.Unsupported, sdk.FailedPrecondition, sdk.Exhausted, sdk.Unavailable, sdk.Internal,
	}
}

// Check tells what is wrong with a fault. One that is wrong never happens.
func (f Fault) Check() error {
	switch {
	case !slices.Contains(FaultOperations(), f.Operation):
		return fmt.Errorf("operation %q is not known; %s", f.Operation, suggestion(f.Operation))
	case !slices.Contains(FaultKinds(), f.Kind):
		return fmt.Errorf("kind %q is not one of %q", f.Kind, FaultKinds())
	case f.After < 0:
		return fmt.Errorf("after is %d; it is how many calls go well first", f.After)
	case f.Kind == FaultDelay && f.Delay <= 0:
		return fmt.Errorf("a fault of kind %q needs a delay of more than 0", f.Kind)
	case f.Kind != FaultDelay && f.Delay != 0:
		return fmt.Errorf("delay means nothing to a fault of kind %q", f.Kind)
	case f.Kind == FaultCut && !slices.Contains(cuttable(), f.Operation):
		return fmt.Errorf("%s has no stream that could be cut; these have: %s", f.Operation, strings.Join(cuttable(), ", "))
	case f.Kind == FaultCut && f.Bytes < 0 || f.Kind != FaultCut && f.Bytes != 0:
		return fmt.Errorf("bytes is %d; it is how many of a stream pass before a fault of kind %q", f.Bytes, FaultCut)
	case f.Kind != FaultFail && (f.Class != "" || f.Reason != ""):
		return fmt.Errorf("class and reason are of the error of a fault of kind %q, not %q", FaultFail, f.Kind)
	case f.Class != "" && !slices.Contains(faultClasses(), f.Class):
		return fmt.Errorf("class %q is not one of %q", f.Class, faultClasses())
	case f.Effect && f.Kind != FaultHang && f.Kind != FaultCrash:
		return fmt.Errorf("effect means nothing to a fault of kind %q, only to %q and %q", f.Kind, FaultHang, FaultCrash)
	}
	return nil
}

// suggestion is the operation that was meant, or which there are.
func suggestion(given string) string {
	best, near := "", 4
	for _, name := range FaultOperations() {
		if d := levenshtein.Distance(strings.ToLower(given), strings.ToLower(name), nil); d < near {
			best, near = name, d
		}
	}
	if best == "" {
		return "there are " + strings.Join(FaultOperations(), ", ")
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// faultConfig is a fault block of a worker block.
type faultConfig struct {
	Operation string       `json:"operation" required:"true" doc:"The call that goes wrong, such as \"CreateVolume\"."`
	Kind      string       `json:"kind" required:"true" oneof:"fail,delay,cut,lose,hang,crash" doc:"How it goes wrong: an error, late, a stream that breaks off, an answer that is lost, no answer, the end of the plugin."`
	After     int          `json:"after" default:"0" doc:"How many calls go well first."`
	Count     int          `json:"count" default:"1" doc:"How many calls go wrong then; -1: all."`
	Class     string       `json:"class" oneof:"not-found,already-exists,invalid,unsupported,failed-precondition,exhausted,unavailable,internal" doc:"Of fail: the class of the error, unavailable where none is given."`
	Reason    string       `json:"reason" doc:"Of fail: the reason in the error, such as \"storage\"."`
	Delay     sdk.Duration `json:"delay" doc:"Of delay: how long the call waits before it begins."`
	Bytes     sdk.Bytes    `json:"bytes" doc:"Of cut: how much of the stream passes."`
	Effect    bool         `json:"effect" default:"false" doc:"Of hang and crash: the call takes effect first."`
}

func (c faultConfig) fault() Fault {
	return Fault{
		Operation: c.Operation, Kind: FaultKind(c.Kind), After: c.After, Count: c.Count,
		Class: sdk.Class(strings.ReplaceAll(c.Class, "-", " ")), Reason: sdk.Reason(c.Reason),
		Delay: time.Duration(c.Delay), Bytes: int64(c.Bytes), Effect: c.Effect,
	}
}
