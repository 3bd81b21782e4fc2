package host

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// lies is what a worker lists in place of what it has: less, nothing, or more. It remembers for how long it has left things out, because a host may take for lost what was left
// out for longer than the grace, and nothing else.
type lies struct {
	clk *testClock

	mu     sync.Mutex
	chance *rand.Rand
	which  lie
	ghosts bool                     // it lists things again that it may not have any more, and things that nobody made
	salt   byte                     // which half is left out
	seen   listing                  // all that was ever there
	known  map[string]bool          // the ids of that
	since  map[string]time.Duration // when things were left out for the first time, by id
	long   map[string]bool          // owners of what was left out for longer than the grace
	gone   map[string]bool          // the ids of that
}

type lie int

const (
	liesNot    lie = iota
	leavesSome     // another part each time, as a worker does that has just begun and does not know all yet
	leavesHalf     // the same half each time
	listsNothing
	lieCount
)

func newLies(seed uint64, clk *testClock) *lies {
	return &lies{clk: clk, chance: rand.New(rand.NewPCG(seed, 2)), known: make(map[string]bool), since: make(map[string]time.Duration), long: make(map[string]bool), gone: make(map[string]bool)}
}

// turn has it lie in another way, or go on as before.
func (l *lies) turn(dice *rand.Rand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if dice.IntN(2) == 0 {
		l.which, l.ghosts, l.salt = lie(dice.IntN(int(lieCount))), dice.IntN(3) == 0, byte(dice.IntN(256))
	}
}

// stop has it tell the truth from now on.
func (l *lies) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.which, l.ghosts = liesNot, false
}

// hidLong tells whether something of an owner was left out for longer than the grace.
func (l *lies) hidLong(owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.long[owner]
}

// hidThing tells whether one thing was.
func (l *lies) hidThing(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone[id]
}

// tell makes of what the worker has what it lists.
func (l *lies) tell(has *listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range has.containers {
		if !l.known[string(c.ID)] {
			l.known[string(c.ID)] = true
			l.seen.containers = append(l.seen.containers, c)
		}
	}
	for _, v := range has.volumes {
		if !l.known[string(v.ID)] {
			l.known[string(v.ID)] = true
			l.seen.volumes = append(l.seen.volumes, v)
		}
	}
	has.containers = slices.DeleteFunc(has.containers, func(c sdk.ContainerInfo) bool { return l.hides(string(c.ID), c.Labels) })
	has.volumes = slices.DeleteFunc(has.volumes, func(v sdk.VolumeInfo) bool { return l.hides(string(v.ID), v.Labels) })
	if !l.ghosts {
		return
	}
	if has.ofVolumes {
		has.volumes = append(has.volumes, some(l.chance, l.seen.volumes)...)
		for _, v := range some(l.chance, l.seen.volumes) {
			v.ID += "-ghost"
			has.volumes = append(has.volumes, v)
		}
		return
	}
	has.containers = append(has.containers, some(l.chance, l.seen.containers)...)
	for _, c := range some(l.chance, l.seen.containers) {
		c.ID += "-ghost"
		has.containers = append(has.containers, c)
	}
}

// hides tells whether a thing is left out, and notes that. The lock is held.
func (l *lies) hides(id string, labels map[string]string) bool {
	switch l.which {
	case liesNot:
		return false
	case leavesSome:
		if l.chance.IntN(8) > 0 {
			return false
		}
	case leavesHalf:
		hash := fnv.New32a()
		_, _ = fmt.Fprintf(hash, "%d %s", l.salt, id)
		if hash.Sum32()%2 == 0 {
			return false
		}
	}
	now := l.clk.clock().steady()
	since, before := l.since[id]
	if !before {
		l.since[id] = now
	} else if now-since >= testTiming.MissingGrace {
		l.long[labels[labelOwner]], l.gone[id] = true, true
	}
	return true
}

// some gives about half of all.
func some[T any](chance *rand.Rand, all []T) (out []T) {
	for _, one := range all {
		if chance.IntN(2) == 0 {
			out = append(out, one)
		}
	}
	return out
}

// makeAndEnd has one caller make what another destroys meanwhile. What was made after that, or had nobody to destroy it, runs.
func (h *history) makeAndEnd(ctx context.Context, owner string) wish {
	var made wish
	var maker sync.WaitGroup
	maker.Go(func() { made = h.make(ctx, owner) })
	c, err := h.r.h.FindContainer(ctx, owner)
	if err == nil {
		_ = c.Destroy(ctx) // what it could not do is owed
	}
	maker.Wait()
	switch {
	case h.cut() || err != nil && !errors.Is(err, store.ErrNotFound):
		return wantEither
	case err != nil: // it was not there yet
		return made
	case made == wantRunning && h.idOf(owner) == c.id: // it was told so before it was destroyed
		return wantGone
	}
	return made
}

// endTwice has one caller seal what another destroys: it is an artifact if the first was told so.
func (h *history) endTwice(ctx context.Context, owner string) wish {
	var sealed, gone wish
	var both sync.WaitGroup
	both.Go(func() { sealed = h.end(ctx, owner, true) })
	gone = h.end(ctx, owner, false)
	both.Wait()
	if sealed == wantSealed {
		return wantSealed
	}
	return gone
}

// killMain ends an owner's process, as its owner does who has had enough of it, and tells whether it has ended: it has not where the host closes, or its worker takes no signals.
func (h *history) killMain(ctx context.Context, owner string) bool {
	p, err := h.r.h.FindProcess(ctx, owner, MainProcess)
	if err != nil {
		return errors.Is(err, sdk.NotFound)
	}
	for range 20 {
		if err := p.Signal(ctx, sdk.KILL); err == nil || sdk.IsNotFound(err, sdk.KindContainer) {
			o, err := p.Wait(ctx)
			return err == nil && !errors.Is(o.Err, ErrClosed)
		}
		if h.cut() || ctx.Err() != nil {
			break
		}
	}
	return false
}

func (h *history) idOf(owner string) (id sdk.ContainerID) {
	h.set(owner, func(f *fate) { id = f.id })
	return id
}
