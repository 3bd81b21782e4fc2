package host

import (
	"context"
	"fmt"
	"sync"

	"github.com/slipway-run/slipway/host/job"
)

// stepTurn is a step's turn, of its run's and of the host's: it has both or, as one that has ended or that waits for nothing but a place, neither. A step asks for a
// place once it has its turn, so that no more are placed than may go. Where it has to wait for the place it gives the turn back, and the queue takes it again in the
// moment in which it gives the place ([pool.Turn]). So ten that wait for a full worker do not keep an eleventh from an idle one, and none keeps a place idle until its
// turn comes, on which steps of other runs, or containers that need no turn, may go.
type stepTurn struct {
	r    *run
	step string
	who  comer

	mu   sync.Mutex
	has  bool
	over bool // the step has ended: whoever else waits for its container needs no turn
}

func (r *run) turnOf(s *job.Step) *stepTurn {
	return &stepTurn{r: r, step: s.Name, who: comer{owner: RunOwner(r.id, s.Name), team: s.Team, priority: s.Priority}}
}

// take waits until the step may go, unless it does. The error is ctx's.
func (t *stepTurn) take(ctx context.Context) error {
	t.mu.Lock()
	need := !t.has && !t.over
	t.mu.Unlock()
	if !need {
		return nil
	}
	r := t.r
	waits := func(most int) {
		r.crowded.Do(func() { // what is so of one step is so of all that come after it
			r.tell(Event{Step: t.step, Kind: EventWaiting, Message: fmt.Sprintf("for its turn, as others do: %d may go at a time", most)})
		})
	}
	if err := r.turns.take(ctx, t.who, waits); err != nil {
		return err
	}
	if err := r.h.turns.take(ctx, t.who, waits); err != nil {
		r.turns.leave(t.who.team)
		t.freed()
		return err
	}
	t.mu.Lock()
	over := t.over
	t.has = !over
	t.mu.Unlock()
	if over {
		t.leave()
	}
	return nil
}

// giveBack ends the turn for as long as the step waits for a place.
func (t *stepTurn) giveBack() {
	t.mu.Lock()
	had := t.has
	t.has = false
	t.mu.Unlock()
	if had {
		t.leave()
	}
}

func (t *stepTurn) leave() {
	t.r.h.turns.leave(t.who.team)
	t.r.turns.leave(t.who.team)
	t.freed()
}

// freed has those go who may now. Those who wait for a place, and need both turns, are asked while both are free.
func (t *stepTurn) freed() {
	t.r.h.queue.TurnsFreed()
	t.r.h.turns.letNext()
	t.r.turns.letNext()
}

// end ends the turn with its step.
func (t *stepTurn) end() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.giveBack()
}

// Free implements [pool.Turn].
func (t *stepTurn) Free() error { return t.ask(false) }

// Take implements [pool.Turn].
func (t *stepTurn) Take() bool { return t.ask(true) == nil }

// ask tells why the step may not go now, of its run's turns and the host's as they are at one moment; where it may, it does if take is true.
func (t *stepTurn) ask(take bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.has || t.over {
		return nil
	}
	both := [...]*turns{t.r.turns, t.r.h.turns}
	for _, of := range both {
		of.mu.Lock()
		defer of.mu.Unlock()
		if !of.lets(&t.who) {
			return of.full
		}
	}
	if !take {
		return nil
	}
	for _, of := range both {
		of.let(t.who.team)
	}
	t.has = true
	return nil
}
