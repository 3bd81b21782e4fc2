package testkit

import (
	"context"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// ScaleEnv is the environment variable that [Scale] multiplies by: to be set on a machine so slow that a test's short timers run out by themselves.
const ScaleEnv = "SLIPWAY_TIME_SCALE"

// reserve is what a test that was waiting in vain has left to say so, to dump goroutines and to clean up.
const reserve = 30 * time.Second

// Context ends with the test, or shortly before the test binary's deadline (-timeout). Its end means that what a test waits for does
// not come: no test needs a bound of its own.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx := t.Context()
	at, ok := deadline(t)
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithDeadline(ctx, at)
	t.Cleanup(cancel)
	return ctx
}

// Bound is how long a test may wait for what must come: until shortly before the test binary's deadline. Clean-up, which has no test's
// context any more, takes its bound from here.
func Bound(t testing.TB) time.Duration {
	at, ok := deadline(t)
	if !ok {
		return 24 * time.Hour
	}
	return max(time.Until(at), time.Second)
}

// deadline is when waiting ends; there is none with -timeout 0, and none is told to benchmarks.
func deadline(t testing.TB) (time.Time, bool) {
	d, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return time.Time{}, false
	}
	at, ok := d.Deadline()
	return at.Add(-reserve), ok
}

// Until waits for a state that no event announces: it asks until done says yes, and fails the test when [Context] ends first. what
// completes the sentence "in vain it was awaited that ...".
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx := Context(t)
	for pause := time.Millisecond; !done(); pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-ctx.Done():
			t.Fatalf("in vain it was awaited that %s", what)
		case <-time.After(pause):
		}
	}
}

// Scale lengthens a timer that a test sets short so that something happens soon (a hello, a keep-alive, an idle time), and that must
// not run out while a slow machine does what should come first.
func Scale(d time.Duration) time.Duration { return time.Duration(float64(d) * TimeScale()) }

// TimeScale is the factor of [Scale]; 1 where the variable [ScaleEnv] is not set. It panics on one that is not a positive number.
func TimeScale() float64 {
	text := os.Getenv(ScaleEnv)
	if text == "" {
		return 1
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f <= 0 {
		panic(ScaleEnv + "=" + text + ": want a positive number")
	}
	return f
}

// bubbleTime is how long a test may wait in a bubble, in the bubble's time: far longer than whatever is waited for there.
const bubbleTime = 3 * time.Hour

// Bubble runs f in a bubble of testing/synctest, where time passes only while all wait, and then at once: nobody waits for back-offs and
// graces. What waits there has three hours of that time, where something goes on ticking; where nothing does, waiting in vain is a deadlock.
func Bubble(t *testing.T, f func(testing.TB)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(bubbled{t, time.Now().Add(bubbleTime)}) })
}

// bubbled is a test whose deadline is of its bubble's time. That of the binary is not.
type bubbled struct {
	testing.TB
	end time.Time
}

// Deadline is as that of testing.T, which may not be asked for in a bubble.
func (b bubbled) Deadline() (time.Time, bool) { return b.end, true }
