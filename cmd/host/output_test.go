//go:build unix

package main

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHugeOutput prints 1 GiB through slipway in bounded memory.
func TestHugeOutput(t *testing.T) {
	needsLinux(t)
	if testing.Short() {
		t.Skip("writes 1 GiB")
	}
	const limit = 400 << 10 // KiB; the race detector's own memory is not bounded by it
	times, peak := 64, limit
	if raceBuild {
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
	p.runWith(c).wants(codeInternal).says("slipway: cannot write to stdout: no space left on device").once()
}

// TestSlowReader lets a reader wait until the step has ended, and then gives it everything.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep("cat in/big in/big in/big in/big; echo end > out/end"), "in/big": strings.Repeat("0123456789abcde\n", 1<<16)})
	text := p.read("in/big")
	p.write(map[string]string{"j.hcl": strings.Replace(strings.Replace(p.read("j.hcl"), "  step", "  input \"in\" {}\n  step", 1),
		"outputs =", "inputs = { in = input.in }\n    outputs =", 1)})
	c := p.command("run", "j.hcl", "-i", "in=in", "-o", "out=out")
	out, err := c.StdoutPipe()
	p.must(err)
	var said bytes.Buffer
	c.Stderr = &said
	p.must(c.Start())
	// The output directory is there once the run is over but for showing it.
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !exists(p.work + "/out/end") {
		<-look.C
		if runtime.GOOS == "linux" && len(p.processes("slipway")) == 0 {
			t.Fatalf("slipway ended before its output was read:\n%s", said.String())
		}
	}
	got := sha256.New()
	n, err := io.Copy(got, out)
	p.must(err)
	p.ended(c.Wait())
	if c.ProcessState.ExitCode() != 0 {
		t.Errorf("exit code %d\n%s", c.ProcessState.ExitCode(), tail(said.String()))
	}
	want := strings.Repeat(strings.ReplaceAll("\n"+strings.TrimSuffix(text, "\n"), "\n", "\nonly | ")[1:]+"\n", 4)
	if sum := sha256.Sum256([]byte(want)); !bytes.Equal(got.Sum(nil), sum[:]) {
		t.Errorf("%d bytes came, want the %d that were printed", n, len(want))
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// TestPipeline runs slipway as people do.
func TestPipeline(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := exec.Command("sh", "-c", p.bin+"/slipway exec -- yes | head -1; "+p.bin+"/slipway workers | head -1 >/dev/null; echo end")
	c.Dir, c.Env = p.work, p.env
	out, err := c.CombinedOutput()
	if err != nil || string(out) != "y\nend\n" {
		t.Errorf("%v: %s", err, out)
	}
}
