package claim

import (
	"context"
	"crypto/rand"
	"io"

	"github.com/slipway-run/slipway/sdk"
)

// Pipes lets the stores of one process send to each other through it: what one server sends is read here and handed on to the other, so that neither has to
// reach the other and the host sees none of it. Everything that holds for an archive into a volume holds, for it is the same stream.
type Pipes struct {
	name    string // of this process, different for each
	tickets sdk.Tickets[pipeTicket]
}

// pipeTicket is the right to send into one volume, once.
type pipeTicket struct {
	to     *Store
	volume sdk.VolumeID
	in     sdk.StreamIn
}

// NewPipes makes the pipes of a process.
func NewPipes() *Pipes {
	return &Pipes{name: rand.Text()}
}

// Zone is the zone of this process's workers that are in an operator's zone: workers of another process cannot be reached, so they must see another name.
func (p *Pipes) Zone(zone string) string { return zone + "@" + p.name }

func (p *Pipes) protocol() string { return "slipway-garden.pipe/" + p.name }

// ticket lets somebody send into a volume once.
func (p *Pipes) ticket(to pipeTicket) (sdk.PeerTicket, error) {
	secret, err := p.tickets.Issue(to)
	if err != nil {
		return sdk.PeerTicket{}, err
	}
	return sdk.PeerTicket{Protocol: p.protocol(), Zone: to.to.Zone(), Data: []byte(secret)}, nil
}

// pipeSend sends a volume of this store to where the ticket says.
func (s *Store) pipeSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, t sdk.PeerTicket) error {
	pipes := s.config.Pipes
	if t.Protocol != pipes.protocol() || t.Zone != s.Zone() {
		return &sdk.Error{Class: sdk.Unsupported, Feature: sdk.FeaturePeerStream,
			Message: "the ticket is of another zone, or of another process of the plugin; stream through the host"}
	}
	if err := sdk.CheckID(sdk.KindVolume, string(src)); err != nil {
		return err
	}
	if len(t.Data) > sdk.MaxTicketBytes {
		return tooLargeTicket(t)
	}
	var err error
	if out.Encoding, err = peerEncoding(out.Encoding); err != nil {
		return err
	}
	if _, err := insidePath(out.Path); err != nil {
		return err
	}
	unlock, v, err := s.share(ctx, string(src))
	if err != nil {
		return err
	}
	unlock() // what is sealed stays so, and a reader does not keep a volume from being destroyed
	if v.State != sdk.VolumeSealed {
		return notSealed(v)
	}
	to, err := pipes.tickets.Redeem(string(t.Data))
	if err != nil {
		return err
	}
	if out.Encoding != to.in.Encoding {
		return sdk.NewInvalid(sdk.ReasonEncoding, "the ticket is for the encoding %s, not %s", to.in.Encoding, out.Encoding)
	}
	return s.pipe(ctx, src, out, to)
}

// pipe is both ends of a stream. It returns when both have ended, and with the receiver's error, which is the sender's where that one failed.
func (s *Store) pipe(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, to pipeTicket) error {
	r, w := io.Pipe()
	sending, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan error, 1)
	go func() {
		err := s.StreamOut(sending, src, out, w)
		w.CloseWithError(err) // nil is the end
		sent <- err
	}()
	err := to.to.StreamIn(ctx, to.volume, to.in, r)
	if err != nil {
		stop() // a sender that waits for its server
	}
	r.CloseWithError(io.ErrClosedPipe) // or for the receiver
	if failed := <-sent; err == nil {
		err = failed
	}
	return err
}
