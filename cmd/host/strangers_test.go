package main

import (
	"os"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
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
	p.run(append(is, "workers", "cordon", "m")...).wants(codeUsage).says(`the configuration has no worker "m"`)
	p.run(append(is, "workers", "retire", "m")...).wants(0)
	if out := p.run(append(is, "workers")...).wants(0).out; strings.Contains(out, "worker m") {
		t.Errorf("it is listed still:\n%s", out)
	}
	if out := p.run("-c", "was.hcl", "gc", "--state", "state", "--wait", "10m").wants(0).out; !strings.Contains(out, "0 stay") {
		t.Errorf("what was on it stays once it is back:\n%s", out)
	}
}

// TestStrangersRemoved: what is removed while its worker is out of the configuration is told as what goes later, and goes then.
func TestStrangersRemoved(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"tree/a": "a", "was.hcl": onMemory(`config { world = "unix:` + p.world() + `" }`), "is.hcl": strings.ReplaceAll(onMemory(""), `worker "m"`, `worker "n"`)})
	s := p.serve("-c", "was.hcl")
	p.run("artifacts", "put", "tree", "tree", "--state", "state").wants(0)
	s.call("ContainerService/EnsureContainer", `{"owner": "here", "inputs": [{"artifact": "tree", "path": "in"}]}`)
	s.call("ContainerService/EnsureContainer", `{"owner": "other"}`)
	s.signal(os.Kill)
	s.wait()

	s = p.serve("-c", "is.hcl")
	const advice = `worker m is not in the configuration: put it back, or give it up with "slipway workers retire m"`
	p.run("rm", "here", "--state", "state").wants(codeInternal).says("container of here: container c", "on m will be destroyed as soon as that is back: "+advice)
	p.run("artifacts", "rm", "tree", "--state", "state").wants(codeInternal).says("remove artifact tree: volume v", "on m will be destroyed as soon as that is back: "+advice)
	s.stop()

	s = p.serve("-c", "was.hcl")
	testkit.Until(t, "what was removed is gone", func() bool {
		return !strings.Contains(p.run("volumes", "--state", "state").out, " m ")
	})
	if out := p.run("ps", "--state", "state").out; strings.Contains(out, "here") || !strings.Contains(out, "other") {
		t.Errorf("something else has gone:\n%s", out)
	}
	s.call("ContainerService/DestroyContainer", `{"owner": "other"}`)
	s.stop()
}
