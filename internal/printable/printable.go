// Package printable makes texts of others fit to be shown to people: what a plugin, a server or a file says may hold what a terminal obeys, lines that look like
// somebody else's, or a hundred kilobytes. Here is the one place that decides what of it is shown; who prints text for people calls it, and who writes JSON or
// keeps records does not. It knows nothing of what the texts are about.
package printable

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What is shown of one text, in bytes.
const (
	maxMessage = 8 << 10
	maxLine    = 512
)

// indent begins the lines of a message after its first, so that none looks like one of another message.
const indent = "    "

// Text is a text as it can be shown.
type Text struct {
	Bytes []byte
	from  []int // where in the original each escaped character ends, in order
	added []int // how many bytes longer the text is from there on
}

// Escape spells out what a terminal would obey, and leaves all else as it is: control characters other than tabs and line ends, those that turn the direction of writing or end a
// line by another name, and bytes that are no UTF-8.
func Escape(src []byte) *Text {
	t := &Text{Bytes: make([]byte, 0, len(src))}
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		char := src[i : i+n]
		i += n
		var spelled string
		switch {
		case r == '\n', r == '\t', r == '\r' && bytes.HasPrefix(src[i:], []byte("\n")):
		case r == utf8.RuneError && n == 1, unicode.IsControl(r) && r < utf8.RuneSelf:
			spelled = fmt.Sprintf(`\x%02x`, char[0])
		case obeyed(r):
			spelled = fmt.Sprintf(`\u%04x`, r)
		}
		if spelled == "" {
			t.Bytes = append(t.Bytes, char...)
			continue
		}
		t.Bytes = append(t.Bytes, spelled...)
		t.from = append(t.from, i)
		t.added = append(t.added, len(t.Bytes)-i)
	}
	return t
}

// obeyed tells characters beyond ASCII that a terminal or a viewer obeys in place of showing them.
func obeyed(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// Offset gives the place in the text of a place in the original.
func (t *Text) Offset(i int) int {
	k, _ := slices.BinarySearch(t.from, i+1) // so many escaped characters end at i or before
	if k == 0 {
		return i
	}
	return i + t.added[k-1]
}

// Output is what is shown of what a program wrote: escaped, whatever it is. Where there is nothing to escape, which is nearly always so, it is what was given.
func Output(b []byte) []byte {
	if !slices.ContainsFunc(b, func(c byte) bool { return c < ' ' && c != '\n' && c != '\t' || c > '~' }) || clean(string(b)) {
		return b
	}
	return Escape(b).Bytes
}

// Lines is a text of as many lines as it has, escaped.
func Lines(s string) string {
	if clean(s) {
		return s
	}
	return string(Escape([]byte(s)).Bytes)
}

// maxLines bounds the lines of a message: a terminal shows no more of them at once.
const maxLines = 40

// Message is what is shown of an error or a reason: escaped, its lines after the first indented, and of a very long one the beginning, with word of how much is left out.
func Message(s string) string {
	s = Lines(fewLines(cut(s, maxMessage)))
	return strings.ReplaceAll(s, "\n", "\n"+indent)
}

func fewLines(s string) string {
	n := strings.Count(s, "\n")
	if n < maxLines {
		return s
	}
	at := 0
	for range maxLines - 1 {
		at += strings.Index(s[at:], "\n") + 1
	}
	return fmt.Sprintf("%s[%d more lines]", s[:at], n-maxLines+2)
}

// Line is what is shown of a name, or of whatever else has to be in one line: escaped, line ends and tabs, too, and of a very long one the beginning.
func Line(s string) string {
	s = cut(s, maxLine)
	if clean(s) && !strings.ContainsAny(s, "\n\t") {
		return s
	}
	return strings.NewReplacer("\r\n", `\r\n`, "\n", `\n`, "\t", `\t`).Replace(Lines(s))
}

// Cell is Line for what stands by itself, as a name in a table does: what had to be spelled out is quoted, so that it is not taken for a text that has just those characters.
func Cell(s string) string {
	line := Line(s)
	if line == cut(s, maxLine) && !(strings.HasPrefix(line, `"`) && strings.Contains(line, `\`)) {
		return line
	}
	return `"` + Line(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)) + `"`
}

// JSON escapes in JSON what a terminal would obey and the standard encoder leaves as it is. What it decodes to is the same.
func JSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, unescaped) {
		return text
	}
	var out []byte
	for _, r := range string(text) {
		if unescaped(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

func unescaped(r rune) bool { return r != '\n' && obeyed(r) }

// clean tells whether there is nothing to escape, which is nearly always so.
func clean(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && obeyed(r) })
}

// cut shortens a text to so many bytes, between characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return fmt.Sprintf("%s... (%d more bytes)", s[:n], len(s)-n)
}
