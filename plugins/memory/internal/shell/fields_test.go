package shell

import (
	"slices"
	"testing"
)

func TestReadFields(t *testing.T) {
	for _, c := range []struct {
		line, ifs string
		most      int
		raw       bool
		want      []string
	}{
		{"a b  c", " \t\n", -1, false, []string{"a", "b", "c"}},
		{"  a b c  ", " \t\n", 2, false, []string{"a", "b c"}},
		{"x,,z", ",", -1, true, []string{"x", "", "z"}},
		{"x,,z", ",", 2, true, []string{"x", ",z"}},
		{"x,y,", ",", 2, true, []string{"x", "y"}},
		{"x,y,z,", ",", 2, true, []string{"x", "y,z,"}},
		{",x", ",", -1, true, []string{"", "x"}},
		{"a : b", ": ", -1, true, []string{"a", "b"}},
		{"a : : b", ": ", -1, true, []string{"a", "", "b"}},
		{`a\ b c`, " ", -1, false, []string{"a b", "c"}},
		{`a\ b c`, " ", -1, true, []string{`a\`, "b", "c"}},
		{"  keep  ", "", 1, true, []string{"  keep  "}},
		{"", " ", 1, true, nil},
		{"one", ",", 1, true, []string{"one"}},
		{"one,two", ",", 1, true, []string{"one,two"}},
		{"one,", ",", 1, true, []string{"one"}},
	} {
		if got := readFields(c.line, c.ifs, c.most, c.raw); !slices.Equal(got, c.want) {
			t.Errorf("%q at %q, %d: %q, want %q", c.line, c.ifs, c.most, got, c.want)
		}
	}
}
