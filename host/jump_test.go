package host

import (
	"slices"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// lives is the time to live of what the tests here make.
const lives = 40 * time.Minute

// expiring is a kind of thing that goes when nobody has used it for its time to live.
type expiring struct {
	name  string
	begin func(t *testing.T, h *Host)      // makes one
	there func(t *testing.T, h *Host) bool // without that counting as use
	use   func(t *testing.T, h *Host)      // nil: it goes when it was made so long ago
}

func allExpiring() []expiring {
	cache := TaskCacheKey("", "cached", "s", "c")
	return []expiring{
		{"an artifact", func(t *testing.T, h *Host) {
			if _, err := h.UploadFiles(testkit.Context(t), Upload{Name: "upload", TTL: lives}, stream.File{Name: "f", Data: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, h *Host) bool { return !expired(t, h, &Artifact{Name: "upload"}) }, nil},

		{"a container", func(t *testing.T, h *Host) {
			if _, err := h.Container(testkit.Context(t), "owner", ContainerRequest{TTL: lives}); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, h *Host) bool { return stateOf(t, h, "owner") == lifecycle.ContainerReady }, func(t *testing.T, h *Host) {
			if _, err := h.FindContainer(testkit.Context(t), "owner"); err != nil {
				t.Fatal(err)
			}
		}},

		{"a cache", func(t *testing.T, h *Host) { cached(t, h, "s", "", "echo x > c/n", 0) }, func(t *testing.T, h *Host) bool {
			rows, err := h.cachesUnder(testkit.Context(t), cache, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			return len(rows) > 0
		}, func(t *testing.T, h *Host) {
			if a, err := h.useCache(testkit.Context(t), cache, time.Time{}, nil); a == nil || err != nil {
				t.Fatalf("%v, %v", a, err)
			}
		}},
	}
}

// TestExpiryThroughAJump: what has a time to live has all of it again when the clock is set forward, though nothing has looked at the clock since
// the host opened, and goes no sooner when it is set back; it goes in the end.
func TestExpiryThroughAJump(t *testing.T) {
	t.Parallel()
	for _, kind := range allExpiring() {
		for by, whole := range map[time.Duration]time.Duration{time.Hour: lives, -time.Hour: lives - 30*time.Minute} {
			t.Run(kind.name+" "+by.String(), func(t *testing.T) {
				t.Parallel()
				clk := newTestClock()
				h := openHost(t, newMemory(t, "m"), Options{clock: clk.clock(), CacheTTL: lives}, "m")
				kind.begin(t, h)
				clk.pass(30 * time.Minute)
				clk.set(by)
				reapAll(t, h)
				clk.pass(whole - time.Minute)
				if reapAll(t, h); !kind.there(t, h) {
					t.Fatalf("it is gone %s before its time", time.Minute)
				}
				clk.pass(time.Minute + max(0, -by))
				reapAll(t, h)
				if reapAll(t, h); kind.there(t, h) {
					t.Error("it has not gone")
				}
			})
		}
	}
}

// TestTimerThroughAJump: nor does the timer take away what has its time again; then the reaper does.
func TestTimerThroughAJump(t *testing.T) {
	t.Parallel()
	for _, kind := range allExpiring() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			clk := newTestClock()
			h, err := Open(t.Context(), testConfig("m"), Options{StateDir: newStateDir(t), clock: clk.clock(), CacheTTL: lives, Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closeTestHost(t, h) })
			if err := h.Ready(testkit.Context(t)); err != nil {
				t.Fatal(err)
			}
			kind.begin(t, h)
			const more = 3 * time.Hour // than that, for another thing: who waits for that has looked at the first
			if _, err := h.UploadFiles(testkit.Context(t), Upload{Name: "other", TTL: lives + more}, stream.File{Name: "f", Data: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			clk.awaited(t, lives)
			clk.pass(lives - time.Minute)
			clk.set(time.Hour)
			clk.pass(time.Minute)
			clk.awaited(t, more-time.Hour)
			if !kind.there(t, h) {
				t.Fatal("it is gone")
			}
			clk.pass(lives)
			reapAll(t, h)
			if reapAll(t, h); kind.there(t, h) {
				t.Error("it has not gone")
			}
		})
	}
}

// TestReapThroughAJump: however the wall clock is set, what is only unknown goes after its grace and a second look, neither before nor later; a run that nobody resumes
// is given up after its grace from then on at the soonest.
func TestReapThroughAJump(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			rt, clk := newMemory(t, "m"), newTestClock()
			opts := Options{StateDir: t.TempDir(), clock: clk.clock()}
			leftRun(t, rt, opts, "sleep 1000")
			h := openHost(t, rt, opts, "m")
			grace, abandoned := h.cfg().Timing.MissingGrace, h.rules().Abandoned
			conn, err := rt.Worker("m")
			if err == nil {
				err = conn.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "stray", Token: "t", Labels: map[string]string{sdk.LabelInstallation: h.Installation()}}, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			stray := func() bool { return slices.Contains(onWorker(t, rt, "m"), "container stray") }
			run := func() bool { return runRow(t, h, "r").State == lifecycle.RunGoing }
			reapAll(t, h)
			clk.set(by)
			clk.pass(grace - 1)
			if reapAll(t, h); !stray() {
				t.Error("what is unknown is gone before its grace")
			}
			clk.pass(1)
			if reapAll(t, h); stray() {
				t.Error("what is unknown is there after its grace")
			}
			clk.pass(abandoned - time.Hour)
			if reapAll(t, h); !run() {
				t.Error("the run is given up before its time")
			}
			clk.pass(time.Hour + max(0, -by))
			if reapAll(t, h); run() {
				t.Error("the run is not given up")
			}
		})
	}
}
