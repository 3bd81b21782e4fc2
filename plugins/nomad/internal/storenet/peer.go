package storenet

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// Peer is a store that takes one stream from another.
type Peer struct {
	client *rpc.Client
	conn   net.Conn
	where  string
}

// DialPeer connects with the store that gave a ticket, which is used then.
func DialPeer(ctx context.Context, addresses []string, fingerprint string, secret Secret) (*Peer, error) {
	c, err := Connect(ctx, addresses, fingerprint, Introduction{Kind: KindPeer, Secret: secret})
	if far, ok := errors.AsType[*Unreachable](err); ok {
		return nil, sdk.NewUnavailable(err, "the store that gave the ticket: %v", far)
	}
	if err != nil {
		return nil, peerError(ctx, err, strings.Join(addresses, ", "))
	}
	p := &Peer{conn: c, where: c.RemoteAddr().String()}
	var once sync.Once
	p.client, err = rpc.Dial(ctx, c.RemoteAddr(), rpc.DialOptions{Dialer: func(context.Context) (net.Conn, error) {
		err := errors.New("the ticket was used")
		once.Do(func() { err = nil })
		if err != nil {
			return nil, err
		}
		return c, nil
	}})
	if err != nil {
		c.Close()
		return nil, err
	}
	return p, nil
}

// peerError gives an error a class that says nothing wrong about this store.
func peerError(ctx context.Context, err error, where string) error {
	_, ours := errors.AsType[*sdk.Error](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case ours && !errors.Is(err, sdk.ReasonPluginGone):
		return err
	}
	return sdk.NewUnavailable(classless(err), "the store at %s, which gave the ticket, went away: %v", where, err)
}

// StreamIn sends an archive to where the ticket says. An error of r comes back unchanged.
func (p *Peer) StreamIn(ctx context.Context, id sdk.VolumeID, r io.Reader) error {
	w, err := p.client.Runtime().Worker(WorkerName)
	if err != nil {
		return err
	}
	src := sdk.KeepReader(r)
	err = w.StreamIn(ctx, id, sdk.StreamIn{}, src)
	if src.Err() != nil || err == nil {
		return err
	}
	return peerError(ctx, err, p.where)
}

// Close ends the connection.
func (p *Peer) Close() error {
	defer p.conn.Close() // nobody else does unless something was sent
	return p.client.Close()
}
