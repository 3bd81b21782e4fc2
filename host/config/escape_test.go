package config_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/host/config"
)

// No file speaks to the terminal.
func TestDiagnosticsEscape(t *testing.T) {
	name := "f\x1b[2J.hcl"
	src := []byte("# \x1b[31m\a\u009b\u202e\n\tworker \"x\x1b[31m\" {} # \x1b[0m\r\n")
	_, diags := config.Parse(src, name)
	if !diags.HasErrors() {
		t.Fatal("no error")
	}
	from := strings.Index(string(src), "\"x")
	at := hcl.Range{Filename: name, Start: hcl.Pos{Line: 2, Column: 9, Byte: from}, End: hcl.Pos{Line: 2, Column: 16, Byte: from + 8}}
	diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "sum\x1bmary", Detail: "first\nsecond \u0085", Subject: &at})
	var plain strings.Builder
	if err := config.WriteDiagnostics(&plain, diags, map[string][]byte{name: src}, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`sum\x1bmary`, "first\nsecond \\u0085", `on f\x1b[2J.hcl line 2`, "   2: \tworker \"x\\x1b[31m\" {} # \\x1b[0m\n"} {
		if !strings.Contains(plain.String(), want) {
			t.Errorf("%q is not in\n%s", want, plain.String())
		}
	}
	for _, r := range plain.String() {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r == '\u202e' {
			t.Errorf("%q has %q", plain.String(), r)
		}
	}
	var colored strings.Builder
	if err := config.WriteDiagnostics(&colored, diags, map[string][]byte{name: src}, true); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[1;4m\"x\\x1b[31m\"\x1b[0m {}"; !strings.Contains(colored.String(), want) {
		t.Errorf("the place is not marked as %q:\n%q", want, colored.String())
	}
}

// Whatever stands before and in a place, exactly the place is marked.
func TestDiagnosticsMarkThePlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.StringOf(rapid.SampledFrom([]rune("a\x1b\x7f\t\u0080é\u2066日")))
		before, inside, after := piece.Draw(t, "before"), "<"+piece.Draw(t, "inside")+">", piece.Draw(t, "after")
		at := hcl.Range{Filename: "f", Start: hcl.Pos{Line: 1, Byte: len(before)}, End: hcl.Pos{Line: 1, Byte: len(before + inside)}}
		var out strings.Builder
		err := config.WriteDiagnostics(&out, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "s", Subject: &at}},
			map[string][]byte{"f": []byte(before + inside + after)}, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(out.String(), "\x1b[1;4m<"); !ok || !strings.Contains(rest, ">\x1b[0m") {
			t.Fatalf("%q", out.String())
		}
	})
}

// What is no text is one error, without the bytes.
func TestNotText(t *testing.T) {
	for src, line := range map[string]int{"\x7fELF\x02\x01\x00\x00\xff\"{\n": 1, "# fine\n# caf\xe9\n": 2, "\xff\xfew\x00o\x00": 1} {
		for _, name := range []string{"f.hcl", "f.json"} {
			_, diags := config.Parse([]byte(src), name)
			if len(diags) != 1 || diags[0].Summary != "Not a text file" || diags[0].Subject.Start.Line != line {
				t.Errorf("%q: %v", src, diags)
			}
			var out strings.Builder
			if err := config.WriteDiagnostics(&out, diags, map[string][]byte{name: []byte(src)}, false); err != nil || strings.ContainsAny(out.String(), "\x7f\x00") || strings.Contains(out.String(), "\xff") {
				t.Errorf("%q, %v", out.String(), err)
			}
		}
	}
}
