package host

import (
	"testing"
	"time"
)

// TestExpiredWithoutAHost: what expired while there was no host is kept for a grace from when there is one again. Whoever asks for it meanwhile has it
// for as long as ever; else it goes. Hosts that each live for less than the grace come to the same together.
func TestExpiredWithoutAHost(t *testing.T) {
	t.Parallel()
	for _, kind := range allExpiring() {
		for _, what := range []string{"and is asked for", "before one host", "before several hosts"} {
			if what == "and is asked for" && kind.use == nil {
				continue // asking for it does not keep it for longer
			}
			t.Run(kind.name+" "+what, func(t *testing.T) {
				t.Parallel()
				rt, clk := newMemory(t, "m"), newTestClock()
				opts := Options{StateDir: newStateDir(t), clock: clk.clock(), CacheTTL: lives}
				h := openHost(t, rt, opts, "m")
				again := func() {
					t.Helper()
					closeTestHost(t, h)
					h = openHost(t, rt, opts, "m")
				}
				want := func(there bool, when string) {
					t.Helper()
					reapAll(t, h)
					reapAll(t, h) // what the first gives up the second destroys
					if got := kind.there(t, h); got != there {
						t.Errorf("%s it is there: %v", when, got)
					}
				}
				grace := h.cfg().Timing.MissingGrace
				clk.pass(time.Hour)
				kind.begin(t, h)
				closeTestHost(t, h)
				clk.pass(2 * lives)
				h = openHost(t, rt, opts, "m")
				want(true, "as soon as there is a host")
				if what == "before several hosts" {
					for range 2 {
						clk.pass(grace / 3)
						again()
						want(true, "with one that has just come")
					}
					clk.pass(grace - 2*(grace/3))
					again()
					want(false, "a grace after the first of them")
					return
				}
				clk.pass(grace - 1)
				want(true, "within the grace")
				if what == "and is asked for" {
					kind.use(t, h)
					clk.pass(lives - 1)
					want(true, "within its time after that")
				}
				clk.pass(1)
				want(false, "after that")
			})
		}
	}
}

// TestGraceOfShortLives: nothing is kept for longer after an absence than it would have been after a use.
func TestGraceOfShortLives(t *testing.T) {
	t.Parallel()
	clk := newTestClock()
	h := openHost(t, newMemory(t, "m"), Options{clock: clk.clock()}, "m")
	opened, grace := clk.clock().wall(), h.cfg().Timing.MissingGrace
	for ttl, want := range map[time.Duration]time.Duration{grace / 2: grace / 2, grace: grace, 2 * grace: grace} {
		if got := h.goes(opened.Add(-time.Hour), ttl).Sub(opened); got != want {
			t.Errorf("what is kept for %s goes %s after the host has opened, want %s", ttl, got, want)
		}
	}
}
