package mutant

import (
	"fmt"
	"io"
	"strings"
)

// WriteCatalogue writes the page of all mutants, as MUTANTS.md has it.
func WriteCatalogue(w io.Writer) error {
	var b strings.Builder
	all := All()
	fmt.Fprintf(&b, `# Mutants

Plugins that are broken on purpose, each in exactly one way, and the cases that must tell each of them from a good plugin. "slipway conformance
selftest" runs them; "slipway conformance run slipway -- conformance mutant NAME -- PLUGIN" shows what the suite says of one. Made from
the table in this package by "go test ./conformance/mutant -run Catalogue -update".

%d mutants. Those marked * stand on the host's side of the wire: the SDK's own wire lets no plugin be broken so.

| mutant | what is wrong | rule | killed by |
|---|---|---|---|
`, len(all))
	for _, m := range all {
		mark := ""
		if m.Near {
			mark = " *"
		}
		fmt.Fprintf(&b, "| %s%s | %s | %d | %s |\n", m.ID, mark, m.Doc, m.Rule, strings.Join(m.Killers, ", "))
	}
	if len(NotYet()) > 0 {
		fmt.Fprintf(&b, "\nRequired cases without a mutant:\n\n")
	}
	for _, n := range NotYet() {
		fmt.Fprintf(&b, "- %s: %s\n", n.Case, n.Reason)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
