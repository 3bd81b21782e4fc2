package main

import (
	"os"
	"strings"
	"testing"
)

// TestStrangers: a worker that left the configuration with something on it is listed, and can be given up.
func TestStrangers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"j.hcl": oneStep("echo ready; sleep 600"), "was.hcl": onMemory(`config { world = "unix:`+p.world()+`" }`) + "timing { missing_grace = \"100ms\" }\n",
		"is.hcl": strings.ReplaceAll(onMemory(""), `worker "m"`, `worker "n"`)})
	r := p.start("-c", "was.hcl", "run", "j.hcl", "--state", "state", "--id", "a")
	r.await("ready")
	r.signal(os.Kill)
	r.wait()
	is := []string{"-c", "is.hcl", "--state", "state"}
	const told = `worker m: the configuration has no worker of this name, and what is on it stays: put it back, or give it up with "slipway workers retire m"`
	if out := p.run(append(is, "workers")...).wants(0).out; !strings.Contains(out, told) {
		t.Errorf("it is not listed:\n%s", out)
	}
	p.run(append(is, "workers", "cordon", "m")...).wants(codeUsage).says(`there is no worker "m"`)
	p.run(append(is, "workers", "retire", "m")...).wants(0)
	if out := p.run(append(is, "workers")...).wants(0).out; strings.Contains(out, "worker m") {
		t.Errorf("it is listed still:\n%s", out)
	}
	if out := p.run("-c", "was.hcl", "gc", "--state", "state", "--wait", "10m").wants(0).out; !strings.Contains(out, "0 stay") {
		t.Errorf("what was on it stays once it is back:\n%s", out)
	}
}
