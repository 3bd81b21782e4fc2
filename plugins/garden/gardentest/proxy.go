//go:build linux

package gardentest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// dialLimit bounds what a Proxy waits for its target.
const dialLimit = 10 * time.Second

// Proxy relays connections to a server, and breaks them on purpose. Its methods may be called at once.
type Proxy struct {
	target  *url.URL
	network string // of the target
	port    *port
	work    sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil: connections are refused
	links    map[*link]struct{}
	thawed   chan struct{} // closed unless frozen
	left     int64         // bytes to the target until it freezes by itself; with half
	half     chan struct{} // closed when they have passed; nil: it does not freeze by itself
	closed   bool
}

// link is one connection, and what leads on from it.
type link struct {
	client net.Conn
	server net.Conn        // nil until it is dialled
	ctx    context.Context // ends when the link is cut
	cancel context.CancelFunc
}

// NewProxy makes a proxy to a server's address, such as Servers.Garden or Servers.Baggageclaim, on a loopback port that stays its own until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatalf("gardentest: proxy: %v", err)
	}
	p := &Proxy{target: u, network: "tcp", links: make(map[*link]struct{}), thawed: make(chan struct{})}
	close(p.thawed)
	if u.Scheme == "unix" {
		p.network = "unix"
	}
	if p.port, err = holdPort(); err != nil {
		t.Fatalf("gardentest: proxy: %v", err)
	}
	t.Cleanup(p.close)
	p.Accept(t)
	return p
}

// Address is the proxy's own, in the form of the target's; but it is "tcp://127.0.0.1:PORT" if that is a unix socket.
func (p *Proxy) Address() string {
	if p.network == "unix" {
		return "tcp://" + p.port.address
	}
	u := *p.target
	u.Host = p.port.address
	return u.String()
}

// Connections is how many there are, frozen ones included.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Cut resets all connections there are. New ones can be made.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Freeze lets no more bytes pass, in either direction. Connections stay, and new ones are accepted.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freeze()
}

// FreezeAfter is Freeze as soon as this many bytes more have passed to the target. The channel is closed then.
func (p *Proxy) FreezeAfter(bytes int64) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.half = bytes, make(chan struct{})
	return p.half
}

// count takes bytes that have passed to the target.
func (p *Proxy) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left -= int64(n); p.left <= 0 && p.half != nil {
		p.freeze()
		close(p.half)
		p.half = nil
	}
}

// freeze is Freeze with the lock held.
func (p *Proxy) freeze() {
	select {
	case <-p.thawed:
		p.thawed = make(chan struct{})
	default:
	}
}

// Thaw ends Freeze. Nothing is lost of what was held back.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thawed:
	default:
		close(p.thawed)
	}
}

// Refuse lets no more connections be made: whoever tries is refused. Those that there are stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

// Accept ends Refuse.
func (p *Proxy) Accept(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.closed {
		return
	}
	l, err := p.port.listen(t.Context())
	if err != nil {
		t.Fatalf("gardentest: proxy: %v", err)
	}
	p.listener = l
	p.work.Go(func() { p.serve(l) })
}

// close resets what there is and waits until all of the proxy has ended.
func (p *Proxy) close() {
	p.Refuse()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.work.Wait()
	p.port.release()
}

// serve ends when its listener is closed.
func (p *Proxy) serve(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // that connection's
		}
		l := &link{client: c}
		l.ctx, l.cancel = context.WithCancel(context.Background())
		p.mu.Lock()
		if p.closed || p.listener != listener { // Refuse came in between
			l.reset()
		} else {
			p.links[l] = struct{}{}
			p.work.Go(func() { p.relay(l) })
		}
		p.mu.Unlock()
	}
}

// relay carries a connection until both directions are at their ends, or it is cut.
func (p *Proxy) relay(l *link) {
	defer func() {
		l.cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	}()
	if !p.pass(l) {
		return
	}
	server, err := (&net.Dialer{Timeout: dialLimit}).DialContext(l.ctx, p.network, p.target.Host+p.unixPath())
	if err != nil || !p.joined(l, server) {
		l.reset()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, server, l.client) })
	both.Go(func() { p.pump(l, l.client, server) })
	both.Wait()
	server.Close()
	l.client.Close()
}

func (p *Proxy) unixPath() string {
	if p.network == "unix" {
		return p.target.Path
	}
	return ""
}

// joined adds the other side to a link, unless that was cut meanwhile.
func (p *Proxy) joined(l *link, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.ctx.Err() != nil {
		server.Close()
		return false
	}
	l.server = server
	return true
}

// pump carries one direction. An end on one side becomes one on the other, an error there resets both.
func (p *Proxy) pump(l *link, to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !p.pass(l) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				l.reset()
				return
			}
			if to == l.server {
				p.count(n)
			}
		}
		if errors.Is(err, io.EOF) {
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite() // an error means that it has gone
			}
			return
		}
		if err != nil {
			l.reset()
			return
		}
	}
}

// pass waits while the proxy is frozen, and tells whether the link is still there.
func (p *Proxy) pass(l *link) bool {
	for {
		p.mu.Lock()
		thawed := p.thawed
		p.mu.Unlock()
		select {
		case <-l.ctx.Done():
			return false
		case <-thawed:
		}
		p.mu.Lock()
		same := thawed == p.thawed
		p.mu.Unlock()
		if same {
			return true
		}
	}
}

// reset ends a link at once; over TCP both sides see it as reset by the peer.
func (l *link) reset() {
	l.cancel()
	for _, c := range []net.Conn{l.client, l.server} {
		if c == nil {
			continue
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // an error means that it has gone, as with closing
		}
		c.Close()
	}
}
