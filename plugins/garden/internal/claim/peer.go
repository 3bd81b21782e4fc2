package claim

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/concourse/baggageclaim"
	"github.com/tedsuo/rata"

	"github.com/slipway-run/slipway/sdk"
)

// peerProtocol is the servers' own way to send: the source packs the whole volume in its memory and then sends it to an address that it
// was told. Nobody proves anything to anybody, and nothing is checked but what zstd checks: so it is off unless the operator names a zone.
const peerProtocol = "baggageclaim.p2p/1"

// ticket is what PeerTicket.Data holds.
type ticket struct {
	URL string `json:"url"` // of the receiving volume's stream-in
}

// Zone is what workers on this server name as theirs; empty: they have no peers.
func (s *Store) Zone() string {
	if s.config.Zone != "" && s.config.Pipes != nil {
		return s.config.Pipes.Zone(s.config.Zone)
	}
	return s.config.Zone
}

// PeerTicket is that of [sdk.PeerStreamer]. The server has no tickets: unless this process carries the bytes, this one is an address, good for as long as the
// volume is there.
func (s *Store) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (sdk.PeerTicket, error) {
	none := sdk.PeerTicket{}
	base, err := s.peers(ctx)
	if err != nil {
		return none, err
	}
	if err := sdk.CheckID(sdk.KindVolume, string(dst)); err != nil {
		return none, err
	}
	if in.Encoding, err = peerEncoding(in.Encoding); err != nil {
		return none, err
	}
	path, err := insidePath(in.Path)
	if err != nil {
		return none, err
	}
	unlock, v, err := s.share(ctx, string(dst))
	if err != nil {
		return none, err
	}
	defer unlock()
	if v.State == sdk.VolumeSealed {
		return none, sealedAgainst(v)
	}
	if s.config.Pipes != nil {
		return s.config.Pipes.ticket(pipeTicket{to: s, volume: dst, in: in})
	}
	known, err := s.linksOf(ctx, v)
	if err != nil {
		return none, err
	}
	if len(known.at) > 0 {
		return none, sdk.NewInvalid(sdk.ReasonPath, "volume %q has symbolic links; nobody looks at an archive on its way between servers, so a peer sends into fresh volumes only", v.ID)
	}
	s.memo.drop(v.ID) // what comes in, only the servers see
	req, err := rata.NewRequestGenerator(base, baggageclaim.Routes).CreateRequest(baggageclaim.StreamIn, rata.Params{"handle": v.ID}, nil)
	if err != nil {
		return none, sdk.NewInternal(err, "baggageclaim %s: its peers' address %s: %v", s.url, quote(base), err)
	}
	req.URL.RawQuery = url.Values{"path": {path}}.Encode()
	data, err := json.Marshal(ticket{URL: req.URL.String()})
	if err != nil {
		return none, sdk.NewInternal(err, "making a ticket: %v", err)
	}
	return sdk.PeerTicket{Protocol: peerProtocol, Zone: s.config.Zone, Data: data}, nil
}

// PeerSend is that of [sdk.PeerStreamer]. A server that sends to another does not stop when ctx ends: it sends to the end, unless the receiving volume is
// destroyed before it begins.
func (s *Store) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, t sdk.PeerTicket) error {
	if _, err := s.peers(ctx); err != nil {
		return err
	}
	if s.config.Pipes != nil {
		return s.pipeSend(ctx, src, out, t)
	}
	if err := sdk.CheckID(sdk.KindVolume, string(src)); err != nil {
		return err
	}
	if len(t.Data) > sdk.MaxTicketBytes {
		return tooLargeTicket(t)
	}
	to, err := readTicket(t)
	if err != nil {
		return err
	}
	encoding, err := peerEncoding(out.Encoding)
	if err != nil {
		return err
	}
	path, err := insidePath(out.Path)
	if err != nil {
		return err
	}
	unlock, v, err := s.share(ctx, string(src))
	if err != nil {
		return err
	}
	defer unlock()
	if v.State != sdk.VolumeSealed {
		return notSealed(v)
	}
	if path != "" {
		var isLink bool
		if path, isLink, err = s.place(ctx, v, path); err != nil {
			return err
		}
		if isLink {
			return sdk.NewUnsupported(sdk.FeaturePeerStream) // the server would follow it
		}
	} else {
		path = "." // the server wants one
	}
	return s.sendPeer(ctx, v, path, encoding, to)
}

