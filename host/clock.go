package host

import (
	"sync"
	"time"
)

// clock tells the time twice: as the machine's clock has it, which people and other programs set, and as it passes, which nobody sets. Times
// that the store keeps are of the first; graces within one life of the host are counted by the second.
type clock struct {
	wall   func() time.Time
	steady func() time.Duration // since some moment; never goes back
	after  func(time.Duration) <-chan time.Time
}

func realClock() clock {
	began := time.Now()
	return clock{
		wall:   func() time.Time { return time.Now().Round(0) },
		steady: func() time.Duration { return time.Since(began) },
		after:  time.After,
	}
}

// maxDrift is how far the two may differ from look to look before the wall clock has been set.
const maxDrift = time.Minute

// jumps notices when the wall clock is set. What is reckoned from stored times then begins anew.
type jumps struct {
	mu      sync.Mutex
	seen    bool
	wall    time.Time
	steady  time.Duration
	renewed time.Time // of the last time that it was set
}

// look gives the time of the wall clock, and since when stored times count.
func (j *jumps) look(c clock) (wall, renewed time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	wall, steady := c.wall(), c.steady()
	drift := wall.Sub(j.wall) - (steady - j.steady)
	if j.seen && drift.Abs() > maxDrift {
		j.renewed = wall
	}
	j.seen, j.wall, j.steady = true, wall, steady
	return wall, j.renewed
}
