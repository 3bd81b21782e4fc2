package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Choices tells people what they may have meant by a name that is none, on one line however much there is: all names where they are few, else those that are near it, else the
// first few. Known is ordered by what they would rather have, those says what they are, and lists is the command that has them all.
func Choices(name string, known []string, those, lists string) string {
	if len(known) <= fewNames {
		return fmt.Sprintf("%s %s", those, strings.Join(known, ", "))
	}
	if near := nearNames(name, known); len(near) > 0 {
		return fmt.Sprintf("did you mean %s? %s lists all %d", strings.Join(near, ", "), lists, len(known))
	}
	return fmt.Sprintf("%s %s; %s lists them", those, list(known), lists)
}

// nearNames are the few names that begin with name, or differ from it by a slip or two, the nearest first.
func nearNames(name string, known []string) []string {
	if name == "" {
		return nil
	}
	slips := min(2, len(name)/2)
	type candidate struct {
		name string
		off  int
	}
	var near []candidate
	for _, k := range known {
		if strings.HasPrefix(k, name) {
			near = append(near, candidate{k, 0})
		} else if max(len(k)-len(name), len(name)-len(k)) > slips {
			continue
		} else if off := levenshtein.Distance(name, k, nil); off <= slips {
			near = append(near, candidate{k, off})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.off, b.off) })
	var out []string
	for _, c := range near[:min(len(near), fewNames)] {
		out = append(out, c.name)
	}
	return out
}
