//go:build linux

package claim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestPeers sends from one real server to another.
func TestPeers(t *testing.T) {
	zone := func(c *Config) { c.Zone = "z" }
	from, to := serve(t, gardentest.Options{}, zone), serve(t, gardentest.Options{}, zone)
	for _, b := range []bench{from, to} {
		features, err := b.s.Features(b.ctx)
		b.ok(err)
		if !slices.Contains(features, sdk.FeaturePeerStream) {
			t.Errorf("features are %v", features)
		}
	}
	content := []entry{dir("d"), file("d/f", random(200_000)), symlink("away", "/etc"), file("g", "g").owned(7, 8)}
	source := from.sealed(content...)
	send := func(out sdk.StreamOut, in sdk.StreamIn) sdk.VolumeID {
		t.Helper()
		id := to.volume()
		ticket, err := to.s.PeerTicket(to.ctx, id, in)
		to.ok(err)
		if ticket.Zone != "z" || ticket.Protocol == "" || len(ticket.Data) > sdk.MaxTicketBytes {
			t.Errorf("the ticket is %+v", ticket)
		}
		from.ok(from.s.PeerSend(from.ctx, source, out, ticket))
		return id
	}
	to.wantTree(to.tree(send(sdk.StreamOut{}, sdk.StreamIn{}), ""), content...)
	to.wantTree(to.tree(send(sdk.StreamOut{Encoding: "gzip"}, sdk.StreamIn{}), ""), content...)
	to.wantTree(to.tree(send(sdk.StreamOut{Path: "d"}, sdk.StreamIn{Path: "new/dir"}), ""), dir("new"), dir("new/dir"), file("new/dir/f", random(200_000)))
	to.wantTree(to.tree(send(sdk.StreamOut{Path: "d/f"}, sdk.StreamIn{}), ""), file("f", random(200_000)))

	// What is refused.
	id := to.volume()
	ticket, err := to.s.PeerTicket(to.ctx, id, sdk.StreamIn{})
	to.ok(err)
	open := from.filled(file("a", "a"))
	from.want(from.s.PeerSend(from.ctx, open, sdk.StreamOut{}, ticket), sdk.FailedPrecondition, sdk.ReasonNotSealed)
	from.wantNotFound(from.s.PeerSend(from.ctx, newID(), sdk.StreamOut{}, ticket), sdk.KindVolume)
	from.wantNotFound(from.s.PeerSend(from.ctx, source, sdk.StreamOut{Path: "no/such"}, ticket), sdk.KindFile)
	from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{Path: ".."}, ticket), sdk.Invalid, sdk.ReasonPath)
	from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{Path: "away"}, ticket), sdk.Unsupported, "")
	from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{Encoding: "x"}, ticket), sdk.Invalid, sdk.ReasonEncoding)
	other := ticket
	other.Protocol = "other"
	from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{}, other), sdk.Invalid, sdk.ReasonSpec)
	for _, url := range []string{"", "file:///etc", "http://127.0.0.1/admin", "http://127.0.0.1/volumes/../stream-in", "http://u:p@127.0.0.1/volumes/x/stream-in", "gopher://127.0.0.1/volumes/x/stream-in"} {
		bad := ticket
		bad.Data, _ = json.Marshal(map[string]string{"url": url})
		from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{}, bad), sdk.Invalid, sdk.ReasonSpec)
	}
	big := ticket
	big.Data = bytes.Repeat([]byte("x"), sdk.MaxTicketBytes+1)
	from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{}, big), sdk.Invalid, sdk.ReasonTooLarge)
	sealed := to.sealed(file("a", "a"))
	_, err = to.s.PeerTicket(to.ctx, sealed, sdk.StreamIn{})
	to.want(err, sdk.FailedPrecondition, sdk.ReasonSealed)
	_, err = to.s.PeerTicket(to.ctx, newID(), sdk.StreamIn{})
	to.wantNotFound(err, sdk.KindVolume)
	_, err = to.s.PeerTicket(to.ctx, to.filled(symlink("l", "/etc")), sdk.StreamIn{})
	to.want(err, sdk.Invalid, sdk.ReasonPath)
	_, err = storeOf(t, to.servers.Baggageclaim).PeerTicket(to.ctx, id, sdk.StreamIn{})
	to.want(err, sdk.Unsupported, "")

	// A receiver that is gone.
	to.ok(to.s.DestroyVolume(to.ctx, id))
	if err := from.s.PeerSend(from.ctx, source, sdk.StreamOut{}, ticket); sdk.ClassOf(err) != sdk.Internal {
		t.Errorf("sending to a volume that was destroyed: %v (%s)", err, sdk.ClassOf(err))
	} else if strings.Contains(err.Error(), string(ticket.Data)) {
		t.Errorf("the error tells the ticket: %v", err)
	}
	// It may take as long as it takes, if only the sending server answers.
	senders, receivers := gardentest.NewProxy(t, from.servers.Baggageclaim), gardentest.NewProxy(t, to.servers.Baggageclaim)
	for name, hangs := range map[string]bool{"slow": false, "hung": true} {
		impatient := storeOf(t, senders.Address(), zone, func(c *Config) {
			c.StreamTimeout = 100 * time.Millisecond
			if hangs {
				c.RequestTimeout = time.Second
			}
		})
		id := to.volume()
		ticket := sdk.PeerTicket{Protocol: peerProtocol, Zone: "z"}
		ticket.Data, _ = json.Marshal(map[string]string{"url": receivers.Address() + "/volumes/" + string(id) + "/stream-in"})
		receivers.Freeze()
		fired := make(chan struct{})
		later := time.AfterFunc(time.Second, func() {
			defer close(fired)
			if hangs {
				senders.Freeze()
			} else {
				receivers.Thaw()
			}
		})
		err := impatient.PeerSend(from.ctx, source, sdk.StreamOut{}, ticket)
		early := later.Stop()
		if !early {
			<-fired
		}
		// On a machine that is busy a server may seem to hang before it does.
		if early && !hangs || hangs != errors.Is(err, sdk.Unavailable) || !hangs && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		senders.Thaw()
		receivers.Thaw()
	}
	ctx, cancel := context.WithCancel(from.ctx)
	cancel()
	if err := from.s.PeerSend(ctx, source, sdk.StreamOut{}, ticket); err != context.Canceled {
		t.Errorf("cancelled before: %v", err)
	}
	from.noLocks()
	to.noLocks()
}
