//go:build unix

package main

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowIsTold: what is waited for longer than a moment is told, and an interrupt ends the wait.
func TestSlowIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"mute.hcl": `plugin "mute" {
  command = "sleep"
  args    = ["600"]
}
worker "m" { plugin = "mute" }
`, "deaf.hcl": hostilePlugin("answers nothing", "")})
	r := p.start("-c", "mute.hcl", "exec", "--", "true")
	r.await(`slipway: waiting for plugin "mute" to start`)
	r.signal(os.Interrupt)
	r.signal(os.Interrupt)
	r.wait().wants(codeInterrupted)

	r = p.start("-c", "deaf.hcl", "workers")
	r.await(`slipway: waiting for plugin "memory" to end`)
	r.signal(os.Interrupt)
	r.signal(os.Interrupt)
	r.wait()
}

// TestSlowChanges: where one wait follows another, each is told, and none twice in a row.
func TestSlowChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		began := time.Now()
		done := whileSlow(func(text string) { said = append(said, text) }, func() string {
			switch after := time.Since(began); {
			case after < 10*time.Second:
				return "a plugin to start"
			case after < 20*time.Second:
				return "it to tell its workers"
			}
			return ""
		})
		time.Sleep(time.Minute)
		done()
		if want := []string{"waiting for a plugin to start", "waiting for it to tell its workers"}; !slices.Equal(said, want) {
			t.Errorf("%q", said)
		}
	})
}

// TestSlowKinds: a worker that was waited for to be there, and then for what it destroys, is named with both, however many calls wait for each.
func TestSlowKinds(t *testing.T) {
	var said []string
	s := slowWorkers{say: func(text string) { said = append(said, text) }}
	for _, what := range []string{"it is away", "destroy container c", "destroy volume v", "it is away"} {
		s.tell("m", what)
	}
	s.tell("n", "it is away")
	if want := []string{"waiting for worker m: it is away", "waiting for worker m: destroy container c", "waiting for worker n: it is away"}; !slices.Equal(said, want) {
		t.Errorf("%q", said)
	}
}

// TestSlowWorkerIsTold: commands that wait for a worker say for what, and so does one that waits for a daemon.
func TestSlowWorkerIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world()
	hangs := func(operation string) string {
		return fmt.Sprintf("plugin \"memory\" {\n  command = \"slipway-memory\"\n  config { world = \"unix:%s\" }\n}\nworker \"m\" {\n  plugin = \"memory\"\n"+
			"  config {\n    fault {\n      operation = %q\n      kind = \"hang\"\n      count = -1\n    }\n  }\n}\n", socket, operation)
	}
	p.write(map[string]string{"list.hcl": hangs("ListContainers"), "destroy.hcl": hangs("DestroyContainer"), "world.hcl": onMemory(`config { world = "unix:` + socket + `" }`),
		"j.hcl": oneStep("echo ready; sleep 600")})
	hurried := func(r *running, told string) {
		t.Helper()
		r.await("slipway: waiting for " + told)
		r.signal(os.Interrupt)
		r.signal(os.Interrupt)
		r.wait()
	}
	hurried(p.start("-c", "list.hcl", "gc", "--state", "state"), "worker m: list")

	r := p.start("-c", "world.hcl", "run", "j.hcl", "--state", "state", "--id", "a")
	r.await("ready")
	r.signal(os.Kill)
	r.wait()
	hurried(p.start("-c", "destroy.hcl", "run", "--abort", "a", "--state", "state"), "worker m: destroy container")

	s := p.serve("-c", "list.hcl")
	hurried(p.start("gc", "--state", "state"), "the daemon at")
	s.stop()
	p.run("-c", "world.hcl", "run", "--abort", "a", "--state", "state").wants(0)
}
