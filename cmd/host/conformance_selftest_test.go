package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConformanceSelftest: mutants are slipway's own processes in front of the plugin's, one of them killed and restarted by its case, and
// none of them is left. What the suite is worth on all mutants is for package mutant's test.
func TestConformanceSelftest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	few := []string{"conformance", "selftest", "--short", "--only", "code-cut,old-exits-lost,cancel-ignored"}
	text := p.run(few...).wants(0).out
	for _, want := range []string{"X01-codes", "R09-kill-exit", "K01-cancelled-before", "3 mutants: 3 killed"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var matrix struct {
		Mutants []struct {
			Mutant string
			Kills  []struct{ Case, Base, What string }
		}
		Problems []string
	}
	one := p.run("conformance", "selftest", "--short", "--only", "code-cut", "-o", "json").wants(0).out
	if err := json.Unmarshal([]byte(one), &matrix); err != nil || len(matrix.Mutants) != 1 || len(matrix.Mutants[0].Kills) != 1 || matrix.Mutants[0].Kills[0].What == "" {
		t.Errorf("JSON: %v, %+v", err, matrix)
	}
}

// TestConformanceSelftestFails: a good plugin that is none fails the test of the suite; so does a mutant that lives.
func TestConformanceSelftestFails(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"probe": "none"})
	memory := filepath.Join(p.bin, "slipway-memory")
	slipway := filepath.Join(p.bin, "slipway")
	p.run("conformance", "selftest", "--only", "no-such").wants(3).says("no mutant has such a name")
	p.run("conformance", "selftest", "--only", "code-cut", "./no-such-plugin").wants(4).says("no-such-plugin")
	p.run("conformance", "selftest", "--only", "path-ignored", "--probe", "probe").wants(3).says("neither for Linux nor for WASI")
	bad := filepath.Join(p.work, "bad-plugin")
	script := fmt.Sprintf("#!/bin/sh\nexec %s conformance mutant code-cut -- %s\n", slipway, memory)
	p.must(os.WriteFile(bad, []byte(script), 0o755))
	res := p.run("conformance", "selftest", "--only", "code-cut", bad).wants(1)
	if !strings.Contains(res.out, "PROBLEM: X01-codes fails on memory as it is") {
		t.Errorf("a good plugin that is none:\n%s", res.out)
	}
	p.run("conformance", "mutant", "no-such", "--", memory).wants(3).says("no-such")
	// A mutant is a plugin like any other: by hand, and for the suite.
	for mutant, code := range map[string]int{"code-cut": codeNotConformant, "none": codePartial} {
		p.run("conformance", "run", slipway, "--bare", "--only", "X01-codes", "--time-scale", unhurried, "--", "conformance", "mutant", mutant, "--", memory).wants(code)
	}
}
