//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestHugeOutput prints 1 GiB through slipway in bounded memory.
func TestHugeOutput(t *testing.T) {
	needsLinux(t)
	testkit.Soak(t, "it writes 1 GiB")
	const limit = 400 << 10 // KiB; the race detector's own memory is not bounded by it
	times, peak := 64, limit
	if testkit.Race {
		times, peak = 4, 4*limit
	}
	p := newPlace(t).write(map[string]string{"in/big": strings.Repeat("sixteen bytes..\n", 1<<20)})
	c := p.command("exec", "-i", "in=in", "--", "sh", "-c", "i=0; while [ $i -lt "+strconv.Itoa(times)+" ]; do cat in/big; i=$((i+1)); done")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	p.must(err)
	defer null.Close()
	c.Stdout = null
	p.runWith(c).wants(0)
	usage := c.ProcessState.SysUsage().(*syscall.Rusage)
	if usage.Maxrss > int64(peak) { // of slipway, and of the plugin that it has waited for
		t.Errorf("slipway or its plugin took %d MiB, want at most %d", usage.Maxrss>>10, peak>>10)
	}
	t.Logf("peak %d MiB", usage.Maxrss>>10)
}

// TestReaderThatGoes ends when nobody reads any more, as head(1) does.
func TestReaderThatGoes(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep("yes")})
	for _, args := range [][]string{{"exec", "--", "yes"}, {"run", "j.hcl"}, {"run", "j.hcl", "-o", "json"}} {
		c := p.command(args...)
		out, err := c.StdoutPipe()
		p.must(err)
		var said bytes.Buffer
		c.Stderr = &said
		p.must(c.Start())
		if _, err := io.ReadFull(out, make([]byte, 64)); err != nil {
			t.Error(err)
		}
		out.Close()
		p.ended(c.Wait())
		if code := c.ProcessState.ExitCode(); code != codeClosed {
			t.Errorf("slipway %q: exit code %d, want %d\n%s", args, code, codeClosed, tail(said.String()))
		}
		if strings.Contains(said.String(), "pipe") {
			t.Errorf("slipway %q says %s", args, said.String())
		}
		p.nothingLeft()
	}
}

// TestFullDisk tells that the output could not be written.
func TestFullDisk(t *testing.T) {
	needsLinux(t)
	t.Parallel()
	p := newPlace(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	p.must(err)
	defer full.Close()
	c := p.command("exec", "--", "sh", "-c", "while :; do echo x; done")
	c.Stdout = full
	p.runWith(c).wants(codeExecFailed).says("slipway: cannot write to stdout: no space left on device").once()
}

// slowJob prints 4 MiB, more than any pipe holds, and says in its output when it has.
const slowJob = `job "slow" {
  input "in" {}
  step "only" {
    inputs  = { in = input.in }
    outputs = ["out"]
    run {
      path = "sh"
      args = ["-c", "cat in/big in/big in/big in/big; echo end > out/end"]
    }
  }
  output "out" { from = step.only.out }
}
`

// readLate runs slipway without reading its stdout until the run is over but for showing it.
func readLate(p *place, args ...string) (stdout []byte) {
	p.t.Helper()
	c := p.command(args...)
	out, err := c.StdoutPipe()
	p.must(err)
	var said bytes.Buffer
	c.Stderr = &said
	p.must(c.Start())
	testkit.Until(p.t, "the output is written", func() bool {
		there := exists(p.work + "/out/end")
		if !there && runtime.GOOS == "linux" && len(p.processes("slipway")) == 0 {
			p.t.Fatalf("slipway ended before its output was read:\n%s", said.String())
		}
		return there
	})
	stdout, err = io.ReadAll(out)
	p.must(err)
	p.ended(c.Wait())
	if c.ProcessState.ExitCode() != 0 {
		p.t.Errorf("exit code %d\n%s", c.ProcessState.ExitCode(), tail(said.String()))
	}
	return stdout
}

// TestSlowReader lets a reader wait until the step has ended, and then gives it everything.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcde\n", 1<<16)
	p := newPlace(t).write(map[string]string{"j.hcl": slowJob, "in/big": text})
	got := readLate(p, "run", "j.hcl", "-i", "in=in", "-o", "out=out")
	if want := strings.Repeat(strings.ReplaceAll(text, "0123", "only | 0123"), 4); string(got) != want {
		t.Errorf("%d bytes came, want the %d that were printed", len(got), len(want))
	}
}

