package config

import (
	"bytes"
	"fmt"
	"sort"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// escaped is a text whose control characters are spelled out, so that it is longer than it was.
type escaped struct {
	text  []byte
	from  []int // where in the original each escaped character ends, in order
	added []int // how many bytes longer the text is from there on
}

// escape spells out what a terminal would obey: control characters other than tabs and line ends, those that turn the direction of
// writing, and bytes that are no UTF-8.
func escape(src []byte) *escaped {
	e := &escaped{text: make([]byte, 0, len(src))}
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		char := src[i : i+n]
		i += n
		var spelled string
		switch {
		case r == '\n', r == '\t', r == '\r' && bytes.HasPrefix(src[i:], []byte("\n")):
		case r == utf8.RuneError && n == 1, unicode.IsControl(r) && r < utf8.RuneSelf:
			spelled = fmt.Sprintf(`\x%02x`, char[0])
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			spelled = fmt.Sprintf(`\u%04x`, r)
		}
		if spelled == "" {
			e.text = append(e.text, char...)
			continue
		}
		e.text = append(e.text, spelled...)
		e.from = append(e.from, i)
		e.added = append(e.added, len(e.text)-i)
	}
	return e
}

func escapeText(s string) string { return string(escape([]byte(s)).text) }

// offset gives the place in the text of a place in the original.
func (e *escaped) offset(i int) int {
	k := sort.SearchInts(e.from, i+1) // so many escaped characters end at i or before
	if k == 0 {
		return i
	}
	return i + e.added[k-1]
}

func escapeRange(visible map[string]*escaped, r *hcl.Range) *hcl.Range {
	if r == nil {
		return nil
	}
	moved := *r
	moved.Filename = escapeText(r.Filename)
	if e := visible[r.Filename]; e != nil {
		moved.Start.Byte, moved.End.Byte = e.offset(r.Start.Byte), e.offset(r.End.Byte)
	}
	return &moved
}
