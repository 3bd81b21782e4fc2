package host

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/host/stream"
)

// casts are streams through the host that several destinations share: what is wanted on many workers at the same time is read once. Who
// comes when the reading has begun waits for its end, and then finds a replica nearer than the source.
type casts struct {
	mu     sync.Mutex
	by     map[string]*cast
	coming map[string]int // who will join a cast of an artifact soon, by its id
	fewer  chan struct{}  // closed when somebody has joined or will not come
}

// cast is one of them.
type cast struct {
	cancel  context.CancelFunc // of what comes before it has begun
	members []*member
	begun   bool
	done    chan struct{} // closed once all is over

	raw   int64        // of the archive, before it was packed here; of the source, until it has ended
	moved atomic.Int64 // bytes of it
}

// member is a destination that has joined.
type member struct {
	target stream.Target
	result chan castResult // of capacity 1
	filled <-chan struct{} // closed when there is a replica of what it got, or it is known that there will be none
}

// castResult is how it went for one member.
type castResult struct {
	stats stream.Stats
	raw   int64
	err   error
}

// castSource is what a cast reads: open prepares, and may wait for long; read writes the archive and counts in c.raw what it packs.
type castSource struct {
	open func(ctx context.Context) (done func(), err error) // nil: nothing is to be prepared
	read func(c *cast) func(ctx context.Context, w io.Writer) error
}

const (
	// gatherTime bounds how long a stream waits for others that want the same and make their volumes still.
	gatherTime = 200 * time.Millisecond
	// stuckCast is the part of Timing.WorkerGone for which a stream that others wait for may stand still before they go without it.
	stuckCast = 10
)

// turn is what a stream tells the others of the same content.
type turn struct {
	gone   func()          // it does not come any more, or has come
	filled <-chan struct{} // as in member
}

// errOver says that what was waited for is over: the content may be nearer now.
var errOver = errors.New("another stream of the same content has ended")

// expect notes that a stream of an artifact begins. Its gone is to be called when it has joined, or does not.
func (cs *casts) expect(id string) (gone func()) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.coming == nil {
		cs.coming, cs.fewer = make(map[string]int), make(chan struct{})
	}
	cs.coming[id]++
	var once sync.Once
	return func() {
		once.Do(func() {
			cs.mu.Lock()
			defer cs.mu.Unlock()
			if cs.coming[id]--; cs.coming[id] == 0 {
				delete(cs.coming, id)
			}
			close(cs.fewer)
			cs.fewer = make(chan struct{})
		})
	}
}

// gather waits until all who come have come.
func (cs *casts) gather(ctx context.Context, id string, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		cs.mu.Lock()
		n, fewer := cs.coming[id], cs.fewer
		cs.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-fewer:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// underWay tells whether there is a cast of that key which nobody can join any more.
func (cs *casts) underWay(key string) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.by[key]
	return c != nil && (c.begun || len(c.members) == 0)
}

// await waits for a cast that is under way: its end is errOver. It is nil once that one stands still.
func (cs *casts) await(ctx context.Context, key string, still time.Duration) error {
	cs.mu.Lock()
	c := cs.by[key]
	cs.mu.Unlock()
	if c == nil {
		return errOver
	}
	tick := time.NewTicker(max(still/4, time.Millisecond))
	defer tick.Stop()
	moved, since := int64(-1), time.Now()
	for {
		select {
		case <-c.done:
			return errOver
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if m := c.moved.Load(); m != moved {
			moved, since = m, time.Now()
		}
		if time.Since(since) >= still {
			return nil
		}
	}
}

// share sends from a source to one destination, together with the others that have joined under the key by then. It returns when this
// destination is over, however the others fare.
func (h *Host) share(ctx context.Context, key string, a *Artifact, turn turn, t stream.Target, src castSource) castResult {
	m := &member{target: t, result: make(chan castResult, 1), filled: turn.filled}
	m.target.Ctx = ctx
	c, err := h.joinCast(key, a, m, src)
	turn.gone()
	if err != nil {
		return castResult{err: err}
	}
	select {
	case r := <-m.result:
		return r
	case <-ctx.Done():
	}
	if h.casts.leave(c, m) {
		return castResult{err: ctx.Err()}
	}
	return <-m.result // which comes soon
}

// leave takes a member back from a cast that has not begun, and tells whether it could.
func (cs *casts) leave(c *cast, m *member) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.begun {
		return false
	}
	c.members = slices.DeleteFunc(c.members, func(o *member) bool { return o == m })
	if len(c.members) == 0 {
		c.cancel()
	}
	return true
}

// joinCast joins the cast under a key that has not begun, or makes one.
func (h *Host) joinCast(key string, a *Artifact, m *member, src castSource) (*cast, error) {
	cs := &h.casts
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.by == nil {
		cs.by = make(map[string]*cast)
	}
	if c := cs.by[key]; c != nil {
		if c.begun || len(c.members) == 0 {
			return nil, errOver // it has begun while this one's volume was made
		}
		c.add(m)
		return c, nil
	}
	ctx, cancel := context.WithCancel(h.ctx)
	c := &cast{cancel: cancel, done: make(chan struct{})}
	c.add(m)
	err := h.spawn(func() {
		defer close(c.done)
		defer cancel()
		defer cs.remove(key)
		h.runCast(ctx, c, a, src)
	})
	if err != nil {
		cancel()
		return nil, err
	}
	cs.by[key] = c
	return c, nil
}

// add adds a member. The casts' lock is held, or nobody else has the cast.
func (c *cast) add(m *member) {
	m.target.Ended = func(s stream.Stats, err error) {
		r := castResult{stats: s, err: err}
		if err == nil { // so that the source has ended
			r.raw = c.raw
		}
		m.result <- r
	}
	c.members = append(c.members, m)
}

func (cs *casts) remove(key string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.by, key)
}

// begin closes a cast to others and gives its members.
func (cs *casts) begin(c *cast) []*member {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.begun = true
	return c.members
}

func (h *Host) runCast(ctx context.Context, c *cast, a *Artifact, src castSource) {
	h.casts.gather(ctx, a.ID, cmp.Or(h.opts.gather, gatherTime))
	if src.open != nil {
		done, err := src.open(ctx)
		if err != nil {
			for _, m := range h.casts.begin(c) {
				m.result <- castResult{err: err}
			}
			return
		}
		defer done()
	}
	members := h.casts.begin(c)
	if len(members) == 0 {
		return
	}
	targets := make([]stream.Target, 0, len(members))
	for _, m := range members {
		targets = append(targets, m.target)
	}
	read := src.read(c)
	stream.Broadcast(func(ctx context.Context, w io.Writer) error { return read(ctx, movingWriter{w, c}) }, targets,
		stream.Options{MaxBytes: h.streamLimits().Sent, Idle: h.cfg().Timing.WorkerGone})
	for _, m := range members { // so that who waits for the end of this finds replicas
		<-m.filled
	}
}

// movingWriter notes progress.
type movingWriter struct {
	w io.Writer
	c *cast
}

func (w movingWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.c.moved.Add(int64(n))
	return n, err
}
