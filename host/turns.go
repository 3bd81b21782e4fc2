package host

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/slipway-run/slipway/host/pool"
)

// Steps take turns where more of them are ready than may go side by side: as many as a run asks for, as many as the configuration lets this host do, and never more
// than this process may have files open for.

// filesPerStep is how many files a step has open at most, most of the time: its output, who shows that, what it brings and takes away. ownFiles is what the host
// has besides.
const (
	filesPerStep = 6
	ownFiles     = 100
)

// turns bounds how many go side by side. Who waits goes as in the queue for a place: by priority, then the team of which fewer go, then
// that which was let go less often since somebody waits, then age.
type turns struct {
	mu      sync.Mutex
	most    int            // zero: any number
	full    *TurnError     // why one may not go where they do
	all     int            // that go
	going   map[string]int // by team
	served  map[string]int // by team, since somebody waits
	waiting []*comer       // by age

	freed func() // told of what lets one go who waits for a place, before those who wait here are let go; the lock is not held
}

// comer is who waits for a turn.
type comer struct {
	owner    string
	team     string
	priority int
	since    time.Time
	let      chan struct{} // closed once it may go
}

// turnWait is one that waits for a turn, as others are told of it.
type turnWait struct {
	*comer
	position int // among those who wait, from 1
	most     int // go at a time
}

// waits lists who waits, the first to go first, as things stand.
func (t *turns) waits() []turnWait {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.waiting)
	slices.SortStableFunc(all, t.order)
	out := make([]turnWait, len(all))
	for i, c := range all {
		out[i] = turnWait{c, i + 1, t.most}
	}
	return out
}

// ahead lists the owners of those who would go before somebody who came now, as his team may hear of them, and how many may go at a time, if he would have to wait; 0: he would go at once.
func (t *turns) ahead(who comer) (owners []string, most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.most == 0 || t.all < t.most {
		return nil, 0
	}
	all := slices.Clone(t.waiting)
	slices.SortStableFunc(all, t.order)
	for _, c := range all {
		if t.order(c, &who) <= 0 {
			owners = append(owners, pool.OwnerSeenBy(who.team, c.owner, c.team))
		}
	}
	return owners, t.most
}

// newTurns returns turns of which most may go side by side, zero for any number. Freed must not be nil.
func newTurns(most int64, freed func()) *turns {
	t := &turns{going: make(map[string]int), served: make(map[string]int), freed: freed}
	t.most = bound(most)
	t.full = &TurnError{t.most}
	return t
}

func bound(most int64) int { return int(min(max(most, 0), math.MaxInt32)) }

// set changes how many may go side by side; nothing is any number. Those that go are not held up.
func (t *turns) set(most int64) {
	t.mu.Lock()
	t.most = bound(most)
	t.full = &TurnError{t.most}
	t.mu.Unlock()
	t.freed()
	t.letNext()
}

// take waits for a turn; waits is called if there is none at once. It has to be left at its end, once. The error is ctx's.
func (t *turns) take(ctx context.Context, who comer, waits func(most int)) error {
	c := &who
	c.since, c.let = time.Now(), make(chan struct{})
	t.mu.Lock()
	t.waiting = append(t.waiting, c)
	t.next()
	most := t.most
	t.mu.Unlock()
	select {
	case <-c.let:
		return nil
	default:
		waits(most)
	}
	select {
	case <-c.let:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, c)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // it was let go just now
		t.leave(c.team)
	}
	t.freed() // one who waits for a place may have been behind it
	t.letNext()
	return ctx.Err()
}

// leave ends a turn. Whose it is next is decided by freed and letNext, which come after.
func (t *turns) leave(team string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.going[team]--; t.going[team] == 0 {
		delete(t.going, team)
	}
}

// lets tells whether who, who waits for a place and not here, may go now: nobody who waits here must come before it by anything but age. The lock is held.
func (t *turns) lets(who *comer) bool {
	return t.most == 0 || t.all < t.most && !slices.ContainsFunc(t.waiting, func(c *comer) bool { return t.order(c, who) < 0 })
}

// let counts one who goes. The lock is held.
func (t *turns) let(team string) {
	t.all++
	t.going[team]++
	if len(t.waiting) > 0 {
		t.served[team]++
	}
}

// letNext lets go as many as may.
func (t *turns) letNext() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next()
}

// next lets go as many as may. The lock is held.
func (t *turns) next() {
	for (t.most == 0 || t.all < t.most) && len(t.waiting) > 0 {
		first := 0
		for i := range t.waiting {
			if t.order(t.waiting[i], t.waiting[first]) < 0 {
				first = i
			}
		}
		c := t.waiting[first]
		t.let(c.team)
		t.waiting = slices.Delete(t.waiting, first, first+1)
		close(c.let)
	}
	if len(t.waiting) == 0 {
		clear(t.served)
	}
}

// order is less than nothing if a goes before b whichever is older, and nothing if the older one goes first. The lock is held.
func (t *turns) order(a, b *comer) int {
	return cmp.Or(-cmp.Compare(a.priority, b.priority), cmp.Compare(t.going[a.team], t.going[b.team]), cmp.Compare(t.served[a.team], t.served[b.team]))
}

// hostTurns is how many may go side by side in a host: of configured many, zero for no number, and of the files that it may have open.
func hostTurns(configured int) int64 {
	files := int64(0)
	if open := maxOpenFiles(); open > 0 {
		files = max((open-ownFiles)/filesPerStep, 1)
	}
	if configured > 0 && (files == 0 || int64(configured) < files) {
		files = int64(configured)
	}
	return files
}

// turnWaits lists the steps that wait for a turn, of this host's or of their run's.
func (h *Host) turnWaits() []turnWait {
	out := h.turns.waits()
	for _, r := range h.goingRuns() {
		out = append(out, r.turns.waits()...)
	}
	return out
}

// explain says that a step waits for its turn.
func (w turnWait) explain() *Explanation {
	return &Explanation{Owner: w.owner, State: PlacementTurn, Waited: time.Since(w.since), Position: w.position, Priority: w.priority,
		Err: &TurnError{w.most}}
}

// FilesExhausted tells whether an error says that this process, or this machine, has as many files open as it may: what failed so can be done again once others
// are closed.
func FilesExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// errFiles is why something waits that would have failed for want of files.
var errFiles = errors.New("too many files are open: it goes on when others are closed; let slipway open more (ulimit -n), or run fewer steps at a time (--parallel)")

// untilStored does something again for as long as it fails for want of files, or of room on the disk of the state directory, dir, and has waits
// told so before each time; meanwhile says what becomes of the work until there is room. The error is that of the last time once ctx has ended.
func untilStored(ctx context.Context, dir, meanwhile string, waits func(error), do func() error) error {
	var b backoff
	for {
		err := do()
		switch {
		case FilesExhausted(err):
			waits(errFiles)
		case lacksRoom(err):
			waits(&noRoomError{dir, meanwhile, err})
		default:
			return err
		}
		select {
		case <-time.After(b.after(nil)):
		case <-ctx.Done():
			return err
		}
	}
}
