package mutant

import (
	"fmt"
	"slices"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/sdk"
)

// Missing is a required case that no mutant shows to be able to fail.
type Missing struct {
	Case   string
	Reason string
}

// NotYet lists the required cases without a mutant, and why. A case that gets one has to leave this list: [Check] sees to that.
func NotYet() []Missing { return nil }

// Check tells what is wrong with the mutants as data: which required case has none, which names are not those of a case, and what in
// [NotYet] has been overtaken.
func Check() []string {
	var problems []string
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	killed := make(map[string]bool)
	seen := make(map[string]bool)
	for _, m := range All() {
		if seen[m.ID] || m.ID == None || m.ID == ByName || sdk.CheckID(sdk.KindWorker, m.ID) != nil {
			bad("mutant %q: its id is taken, or none", m.ID)
		}
		seen[m.ID] = true
		ways := 0
		for _, way := range []bool{m.breaks != nil, m.runtime != nil, m.wire != nil} {
			if way {
				ways++
			}
		}
		if m.Doc == "" || len(m.Killers) == 0 || ways != 1 || m.runtime != nil && !m.Near {
			bad("mutant %q: it needs a doc, killers, and one way to be broken", m.ID)
		}
		for i, id := range m.Killers {
			c, ok := conformance.Find(id)
			switch {
			case !ok:
				bad("mutant %q: there is no case %s", m.ID, id)
			case i == 0 && !slices.ContainsFunc(c.Promises, func(p string) bool { return conformance.RuleOf(p) == m.Rule }) && (m.Rule != 0 || len(c.Promises) > 0):
				bad("mutant %q breaks rule %d, but its first case, %s, is about promises %v", m.ID, m.Rule, id, c.Promises)
			}
			killed[id] = true
		}
	}
	excused := make(map[string]bool)
	for _, n := range NotYet() {
		c, ok := conformance.Find(n.Case)
		switch {
		case !ok || c.Level != conformance.Must || n.Reason == "" || excused[n.Case]:
			bad("the list of what has no mutant yet: %s is not one required case, with a reason", n.Case)
		case killed[n.Case]:
			bad("the list of what has no mutant yet: %s has one by now; take it off", n.Case)
		}
		excused[n.Case] = true
	}
	for _, c := range conformance.Cases() {
		if c.Level == conformance.Must && !killed[c.ID] && !excused[c.ID] {
			bad("case %s is required, and no mutant shows that it can fail", c.ID)
		}
	}
	return problems
}
