package mutant

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// OK tells whether every mutant was killed, the bases as they are passed, and every required case that was run killed something.
func (m Matrix) OK() bool { return len(m.Problems) == 0 }

// WriteJSON writes the matrix as one JSON object.
func WriteJSON(w io.Writer, m Matrix) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(m)
}

// WriteText writes the matrix for people: which case killed which mutant, and what is wrong.
func WriteText(w io.Writer, m Matrix) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	killed, notRun, by := 0, 0, make(map[string]int)
	fmt.Fprintln(t, "MUTANT\tRULE\tKILLED BY")
	for _, v := range m.Mutants {
		var cases []string
		for _, k := range v.Kills {
			cases = append(cases, k.Case)
			by[k.Case]++
		}
		for _, id := range v.NotRun {
			cases = append(cases, "("+id+")")
		}
		switch {
		case v.Killed():
			killed++
		case len(v.Missed) == 0:
			notRun++
		default:
			cases = append(cases, "survives")
		}
		fmt.Fprintf(t, "%s\t%d\t%s\n", v.Mutant, v.Rule, strings.Join(cases, ", "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%d mutants: %d killed, %d survive, %d not run here (cases in brackets)\n", len(m.Mutants), killed, len(m.Mutants)-killed-notRun, notRun)
	fmt.Fprintf(&b, "%d cases pass without a mutant; %d of them have killed one; %d cannot be run here; took %.0f s\n",
		len(m.Homes), len(by), len(m.NotRun), m.Seconds)
	if len(m.NotRun) > 0 {
		fmt.Fprintf(&b, "not run here: %s\n", strings.Join(slices.Sorted(maps.Keys(m.NotRun)), ", "))
	}
	for _, n := range m.NotYet {
		fmt.Fprintf(&b, "no mutant yet: %s: %s\n", n.Case, n.Reason)
	}
	for _, p := range m.Problems {
		fmt.Fprintf(&b, "PROBLEM: %s\n", p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