// TestSlowReaderOrder wants what a step wrote before what became of the step, however slowly it is read.
func TestSlowReaderOrder(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcde\n", 1<<16)
	p := newPlace(t).write(map[string]string{"j.hcl": slowJob, "in/big": text})
	stdout := readLate(p, "run", "j.hcl", "-i", "in=in", "-o", "out=out", "-o", "json")
	var kinds []string
	printed := 0
	for line := range strings.Lines(string(stdout)) {
		var e jsonEvent
		strict(t, line, &e)
		if strings.HasPrefix(e.Message, "for worker ") { // which is told on a machine that has much to do
			continue
		}
		if kinds = append(kinds, e.Event); e.Text != nil {
			printed += len(*e.Text)
		}
	}
	if printed != 4*len(text) {
		t.Errorf("%d bytes came, want %d", printed, 4*len(text))
	}
	if n := len(kinds); n < 8 || !slices.Equal(kinds[n-4:], []string{"output", "exited", "finished", "ended"}) {
		t.Errorf("events are %q", kinds)
	}
}

// TestLongLine breaks long lines, of which not a byte is lost, and no other.
func TestLongLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 5<<10)
	p := newPlace(t).write(map[string]string{"in/big": long, "j.hcl": strings.Replace(slowJob, "cat in/big in/big in/big in/big", "printf a; cat in/big; echo; head -c 16384 in/big; sleep 0.1; echo; printf b", 1)})
	got := p.run("run", "j.hcl", "-i", "in=in").wants(0).out
	var joined strings.Builder
	for line := range strings.Lines(got) {
		text, ok := strings.CutPrefix(line, "only | ")
		if !ok || len(text) > maxLine+1 {
			t.Fatalf("line of %d bytes: %q", len(line), tail(line))
		}
		joined.WriteString(strings.TrimSuffix(text, "\n"))
	}
	if want := "a" + long + long[:maxLine] + "b"; joined.String() != want {
		t.Errorf("%d bytes came, want %d", joined.Len(), len(want))
	}
	if n := strings.Count(got, "\n"); n != 4+1+1 {
		t.Errorf("%d lines came, want 6", n)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// TestNoStdout runs with stdout closed from the start, which is /dev/null: the runtime sees to it that no file of slipway's gets its number.
func TestNoStdout(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.program("sh", "-c", p.bin+"/slipway exec -o out=out -- sh -c 'echo hi; echo made > out/made' >&-")
	if out, err := c.CombinedOutput(); err != nil || unhurriedly(string(out)) != "" {
		t.Errorf("%v: %s", err, out)
	}
	if got := p.read("out/made"); got != "made\n" {
		t.Errorf("the output has %q", got)
	}
}

// TestPipeline runs slipway as people do.
func TestPipeline(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.program("sh", "-c", p.bin+"/slipway exec -- yes | head -1; "+p.bin+"/slipway workers | head -1 >/dev/null; echo end")
	out, err := c.CombinedOutput()
	if err != nil || string(out) != "y\nend\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestOutputOfSteps: what a step writes cannot steer a terminal nor pass for somebody else's, unless it is asked for as it is.
func TestOutputOfSteps(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep(`printf 'a\033[2J\ttab ü\rother - succeeded\n'; head -c 16383 /dev/zero | tr '\0' x; echo üy`)})
	shown := `only | a\x1b[2J` + "\ttab ü" + `\x0dother - succeeded` + "\nonly | " + strings.Repeat("x", 16<<10-1) + "\nonly | üy\n"
	asItIs := strings.NewReplacer(`\x1b`, "\x1b", `\x0d`, "\r").Replace(shown)
	p.run("run", "j.hcl", "--state", "state", "--id", "r").wants(0).prints(shown)
	for _, logs := range [][]string{{"logs", "r"}, {"logs", "-f", "r"}} {
		p.run(append(logs, "--state", "state")...).wants(0).prints(shown)
		p.run(append(logs, "--state", "state", "--raw")...).wants(0).prints(asItIs)
	}
	p.run("run", "j.hcl", "--raw").wants(0).prints(asItIs)
	if j := p.run("run", "j.hcl", "-o", "json").wants(0); !strings.Contains(j.out, `a\u001b[2J\ttab ü\rother`) {
		t.Errorf("in JSON: %s", tail(j.out))
	}
	p.run("exec", "--", "printf", `\033[2J`).wants(0).prints("\x1b[2J")
}
