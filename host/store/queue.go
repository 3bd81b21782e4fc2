package store

import (
	"slices"
	"sync"
)

// request is one Update on its way. Its function runs in the goroutine of its
// caller, so that a panic or an exit there cannot take the writer along.
type request struct {
	durability Durability
	release    bool
	turn       chan *Tx   // the writer: it is your turn
	ran        chan error // the caller: my function returned this
	done       chan error // the writer: this became of it

	after []func() // set before ran: what is to be called once it is stored
	err   error    // what came through ran; the writer's
}

func newRequest(d Durability, release bool) *request {
	return &request{
		durability: d,
		release:    release,
		turn:       make(chan *Tx, 1),
		ran:        make(chan error, 1),
		done:       make(chan error, 1),
	}
}

// queue holds the requests that no transaction has taken yet.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	closed  bool
	wake    chan struct{} // of capacity 1: there is work, or the queue was closed
}

func (q *queue) init() { q.wake = make(chan struct{}, 1) }

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) add(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	q.waiting = append(q.waiting, r)
	q.signal()
	return nil
}

// withdraw takes r back; false means that the writer has it.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, r)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// take waits for requests and takes up to n of them. None means that the queue
// was closed and is empty.
func (q *queue) take(n int) []*request {
	for {
		q.mu.Lock()
		n := min(n, len(q.waiting))
		batch := slices.Clone(q.waiting[:n])
		q.waiting = slices.Delete(q.waiting, 0, n)
		closed := q.closed
		q.mu.Unlock()
		if n > 0 || closed {
			return batch
		}
		<-q.wake
	}
}

// putBack returns requests that were taken but had no turn, in front.
func (q *queue) putBack(rs []*request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.Concat(rs, q.waiting)
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}
