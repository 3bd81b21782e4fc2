package pool

import (
	"fmt"
	"slices"
	"strings"
)

// Strategy is one way to prefer a worker to another.
type Strategy string

const (
	// Random prefers nothing, which leaves the matter to chance.
	Random Strategy = "random"
	// VolumeLocality prefers the worker with the most bytes of the wanted contents.
	VolumeLocality Strategy = "volume-locality"
	// FewestBuildContainers prefers the worker with the fewest leases that are not checks.
	FewestBuildContainers Strategy = "fewest-build-containers"
	// LimitActiveTasks makes Options.Limits.Tasks hold in its chain, and
	// prefers, for a spec that is no check, the worker with the fewest of them.
	LimitActiveTasks Strategy = "limit-active-tasks"
	// LimitActiveContainers makes Options.Limits.Containers hold in its chain.
	LimitActiveContainers Strategy = "limit-active-containers"
	// LimitActiveVolumes makes Options.Limits.Volumes hold in its chain.
	LimitActiveVolumes Strategy = "limit-active-volumes"
)

// Strategies returns all there are, in the order the documentation gives them.
func Strategies() []Strategy {
	return []Strategy{Random, VolumeLocality, FewestBuildContainers, LimitActiveTasks, LimitActiveContainers, LimitActiveVolumes}
}

const maxChain = 6 // each strategy at most once

// score is what s thinks of e: the higher, the better.
func (s Strategy) score(q *query, e *entry, local int64) int64 {
	switch s {
	case VolumeLocality:
		return local
	case FewestBuildContainers:
		return -int64(e.usage.tasks())
	case LimitActiveTasks:
		if q.spec.Kind != Check {
			return -int64(e.usage.tasks())
		}
	}
	return 0
}

// Policy is a chain of strategies for each kind of spec. In a chain the first is
// primary, each later one breaks the ties that are left, and chance the rest.
type Policy struct {
	Build   []Strategy // nil: volume-locality, fewest-build-containers
	NoInput []Strategy // nil: as Build
	Check   []Strategy // nil: random
}

// ParsePolicy makes a policy of names; a nil chain takes its default. The error
// is a *StrategyError.
func ParsePolicy(build, noInput, check []string) (Policy, error) {
	var p Policy
	for _, c := range []struct {
		name  string
		names []string
		chain *[]Strategy
	}{{"build", build, &p.Build}, {"no-input", noInput, &p.NoInput}, {"check", check, &p.Check}} {
		if c.names == nil {
			continue
		}
		chain, err := parseChain(c.name, c.names)
		if err != nil {
			return Policy{}, err
		}
		*c.chain = chain
	}
	return p.withDefaults(), nil
}

func parseChain(name string, names []string) ([]Strategy, error) {
	chain := make([]Strategy, 0, len(names))
	for i, n := range names {
		s := Strategy(n)
		if !slices.Contains(Strategies(), s) {
			return nil, &StrategyError{Chain: name, Index: i, Name: n, Suggestion: suggest(n)}
		}
		if slices.Contains(chain, s) {
			return nil, &StrategyError{Chain: name, Index: i, Name: n, Repeated: true}
		}
		chain = append(chain, s)
	}
	return chain, nil
}

func (p Policy) withDefaults() Policy {
	if p.Build == nil {
		p.Build = []Strategy{VolumeLocality, FewestBuildContainers}
	}
	if p.NoInput == nil {
		p.NoInput = p.Build
	}
	if p.Check == nil {
		p.Check = []Strategy{Random}
	}
	return p
}

// validate says whether every chain is one that parseChain could have made.
func (p Policy) validate() error {
	_, err := ParsePolicy(names(p.Build), names(p.NoInput), names(p.Check))
	return err
}

func (p Policy) chain(k Kind) []Strategy {
	switch k {
	case Check:
		return p.Check
	case NoInput:
		return p.NoInput
	}
	return p.Build
}

func names(chain []Strategy) []string {
	out := make([]string, len(chain))
	for i, s := range chain {
		out[i] = string(s)
	}
	return out
}

// StrategyError says what is wrong with a name in a chain.
type StrategyError struct {
	Chain      string   // "build", "no-input" or "check"
	Index      int      // in the chain, from 0
	Name       string   // as it was given
	Repeated   bool     // the name is known, but stands in the chain already
	Suggestion Strategy // what may have been meant; empty if nothing is near
}

func (e *StrategyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "placement %s: ", e.Chain)
	if e.Repeated {
		fmt.Fprintf(&b, "strategy %q stands in the chain twice: remove the later one, which decides nothing", e.Name)
		return b.String()
	}
	fmt.Fprintf(&b, "unknown strategy %q", e.Name)
	if e.Suggestion != "" {
		fmt.Fprintf(&b, ", did you mean %q?", e.Suggestion)
	}
	fmt.Fprintf(&b, " (known are %s)", strings.Join(names(Strategies()), ", "))
	return b.String()
}

// suggest returns the strategy nearest to name, empty if none is near.
func suggest(name string) Strategy {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	var best Strategy
	least := max(len(name)/3, 1) + 1
	for _, s := range Strategies() {
		if d := distance(name, string(s)); d < least {
			best, least = s, d
		}
	}
	return best
}

// distance is the number of single byte edits between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
