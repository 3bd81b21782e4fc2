package shim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// The verbs of the program that make a session.
const (
	verbInit  = "init"
	verbRelay = "relay"
)

// relay is one exec that carries a session, shared by all calls on a container.
type relay struct {
	d      *Driver
	c      *container
	verb   string
	opened chan struct{} // closed once session or err is set
	ended  chan struct{} // closed once its Exec has returned, or did not in time

	session *session
	err     error // fit for the caller
}

// relay gives the container's relay, once it is open or has failed to; verb opens one where there is none. The error is that of ctx.
func (c *call) relay(ctx context.Context, verb string) (*relay, error) {
	d := c.d
	d.mu.Lock()
	if c.c.ctx.Err() != nil {
		d.mu.Unlock()
		return nil, context.Cause(c.c.ctx)
	}
	r := c.c.relay
	if r == nil || r.over() {
		r = &relay{d: d, c: c.c, verb: verb, opened: make(chan struct{}), ended: make(chan struct{})}
		c.c.relay = r
		d.own.Go(r.run)
	}
	d.mu.Unlock()
	select {
	case <-r.opened:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// session gives an open session.
func (c *call) session(ctx context.Context) (*session, error) {
	r, err := c.relay(ctx, verbRelay)
	if err != nil {
		return nil, err
	}
	return r.session, r.err
}

// over tells that no call can use it. One that did not open has left before it told so.
func (r *relay) over() bool {
	select {
	case <-r.opened:
		return r.session.mux.IsClosed()
	default:
		return false
	}
}

func (r *relay) run() {
	defer close(r.ended)
	x, err := r.open()
	if err != nil {
		r.err = err
		r.leave()
		close(r.opened)
		if x != nil {
			x.finish()
		}
		return
	}
	close(r.opened)
	select {
	case <-r.session.mux.CloseChan():
	case <-r.c.ctx.Done():
	case <-x.done: // what is left in the pipe still counts, but something else may hold its other end
		t := time.NewTimer(r.d.execGrace)
		select {
		case <-r.session.mux.CloseChan():
		case <-r.c.ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
	r.leave()
	x.close()
	r.session.mux.Close()
	x.finish()
	r.session.close()
}

// leave makes room for another relay.
func (r *relay) leave() {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if r.c.relay == r {
		r.c.relay = nil
		r.d.rest(r.c)
	}
}

func (r *relay) open() (*running, error) {
	program, scratch := r.d.o.Locate(r.c.id)
	x, err := r.d.start(r.c.ctx, r.c.id, program, r.verb, scratch)
	if err != nil {
		return nil, err
	}
	h, err := x.hello(r.c.ctx)
	if err != nil {
		return x, err
	}
	id := string(r.c.id)
	switch h.State {
	case wire.StateReady, wire.StateDead:
		if r.d.o.Recognise != nil {
			if err := r.d.o.Recognise(r.c.ctx, r.c.id, info(h)); err != nil {
				return x, err
			}
		}
		r.session, err = newSession(x, h, r.d.keepAlive)
		return x, err
	case wire.StateNone:
		return x, &sdk.Error{Class: sdk.FailedPrecondition, Kind: sdk.KindContainer, ID: id, Reason: sdk.ReasonCreating, Cause: errNotYet,
			Message: fmt.Sprintf("container %q: no keeper was ever started in it: it is half made, create it again or destroy it; or its scratch volume is not at %s%s", id, scratch, reason(h))}
	case wire.StateBusy:
		return x, sdk.NewUnavailable(errNotYet, "container %q: its keeper is there and does not answer: see whether it is paused or out of memory, and try again%s", id, reason(h))
	}
	if h.Error != nil {
		c := &call{d: r.d, c: r.c}
		if err = c.failure(h.Error, "", "", false); err != nil && sdk.ClassOf(err) != sdk.Internal {
			return x, err
		}
	}
	return x, x.broken(fmt.Errorf("%w: a keeper in state %q%s", wire.ErrProtocol, wire.Text(string(h.State)), reason(h)))
}

// reason is why there is no session, in the program's words.
func reason(h wire.Hello) string {
	if h.Error == nil {
		return ""
	}
	return ": " + wire.Text(h.Error.Message)
}

func (s *session) dead() bool { return s.hello.State == wire.StateDead }

func (s *session) info() Info { return info(s.hello) }

func info(h wire.Hello) Info {
	features := slices.DeleteFunc(slices.Clone(h.Features), func(f sdk.Feature) bool { return f == "" })
	return Info{Version: h.Program, Features: features, Notes: slices.Clone(h.Notes), Keeper: h.Keeper}
}
