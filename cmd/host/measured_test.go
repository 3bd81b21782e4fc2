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

// peakOf awaits a command that has begun, as await does, and gives how many bytes of memory its own process had at most, as far as that was seen: what the system tells of a process
// that has ended counts its children, too, and whoever started it.
func peakOf(c *exec.Cmd, await func() error) (peak int64, err error) {
	over := make(chan error, 1)
	go func() { over <- await() }()
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

// What slipway may have in memory: where nobody lies, and whatever it is told.
const (
	honestMemory = 40 << 20
	mostMemory   = honestMemory + 64<<20
)

// TestHonestMemory holds what the bound on memory under lies is measured from.
func TestHonestMemory(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"honest.hcl": hostilePlugin("honest", "")})
	c := p.command("-c", "honest.hcl", "exec", "--", "true")
	p.must(c.Start())
	peak, err := peakOf(c, c.Wait)
	p.must(err)
	t.Logf("slipway had %d MiB in memory", peak>>20)
	if peak > honestMemory && !(testkit.Race && !testing.Short()) {
		t.Errorf("slipway had %d MiB in memory where nobody lies", peak>>20)
	}
}

// The waits of slipway's own that a lie may make it wait out, beside those that have names of their own here.
const (
	startWait = 30 * time.Second                 // launch.Options.StartTimeout, and as long again for the settings
	toldWait  = 15 * time.Second                 // for a plugin's first workers
	undoWait  = 30 * time.Second                 // for a worker that does not answer while an interrupt or a failure is undone, after the grace
	drainWait = 30 * time.Second                 // serve --drain
	sizeWait  = 5 * time.Second                  // to find out how big an output is
	hurryWait = time.Second + hurriedClose       // from the second interrupt to the end
	exitWait  = time.Second                      // for the end of a stream that has told an exit
	goneWait  = time.Second                      // worker_gone, where a test's configuration has it
	graceWait = 100 * time.Millisecond           // --grace, where a test gives it
	endWait   = interruptedLeftTime + closeTime  // to tidy up, and for plugins to end
	listWait  = readyTime + leftTime + closeTime // a listing
	tryWait   = 2 * (5100 * time.Millisecond)    // for a process of which the lie "never begins to tell" tells nothing
	busyWait  = 3 * time.Minute                  // for the machine: a command that waits for nothing takes a second or two
)

// soon asserts that slipway has ended within the waits that its row names: a lie that makes it wait for anything else, for minutes or for ever, fails the test.
func soon(t *testing.T, took, waits time.Duration) {
	t.Helper()
	t.Logf("it took %.1f s", took.Seconds())
	if most := testkit.Scale(waits + busyWait); took > most {
		t.Errorf("slipway took %v, which is more than %v: all that it may wait for here comes to %v", took, most, waits)
	}
}

// measured is run that asserts that slipway had at most so much in memory, and ended after these waits of its own.
func (p *place) measured(waits time.Duration, args ...string) result {
	p.t.Helper()
	c := p.command(args...)
	var out, errw bytes.Buffer
	c.Stdout, c.Stderr = &out, &errw
	began := time.Now()
	p.must(c.Start())
	peak, err := peakOf(c, c.Wait)
	p.ended(err)
	fewBytes(p.t, peak)
	soon(p.t, time.Since(began), waits)
	return result{t: p.t, args: args, code: c.ProcessState.ExitCode(), out: out.String(), err: errw.String()}
}

// measured is wait that asserts that slipway had at most so much in memory, and ends after these waits of its own.
func (r *running) measured(waits time.Duration) result {
	r.t.Helper()
	began := time.Now()
	peak, err := peakOf(r.cmd, func() error {
		r.readers.Wait()
		return r.cmd.Wait()
	})
	(&place{t: r.t}).ended(err)
	fewBytes(r.t, peak)
	soon(r.t, time.Since(began), waits)
	return result{t: r.t, args: r.cmd.Args[1:], code: r.cmd.ProcessState.ExitCode(), out: r.out.String(), err: r.err.String()}
}

func fewBytes(t *testing.T, peak int64) {
	t.Helper()
	t.Logf("slipway had %d MiB in memory", peak>>20)
	if peak > mostMemory && !(testkit.Race && !testing.Short()) { // the race detector's own memory is not measured
		t.Errorf("slipway had %d MiB in memory", peak>>20)
	}
}
