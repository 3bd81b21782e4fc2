package sdk

import "context"

// PeerStreamer is a worker that can send a volume straight to another. Named by [FeaturePeerStream]. The host uses it only
// between workers of one zone that name the same protocol, and falls back to relaying into another fresh volume.
type PeerStreamer interface {
	// PeerTicket makes the receiving worker ready for one stream into an open volume. The ticket works
	// once, for at most ten minutes. [Tickets] keeps what it stands for.
	PeerTicket(ctx context.Context, dst VolumeID, in StreamIn) (PeerTicket, error)
	// PeerSend sends a sealed volume to where the ticket says, and returns once the far end has it whole. Cancelling ctx
	// stops both ends. After an error the content of the receiving volume is undefined.
	PeerSend(ctx context.Context, src VolumeID, out StreamOut, ticket PeerTicket) error
}

// MaxTicketBytes bounds [PeerTicket.Data]; a longer one is Invalid with [ReasonTooLarge].
const MaxTicketBytes = 64 << 10

// PeerTicket is a right to send to a worker, opaque to the host.
type PeerTicket struct {
	Protocol string // of the receiving worker; who does not speak it does not send
	Zone     string // of the receiving worker, as its Status.Zone
	Data     []byte // at most MaxTicketBytes; may hold a secret, so it is never logged or put into an error
}
