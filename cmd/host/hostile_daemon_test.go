//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/conformance/mutant"
	"github.com/slipway-run/slipway/internal/testkit"
)

// TestDaemonUnderLies: one daemon has plugins that lie, each in its own way, and one that does not. Whoever uses a liar is told what comes of it, whoever does not is
// not disturbed, and the daemon stays small and ends when it is told to.
func TestDaemonUnderLies(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	lies := map[string]struct {
		code int // of exec; -1: it does not end by itself
		says string
	}{
		`exits [{"Code": 256, "Reason": "exited"}]`: {codeExecFailed, "its plugin told an end that is none"},
		"ends without an exit":                      {-1, "paused"},
		"every second byte is gone":                 {-1, "paused"},
		"never begins to tell":                      {-1, "paused"},
		"create not answered":                       {-1, "create container"},
		"start not answered":                        {-1, "start process"},
		"progress without end":                      {-1, "create container"},
		"a list without end":                        {0, ""},
		"long refusal":                              {codeExecFailed, "xxx"},
		"answers nothing":                           {-1, "said"},
		"workers without end":                       {codeExecFailed, ""},
		"honest":                                    {0, ""},
	}
	var config strings.Builder
	names := make(map[string]string)
	for lie := range lies {
		name := fmt.Sprintf("liar%d", len(names))
		names[lie] = name
		fmt.Fprintf(&config, "plugin %q {\n  command = %q\n  args = [%q]\n}\nworker %q { plugin = %q }\n", name, filepath.Join(built, "hostile"), lie, "on-"+name, name)
	}
	p.write(map[string]string{"lies.hcl": config.String()})
	s := p.serve("-c", "lies.hcl")
	waiting := make(map[string]*running)
	for lie, want := range lies {
		args := []string{"exec", "--state", "state", "--runtime", names[lie], "--grace", graceWait.String(), "--", "sh", "-c", "echo said"}
		if want.code >= 0 {
			r := p.measured(0, args...).wants(want.code)
			if want.says != "" {
				r.says(want.says)
			}
			continue
		}
		waiting[lie] = p.start(args...)
	}
	for lie, r := range waiting {
		r.await(lies[lie].says)
	}
	p.run("exec", "--state", "state", "--runtime", names["honest"], "--", "sh", "-c", "echo said").wants(0).prints("said\n")
	p.run("workers", "--state", "state")
	for _, r := range waiting {
		r.signal(os.Interrupt)
	}
	for _, r := range waiting {
		r.await("interrupt again to kill it") // two signals at once may come as one
		r.signal(os.Interrupt)
	}
	for _, r := range waiting {
		r.measured(hurryWait).wants(codeInterrupted)
	}
	p.run("exec", "--state", "state", "--runtime", names["honest"], "--", "sh", "-c", "echo said").wants(0).prints("said\n")
	s.signal(os.Interrupt)
	s.measured(drainWait + closeTime)
}

// TestSecondInterruptIsQuick: the second interrupt ends slipway within two seconds, as it is shipped, whatever its plugins do.
func TestSecondInterruptIsQuick(t *testing.T) {
	testkit.Soak(t, "it looks at a clock, and a busy machine would be slower")
	shipped := filepath.Join(t.TempDir(), "slipway")
	if err := testkit.Build(shipped, "."); err != nil {
		t.Fatal(err)
	}
	for lie, says := range map[string]string{"no exit ever": "only | ready", "ends without an exit": "only - paused", "every second byte is gone": "only - paused", "answers nothing": "only | ready",
		"create not answered": "create container", "start not answered": "start process", "progress without end": "run ", "never begins to tell": "paused"} {
		t.Run(lie, func(t *testing.T) {
			p := newPlace(t)
			p.write(map[string]string{"j.hcl": oneStep("echo ready; sleep 600"), "lies.hcl": hostilePlugin(lie, "")})
			mine := filepath.Join(p.bin, "shipped")
			p.must(os.Link(shipped, mine))
			r := p.begin(p.program(mine, "-c", "lies.hcl", "run", "j.hcl"))
			r.await(says)
			r.signal(os.Interrupt)
			r.await("interrupt again to kill it")
			began := time.Now()
			r.signal(os.Interrupt)
			r.wait().wants(codeInterrupted)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %v", took)
			} else {
				t.Logf("it took %v", took)
			}
		})
	}
}

// TestWireLies: plugins that are broken on the wire itself, each in a way in which the suite's mutants are, make no failure a success, and nobody waits for them for ever.
func TestWireLies(t *testing.T) {
	t.Parallel()
	var broken []string
	for _, m := range mutant.All() {
		if strings.HasPrefix(m.Killers[0], "J") {
			broken = append(broken, m.ID)
		}
	}
	for _, name := range broken[:testkit.Times(5, len(broken))] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"src/file": "in\n", "lies.hcl": fmt.Sprintf("plugin \"liar\" {\n  command = %q\n  args = [\"conformance\", \"mutant\", %q, \"--\", %q]\n}\nworker \"m\" { plugin = \"liar\" }\n",
				filepath.Join(p.bin, "slipway"), name, filepath.Join(p.bin, "slipway-memory"))})
			r := p.measured(2*startWait+toldWait+closeTime, "-c", "lies.hcl", "exec", "-i", "src=src", "--", "sh", "-c", "cat src/file; exit 3")
			if r.code != 3 && r.code != codeExecFailed {
				t.Errorf("exit code %d: %s", r.code, r.err)
			}
			if r.code == 3 {
				r.prints("in\n")
			}
		})
	}
}
