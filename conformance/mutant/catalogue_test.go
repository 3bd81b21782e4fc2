package mutant

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

// TestCatalogue holds the page against the table.
func TestCatalogue(t *testing.T) {
	var want bytes.Buffer
	if err := WriteCatalogue(&want); err != nil {
		t.Fatal(err)
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile("MUTANTS.md", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("MUTANTS.md")
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("MUTANTS.md is not what the table says (%v): run \"go test ./conformance/mutant -run Catalogue -update\"", err)
	}
}
