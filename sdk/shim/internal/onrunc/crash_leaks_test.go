//go:build linux

package onrunc

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// load is what a process of the shim uses.
type load struct {
	fds, threads  int
	resident, own int64 // bytes; own without what is of files
}

func (b *box) load(pid int) load {
	b.t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	b.check(err)
	return load{len(fds), int(b.status(pid, "Threads")), b.rss(pid), b.status(pid, "RssAnon") << 10}
}

func (l load) String() string {
	return fmt.Sprintf("%d fds, %d threads, %.1f MiB resident, %.1f MiB of that its own", l.fds, l.threads, float64(l.resident)/(1<<20), float64(l.own)/(1<<20))
}

// TestCrashLeavesNothing compares the supervisor before and after many processes and relays.
func TestCrashLeavesNothing(t *testing.T) {
	processes, relays := testkit.Times(20, 120), testkit.Times(8, 40)
	for name, m := range map[string]setting{"process 1": {}, "first exec": {initMode: true}} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, m)
			run := func(kind string, n int) {
				each(t, n, 4, func(i int) error {
					id := newID(kind, i)
					if err := b.StartProcess(t.Context(), b.id, counted(id, "seq 1 2000; (sleep 0.01 &) >/dev/null 2>&1; exit 3")); err != nil {
						return err
					}
					return b.ends(t.Context(), id, numbers(2000), "", 3)
				})
			}
			run("warm", 20)
			keeper := b.keeper()
			before := b.load(keeper)
			run("more", processes)
			t.Logf("after %d processes: %v", processes, b.load(keeper))
			for range relays {
				b.cut()
				if _, err := b.listed(t.Context(), "more-0"); err != nil {
					t.Fatal(err)
				}
			}
			var left [3]int
			t.Cleanup(func() { t.Logf("relays, inits and monitors at the end: %v", left) })
			testkit.Until(t, "relays and monitors are gone", func() bool {
				left = [3]int{len(b.find("relay")), len(b.find("init")), len(b.monitors())}
				return left[0] <= 1 && left[1] == 0 && left[2] == 0
			})
			testkit.Until(t, "the descriptors are back", func() bool { return b.load(keeper).fds <= before.fds+3 })
			after := b.load(keeper)
			t.Logf("before: %v; after: %v", before, after)
			// A slow disk makes threads, which Go keeps: some, but not one for each relay. How many, and what they take, the soak measures.
			if !testing.Short() && (after.threads > before.threads+relays/2 || after.own > before.own+12<<20) {
				t.Error("that is a leak")
			}
			testkit.Until(t, "no zombie is left", func() bool {
				return !slices.ContainsFunc(b.processes(), func(p inside) bool { return p.state == "Z" })
			})
			if used := diskUse(b, b.scratch); used > int64(processes+20)*20<<10 {
				t.Errorf("the records take %d KiB", used>>10)
			} else {
				t.Logf("the records take %d KiB", used>>10)
			}
			b.check(b.StartProcess(t.Context(), b.id, counted("long", leaver)))
			testkit.Until(t, "it is there", func() bool { return len(b.commands()) == 3 })
			members := b.processes()
			b.check(b.engine.Delete(t.Context(), string(b.id)))
			for _, p := range members {
				stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
				if err == nil && len(stat) > 0 && p.verb != "relay" {
					t.Errorf("left: %+v", p)
				}
			}
		})
	}
}

func diskUse(b *box, dir string) (bytes int64) {
	b.check(filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		bytes += st.Blocks * 512
		return nil
	}))
	return bytes
}

// TestCrashFootprint tells what the shim itself takes.
func TestCrashFootprint(t *testing.T) {
	b := newBox(t, setting{})
	keeper := b.keeper()
	t.Logf("supervisor: %v", b.load(keeper))
	b.check(b.StartProcess(t.Context(), b.id, direct("one", "sleep", "1000")))
	testkit.Until(t, "its monitor has it", func() bool { return len(b.monitors()) == 1 })
	t.Logf("supervisor with one process: %v", b.load(keeper))
	t.Logf("its monitor: %v", b.load(b.monitors()[0].pid))
	t.Logf("a relay: %v", b.load(b.find("relay")[0].pid))
	each(t, 100, 4, func(i int) error {
		return b.StartProcess(t.Context(), b.id, direct(newID("more", i), "sleep", "1000"))
	})
	all := b.load(keeper)
	t.Logf("supervisor with 101 processes: %v", all)
	var sum load
	monitors := b.monitors()
	for _, m := range monitors {
		l := b.load(m.pid)
		sum.resident += l.resident
		sum.own += l.own
		sum.threads += l.threads
	}
	n := int64(len(monitors))
	t.Logf("a monitor of %d, on average: %.1f threads, %d KiB resident, %d KiB of that its own", n, float64(sum.threads)/float64(n), sum.resident/n>>10, sum.own/n>>10)
	if n != 101 || !testing.Short() && (all.own > 24<<20 || sum.own/n > 6<<20 || sum.threads > 16*101) {
		t.Error("that is more than is told")
	}
	each(t, 100, 4, func(i int) error {
		return b.SignalProcess(t.Context(), b.id, newID("more", i), sdk.KILL)
	})
	testkit.Until(t, "they have ended", func() bool { return len(b.monitors()) == 1 })
	t.Logf("supervisor when they have ended: %v", b.load(keeper))
}
