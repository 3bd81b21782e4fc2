package main

import (
	"strings"
	"testing"
)

// TestWrap: at any width no line is longer, and all that is gone is the spaces where it was broken.
func TestWrap(t *testing.T) {
	const text = "it was a dark and stormy night; the rain fell in torrents,\nexcept at  occasional intervals"
	for width := 16; width < 70; width++ {
		got := wrap(text, width)
		for line := range strings.SplitSeq(got, "\n") {
			if len(line) > width {
				t.Errorf("%q does not fit into %d columns", line, width)
			}
		}
		if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(text), " ") {
			t.Errorf("at %d: %q", width, got)
		}
	}
	if got := wrap(text, 0); got != text {
		t.Errorf("without a width: %q", got)
	}
}
