package host

import (
	"fmt"
	"strings"
	"testing"
)

// TestChoices: what there is in place of a name that is none is told on one line, however much there is.
func TestChoices(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("run-%03d", 300-i))
	}
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"nope", []string{"a", "b"}, "there are a, b"},
		{"nope", many, "there are run-300, run-299, run-298, run-297, run-296 and 295 more; slipway ps lists them"},
		{"", many, "there are run-300, run-299, run-298, run-297, run-296 and 295 more; slipway ps lists them"},
		{"run-12", many, "did you mean run-129, run-128, run-127, run-126, run-125? slipway ps lists all 300"},
		{"rum-x17", append(many[:290:290], "build-a"), "did you mean run-217, run-117, run-017? slipway ps lists all 291"},
		{"biuld", []string{"a", "b", "c", "d", "e", "build"}, "did you mean build? slipway ps lists all 6"},
	} {
		if got := Choices(c.name, c.known, "there are", "slipway ps"); got != c.want {
			t.Errorf("%q of %s: %s\nwant %s", c.name, strings.Join(c.known[:2], ", "), got, c.want)
		}
	}
}
