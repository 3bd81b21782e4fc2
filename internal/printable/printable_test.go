package printable_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slipway-run/slipway/internal/printable"
)

func TestMessage(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"all is well: 80 % of größe 日本 🚢", "all is well: 80 % of größe 日本 🚢"},
		{"\x1b[2J\x1b[Hstep \x07", `\x1b[2J\x1b[Hstep \x07`},
		{"one\ntwo\r\nthree", "one\n    two\r\n    three"},
		{"over\rwritten", `over\x0dwritten`},
		{"c1 \u009b31m", `c1 \u009b31m`},
		{"bad \xff\xc3", `bad \xff\xc3`},
		{"user \u202egnp.exe\u2066", `user \u202egnp.exe\u2066`},
		{"one\u2028two\u2029", `one\u2028two\u2029`},
		{"\x00\x7f", `\x00\x7f`},
		{"", ""},
	} {
		if got := printable.Message(c.in); got != c.want {
			t.Errorf("Message(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// TestMessageOfManyLines: a screen is not scrolled away.
func TestMessageOfManyLines(t *testing.T) {
	for n, want := range map[int]int{39: 40, 40: 40, 1000: 40} {
		got := printable.Message(strings.Repeat("\n", n))
		if lines := strings.Count(got, "\n") + 1; lines != want {
			t.Errorf("%d line ends give %d lines, want %d", n, lines, want)
		}
	}
	if got := printable.Message(strings.Repeat("a\n", 60) + "end"); !strings.HasSuffix(got, "a\n    [22 more lines]") {
		t.Errorf("it ends with %q", got[len(got)-40:])
	}
}

func TestLine(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"worker-1/node", "worker-1/node"},
		{"a\nstep x succeeded", `a\nstep x succeeded`},
		{"a\tb\r\nc", `a\tb\r\nc`},
		{"\x1b]0;title\x07", `\x1b]0;title\x07`},
	} {
		if got := printable.Line(c.in); got != c.want {
			t.Errorf("Line(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// TestCell: what has to be spelled out is told from what has those characters.
func TestCell(t *testing.T) {
	shown := make(map[string]string)
	for _, c := range []struct{ in, want string }{
		{"worker-1/node", "worker-1/node"},
		{`C:\new`, `C:\new`},
		{`say "a"`, `say "a"`},
		{`"a"`, `"a"`},
		{"a\nb", `"a\nb"`},
		{`a\nb`, `a\nb`},
		{`"a\nb"`, `"\"a\\nb\""`},
		{"a\n\\b", `"a\n\\b"`},
		{"a\x1b\"", `"a\x1b\""`},
	} {
		got := printable.Cell(c.in)
		if got != c.want {
			t.Errorf("Cell(%q) = %s, want %s", c.in, got, c.want)
		}
		if other, is := shown[got]; is {
			t.Errorf("%q and %q are both shown as %s", other, c.in, got)
		}
		shown[got] = c.in
	}
}

func TestBounds(t *testing.T) {
	for _, size := range []int{511, 512, 513, 8191, 8192, 8193, 100_000} {
		for _, char := range []string{"x", "é", "日", "🚢", "\x1b", "\xff"} {
			in := strings.Repeat(char, size/len(char)+1)
			for name, show := range map[string]func(string) string{"message": printable.Message, "line": printable.Line} {
				most := map[string]int{"message": 8 << 10, "line": 512}[name]
				got := show(in)
				if !utf8.ValidString(got) || len(got) > 4*most+40 {
					t.Errorf("%s of %d times %q: %d bytes, valid %t", name, size, char, len(got), utf8.ValidString(got))
				}
				if (len(in) > most) != strings.HasSuffix(got, " more bytes)") {
					t.Errorf("%s of %d bytes of %q does not tell what is left out: ...%q", name, len(in), char, got[max(0, len(got)-40):])
				}
			}
		}
	}
}

// FuzzPrintable: whatever comes in, nothing that a terminal obeys comes out, and JSON stays what it was.
func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "a\x1b[2Jb", "\u202e\u2028\u009b", "\xff\r\n\t", "日本"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		obeyed := func(r rune) bool {
			return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		}
		m := printable.Message(s)
		if strings.ContainsFunc(m, obeyed) || strings.Contains(strings.ReplaceAll(m, "\r\n", ""), "\r") || !utf8.ValidString(m) {
			t.Errorf("Message(%q) = %q", s, m)
		}
		for _, line := range strings.Split(m, "\n")[1:] {
			if !strings.HasPrefix(line, "    ") {
				t.Errorf("Message(%q) has the line %q", s, line)
			}
		}
		if l := printable.Line(s); strings.ContainsAny(l, "\n\r\t") || strings.ContainsFunc(l, obeyed) || !utf8.ValidString(l) {
			t.Errorf("Line(%q) = %q", s, l)
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		shown := printable.JSON(text)
		if json.Unmarshal(text, &before) != nil || json.Unmarshal(shown, &after) != nil || before != after || strings.ContainsFunc(string(shown), obeyed) {
			t.Errorf("JSON(%s) = %s", text, shown)
		}
	})
}
