package mutant

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// ByNameWithExtras is [ByName] on workers that send volumes to each other, know an image and a path to import, and have a server that can be away, if the plugin's
// own cannot: the cases about that need some.
const ByNameWithExtras = "by-name-with-extras"

// Beside is one more worker that is not broken: what streams from worker to worker go to.
const Beside = "beside"

const (
	peerProtocol = "mutant"
	peerZone     = "mutants"
)

// peers knows the tickets of all workers of one plugin.
type peers struct {
	mu      sync.Mutex
	tickets map[string]peerTicket
}

func newPeers() *peers { return &peers{tickets: make(map[string]peerTicket)} }

type peerTicket struct {
	to  *peered
	dst sdk.VolumeID
	in  sdk.StreamIn
}

// peered is a worker that sends volumes to the others of its plugin. Its flags break it.
type peered struct {
	sdk.Worker
	all *peers

	kept     bool // a ticket stays after its use
	anyState bool // open volumes are sent, too
	rootOnly bool // paths are ignored
	deaf     bool // errors of the far end are not heard
}

// peerFault sets a flag of a worker that was made for that.
func peerFault(set func(*peered)) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		if p, ok := w.(*peered); ok {
			set(p)
		}
		return &broken{Worker: w}
	}
}

func (p *peered) Status(ctx context.Context) (sdk.Status, error) {
	s, err := p.Worker.Status(ctx)
	if err == nil {
		s.Features = append(s.Features[:len(s.Features):len(s.Features)], sdk.FeaturePeerStream)
		s.Zone = peerZone
	}
	return s, err
}

// state gives NotFound where there is no such volume.
func (p *peered) state(ctx context.Context, id sdk.VolumeID) (state sdk.VolumeState, err error) {
	there := false
	err = p.ListVolumes(ctx, sdk.Filter{ID: string(id)}, func(v sdk.VolumeInfo) error {
		state, there = v.State, true
		return nil
	})
	if err == nil && !there {
		err = sdk.NewNotFound(sdk.KindVolume, string(id))
	}
	return state, err
}

func (p *peered) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (sdk.PeerTicket, error) {
	state, err := p.state(ctx, dst)
	if err != nil {
		return sdk.PeerTicket{}, err
	}
	if state == sdk.VolumeSealed {
		return sdk.PeerTicket{}, sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(dst), "volume %q is sealed", dst)
	}
	if in.Path != "" { // the worker knows which paths are none
		if err := p.StreamOut(ctx, dst, sdk.StreamOut{Path: in.Path}, io.Discard); err != nil && !sdk.IsNotFound(err, sdk.KindFile) {
			return sdk.PeerTicket{}, err
		}
	}
	secret := string(sdk.NewToken())
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.all.tickets[secret] = peerTicket{p, dst, in}
	return sdk.PeerTicket{Protocol: peerProtocol, Zone: peerZone, Data: []byte(secret)}, nil
}

// redeem takes a ticket.
func (p *peers) redeem(t sdk.PeerTicket) (peerTicket, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	got, ok := p.tickets[string(t.Data)]
	if !ok || t.Protocol != peerProtocol || t.Zone != peerZone {
		return peerTicket{}, sdk.NewInvalid(sdk.ReasonSpec, "the ticket is none of ours, or was used")
	}
	if !got.to.kept {
		delete(p.tickets, string(t.Data))
	}
	return got, nil
}

func (p *peered) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, t sdk.PeerTicket) error {
	state, err := p.state(ctx, src)
	if err != nil {
		return err
	}
	if state != sdk.VolumeSealed && !p.anyState {
		return sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, string(src), "volume %q is open", src)
	}
	to, err := p.all.redeem(t)
	if err != nil {
		return err
	}
	if p.rootOnly {
		out.Path, to.in.Path = "", ""
	}
	err = p.relay(ctx, src, out, to)
	if p.deaf {
		return nil
	}
	return err
}

// relay streams from a volume into another. An error of the source is what the call fails with: that of the far end follows from it.
func (p *peered) relay(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, to peerTicket) error {
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := p.StreamOut(ctx, src, out, w)
		w.CloseWithError(err)
		sent <- err
	}()
	err := to.to.StreamIn(ctx, to.dst, to.in, r)
	r.CloseWithError(io.ErrClosedPipe)
	if failed := <-sent; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return failed
	}
	return err
}

// peerMutants are broken in streams from worker to worker.
func peerMutants() []Mutant {
	return []Mutant{
		{
			ID: "peer-path-ignored", Doc: "a volume is always sent whole, and into the root of another", Rule: 9,
			Killers: []string{"B01-peer-equal"}, breaks: peerFault(func(p *peered) { p.rootOnly = true }),
		},
		{
			ID: "ticket-kept", Doc: "a ticket works as often as somebody uses it", Rule: 9,
			Killers: []string{"B02-ticket-once"}, breaks: peerFault(func(p *peered) { p.kept = true }),
		},
		{
			ID: "open-sent", Doc: "an open volume is sent to another worker as a sealed one is", Rule: 9,
			Killers: []string{"B03-peer-refused"}, breaks: peerFault(func(p *peered) { p.anyState = true }),
		},
		{
			ID: "far-end-unheard", Doc: "a stream to another worker has succeeded, whatever that says", Rule: 9,
			Killers: []string{"B04-peer-gone", "B03-peer-refused"}, breaks: peerFault(func(p *peered) { p.deaf = true }),
		},
		{
			ID: "peer-cancel-is-done", Doc: "a stream to another worker that is cancelled counts as done", Rule: 2, Near: true,
			Killers: []string{"B05-peer-cancel"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, peerSend: func(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, t sdk.PeerTicket) error {
					p, ok := w.(sdk.PeerStreamer)
					if !ok {
						return sdk.NewUnsupported(sdk.FeaturePeerStream)
					}
					err := p.PeerSend(ctx, src, out, t)
					if errors.Is(err, context.Canceled) {
						return nil
					}
					return err
				}}
			},
		},
	}
}
