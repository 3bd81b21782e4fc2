//go:build linux

package store

import (
	"net"
	"sync"
)

// queue is a listener of connections that somebody else has accepted.
type queue struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	end   func()
}

func newQueue(addr net.Addr) *queue {
	q := &queue{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
	q.end = sync.OnceFunc(func() { close(q.done) })
	return q
}

// add waits for Accept, and closes the connection if there is none any more.
func (q *queue) add(c net.Conn) {
	select {
	case q.conns <- c:
	case <-q.done:
		c.Close()
	}
}

// Accept implements [net.Listener].
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and add.
func (q *queue) Close() error {
	q.end()
	return nil
}

// Addr implements [net.Listener].
func (q *queue) Addr() net.Addr { return q.addr }
