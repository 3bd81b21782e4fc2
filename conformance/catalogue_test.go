package conformance

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write CASES.md")

// TestCatalogueIsUpToDate holds the page to the table.
func TestCatalogueIsUpToDate(t *testing.T) {
	var b strings.Builder
	if err := WriteCatalogue(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("CASES.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("CASES.md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(page), b.String()); d != "" {
		t.Errorf("CASES.md is not what the table says: run this test with -update\n%s", d)
	}
}

// TestReadmeCounts holds what the project's first page says of the suite to the table.
func TestReadmeCounts(t *testing.T) {
	if want := fmt.Sprintf("# %d cases\n", len(Cases())); !strings.Contains(read(t, "../README.md"), want) {
		t.Errorf("README.md does not say %q", want)
	}
}

// TestNamedMustWork: a required case holds a plugin to each feature that it can name. That of root file systems by name is image.ref.
func TestNamedMustWork(t *testing.T) {
	for _, f := range knownFeatures() {
		if !slices.ContainsFunc(Cases(), func(c Case) bool { return c.Level == Must && slices.Contains(c.Needs, f) }) {
			t.Errorf("no case needs the feature %q: whoever names it is believed", f)
		}
	}
}

// TestReasonsNameCasesThatAreThere: what is said to be there instead is.
func TestReasonsNameCasesThatAreThere(t *testing.T) {
	heads := make(map[string]bool)
	for _, c := range Cases() {
		head, _, _ := strings.Cut(c.ID, "-")
		if heads[head] {
			t.Errorf("two cases begin with %s", head)
		}
		heads[head] = true
	}
	name := regexp.MustCompile(`\b[A-Z][0-9]{2}\b`)
	var ids []string
	check := func(id, text string) {
		ids = append(ids, id)
		if _, ok := Find(id); ok {
			t.Errorf("%s is both left out and there", id)
		}
		for _, head := range name.FindAllString(text, -1) {
			if !heads[head] {
				t.Errorf("%s: there is no case %s", id, head)
			}
		}
	}
	for _, d := range Dropped() {
		check(d.ID, d.Why)
	}
	for _, e := range Elsewhere() {
		check(e.ID, e.Where)
		if e.Title == "" || e.Where == "" {
			t.Errorf("%s lacks something", e.ID)
		}
	}
	slices.Sort(ids)
	if n := len(slices.Compact(slices.Clone(ids))); n != len(ids) {
		t.Errorf("something is left out twice: %q", ids)
	}
}

// TestOriginsAreThere: nothing of the catalogue is lost, and what is said to be there is.
func TestOriginsAreThere(t *testing.T) {
	there := make(map[string]bool)
	for _, c := range Cases() {
		there[c.ID] = true
	}
	for _, d := range Dropped() {
		there[d.ID] = true
	}
	for _, e := range Elsewhere() {
		there[e.ID] = true
	}
	seen := make(map[string]bool)
	for _, o := range Origins() {
		if seen[o.Title] || len(o.In) == 0 {
			t.Errorf("%q is there twice, or nowhere", o.Title)
		}
		seen[o.Title] = true
		for _, id := range o.In {
			if !there[id] {
				t.Errorf("%q: there is no %s", o.Title, id)
			}
		}
	}
	if len(seen) != 248 {
		t.Errorf("the catalogue has %d cases, want 248", len(seen))
	}
}
