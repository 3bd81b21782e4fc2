package host

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// testClock passes only when told to.
type testClock struct {
	mu     sync.Mutex
	wall   time.Time
	steady time.Duration
	timers []testTimer
}

type testTimer struct {
	at time.Duration
	c  chan time.Time
}

func newTestClock() *testClock { return &testClock{wall: time.Now().Round(0)} }

func (c *testClock) clock() *clock {
	return &clock{
		wall: func() time.Time {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.wall
		},
		steady: func() time.Duration {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.steady
		},
		after: func(d time.Duration) <-chan time.Time {
			c.mu.Lock()
			defer c.mu.Unlock()
			t := testTimer{c.steady + d, make(chan time.Time, 1)}
			c.timers = append(c.timers, t)
			return t.c
		},
	}
}

// pass lets time pass.
func (c *testClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.steady = c.wall.Add(d), c.steady+d
	c.timers = slices.DeleteFunc(c.timers, func(t testTimer) bool {
		if t.at > c.steady {
			return false
		}
		t.c <- c.wall
		return true
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
		wall, _, renewed := j.look(*c.clock())
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
