package conformance

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRulesAreUpToDate holds the page to the tables of promises and answers.
func TestRulesAreUpToDate(t *testing.T) {
	const file = "../sdk/RULES.md"
	var b strings.Builder
	if err := WriteRules(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(read(t, file), b.String()); d != "" {
		t.Errorf("%s is not what the tables say: run this test with -update\n%s", file, d)
	}
}

// TestPromises: each has a place in the order of its rule and says something, and each that is cited is there.
func TestPromises(t *testing.T) {
	for n, r := range Rules() {
		if r.Number != n+1 || r.Title == "" || r.Short == "" {
			t.Errorf("rule %d is at place %d, or lacks something", r.Number, n+1)
		}
		for i, p := range r.Promises {
			letters := strings.Repeat("a", i/26) + string(rune('a'+i%26))
			if p.ID != strconv.Itoa(r.Number)+letters || RuleOf(p.ID) != r.Number {
				t.Errorf("promise %s is at place %d of rule %d", p.ID, i+1, r.Number)
			}
			if !strings.HasSuffix(p.Text, ".") || p.By != ByPlugin && p.By != ByHost {
				t.Errorf("promise %s is not a sentence of the plugin's or the host's: %q", p.ID, p.Text)
			}
		}
	}
	cited := func(by string, ids []string, host bool) {
		for _, id := range ids {
			if p, ok := FindPromise(id); !ok || p.By == ByHost && !host {
				t.Errorf("%s cites %q, which is none that it could check", by, id)
			}
		}
	}
	for _, c := range Cases() {
		cited(c.ID, c.Promises, false)
	}
	cited("every case", inEveryCase(), false)
	for _, d := range Dropped() {
		cited(d.ID, d.Promises, true)
	}
	link := regexp.MustCompile(`\(?\b([0-9]+[a-z]{1,2})\b`)
	for _, m := range link.FindAllStringSubmatch(read(t, "../sdk/RULES.md"), -1) {
		cited("the page", m[1:], true)
	}
}

// TestPromisesAreHeld: what a plugin promises some case looks at.
func TestPromisesAreHeld(t *testing.T) {
	held := heldBy()
	for _, r := range Rules() {
		for _, p := range r.Promises {
			if held[p.ID] == "no case" {
				t.Errorf("no case holds a plugin to promise %s: %s", p.ID, p.Text)
			}
		}
	}
}

// TestDocHasTheRules: package sdk's documentation has each rule in the words of the table.
func TestDocHasTheRules(t *testing.T) {
	doc := strings.Join(strings.Fields(strings.NewReplacer("//", "", "[", "", "]", "").Replace(read(t, "../sdk/doc.go"))), " ")
	for _, r := range Rules() {
		if want := r.Title + ". " + r.Short; !strings.Contains(doc, want) {
			t.Errorf("sdk/doc.go does not say of rule %d: %s", r.Number, want)
		}
	}
}

// TestProtoHasTheAnswers: worker.proto has the table of containers, word for word.
func TestProtoHasTheAnswers(t *testing.T) {
	if want := protoTable(); !strings.Contains(read(t, "../sdk/proto/slipway/runtime/v1alpha1/worker.proto"), want) {
		t.Errorf("worker.proto lacks this table:\n%s", want)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
