package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestLogs shows what steps wrote while they run, from the same records afterwards, of all steps and of some.
func TestLogs(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": `job "j" {
  step "quick" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "echo out; echo err >&2; printf half; exit 0"]
    }
  }
  step "slow" {
    inputs = { o = step.quick.o }
    run {
      path = "sh"
      args = ["-c", "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done"]
    }
  }
}
`})
	r := p.start("run", "j.hcl", "--state", "state", "--id", "x")
	r.await("slow  | ready")
	logs := func(args ...string) result {
		return p.run(append([]string{"--state", "state", "logs", "x"}, args...)...).wants(0).once()
	}
	logs().prints("quick | out\nquick | half\nslow  | ready\n").says("quick | err\n", "quick - exit code 0, on worker memory\n", "slow  - running on worker memory\n")
	logs("slow").prints("slow  | ready\n")
	p.run("--state", "state", "logs", "x", "fast").wants(codeUsage).says("slipway: step fast of run x was not started: those that were are quick, slow")

	p.run("--state", "state", "runs").wants(0).once()
	if out := p.run("--state", "state", "runs").wants(0).out; !strings.Contains(out, "x    unfinished") || !strings.Contains(out, "1 container, ") {
		t.Errorf("runs: %s", out)
	}
	tail := p.start("--state", "state", "logs", "-f", "x")
	tail.await("slow | ready")

	r.signal(os.Interrupt)
	tail.wait().wants(0).prints("quick | out\nquick | half\nslow | ready\nslow | bye\n").says("quick - exit code 0", "slow - exit code 3").once()
	p.run("--state", "state", "logs", "-f", "y").wants(codeUsage).says("there is no run y")
	r.wait().wants(codeInterrupted).says("slow  - aborted")
	logs().prints("quick | out\nquick | half\nslow  | ready\nslow  | bye\n").says("slow  - exit code 3, on worker memory\n")

	lines := strings.Split(strings.TrimSuffix(logs("-o", "json", "quick").out, "\n"), "\n")
	if len(lines) != 3 {
		t.Errorf("%d lines of JSON: %q", len(lines), lines)
	}
	for _, line := range lines {
		var e jsonEvent
		strict(t, line, &e)
		if e.Event != "output" || e.Step != "quick" || e.Text == nil || e.Position == nil || e.Time.IsZero() {
			t.Errorf("%s", line)
		}
	}

	// Output that was damaged, or taken away, is no success, and keeps nothing of the other steps back.
	files, err := filepath.Glob(filepath.Join(p.work, "state/spool/*/*"))
	p.must(err)
	if len(files) != 2 {
		t.Fatalf("stored output is %q", files)
	}
	for _, bad := range []struct {
		make func(file string) error
		told string
	}{
		{func(file string) error { return os.Truncate(file, 20) }, " is damaged"},
		{os.Remove, ""},
	} {
		p.must(bad.make(files[0]))
		told := filepath.Base(files[0]) + bad.told
		p.run("--state", "state", "logs", "x").wants(codeInternal).says("its output cannot be shown any more", told).says("quick - exit code 0", "slow  - exit code 3")
		p.run("--state", "state", "logs", "-f", "x").wants(codeInternal).says("its output cannot be shown any more", told).says("quick - exit code 0", "slow - exit code 3")
	}
}

// TestLogsBeforeOutput: a step of which nothing was ever stored, as its host was killed before the start was answered, is no damage.
func TestLogsBeforeOutput(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep("true"), "lies.hcl": hostilePlugin("start not answered", "")})
	r := p.start("-c", "lies.hcl", "run", "j.hcl", "--state", "state", "--id", "x")
	logs := []string{"--state", "state", "logs", "x"}
	testkit.Until(t, "the step is about to start", func() bool { return p.run(logs...).code == 0 })
	p.run(logs...).wants(0).says("only - starting on worker m")
	tail := p.start("--state", "state", "logs", "-f", "x")
	r.signal(syscall.SIGKILL)
	r.wait()

	// The container was its plugin's, and is gone with it. Both say so.
	p.write(map[string]string{"honest.hcl": hostilePlugin("honest", "timing {\n  missing_grace = \"1s\"\n}\n")})
	p.run("-c", "honest.hcl", "run", "j.hcl", "--state", "state", "--id", "x").wants(codeLost).says("only - lost")
	p.run(logs...).wants(0).says("only - lost on worker m")
	tail.wait().wants(0).says("only - lost on worker m")
}

// TestLogsOfAbandoned: nobody ended the output of a step whose host was killed; once the run was given up, that is how its logs end.
func TestLogsOfAbandoned(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep("echo ready; sleep 600")})
	p.write(map[string]string{"m.hcl": onMemory(`config { world = "unix:`+p.world()+`" }`) + `
reaping { abandoned = "1s" }
timing { missing_grace = "1s" }
`})
	r := p.start("-c", "m.hcl", "run", "j.hcl", "--state", "state", "--id", "x")
	r.await("only | ready")
	tail := p.start("--state", "state", "logs", "-f", "x")
	tail.await("only | ready")
	r.signal(syscall.SIGKILL)
	r.wait()
	testkit.Until(t, "the run is given up", func() bool {
		p.run("-c", "m.hcl", "gc", "--state", "state")
		return strings.Contains(p.run("--state", "state", "runs").out, "ended")
	})
	p.run("--state", "state", "logs", "x").wants(0).prints("only | ready\n").says("only - aborted on worker m: its container was destroyed")
	tail.wait().wants(0).prints("only | ready\n").says("only - aborted on worker m: its container was destroyed")
}
