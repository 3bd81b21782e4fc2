package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Case is one thing that a runtime must do. Its ID never changes its meaning.
type Case struct {
	ID    string // such as "P01-run-true"
	Title string // what must be true, in one sentence
	Doc   string // why it matters, and what usually breaks it
	// Promises are the IDs of those that it holds a runtime to; the first one is that of a failure which names no other. A case without any holds a
	// program to plugin.proto.
	Promises []string
	Level    Level
	// Profile groups cases into what a runtime can be conformant in.
	Profile Profile

	Needs []sdk.Feature // the case is unsupported where the worker's status lacks one
	Env   []Requirement // the case is env-missing where the target lacks one

	Exclusive bool          // nothing else runs meanwhile
	Repeat    int           // how often it runs in one go, each time with new ids, until one fails; zero: once
	Timeout   time.Duration // for one run of it; zero: DefaultTimeout

	// Run does it. It may end its goroutine by C's methods. ctx ends with the case's time.
	Run func(ctx context.Context, c *C)
}

// DefaultTimeout bounds a case that names no time of its own.
const DefaultTimeout = 30 * time.Second

// Level is how binding a case is.
type Level string

// The levels.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD" // a failure is a warning and changes no verdict
)

// Profile is a group of cases with a verdict of its own.
type Profile string

// The profiles.
const (
	Core      Profile = "core"      // what every host relies on
	Wire      Profile = "wire"      // how the program begins, ends and speaks, which a client of the SDK does not show
	Streaming Profile = "streaming" // archives in and out of volumes
	Isolation Profile = "isolation" // nothing reaches beyond what it was given
	Recovery  Profile = "recovery"  // what was begun before a crash
	Linux     Profile = "linux"     // what programs of a Linux system rely on: terminals, users, groups and trees of processes
	P2P       Profile = "p2p"       // streams from worker to worker
	Stress    Profile = "stress"    // large and many, for minutes: only where it is asked for
)

// Profiles lists the profiles in the order of reports.
func Profiles() []Profile {
	return []Profile{Core, Wire, Streaming, Isolation, Recovery, Linux, P2P, Stress}
}

// Usual lists the profiles that a run has where none is named: all but [Stress].
func Usual() []Profile {
	return slices.DeleteFunc(Profiles(), func(p Profile) bool { return p == Stress })
}

// Requirement is what a case needs of the target beside the contract.
type Requirement string

// The requirements.
const (
	EnvCrash   Requirement = "crash"   // the target can kill and restart its plugin
	EnvLocal   Requirement = "local"   // the plugin runs on this machine: harm done to its files would be seen
	EnvBare    Requirement = "bare"    // the commands run in containers whose root holds nothing
	EnvProgram Requirement = "program" // the target is a plugin's program, of which a case can start a process for itself
	EnvProbe   Requirement = "probe"   // the commands are the suite's own program, [Probe]
	// EnvProbeLinux is EnvProbe with the program that is built for Linux: real processes, which need nothing in the container.
	EnvProbeLinux Requirement = "probe-linux"
	EnvImageRef   Requirement = "image-ref" // the target names an image that the worker's runtime has ([Given])
	EnvImport     Requirement = "import"    // the target names a path that the worker's operator allowed to be imported ([Given])
)

// requires tells whether a case cannot be run where r is lacking. Without any probe there is none for Linux either.
func (k Case) requires(r Requirement) bool {
	return slices.Contains(k.Env, r) || r == EnvProbe && slices.Contains(k.Env, EnvProbeLinux)
}

// Status is what came of a case.
type Status string

// The statuses.
const (
	Pass            Status = "pass"
	Fail            Status = "fail"             // also an unexpected pass
	Error           Status = "error"            // of the suite itself: says nothing about the target
	Unsupported     Status = "unsupported"      // the worker does not name a feature that it needs
	NotObservable   Status = "not-observable"   // nobody can see from here whether it holds
	EnvMissing      Status = "env-missing"      // the target lacks what it needs
	Skipped         Status = "skipped"          // the user's wish
	ExpectedFailure Status = "expected-failure" // it failed, as [Expectation] says
)

// Statuses lists the statuses in the order of reports.
func Statuses() []Status {
	return []Status{Pass, Fail, Error, ExpectedFailure, Unsupported, NotObservable, EnvMissing, Skipped}
}

// Failure is one thing that was not as the contract says.
type Failure struct {
	What    string `json:"what"`              // seen, and expected
	Why     string `json:"why"`               // what follows for a host
	Promise string `json:"promise,omitempty"` // the one that is broken, by its ID; empty: none
}

// Result is what came of a case.
type Result struct {
	ID       string    `json:"id"`
	Title    string    `json:"title"`
	Profile  Profile   `json:"profile"`
	Level    Level     `json:"level"`
	Promises []string  `json:"promises"`
	Status   Status    `json:"status"`
	Note     string    `json:"note,omitempty"` // why it has another status than pass
	Failures []Failure `json:"failures,omitempty"`
	Log      []string  `json:"log,omitempty"`
	Runs     int       `json:"runs"` // how often it was run
	Started  time.Time `json:"started,omitzero"`
	Seconds  float64   `json:"seconds"`
}

// Name is the profile and the id, as subtests are named.
func (r Result) Name() string { return string(r.Profile) + "/" + r.ID }

// Warning tells whether the failure is none that counts.
func (r Result) Warning() bool { return r.Status == Fail && r.Level == Should }

// Expectation says that a case is known to fail. A case that then passes fails, so that no expectation outlives its reason.
type Expectation struct {
	ID     string    // of the case
	Reason string    // required: why, and where that is followed up
	Until  time.Time // required: from then on the case counts again
}

// Verdict is the answer for a profile.
type Verdict string

// The verdicts.
const (
	Conformant Verdict = "conformant" // every required case passed, or needs a feature that the worker does not name
	Partial    Verdict = "partial"    // none failed, but some were not shown to hold
	Not        Verdict = "not"        // at least one required case failed
)
