// Package mutant holds plugins that are broken on purpose, each in exactly one way, and finds out with them what the cases of package
// conformance are worth: a suite that passes a broken plugin says nothing about a good one.
//
// A [Mutant] stands in front of a good worker of any runtime and knows nothing of it but the contract. [Serve] makes a program of
// that, which starts the good plugin's program behind itself; [Run] lets the cases loose on all mutants, and on the plugin as it is.
package mutant

import (
	"slices"

	"github.com/slipway-run/slipway/sdk"
)

// Mutant is one way to be broken.
type Mutant struct {
	ID      string   // also fit to be a worker's name
	Doc     string   // what is wrong, in one sentence
	Rule    int      // of the contract, that is broken; zero: none of the rules, but what plugin.proto asks of a program
	Killers []string // IDs of the cases that must fail on it

	// Near mutants stand on the host's side of the wire, for what this SDK's own wire does not let a plugin do.
	Near bool
	// Hangs says that the mutant makes cases take all their time, of which they get little then. Of others that is no sign: the machine may
	// be slow.
	Hangs bool

	// Alone mutants have a process that they share with no other: what is seen of them is how much memory that takes.
	Alone bool

	breaks  func(sdk.Worker) sdk.Worker
	wire    *fault                        // instead of breaks: the program is broken, not its worker
	runtime func(sdk.Runtime) sdk.Runtime // instead of breaks, only for Near
}

// None is the name that stands for no mutant.
const None = "none"

// All gives every mutant. The slice is the caller's.
func All() []Mutant { return slices.Concat(groups()...) }

// groups are the mutants by what they are broken in.
func groups() [][]Mutant {
	return [][]Mutant{
		identityMutants(), retryMutants(), listMutants(), volumeMutants(), archiveMutants(), dialectMutants(), transferMutants(),
		containerMutants(), mountMutants(), featureMutants(), namedMutants(), processMutants(), exitMutants(), outputMutants(), followMutants(), stdinMutants(),
		wireMutants(), isolationMutants(), recoveryMutants(), restartMutants(), linuxMutants(), endMutants(), peerMutants(), stressMutants(),
	}
}

// Find gives the mutant of that ID.
func Find(id string) (Mutant, bool) {
	all := All()
	i := slices.IndexFunc(all, func(m Mutant) bool { return m.ID == id })
	if i < 0 {
		return Mutant{}, false
	}
	return all[i], true
}
