package launch

import (
	"math/rand/v2"
	"time"
)

// breaker decides when to try again. It is policy over times that it is given; the plugin's goroutine owns it.
type breaker struct {
	min, max       time.Duration // of the backoff
	after          int           // exits
	window, openOf time.Duration

	ended   []time.Time // exits within the window
	streak  int         // exits since things were stable
	probing bool        // the circuit was open when the running attempt began
}

// exit takes a failure and tells how long to wait, and whether the circuit is open meanwhile.
func (b *breaker) exit(now time.Time, final bool) (wait time.Duration, open bool) {
	kept := b.ended[:0]
	for _, t := range b.ended {
		if now.Sub(t) < b.window {
			kept = append(kept, t)
		}
	}
	b.ended = append(kept, now)
	if final || b.probing || len(b.ended) >= b.after {
		b.probing = true
		return b.openOf, true
	}
	wait = b.min
	for range b.streak {
		if wait >= b.max {
			break
		}
		wait *= 2
	}
	wait = min(b.max, wait+rand.N(wait/2+1))
	b.streak++
	return wait, false
}

// reset forgets what was: things are stable, or an operator says that they will be.
func (b *breaker) reset() { b.ended, b.streak, b.probing = nil, 0, false }
