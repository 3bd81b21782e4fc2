//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestAway lists plugins and workers of which some do not run: the list is whole, the exit code tells, and nobody is told when a host
// that ends now would try again.
func TestAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{
		"good.hcl": onMemory(""),
		"half.hcl": onMemory("") + "plugin \"g\" { command = \"./none\" }\nworker \"w\" { plugin = \"g\" }\n",
	})
	for _, list := range []string{"plugins", "workers"} {
		p.run("-c", "good.hcl", list).wants(0)
		for _, format := range []string{"text", "json"} {
			r := p.run("-c", "half.hcl", list, "-o", format).wants(codeInternal).once()
			for _, want := range []string{"memory", "none (not there)"} {
				if !strings.Contains(r.out, want) {
					t.Errorf("%s -o %s does not tell %q:\n%s", list, format, want, r.out)
				}
			}
			if strings.Contains(r.out+r.err, "again in") || strings.Contains(r.out, "retry") {
				t.Errorf("%s -o %s tells of another try:\n%s%s", list, format, r.out, r.err)
			}
		}
		if help := p.run(list, "--help").wants(0).out; !strings.Contains(help, "exits with 4") {
			t.Errorf("%s --help does not tell the exit code:\n%s", list, help)
		}
	}
	for _, args := range [][]string{{"conformance", "run", filepath.Join(p.work, "none")}, {"-c", "half.hcl", "exec", "--", "true"}, {"-c", "half.hcl", "validate"}} {
		if r := p.run(args...).says("none (not there)"); strings.Contains(r.err, "again in") {
			t.Errorf("slipway %q tells of another try: %s", args, r.err)
		}
	}
}