// sendPeer has the server send. It answers when all is done, which may take hours, and shows nothing of it before: as long as it answers other
// questions it is waited for.
func (s *Store) sendPeer(ctx context.Context, v Volume, path, encoding, to string) error {
	what := "sending volume " + quote(v.ID) + " to a peer"
	ctx, end := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		for wait(ctx, s.config.StreamTimeout) == nil {
			if s.Ping(ctx) != nil {
				end(errStalled)
			}
		}
	})
	defer asking.Wait()
	defer end(nil)
	resp, err := s.connect(ctx, request{
		what: what, route: baggageclaim.StreamP2pOut, params: rata.Params{"handle": v.ID}, once: true,
		query: url.Values{"path": {path}, "streamInURL": {to}, "encoding": {encoding}},
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	a := readAnswer(resp, resp.Body)
	switch a.code {
	case http.StatusOK:
		return nil
	case http.StatusNotFound:
		if _, err := s.volume(ctx, v.ID); err != nil {
			return err
		}
		return sdk.NewNotFound(sdk.KindFile, path)
	}
	return s.lost(ctx, v.ID, s.refused(what, a))
}

// peers gives where other servers reach this one, or Unsupported. Where this process carries the bytes it is empty: nobody has to.
func (s *Store) peers(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if s.config.Zone == "" {
		return "", sdk.NewUnsupported(sdk.FeaturePeerStream)
	}
	if s.config.Pipes != nil {
		return "", nil
	}
	base, err := s.peerURL(ctx)
	if err == nil && base == "" {
		err = sdk.NewUnsupported(sdk.FeaturePeerStream)
	}
	return base, err
}

// readTicket checks that a ticket leads to some server's stream-in and nowhere else: the server goes where it is told. Errors do not quote it.
func readTicket(t sdk.PeerTicket) (string, error) {
	if t.Protocol != peerProtocol {
		return "", sdk.NewInvalid(sdk.ReasonSpec, "the ticket is for the protocol %s, this worker speaks %q", quote(t.Protocol), peerProtocol)
	}
	bad := sdk.NewInvalid(sdk.ReasonSpec, "the ticket was not made by a worker of this kind")
	var data ticket
	if json.Unmarshal(t.Data, &data) != nil {
		return "", bad
	}
	u, err := url.Parse(data.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", bad
	}
	handle, ok := strings.CutPrefix(u.Path, "/volumes/")
	handle, ok2 := strings.CutSuffix(handle, "/stream-in")
	if !ok || !ok2 || sdk.CheckID(sdk.KindVolume, handle) != nil {
		return "", bad
	}
	return data.URL, nil
}

// peerEncoding is the encoding between the servers, which speak no raw.
func peerEncoding(encoding string) (string, error) {
	encoding, err := checkEncoding(encoding)
	if encoding == sdk.EncodingRaw {
		encoding = encodingZstd
	}
	return encoding, err
}

func sealedAgainst(v Volume) error {
	return sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, v.ID, "volume %q is sealed and takes no archive", v.ID)
}

func notSealed(v Volume) error {
	return sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, v.ID, "volume %q cannot be sent before it is sealed", v.ID)
}

func tooLargeTicket(t sdk.PeerTicket) error {
	return sdk.NewInvalid(sdk.ReasonTooLarge, "the ticket has %d bytes; at most %d are taken", len(t.Data), sdk.MaxTicketBytes)
}
