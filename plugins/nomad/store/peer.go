//go:build linux

package store

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

// Bounds of those who come with a ticket.
const (
	peerBegins = 30 * time.Second // until the stream
	peerStalls = 2 * time.Minute  // without a byte
)

// ticket is the right to send into one volume, once.
type ticket struct {
	volume sdk.VolumeID
	in     sdk.StreamIn
}

// ticketData is what PeerTicket.Data holds.
type ticketData struct {
	Addresses   []string        `json:"addresses"`
	Fingerprint string          `json:"fingerprint"`
	Secret      storenet.Secret `json:"secret"`
	Volume      sdk.VolumeID    `json:"volume"`
}

// PeerTicket lets another store send into a volume.
func (w *worker) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (sdk.PeerTicket, error) {
	none, zone := sdk.PeerTicket{}, w.s.o.Zone
	if zone == "" {
		return none, sdk.NewUnsupported(sdk.FeaturePeerStream)
	}
	state, err := w.state(ctx, dst)
	if err != nil {
		return none, err
	}
	if state == sdk.VolumeSealed {
		return none, sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(dst), "volume %q is sealed and takes no archive", dst)
	}
	if err := checkEncoding(dst, in.Encoding); err != nil {
		return none, err
	}
	if _, err := w.StatFile(ctx, dst, in.Path); err != nil && !sdk.IsNotFound(err, sdk.KindFile) {
		return none, err
	}
	secret, err := w.s.tickets.Issue(ticket{dst, in})
	if err != nil {
		return none, err
	}
	data, err := json.Marshal(ticketData{Addresses: w.s.hello.Addresses, Fingerprint: w.s.hello.Fingerprint, Secret: storenet.Secret(secret), Volume: dst})
	if err != nil {
		return none, sdk.NewInternal(err, "making a ticket: %v", err)
	}
	if len(data) > sdk.MaxTicketBytes {
		return none, sdk.NewInternal(nil, "a ticket has %d bytes and cannot have more than %d: the store has too many addresses", len(data), sdk.MaxTicketBytes)
	}
	return sdk.PeerTicket{Protocol: storenet.Protocol, Zone: zone, Data: data}, nil
}

func (w *worker) state(ctx context.Context, id sdk.VolumeID) (sdk.VolumeState, error) {
	volumes, unlock, err := w.Share(ctx, id)
	if err != nil {
		return 0, err
	}
	defer unlock()
	return volumes[id].State, nil
}

func checkEncoding(id sdk.VolumeID, encoding string) error {
	if encoding == "" || encoding == sdk.EncodingRaw {
		return nil
	}
	return sdk.NewInvalid(sdk.ReasonEncoding, "volume %q: encoding %q is not %q", id, encoding, sdk.EncodingRaw)
}

// PeerSend sends a volume to the store that gave the ticket.
func (w *worker) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, t sdk.PeerTicket) error {
	zone := w.s.o.Zone
	switch {
	case zone == "":
		return sdk.NewUnsupported(sdk.FeaturePeerStream)
	case len(t.Data) > sdk.MaxTicketBytes:
		return sdk.NewInvalid(sdk.ReasonTooLarge, "a ticket of %d bytes is longer than %d", len(t.Data), sdk.MaxTicketBytes)
	case t.Protocol != storenet.Protocol, t.Zone != zone:
		return &sdk.Error{Class: sdk.Unsupported, Feature: sdk.FeaturePeerStream,
			Message: fmt.Sprintf("the ticket is of a worker in zone %q that speaks %q; this one is in %q and speaks %q; stream through the host", t.Zone, t.Protocol, zone, storenet.Protocol)}
	}
	var to ticketData
	if json.Unmarshal(t.Data, &to) != nil || sdk.CheckID(sdk.KindVolume, string(to.Volume)) != nil || to.Fingerprint == "" || to.Secret == "" {
		return sdk.NewInvalid(sdk.ReasonSpec, "the ticket was not made by a store")
	}
	if err := checkEncoding(src, out.Encoding); err != nil {
		return err
	}
	state, err := w.state(ctx, src)
	if err != nil {
		return err
	}
	if state != sdk.VolumeSealed {
		return sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, string(src), "volume %q must be sealed to be sent", src)
	}
	return w.send(ctx, src, out, to)
}

// send is the source's end of a stream between stores. It returns when both ends are done.
func (w *worker) send(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, to ticketData) error {
	peer, err := storenet.DialPeer(ctx, to.Addresses, to.Fingerprint, to.Secret)
	if err != nil {
		return err
	}
	defer peer.Close()
	r, pack := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	packed := make(chan error, 1)
	go func() {
		err := w.StreamOut(ctx, src, out, pack)
		pack.CloseWithError(err) // nil is the end
		packed <- err
	}()
	err = peer.StreamIn(ctx, to.Volume, r)
	r.CloseWithError(io.ErrClosedPipe)
	cancel()
	<-packed // its error is the reader's, which comes back from StreamIn
	return err
}

// receive is the destination's end: a runtime of one worker that takes one stream.
func (s *server) receive(ctx context.Context, c net.Conn, t ticket) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &guest{volumes: s.volumes, ticket: t, cut: func() { c.Close() }}
	w.late = time.AfterFunc(peerBegins, w.cut)
	defer w.late.Stop()
	lis := newQueue(c.LocalAddr())
	var own sync.WaitGroup
	own.Go(func() { lis.add(&ending{Conn: c, end: cancel}) })
	defer own.Wait()
	if err := rpc.ServeOn(ctx, lis, sdk.PluginInfo{Name: "slipway-store"}, guests{w}, rpc.ServeOptions{Log: s.o.Log}); err != nil {
		s.o.Log.Warn("a peer could not be served", "error", err)
	}
}

// ending tells that a connection was closed, which gRPC does when its far end goes.
type ending struct {
	net.Conn
	end func()
}

// Close implements [net.Conn].
func (e *ending) Close() error {
	e.end()
	return e.Conn.Close()
}

// guests is the runtime that somebody with a ticket sees.
type guests struct{ g *guest }

// Workers implements [sdk.Runtime].
func (guests) Workers(context.Context, func(sdk.WorkerEvent) error) error { return errNotHere() }

// Worker implements [sdk.Runtime].
func (g guests) Worker(string) (sdk.Worker, error) { return g.g, nil }

// guest is all that somebody with a ticket may do.
type guest struct {
	noContainers
	noVolumes
	volumes *volumedir.Store
	ticket  ticket
	used    atomic.Bool
	cut     func() // ends the connection
	late    *time.Timer
}

// StreamIn takes the stream. Where to, the ticket alone says.
func (g *guest) StreamIn(ctx context.Context, _ sdk.VolumeID, _ sdk.StreamIn, r io.Reader) error {
	if g.used.Swap(true) {
		return sdk.NewInvalid(sdk.ReasonSpec, "the ticket was used")
	}
	g.late.Stop()
	stall := time.AfterFunc(peerStalls, g.cut)
	defer stall.Stop()
	return g.volumes.StreamIn(ctx, g.ticket.volume, g.ticket.in, &lively{r: r, stall: stall})
}

// lively puts off a timer with all that it reads.
type lively struct {
	r     io.Reader
	stall *time.Timer
}

func (l *lively) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	l.stall.Reset(peerStalls)
	return n, err
}
