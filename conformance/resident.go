package conformance

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// resident gives how much memory of a process is in use on this machine; ok is false where that cannot be seen.
func resident(pid int) (n int64, ok bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(status)
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}

// ownSlack is what this process may take besides: cases keep what they compare.
const ownSlack = 256 << 20

// Bounded does something large and fails the case if meanwhile the plugin's process, or this one, takes more memory than it had before, and
// most besides. Where the plugin is no process of this machine that is not seen.
func (c *C) Bounded(most int64, what string, do func()) {
	pids := map[string]int{"the host": os.Getpid()}
	if pid := c.suite.inst.PID; pid != nil {
		pids["the plugin"] = pid()
	}
	before, peak := make(map[string]int64), make(map[string]int64)
	for who, pid := range pids {
		n, ok := resident(pid)
		if !ok {
			c.Logf("%s: the memory of %s cannot be seen here", what, who)
			delete(pids, who)
			continue
		}
		before[who] = n
	}
	look := func() {
		for who, pid := range pids {
			if n, ok := resident(pid); ok {
				peak[who] = max(peak[who], n)
			}
		}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				look()
			case <-over:
				return
			}
		}
	}()
	defer func() { // also when do ends the case
		close(over)
		<-ended
		look()
		for who := range pids {
			grown, most := peak[who]-before[who], most
			if pids[who] == os.Getpid() {
				most += ownSlack
			}
			c.Logf("%s: %s had %d MiB before and at most %d MiB meanwhile", what, who, before[who]>>20, peak[who]>>20)
			if grown > most {
				c.Errorf("what flows through takes no memory in proportion: one large step would end all others", "%s: %s took %d MiB more, want at most %d", what, who, grown>>20, most>>20)
			}
		}
	}()
	do()
}

// descriptors counts what a process of this machine has open; ok is false where that cannot be seen.
func descriptors(pid int) (n int, ok bool) {
	if pid == 0 {
		return 0, false
	}
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(all), err == nil
}
