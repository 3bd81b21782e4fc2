//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// peakOf awaits a command that has begun, and gives how many bytes of memory its own process had at most, as far as that was seen: what the system tells of a process
// that has ended counts its children, too, and whoever started it.
func peakOf(c *exec.Cmd) (peak int64, err error) {
	over := make(chan error, 1)
	go func() { over <- c.Wait() }()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		peak = max(peak, highWater(c.Process.Pid))
		select {
		case <-tick.C:
		case err := <-over:
			return peak, err
		}
	}
}

// highWater is the most that a process has had in memory so far, in bytes; 0 where that is not told.
func highWater(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, " kB")
	kib, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return kib << 10
}

// mostMemory is what slipway may have in memory whatever it is told: what it has without that, and 64 MiB.
const mostMemory = (50 + 64) << 20

// measured is run that asserts that slipway had at most so much in memory.
func (p *place) measured(args ...string) result {
	p.t.Helper()
	c := p.command(args...)
	var out, errw bytes.Buffer
	c.Stdout, c.Stderr = &out, &errw
	p.must(c.Start())
	peak, err := peakOf(c)
	p.ended(err)
	r := result{t: p.t, args: args, code: c.ProcessState.ExitCode(), out: out.String(), err: errw.String()}
	p.t.Logf("slipway had %d MiB in memory", peak>>20)
	if peak > mostMemory && !(testkit.Race && !testing.Short()) { // the race detector's own memory is not measured
		p.t.Errorf("slipway had %d MiB in memory", peak>>20)
	}
	return r
}
