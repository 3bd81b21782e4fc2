// Package reap decides what may be destroyed. It looks at values and touches nothing: [Mark] is a pure function of what is
// listed, what is known, when it was first missed, and the time. Doing is the host's.
package reap

import (
	"slices"
	"time"
)

// Thing is something that a worker lists under this installation's label.
type Thing struct {
	ID   string
	Kind string // "container" or "volume"
}

// Doomed is a thing that may go, and why.
type Doomed struct {
	Thing
	Reason string
}

// Unknown remembers when each thing without a row was first listed.
type Unknown map[Thing]time.Time

// Mark tells which listed things may be destroyed: those that have no row, and were listed without one at least grace
// before. Containers come before volumes, which they may hold. It gives the memory for the next time, which holds only what is
// still listed and unknown: a thing that was known or absent in between begins anew.
func Mark(listed []Thing, known map[Thing]bool, before Unknown, now time.Time, grace time.Duration) ([]Doomed, Unknown) {
	next := make(Unknown)
	var doomed []Doomed
	for _, t := range listed {
		if known[t] {
			continue
		}
		first, ok := before[t]
		if !ok {
			first = now
		}
		next[t] = first
		if ok && now.Sub(first) >= grace {
			doomed = append(doomed, Doomed{Thing: t, Reason: "this installation made it and has no record of it since " + first.UTC().Format(time.RFC3339)})
		}
	}
	slices.SortStableFunc(doomed, func(a, b Doomed) int {
		if a.Kind == b.Kind {
			return 0
		}
		if a.Kind == "container" {
			return -1
		}
		return 1
	})
	return doomed, next
}
