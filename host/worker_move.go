package host

import (
	"context"
	"fmt"
	"sync"

	"github.com/slipway-run/slipway/host/pool"
)

// move is what has to be copied to another worker.
type move struct {
	artifact *Artifact
	bytes    int64
	team     string    // whose it is
	spec     pool.Spec // of who needs it
}

// movesAtOnce is how many artifacts are copied from one worker at a time.
const movesAtOnce = 2

// mover copies artifacts from a worker that is being emptied to others, beside whoever looks at what is left there.
type mover struct {
	h      *Host
	from   *worker
	moved  chan struct{} // gets a token when something has been moved, so that somebody looks again at once
	copies sync.WaitGroup

	mu      sync.Mutex
	sent    map[string]int64  // bytes so far, of those that are being copied, by the artifact's id
	why     map[string]string // the last try has failed, by the artifact's id
	already Drain             // Moved and MovedBytes alone
}

func newMover(h *Host, from *worker) *mover {
	return &mover{h: h, from: from, moved: make(chan struct{}, 1), sent: make(map[string]int64), why: make(map[string]string)}
}

// move begins to copy those that are not being copied, a few at a time, until ctx ends.
func (m *mover) move(ctx context.Context, moves []move) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, next := range moves {
		if _, under := m.sent[next.artifact.ID]; under || len(m.sent) >= movesAtOnce {
			continue
		}
		m.sent[next.artifact.ID] = 0
		m.copies.Go(func() { m.copy(ctx, next) })
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
		m.why[next.artifact.ID] = err.Error()
		return
	}
	delete(m.why, next.artifact.ID)
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
			a.Why = m.why[a.id]
		}
	}
}

// busy tells whether something is being copied. It may be needed only later, but its source must not go meanwhile.
func (m *mover) busy() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
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
