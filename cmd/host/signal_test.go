//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// politeScript ends well when asked to; stubbornScript never does.
const (
	politeScript   = `trap 'echo bye; exit 0' TERM; echo half > out/half; echo ready; while :; do sleep 0.05; done`
	stubbornScript = `trap '' TERM; echo ready; while :; do sleep 0.05; done`
)

// TestInterrupt ends runs by each signal that asks for it: commands are asked first, nothing becomes an output, nothing
// is left.
func TestInterrupt(t *testing.T) {
	for name, s := range map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t).write(map[string]string{"j.hcl": oneStep(politeScript)})
			r := p.start("run", "j.hcl", "-o", "out=out")
			r.await("only | ready")
			r.signal(s)
			res := r.wait().wants(codeInterrupted).says("interrupted: ending what runs", "only - aborted", "the run was interrupted", "output out was not written", "1 step aborted").once()
			if res.prints("only | ready\nonly | bye\n"); t.Failed() {
				t.Log(res.err)
			}
			if _, err := os.Stat(p.work + "/out"); !os.IsNotExist(err) {
				t.Errorf("there is an output of an interrupted step: %v", err)
			}
		})
	}
}

func TestInterruptExec(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.start("exec", "--", "sh", "-c", "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
	r.await("ready")
	r.signal(os.Interrupt)
	r.wait().wants(codeInterrupted).prints("ready\nbye\n").says("interrupted").once()
}

// TestNohup wants what was ignored when slipway began to stay so, under a run too, and other signals to do what they always do.
func TestNohup(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const script = `trap 'echo bye; exit 5' TERM; while read line; do echo got $line; done`
	c := p.program("sh", "-c", `trap '' HUP; exec "$0" "$@"`, filepath.Join(p.bin, "slipway"), "exec", "--stdin", "--", "sh", "-c", script)
	in, err := c.StdinPipe()
	p.must(err)
	r := p.begin(c)
	for _, line := range []string{"one", "two"} {
		_, err := io.WriteString(in, line+"\n")
		p.must(err)
		r.await("got " + line)
		r.signal(syscall.SIGHUP)
	}
	r.signal(os.Interrupt)
	r.wait().wants(codeInterrupted).prints("got one\ngot two\nbye\n").says("interrupted").once()
}

// TestInterruptTwice does not wait for the grace.
func TestInterruptTwice(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep(stubbornScript)})
	r := p.start("run", "j.hcl", "--grace", "1h")
	r.await("only | ready")
	r.signal(os.Interrupt)
	r.await("interrupt again to kill it")
	r.signal(os.Interrupt)
	r.wait().wants(codeInterrupted).says("only - aborted").once()
}

// TestInterruptGrace kills what does not end within its grace.
func TestInterruptGrace(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep(stubbornScript)})
	const grace = 300 * time.Millisecond
	r := p.start("run", "j.hcl", "--grace", grace.String())
	r.await("only | ready")
	began := time.Now()
	r.signal(syscall.SIGTERM)
	r.wait().wants(codeInterrupted).says("only - aborted")
	if took := time.Since(began); took < grace {
		t.Errorf("killed after %s, the grace is %s", took, grace)
	}
}

// TestInterruptAtAnyTime interrupts slipway while it starts and ends too.
func TestInterruptAtAnyTime(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep("echo done")})
	began := time.Now()
	p.run("run", "j.hcl").wants(0)
	whole := time.Since(began)
	const times = 12
	for i := range times {
		r := p.start("run", "j.hcl")
		after := time.NewTimer(whole * time.Duration(i) / times)
		<-after.C
		if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
			continue // over already
		}
		res := r.wait()
		switch {
		case res.code == codeInterrupted && strings.Contains(res.err, "interrupted: ending what runs"):
		case res.code == codeInterrupted && strings.Contains(res.err, "slipway: interrupted by SIGINT before it was done\n"):
		case res.code == 0 && strings.Contains(res.err, "1 step succeeded"):
		case res.code == -1 && res.err == "" && res.out == "": // before the first line of main, by the signal itself
		default:
			t.Errorf("interrupted after %d/%d: exit code %d\n%s", i, times, res.code, res.err)
		}
		p.nothingLeft()
	}
}

// TestTimeout ends a step that prints nothing and never ends.
func TestTimeout(t *testing.T) {
	for name, script := range map[string]string{"idle": "echo half > out/half; sleep 600", "busy": "while :; do :; done", "stubborn": "trap '' TERM; while :; do sleep 600; done"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t).write(map[string]string{"j.hcl": strings.Replace(oneStep(script), "outputs =", "timeout = \"300ms\"\n    outputs =", 1)})
			p.run("run", "j.hcl", "-o", "out=out", "--grace", "200ms").wants(codeTimedOut).prints("").
				says("only - timed-out: its timeout of 300ms has passed", "output out was not written").once()
		})
	}
}
