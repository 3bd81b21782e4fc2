//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// measureArg has this test's program run a command, and write into a file how many bytes of memory that had at most. A program's own peak begins with that of who
// starts it, which for this program in the middle of its tests is a large one.
const measureArg = "measure"

func measure(file, name string, args ...string) int {
	c := exec.Command(name, args...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	if c.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	usage := c.ProcessState.SysUsage().(*syscall.Rusage)
	if err := os.WriteFile(file, fmt.Appendf(nil, "%d", usage.Maxrss<<10), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return c.ProcessState.ExitCode()
}

// mostMemory is what slipway may have in memory whatever it is told: what it has without that, and 64 MiB.
const mostMemory = (50 + 64) << 20

// measured is run that asserts that slipway had at most so much in memory.
func (p *place) measured(args ...string) result {
	p.t.Helper()
	self, err := os.Executable()
	p.must(err)
	file := filepath.Join(p.root, "peak")
	r := p.runWith(p.program(self, append([]string{measureArg, file, filepath.Join(p.bin, "slipway")}, args...)...))
	text, err := os.ReadFile(file)
	p.must(err)
	peak, err := strconv.ParseInt(string(text), 10, 64)
	p.must(err)
	p.t.Logf("slipway had %d MiB in memory", peak>>20)
	if peak > mostMemory && !(raceBuild && !testing.Short()) { // the race detector's own memory is not measured
		p.t.Errorf("slipway had %d MiB in memory", peak>>20)
	}
	return r
}
