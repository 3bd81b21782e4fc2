//go:build linux

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shelf"
)

// ticketFor gets a ticket and looks into it.
func ticketFor(t *testing.T, s *storenet.Store, id sdk.VolumeID) ticketData {
	t.Helper()
	ticket, err := s.PeerTicket(testkit.Context(t), id, sdk.StreamIn{})
	if err != nil {
		t.Fatal(err)
	}
	var to ticketData
	if err := json.Unmarshal(ticket.Data, &to); err != nil || len(ticket.Data) > sdk.MaxTicketBytes {
		t.Fatalf("a ticket of %d bytes, %v", len(ticket.Data), err)
	}
	return to
}

// TestPeers has one store send to another.
func TestPeers(t *testing.T) {
	from, to := serve(t, t.TempDir()), serve(t, t.TempDir())
	a, b := from.client(), to.client()
	ctx := testkit.Context(t)
	big := strings.Repeat("0123456789abcdef", 256<<10)
	create(t, a, "src", big)
	empty := func(id sdk.VolumeID) {
		t.Helper()
		if err := b.CreateVolume(ctx, sdk.VolumeSpec{ID: id, Token: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	empty("dst")
	ticket, err := b.PeerTicket(ctx, "dst", sdk.StreamIn{})
	if err != nil || ticket.Protocol != "slipway.store/1" || ticket.Zone != "here" {
		t.Fatalf("got %+v, %v", ticket, err)
	}
	if err := a.PeerSend(ctx, "src", sdk.StreamOut{}, ticket); !errors.Is(err, sdk.ReasonNotSealed) {
		t.Errorf("sending what is open: %v", err)
	}
	seal(t, a, "src")
	if err := a.PeerSend(ctx, "src", sdk.StreamOut{Path: "missing"}, ticket); !sdk.IsNotFound(err, sdk.KindFile) {
		t.Errorf("sending what is not there: %v", err)
	}
	if err := a.PeerSend(ctx, "src", sdk.StreamOut{}, ticket); !errors.Is(err, sdk.Invalid) {
		t.Errorf("a ticket that was used: %v", err)
	}

	empty("whole")
	if ticket, err = b.PeerTicket(ctx, "whole", sdk.StreamIn{Path: "below/it"}); err != nil {
		t.Fatal(err)
	}
	if err := a.PeerSend(ctx, "src", sdk.StreamOut{}, ticket); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := b.ReadFile(ctx, "whole", "below/it/file", 0, -1, &got); err != nil || got.String() != big {
		t.Errorf("%d bytes came, %v", got.Len(), err)
	}
	if err := a.PeerSend(ctx, "src", sdk.StreamOut{}, ticket); !errors.Is(err, sdk.Invalid) {
		t.Errorf("a ticket for the second time: %v", err)
	}
	if err := a.DestroyVolume(ctx, "src"); err != nil {
		t.Error(err)
	}

	// What no ticket is given for.
	seal(t, b, "whole")
	for id, want := range map[sdk.VolumeID]error{"whole": sdk.ReasonSealed, "missing": sdk.NotFound} {
		if _, err := b.PeerTicket(ctx, id, sdk.StreamIn{}); !errors.Is(err, want) {
			t.Errorf("a ticket for %s: %v", id, err)
		}
	}
	if _, err := b.PeerTicket(ctx, "dst", sdk.StreamIn{Path: "../x"}); !errors.Is(err, sdk.ReasonPath) {
		t.Errorf("a ticket that leads out: %v", err)
	}
	if _, err := b.PeerTicket(ctx, "dst", sdk.StreamIn{Encoding: "gzip"}); !errors.Is(err, sdk.ReasonEncoding) {
		t.Errorf("a ticket for another encoding: %v", err)
	}
}

// TestBadTickets lead nowhere, and soon.
func TestBadTickets(t *testing.T) {
	from, to := serve(t, t.TempDir()), serve(t, t.TempDir())
	a, b := from.client(), to.client()
	create(t, a, "src", "content")
	seal(t, a, "src")
	create(t, b, "dst", "content")
	good := ticketFor(t, b, "dst")
	noise, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := noise.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(bytes.Repeat([]byte("noise"), 1000))
			c.Close()
		}
	}()
	defer func() {
		noise.Close()
		<-done
	}()
	with := func(change func(*ticketData)) sdk.PeerTicket {
		data := good
		change(&data)
		text, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		return sdk.PeerTicket{Protocol: storenet.Protocol, Zone: "here", Data: text}
	}
	for name, bad := range map[string]struct {
		ticket sdk.PeerTicket
		want   error
	}{
		"nothing":          {sdk.PeerTicket{Protocol: storenet.Protocol, Zone: "here"}, sdk.Invalid},
		"noise":            {sdk.PeerTicket{Protocol: storenet.Protocol, Zone: "here", Data: []byte("noise")}, sdk.Invalid},
		"another zone":     {sdk.PeerTicket{Protocol: storenet.Protocol, Zone: "there", Data: with(func(*ticketData) {}).Data}, sdk.Unsupported},
		"another protocol": {sdk.PeerTicket{Protocol: "memory/x", Zone: "here", Data: with(func(*ticketData) {}).Data}, sdk.Unsupported},
		"another secret":   {with(func(d *ticketData) { d.Secret = storenet.NewSecret() }), sdk.Invalid},
		"the store's own":  {with(func(d *ticketData) { d.Secret = to.hello().Secret }), sdk.Invalid},
		"fingerprint":      {with(func(d *ticketData) { d.Fingerprint = from.hello().Fingerprint }), sdk.Unavailable},
		"no address":       {with(func(d *ticketData) { d.Addresses = nil }), sdk.Unavailable},
		"nobody there":     {with(func(d *ticketData) { d.Addresses = []string{"127.0.0.1:1"} }), sdk.Unavailable},
		"noise there":      {with(func(d *ticketData) { d.Addresses = []string{noise.Addr().String()} }), sdk.Unavailable},
		"no volume":        {with(func(d *ticketData) { d.Volume = "../x" }), sdk.Invalid},
	} {
		if err := a.PeerSend(testkit.Context(t), "src", sdk.StreamOut{}, bad.ticket); !errors.Is(err, bad.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	several := with(func(d *ticketData) {
		d.Addresses = append([]string{"127.0.0.1:1", noise.Addr().String(), from.hello().Addresses[0]}, d.Addresses...)
	})
	if err := a.PeerSend(testkit.Context(t), "src", sdk.StreamOut{}, several); err != nil {
		t.Errorf("one of several addresses is right: %v", err)
	}
}

// TestPeersEnd cuts a stream at either end and from outside, while it is on its way.
func TestPeersEnd(t *testing.T) {
	for name, cut := range map[string]func(from, to *process, cancel func()){
		"cancelled":          func(_, _ *process, cancel func()) { cancel() },
		"source killed":      func(from, _ *process, _ func()) { from.end(syscall.SIGKILL) },
		"destination killed": func(_, to *process, _ func()) { to.end(syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			from, to := serve(t, t.TempDir()), serve(t, t.TempDir())
			a, b := from.client(), to.client()
			create(t, a, "src", strings.Repeat("0123456789abcdef", 1<<20)) // more than fits on the way
			seal(t, a, "src")
			create(t, b, "dst", "content")
			ticket, err := b.PeerTicket(testkit.Context(t), "dst", sdk.StreamIn{})
			if err != nil {
				t.Fatal(err)
			}
			// The stream must wait for this lock before it unpacks.
			unlock, err := shelf.LockFile(testkit.Context(t), to.volumeFile("dst", "files"), shelf.Exclusive)
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			ctx, cancel := context.WithCancel(testkit.Context(t))
			defer cancel()
			sent := make(chan error, 1)
			go func() { sent <- a.PeerSend(ctx, "src", sdk.StreamOut{}, ticket) }()
			testkit.Until(t, "the stream waits", func() bool { return to.waiting(to.volumeFile("dst", "files")) })
			cut(from, to, cancel)
			select {
			case err := <-sent:
				if name == "cancelled" && !errors.Is(err, context.Canceled) || name != "cancelled" && !errors.Is(err, sdk.Unavailable) || errors.Is(err, sdk.ReasonPluginGone) {
					t.Errorf("sending ends with %v", err)
				}
			case <-testkit.Context(t).Done():
				t.Fatal("sending does not end")
			}
			unlock()
			if name != "destination killed" {
				seal(t, b, "dst") // waits for a stream that goes on
			}
			if name == "cancelled" {
				if err := a.DestroyVolume(testkit.Context(t), "src"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
