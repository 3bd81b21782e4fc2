package storenet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

const (
	maxAddresses = 32              // of one store that are tried
	reachTime    = 5 * time.Second // until no address counts as reachable
	answerTime   = 20 * time.Second
)

// Unreachable says that no address led to the store.
type Unreachable struct {
	Addresses []string
	Err       error
}

// Error names all of them.
func (e *Unreachable) Error() string {
	return fmt.Sprintf("no store can be reached at %s: %v", strings.Join(e.Addresses, ", "), e.Err)
}

// Unwrap gives Err.
func (e *Unreachable) Unwrap() error { return e.Err }

// Connect connects with a store. Where it has several addresses the first to lead there is taken, by the fingerprint: an address may mean another
// machine here than there. The error is *Unreachable where none did, and one of the contract where the store refuses.
func Connect(ctx context.Context, addresses []string, fingerprint string, as Introduction) (net.Conn, error) {
	c, err := reach(ctx, addresses, fingerprint)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if err := introduce(within, c, as); err != nil {
		return nil, err
	}
	return c, nil
}

func reach(ctx context.Context, addresses []string, fingerprint string) (*tls.Conn, error) {
	addresses = addresses[:min(len(addresses), maxAddresses)]
	if len(addresses) == 0 {
		return nil, &Unreachable{Err: errors.New("it has no address")}
	}
	within, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	type try struct {
		c   *tls.Conn
		err error
	}
	tries := make(chan try, len(addresses))
	for _, address := range addresses {
		go func() {
			c, err := reachOne(within, address, fingerprint)
			if err != nil {
				err = fmt.Errorf("%s: %w", address, err)
			}
			tries <- try{c, err}
		}()
	}
	var first *tls.Conn
	var errs []string
	for range addresses { // all of them: none is left behind
		t := <-tries
		switch {
		case t.err != nil:
			errs = append(errs, t.err.Error())
		case first == nil:
			first = t.c
			cancel()
		default:
			t.c.Close()
		}
	}
	switch {
	case first != nil:
		return first, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, &Unreachable{Addresses: addresses, Err: errors.New(strings.Join(errs, "; "))}
}

func reachOne(ctx context.Context, address, fingerprint string) (*tls.Conn, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	Watch(raw)
	return handshake(ctx, raw, fingerprint)
}

// Watch has the system notice within a minute that a machine at the other end of a connection has gone without a word.
func Watch(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 6})
	boundUnanswered(tcp, 45*time.Second) // keep-alives do not count while data is on its way
}
