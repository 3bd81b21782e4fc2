package host

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestPluginKilledInMidOutput kills the plugin with SIGKILL at 200 random moments of a process's life, with a world behind it. No
// byte is lost or doubled, in the order in which it was written; the process is started once; its watcher sees pauses.
func TestPluginKilledInMidOutput(t *testing.T) {
	kills, processes := testkit.Times(24, 200), 8
	world := startWorld(t, "m", 0)
	h := openConfig(t, worldConfig(memoryPlugin(t), world.socket, "m"), Options{Launch: restless()})
	for i := range processes {
		p := script(t, h, fmt.Sprintf("owner-%d", i), `
trap 'stop=yes' USR1
i=0
while [ -z "$stop" ]; do
  echo "out $i"
  echo "err $i" >&2
  i=$((i+1))
done
echo "end $i"`)
		var pauses atomic.Int64
		p.OnPause(func(why error) {
			if why != nil {
				pauses.Add(1)
			}
		})
		awaitText(t, p, "out 0") // a follow that has not begun is not interrupted
		for range kills / processes {
			killPlugin(t, h, time.Duration(rand.Int64N(int64(60*time.Millisecond))))
		}
		if err := p.Signal(t.Context(), "USR1"); err != nil {
			t.Fatal(err)
		}
		o := waitOutcome(t, p)
		if o.Exit == nil || o.Exit.Code != 0 {
			t.Fatalf("process %d: %s", i, say(o))
		}
		checkCount(t, output(t, p))
		if pauses.Load() == 0 {
			t.Errorf("process %d: its watcher saw no pause", i)
		}
	}
	if n := world.starts(); n != processes {
		t.Errorf("%d starts for %d processes", n, processes)
	}
	if r := h.Plugins()[0]; r.Restarts < kills {
		t.Errorf("the plugin was restarted %d times, want %d or more", r.Restarts, kills)
	}
}

// killPlugin waits for a moment and kills whatever process the plugin has then.
func killPlugin(t *testing.T, h *Host, after time.Duration) {
	t.Helper()
	<-time.After(after)
	proc := h.plugins[0].proc
	for {
		changed := proc.Changes()
		if pid := proc.State().PID; pid != 0 {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
			for proc.State().PID == pid { // its end has been seen
				select {
				case <-changed:
				case <-testkit.Context(t).Done():
					t.Fatal("the end of the plugin was not seen")
				}
				changed = proc.Changes()
			}
			return
		}
		select {
		case <-changed:
		case <-testkit.Context(t).Done():
			t.Fatal("the plugin did not come back")
		}
	}
}

// checkCount checks that the output is out 0, err 0, out 1, err 1, ... end n.
func checkCount(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i, line := range lines[:len(lines)-1] {
		want := fmt.Sprintf("out %d", i/2)
		if i%2 == 1 {
			want = fmt.Sprintf("err %d", i/2)
		}
		if line != want {
			t.Fatalf("line %d of %d is %q, want %q", i, len(lines), line, want)
		}
	}
	if last, want := lines[len(lines)-1], fmt.Sprintf("end %d", (len(lines)-1)/2); last != want {
		t.Fatalf("the last line is %q, want %q", last, want)
	}
	t.Logf("%d lines", len(lines))
}
