package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/slipway-run/slipway/host/job"
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

// turns bounds how many go side by side. A nil one bounds nothing. Who waits goes as in the queue for a place: by priority, then the team of which fewer go, then
// that which was let go less often since somebody waits, then age.
type turns struct {
	mu      sync.Mutex
	most    int            // zero: any number
	all     int            // that go
	going   map[string]int // by team
	served  map[string]int // by team, since somebody waits
	waiting []*comer       // by age
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
	if t == nil {
		return nil
	}
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
	if t == nil {
		return nil, 0
	}
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

func newTurns(most int64) *turns {
	if most <= 0 {
		return nil
	}
	t := &turns{going: make(map[string]int), served: make(map[string]int)}
	t.set(most)
	return t
}

// set changes how many may go side by side; nothing is any number. Those that go are not held up.
func (t *turns) set(most int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.most = int(min(max(most, 0), math.MaxInt32))
	t.next()
}

// take waits for a turn; waits is called if there is none at once. Done has to be called at its end, once. The error is ctx's.
func (t *turns) take(ctx context.Context, who comer, waits func(most int)) (done func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	c := &who
	c.since, c.let = time.Now(), make(chan struct{})
	t.mu.Lock()
	t.waiting = append(t.waiting, c)
	t.next()
	most := t.most
	t.mu.Unlock()
	done = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.leave(c.team)
	}
	select {
	case <-c.let:
		return done, nil
	default:
		waits(most)
	}
	select {
	case <-c.let:
		return done, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, c); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else { // it was let go just now
		t.leave(c.team)
	}
	return nil, ctx.Err()
}

// leave ends a turn. The lock is held.
func (t *turns) leave(team string) {
	t.all--
	if t.going[team]--; t.going[team] == 0 {
		delete(t.going, team)
	}
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
		t.waiting = slices.Delete(t.waiting, first, first+1)
		t.all++
		t.going[c.team]++
		t.served[c.team]++
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

// turn waits until a step may go.
func (r *run) turn(ctx context.Context, s *job.Step) (done func(), err error) {
	waits := func(most int) {
		r.crowded.Do(func() { // what is so of one step is so of all that come after it
			r.tell(Event{Step: s.Name, Kind: EventWaiting, Message: fmt.Sprintf("for its turn, as others do: %d may go at a time", most)})
		})
	}
	who := comer{owner: RunOwner(r.id, s.Name), team: s.Team, priority: s.Priority}
	mine, err := r.turns.take(ctx, who, waits)
	if err != nil {
		return nil, err
	}
	all, err := r.h.turns.take(ctx, who, waits)
	if err != nil {
		mine()
		return nil, err
	}
	return func() {
		all()
		mine()
	}, nil
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
