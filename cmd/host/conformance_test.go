package main

import (
	"encoding/json"
	"encoding/xml"
	"path/filepath"
	"strings"
	"testing"
)

// TestConformance: the suite runs on the real plugin from the command line, and its reports are what they claim to be.
func TestConformance(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	few := []string{"conformance", "run", filepath.Join(p.bin, "slipway-memory"), "--only", "P01-*,P02-*"}
	text := p.run(few...).wants(0).out
	for _, want := range []string{"core/P01-run-true", "partial"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var sum struct {
		Results []struct{ ID, Status string }
	}
	if err := json.Unmarshal([]byte(p.run(append(few, "-o", "json")...).wants(0).out), &sum); err != nil || len(sum.Results) == 0 {
		t.Errorf("JSON: %d results, %v", len(sum.Results), err)
	}
	var junit struct{ XMLName xml.Name }
	report := p.run(append(few, "-o", "junit")...).wants(0).out
	if err := xml.Unmarshal([]byte(report), &junit); err != nil || junit.XMLName.Local != "testsuites" {
		t.Errorf("JUnit: %v, %v", junit, err)
	}
}

// TestConformanceFails: a plugin that breaks the contract, or cannot run, is no success.
func TestConformanceFails(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"plugin.json": `{"shell": false}`, "bad.json": `{"shel": false}`})
	plugin := filepath.Join(p.bin, "slipway-memory")
	res := p.run("conformance", "run", plugin, "--only", "P01-*", "--plugin-settings", "plugin.json").wants(1)
	if !strings.Contains(res.out, "P01-run-true") || !strings.Contains(res.out, "not") {
		t.Errorf("a plugin that runs nothing:\n%s", res.out)
	}
	p.run("conformance", "run", plugin, "--only", "P01-*", "--plugin-settings", "bad.json").wants(2).says("shel")
	p.run("conformance", "run", "./no-such-plugin", "--only", "P01-*").wants(4).says("no-such-plugin")
	p.run("conformance", "run", plugin, "--profile", "corn").wants(2).says("core, streaming")
	p.run("conformance", "run", plugin, "--only", "Q99-*").wants(2).says("no case has such an id")
	p.run("conformance", "run").wants(2)
	p.run("conformance", "explain", "P99-nothing").wants(2).says("slipway conformance list")
}
