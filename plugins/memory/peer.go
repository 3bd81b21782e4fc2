package memory

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"

	"github.com/slipway-run/slipway/sdk"
)

// peers is what lets the workers of one runtime send to each other: tickets are good in this process only, and so is its protocol.
type peers struct {
	protocol string
	tickets  sdk.Tickets[peerTicket]
}

type peerTicket struct {
	to     *worker
	volume sdk.VolumeID
	in     sdk.StreamIn
}

func newPeers() *peers {
	return &peers{protocol: "memory/" + rand.Text()}
}

// PeerTicket lets a worker of the same zone send into a volume.
func (w *worker) PeerTicket(_ context.Context, dst sdk.VolumeID, in sdk.StreamIn) (sdk.PeerTicket, error) {
	if w.zone == "" {
		return sdk.PeerTicket{}, sdk.NewUnsupported(sdk.FeaturePeerStream)
	}
	v, err := w.hold(dst)
	if err != nil {
		return sdk.PeerTicket{}, err
	}
	defer w.release(v)
	if v.tree.Sealed() {
		return sdk.PeerTicket{}, sealedAgainst(v)
	}
	if err := checkEncoding(in.Encoding); err != nil {
		return sdk.PeerTicket{}, err
	}
	secret, err := w.peers.tickets.Issue(peerTicket{to: w, volume: dst, in: in})
	if err != nil {
		return sdk.PeerTicket{}, err
	}
	return sdk.PeerTicket{Protocol: w.peers.protocol, Zone: w.zone, Data: []byte(secret)}, nil
}

// PeerSend sends a volume within this process.
func (w *worker) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, ticket sdk.PeerTicket) error {
	switch {
	case w.zone == "":
		return sdk.NewUnsupported(sdk.FeaturePeerStream)
	case ticket.Protocol != w.peers.protocol, ticket.Zone != w.zone:
		return &sdk.Error{Class: sdk.Unsupported, Feature: sdk.FeaturePeerStream,
			Message: "the ticket is of another zone, or of a memory in another process; stream through the host"}
	}
	v, err := w.hold(src)
	if err != nil {
		return err
	}
	defer w.release(v)
	if !v.tree.Sealed() {
		return sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, string(src), "volume %q must be sealed to be sent", src)
	}
	if err := checkEncoding(out.Encoding); err != nil {
		return err
	}
	t, err := w.peers.tickets.Redeem(string(ticket.Data))
	if err != nil {
		return err
	}
	if cmp.Or(out.Encoding, sdk.EncodingRaw) != cmp.Or(t.in.Encoding, sdk.EncodingRaw) {
		return sdk.NewInvalid(sdk.ReasonEncoding, "the ticket is for encoding %q, not %q", t.in.Encoding, out.Encoding)
	}
	return w.sendTo(ctx, v, out, t)
}

// sendTo is both ends of a stream. It returns when both are done.
func (w *worker) sendTo(ctx context.Context, v *volume, out sdk.StreamOut, t peerTicket) error {
	r, to := io.Pipe()
	stop := context.AfterFunc(ctx, func() { r.CloseWithError(ctx.Err()) })
	defer stop()
	sent := make(chan error, 1)
	go func() {
		err := w.pack(ctx, v, out, to)
		to.CloseWithError(err) // nil is the end
		sent <- err
	}()
	err := t.to.StreamIn(ctx, t.volume, t.in, r)
	r.CloseWithError(cmp.Or(err, error(io.ErrClosedPipe)))
	if packed := <-sent; err == nil {
		err = packed
	}
	return err
}
