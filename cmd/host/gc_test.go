//go:build unix

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestGC leaves a run behind, in a world that outlives slipway: it is explained, it stays while it can be resumed, and goes once it cannot.
func TestGC(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world()
	p.write(map[string]string{
		"j.hcl":     oneStep("echo begun; sleep 600"),
		"world.hcl": onMemory(`config { world = "unix:` + socket + `" }`),
		"soon.hcl":  onMemory(`config { world = "unix:`+socket+`" }`) + "reaping { abandoned = \"1ms\" }\ntiming { missing_grace = \"1ms\" }\n",
	})
	p.run("gc").wants(codeUsage).says("gc needs --state DIR").once()
	r := p.start("-c", "world.hcl", "run", "j.hcl", "--state", "s", "--id", "a")
	r.await("only | begun")
	r.signal(syscall.SIGKILL)
	r.wait()

	gc := func(config string, args ...string) []string {
		return append([]string{"-c", config, "--state", "s", "gc"}, args...)
	}
	p.run(gc("world.hcl", "explain", "none")...).wants(codeUsage).says("there is no container, volume, artifact, run or owner none").once()
	why := p.run(gc("world.hcl", "explain", "a")...).wants(0).out
	if !strings.Contains(why, "stays until ") || !strings.Contains(why, "run a is not under way, and can be resumed") {
		t.Errorf("explained:\n%s", why)
	}
	p.run(gc("world.hcl")...).wants(0).prints("0 gone, 2 stay\n")
	var dry jsonReap
	p.must(json.Unmarshal([]byte(p.run(gc("soon.hcl", "--dry-run", "-o", "json")...).wants(0).out), &dry))
	for _, kind := range []string{"run", "container", "volume"} {
		if !slices.ContainsFunc(dry.Things, func(v jsonFate) bool {
			return v.Kind == kind && v.Action == "destroy" && strings.Contains(v.Reason, "1ms")
		}) {
			t.Errorf("no %s goes: %+v", kind, dry)
		}
	}
	p.run(gc("world.hcl")...).wants(0).prints("0 gone, 2 stay\n")
	if out := p.run(gc("soon.hcl")...).wants(0).out; !strings.Contains(out, "run a  ") || !strings.Contains(out, "nobody has resumed it for 1ms") {
		t.Errorf("gone:\n%s", out)
	}
	p.run(gc("soon.hcl", "--dry-run")...).wants(0).prints("0 would go, 0 stay\n")
	p.run("-c", "world.hcl", "run", "j.hcl", "--state", "s", "--id", "a").wants(codeInterrupted).says("that run had ended before").says("nobody has resumed it for 1ms")
}

// TestKeepFailed has a daemon whose configuration says so keep what failed; without the line it keeps nothing.
func TestKeepFailed(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{"": "only its records", "reaping { keep_failed = true }\n": "it is kept to be looked at"} {
		p := newPlace(t).write(map[string]string{"fail.hcl": oneStep("exit 7"), "config.hcl": onMemory("") + config})
		s := p.serve("-c", "config.hcl")
		p.run("--state", "state", "run", "fail.hcl", "--id", "r").wants(codeStepFailed)
		if why := p.run("--state", "state", "gc", "explain", "r").wants(0).out; !strings.Contains(why, want) {
			t.Errorf("with %q:\n%s\nwant %q", config, why, want)
		}
		s.stop()
	}
}
