package claim

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// conn tells when nothing can be read from it any more. net/http notices that, too, but waits for the body of a request that it is sending
// before it says so: a source that hangs would hide a server that is gone.
type conn struct {
	net.Conn
	once   sync.Once
	broken chan struct{}
	sent   atomic.Pointer[chan struct{}] // closed once the upload that is sent has its answer; nil: there is no upload
}

func dialer(timeout time.Duration) func(context.Context, string, string) (net.Conn, error) {
	d := &net.Dialer{Timeout: timeout, KeepAlive: 15 * time.Second}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, broken: make(chan struct{})}, nil
	}
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.once.Do(func() { close(c.broken) })
	}
	return n, err
}

// Write fails only once nothing can be read any more, or the answer has been: a server that answers before it has read all closes the
// connection, and net/http would tell of the broken pipe though the answer, which says why, is there to be read.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if sent := c.sent.Load(); err != nil && sent != nil {
		select {
		case <-c.broken:
		case <-*sent:
		}
	}
	return n, err
}

// whenBroken calls broke, at most once, if the connection that an upload is sent on breaks before stop is called, which waits. Stop is called once
// the answer has been read.
func whenBroken(ctx context.Context, broke func()) (_ context.Context, stop func()) {
	ended := make(chan struct{})
	var watching sync.WaitGroup
	var once sync.Once
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		inner := info.Conn
		if t, ok := inner.(*tls.Conn); ok {
			inner = t.NetConn()
		}
		c, ok := inner.(*conn)
		if !ok {
			return
		}
		c.sent.Store(&ended)
		watching.Go(func() {
			defer c.sent.CompareAndSwap(&ended, nil)
			select {
			case <-c.broken:
				once.Do(broke)
			case <-ended:
			}
		})
	}})
	return ctx, func() {
		close(ended)
		watching.Wait()
	}
}
