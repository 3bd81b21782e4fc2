package conformance

import (
	"fmt"
	"io"
	"slices"
)

// Cases gives all cases, those of a kind together, [NothingLeft] last. The slice is the caller's.
func Cases() []Case {
	return slices.Concat(
		identityCases(), listCases(),
		volumeCases(), archiveCases(), transferCases(),
		containerCases(), featureCases(),
		processCases(), streamCases(), stdinCases(), loadCases(),
		linuxCases(), terminalCases(), userCases(), limitCases(),
		isolationCases(), recoveryCases(),
		[]Case{NothingLeft()},
	)
}

// Find gives the case of that ID.
func Find(id string) (Case, bool) {
	cases := Cases()
	i := slices.IndexFunc(cases, func(c Case) bool { return c.ID == id })
	if i < 0 {
		return Case{}, false
	}
	return cases[i], true
}

// WriteExplanation writes what a case checks and why it matters.
func WriteExplanation(w io.Writer, c Case) error {
	_, err := fmt.Fprintf(w, "%s (%s, %s, rules %v of the contract)\n%s.\n\n%s\n", c.ID, c.Profile, c.Level, c.Rules, c.Title, c.Doc)
	if err != nil {
		return err
	}
	for _, f := range c.Needs {
		if _, err := fmt.Fprintf(w, "Needs the feature %q.\n", f); err != nil {
			return err
		}
	}
	for _, r := range c.Env {
		if _, err := fmt.Fprintf(w, "Needs of the target: %s.\n", r); err != nil {
			return err
		}
	}
	return nil
}
