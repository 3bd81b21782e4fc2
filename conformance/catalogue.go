package conformance

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Cases gives all cases, those of a kind together, [NothingLeft] last. The slice is the caller's.
func Cases() []Case {
	return slices.Concat(
		identityCases(), retryCases(), listCases(), statusCases(),
		wireCases(),
		volumeCases(), archiveCases(), dialectCases(), transferCases(),
		containerCases(), stateCases(), mountCases(), featureCases(), namedCases(), givenCases(),
		processCases(), streamCases(), stdinCases(), followCases(), loadCases(),
		linuxCases(), terminalCases(), userCases(), limitCases(), processorCases(),
		probeCases(),
		isolationCases(), recoveryCases(), restartCases(), awayCases(), secretCases(), peerCases(), stressCases(),
		[]Case{NothingLeft()},
	)
}

// Find gives the case that a name means: its ID, the number that the ID begins with, or either behind its profile, as results print it.
func Find(name string) (Case, bool) { return findIn(Cases(), name) }

func findIn(cases []Case, name string) (Case, bool) {
	i := slices.IndexFunc(cases, func(c Case) bool { return c.means(name) })
	if i < 0 {
		return Case{}, false
	}
	return cases[i], true
}

// means tells whether a name that a person wrote is this case's: "V04-destroy", "V04", "core/V04-destroy", "core/V04".
func (c Case) means(name string) bool {
	name = strings.TrimPrefix(name, string(c.Profile)+"/")
	return name == c.ID || name == number(c.ID)
}

// WriteExplanation writes what a case checks, the promises that it holds a runtime to, and why it matters.
func WriteExplanation(w io.Writer, c Case) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s, %s)\n%s.\n\n%s\n\n", c.ID, c.Profile, c.Level, c.Title, c.Doc)
	explainPromises(&b, c.Promises)
	for _, f := range c.Needs {
		fmt.Fprintf(&b, "Needs the feature %q.\n", f)
	}
	for _, r := range c.Env {
		fmt.Fprintf(&b, "Needs of the target: %s.\n", r)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteCatalogue writes all cases as a page of Markdown, with what is left out and why.
func WriteCatalogue(w io.Writer) error {
	var b strings.Builder
	cases := Cases()
	fmt.Fprintf(&b, `# Conformance cases

Generated from the table of cases: `+"`go test ./conformance -run TestCatalogueIsUpToDate -update`"+`. The promises are those of [the rules](../sdk/RULES.md); a case
without one holds a program to [plugin.proto](../sdk/proto/slipway/runtime/v1alpha1/plugin.proto).
A case's ID never changes its meaning. %d cases. Each passes on a plugin of this repository in every run of its tests (`+"`TestSelf`"+` of package mutant sees to that): on
the memory runtime, or on real containers.
`, len(cases))
	for _, p := range Profiles() {
		own := slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return c.Profile != p })
		fmt.Fprintf(&b, "\n## %s: %d cases\n\n| case | promises | level | what must be true | why, and what it catches | needs |\n|---|---|---|---|---|---|\n", p, len(own))
		for _, c := range own {
			var needs []string
			for _, f := range c.Needs {
				needs = append(needs, "`"+string(f)+"`")
			}
			for _, r := range c.Env {
				needs = append(needs, "target: "+string(r))
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", c.ID, strings.Join(c.Promises, ", "), c.Level, cell(c.Title), cell(c.Doc), strings.Join(needs, ", "))
		}
	}
	b.WriteString("\n## Left out, or different, by a promise\n\n| case | promises | what others ask for | why not here |\n|---|---|---|---|\n")
	for _, d := range Dropped() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", d.ID, strings.Join(d.Promises, ", "), cell(d.Title), cell(d.Why))
	}
	b.WriteString("\n## Checked elsewhere, or not yet\n\n| case | what it is about | where |\n|---|---|---|\n")
	for _, e := range Elsewhere() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", e.ID, cell(e.Title), cell(e.Where))
	}
	b.WriteString("\n## What became of the catalogue\n\nWhat the suites of other contracts check, by the numbers of the catalogue that this suite was made from.\n\n| there | here |\n|---|---|\n")
	for _, o := range Origins() {
		fmt.Fprintf(&b, "| %s | %s |\n", cell(o.Title), strings.Join(o.In, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cell makes a text fit a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
