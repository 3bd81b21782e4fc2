package host

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// testClock passes when told to, and if it flows also by itself.
type testClock struct {
	mu     sync.Mutex
	wall   time.Time
	steady time.Duration
	timers []testTimer
	flows  time.Time // since when it does; zero: it does not
}

type testTimer struct {
	at time.Duration
	c  chan time.Time
}

func newTestClock() *testClock { return &testClock{wall: time.Now().Round(0)} }

func newFlowingClock() *testClock {
	c := newTestClock()
	c.flows = time.Now()
	return c
}

// now gives both times. The lock is held.
func (c *testClock) now() (wall time.Time, steady time.Duration) {
	if c.flows.IsZero() {
		return c.wall, c.steady
	}
	flown := time.Since(c.flows)
	return c.wall.Add(flown), c.steady + flown
}

func (c *testClock) clock() *clock {
	return &clock{
		wall: func() time.Time {
			c.mu.Lock()
			defer c.mu.Unlock()
			wall, _ := c.now()
			return wall
		},
		steady: func() time.Duration {
			c.mu.Lock()
			defer c.mu.Unlock()
			_, steady := c.now()
			return steady
		},
		after: func(d time.Duration) <-chan time.Time {
			c.mu.Lock()
			defer c.mu.Unlock()
			_, steady := c.now()
			t := testTimer{steady + d, make(chan time.Time, 1)}
			c.timers = append(c.timers, t)
			if !c.flows.IsZero() {
				time.AfterFunc(d, func() { c.pass(0) })
			}
			return t.c
		},
	}
}

// pass lets time pass.
func (c *testClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.steady = c.wall.Add(d), c.steady+d
	wall, steady := c.now()
	c.timers = slices.DeleteFunc(c.timers, func(t testTimer) bool {
		if t.at > steady {
			return false
		}
		t.c <- wall
		return true
	})
}

// awaited waits until somebody waits for that long from now, and so has read the clock.
func (c *testClock) awaited(t testing.TB, d time.Duration) {
	t.Helper()
	testkit.Until(t, "somebody waits for "+d.String(), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, steady := c.now()
		return slices.ContainsFunc(c.timers, func(t testTimer) bool { return t.at == steady+d })
	})
}

// set moves the wall clock alone, as somebody does who sets it.
func (c *testClock) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(by)
}

// What is set is noticed, what passes is not, and small corrections neither.
func TestJumps(t *testing.T) {
	c := newTestClock()
	var j jumps
	look := func(want bool, what string) {
		t.Helper()
		wall, renewed := j.look(*c.clock())
		if got := !renewed.IsZero() && renewed.Equal(wall); got != want {
			t.Errorf("%s: renewed at %v of %v", what, renewed, wall)
		}
	}
	look(false, "first look")
	c.pass(100 * time.Hour)
	look(false, "time passes")
	c.set(maxDrift)
	look(false, "a small correction")
	c.set(time.Hour)
	look(true, "an hour forward")
	c.pass(time.Minute)
	c.set(-time.Hour)
	look(true, "an hour back")
	real := realClock()
	if before := real.steady(); real.steady() < before || time.Since(real.wall()) < 0 {
		t.Error("the machine's clock goes back")
	}
}
