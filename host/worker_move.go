package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/pool"
)

// move is what has to be copied to another worker.
type move struct {
	artifact *Artifact
	bytes    int64
	team     string    // whose it is
	spec     pool.Spec // of who needs it
	need     need
}

// movesAtOnce is how many artifacts are copied from one worker at a time.
const movesAtOnce = 2

// mover copies artifacts from a worker that is being emptied to others, beside whoever looks at what is left there.
type mover struct {
	h      *Host
	from   *worker
	moved  chan struct{} // gets a token when something has been moved, so that somebody looks again at once
	copies sync.WaitGroup

	mu       sync.Mutex
	due      []move                  // what is to be copied next, the first first
	sent     map[string]int64        // bytes so far, of those that are being copied, by the artifact's id
	failures map[string]*copyFailure // of those whose last try has failed, by the artifact's id
	already  Drain                   // Moved and MovedBytes alone
}

func newMover(h *Host, from *worker) *mover {
	return &mover{h: h, from: from, moved: make(chan struct{}, 1), sent: make(map[string]int64)}
}

// move begins to copy those that are not being copied, a few at a time, until ctx ends: what is needed now first, and of
// that what has never failed, else what failed the longest ago. What fails is left alone a little longer each time, so
// that it holds up nothing else.
func (m *mover) move(ctx context.Context, moves []move) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, failures := time.Now(), make(map[string]*copyFailure) // without those of what is not to be moved any more
	m.due = nil
	for _, next := range moves {
		f := m.failures[next.artifact.ID]
		if f != nil {
			failures[next.artifact.ID] = f
		}
		if f == nil || !now.Before(f.until) {
			m.due = append(m.due, next)
		}
	}
	m.failures = failures
	pause := func(v move) (until time.Time) {
		if f := failures[v.artifact.ID]; f != nil {
			until = f.until
		}
		return until
	}
	slices.SortStableFunc(m.due, func(a, b move) int {
		return cmp.Or(cmp.Compare(b.need, a.need), pause(a).Compare(pause(b)))
	})
	m.begin(ctx)
}

// begin begins to copy what is due, as far as that may be copied beside what is. m.mu is held.
func (m *mover) begin(ctx context.Context) {
	for len(m.due) > 0 && len(m.sent) < movesAtOnce && ctx.Err() == nil {
		next := m.due[0]
		m.due = m.due[1:]
		if _, under := m.sent[next.artifact.ID]; !under {
			m.sent[next.artifact.ID] = 0
			m.copies.Go(func() { m.copy(ctx, next) })
		}
	}
}

func (m *mover) copy(ctx context.Context, next move) {
	to, err := m.h.refuge(m.from, next)
	if err == nil {
		_, err = m.h.replicate(ctx, next.artifact, to, func(p StreamProgress) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.sent[next.artifact.ID] = max(p.Bytes, 0)
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sent, next.artifact.ID)
	if err != nil {
		f := cmp.Or(m.failures[next.artifact.ID], new(copyFailure))
		f.err, f.until = err, time.Now().Add(f.next.after(err))
		m.failures[next.artifact.ID] = f
		m.begin(ctx)
		return
	}
	delete(m.failures, next.artifact.ID)
	m.already.Moved++
	m.already.MovedBytes += next.bytes
	select {
	case m.moved <- struct{}{}:
	default:
	}
}

// describe adds to what is left how far its copying is.
func (m *mover) describe(left *Drain) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left.Moved, left.MovedBytes = m.already.Moved, m.already.MovedBytes
	for i := range left.Artifacts {
		a := &left.Artifacts[i]
		if a.Copied = m.sent[a.id]; a.Copied == 0 {
			if f := m.failures[a.id]; f != nil {
				a.Why = f.err.Error()
			}
		}
	}
}

// busy tells whether something is being copied, or has not failed often enough yet to be given up. It may be needed only
// later, but its source must not go meanwhile.
func (m *mover) busy() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.failures {
		if f.next.next < statusEvery {
			return true
		}
	}
	return len(m.sent) > 0
}

// refuge is the best worker for something that has to leave one: that which would take the work that needs it, however many containers it has,
// else any that runs. One that comes and goes is taken only where there is no other, for what is there goes with it. All of them need room for
// another volume.
func (h *Host) refuge(from *worker, m move) (*worker, error) {
	spec := m.spec
	spec.Exclude = map[string]string{from.name: "it is being emptied"}
	var second *worker
	for _, v := range h.place.Explain(h.index, spec) {
		if !v.Reason.Compatible() || v.Reason == pool.Pausing || !h.queue.HasRoom(v.Worker, m.artifact.ID) {
			continue
		}
		w, err := h.worker(v.Worker)
		if err != nil {
			return nil, err
		}
		if !w.passing() {
			return w, nil
		}
		if second == nil {
			second = w
		}
	}
	if w := h.lasting(from.name, m.team, m.artifact.ID); w != nil {
		return w, nil
	}
	if second != nil {
		return second, nil
	}
	var full []string
	for _, p := range h.index.Workers() {
		if takesIn(p, from.name, m.team) {
			if h.queue.HasRoom(p.Name, m.artifact.ID) {
				return h.worker(p.Name)
			}
			full = append(full, p.Name)
		}
	}
	if len(full) > 0 {
		return nil, fmt.Errorf("no other worker has room for another volume (%s): raise its limit, or add a worker", list(full))
	}
	return nil, fmt.Errorf("no other worker runs that could keep it: add or uncordon one")
}

// lasting is a worker that runs, may keep what is a team's, has room for an artifact, if one is named, and stays; nil: there is none but the one that is left out.
func (h *Host) lasting(but, team, artifact string) *worker {
	for _, p := range h.index.Workers() {
		if w, err := h.worker(p.Name); err == nil && takesIn(p, but, team) && !w.passing() && (artifact == "" || h.queue.HasRoom(p.Name, artifact)) {
			return w
		}
	}
	return nil
}

// takesIn tells whether a worker may keep what is a team's and has to leave another worker.
func takesIn(p pool.Worker, from, team string) bool {
	return p.Name != from && p.State == pool.Running && (p.Team == "" || p.Team == team)
}
