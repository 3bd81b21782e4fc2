//go:build linux

package claim

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// piped puts a store into a zone whose bytes this process carries.
func piped(pipes *Pipes, zone string) func(*Config) {
	return func(c *Config) { c.Zone, c.Pipes = zone, pipes }
}

// TestPipes sends from one real server to another through this process.
func TestPipes(t *testing.T) {
	pipes := NewPipes()
	from, to := serve(t, gardentest.Options{}, piped(pipes, "z")), serve(t, gardentest.Options{}, piped(pipes, "z"))
	for _, b := range []bench{from, to} {
		features, err := b.s.Features(b.ctx)
		b.ok(err)
		if !slices.Contains(features, sdk.FeaturePeerStream) || b.s.Zone() != from.s.Zone() {
			t.Errorf("features are %v, the zone is %q", features, b.s.Zone())
		}
	}
	content := []entry{dir("d"), file("d/f", random(200_000)), symlink("away", "/etc"), file("g", "g").owned(7, 8)}
	source := from.sealed(content...)
	ticket := func(id sdk.VolumeID, in sdk.StreamIn) sdk.PeerTicket {
		t.Helper()
		ticket, err := to.s.PeerTicket(to.ctx, id, in)
		to.ok(err)
		if ticket.Zone != from.s.Zone() || ticket.Protocol == "" || len(ticket.Data) > sdk.MaxTicketBytes {
			t.Errorf("the ticket is %+v", ticket)
		}
		return ticket
	}
	send := func(out sdk.StreamOut, in sdk.StreamIn) sdk.VolumeID {
		t.Helper()
		id := to.volume()
		from.ok(from.s.PeerSend(from.ctx, source, out, ticket(id, in)))
		return id
	}
	to.wantTree(to.tree(send(sdk.StreamOut{}, sdk.StreamIn{}), ""), content...)
	to.wantTree(to.tree(send(sdk.StreamOut{Encoding: "gzip"}, sdk.StreamIn{Encoding: "gzip"}), ""), content...)
	to.wantTree(to.tree(send(sdk.StreamOut{Encoding: "zstd"}, sdk.StreamIn{Encoding: sdk.EncodingRaw}), ""), content...)
	to.wantTree(to.tree(send(sdk.StreamOut{Path: "d"}, sdk.StreamIn{Path: "new/dir"}), ""), dir("new"), dir("new/dir"), file("new/dir/f", random(200_000)))
	to.wantTree(to.tree(send(sdk.StreamOut{Path: "away"}, sdk.StreamIn{}), ""), symlink("away", "/etc"))

	// What is refused. A ticket works once, and what was refused before it was looked at leaves it good.
	id := to.volume()
	once := ticket(id, sdk.StreamIn{})
	from.want(from.s.PeerSend(from.ctx, from.filled(file("a", "a")), sdk.StreamOut{}, once), sdk.FailedPrecondition, sdk.ReasonNotSealed)
	from.wantNotFound(from.s.PeerSend(from.ctx, newID(), sdk.StreamOut{}, once), sdk.KindVolume)
	from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{Path: ".."}, once), sdk.Invalid, sdk.ReasonPath)
	from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{Encoding: "x"}, once), sdk.Invalid, sdk.ReasonEncoding)
	from.ok(from.s.PeerSend(from.ctx, source, sdk.StreamOut{}, once))
	from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{}, once), sdk.Invalid, sdk.ReasonSpec)
	from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{Encoding: "gzip"}, ticket(id, sdk.StreamIn{})), sdk.Invalid, sdk.ReasonEncoding)
	from.wantNotFound(from.s.PeerSend(from.ctx, source, sdk.StreamOut{Path: "no/such"}, ticket(to.volume(), sdk.StreamIn{})), sdk.KindFile)
	big := ticket(id, sdk.StreamIn{})
	big.Data = bytes.Repeat([]byte("x"), sdk.MaxTicketBytes+1)
	from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{}, big), sdk.Invalid, sdk.ReasonTooLarge)
	_, err := to.s.PeerTicket(to.ctx, to.sealed(file("a", "a")), sdk.StreamIn{})
	to.want(err, sdk.FailedPrecondition, sdk.ReasonSealed)
	_, err = to.s.PeerTicket(to.ctx, newID(), sdk.StreamIn{})
	to.wantNotFound(err, sdk.KindVolume)
	_, err = to.s.PeerTicket(to.ctx, id, sdk.StreamIn{Path: "../x"})
	to.want(err, sdk.Invalid, sdk.ReasonPath)
	// Nothing goes through a link of what is there already, as with any archive.
	from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{}, ticket(to.filled(symlink("d", "/etc")), sdk.StreamIn{Path: "d"})), sdk.Invalid, sdk.ReasonPath)
	gone := to.volume()
	late := ticket(gone, sdk.StreamIn{})
	to.ok(to.s.DestroyVolume(to.ctx, gone))
	from.wantNotFound(from.s.PeerSend(from.ctx, source, sdk.StreamOut{}, late), sdk.KindVolume)

	fresh := to.volume()
	// Another zone, another process, and servers that reach each other are not these peers.
	for name, other := range map[string]func(*Config){
		"zone": piped(pipes, "other"), "process": piped(NewPipes(), "z"), "servers": func(c *Config) { c.Zone = "z" },
	} {
		s := storeOf(t, to.servers.Baggageclaim, other)
		if s.Zone() == from.s.Zone() {
			t.Errorf("another %s has the zone %q, too", name, s.Zone())
		}
		ticket, err := s.PeerTicket(to.ctx, fresh, sdk.StreamIn{})
		to.ok(err)
		from.want(from.s.PeerSend(from.ctx, source, sdk.StreamOut{}, ticket), sdk.Unsupported, "")
	}
	_, err = storeOf(t, to.servers.Baggageclaim, piped(pipes, "")).PeerTicket(to.ctx, id, sdk.StreamIn{})
	to.want(err, sdk.Unsupported, "")
	from.noLocks()
	to.noLocks()
}

// TestPipeBreaks stops a stream through this process at its half, in every way that one end or the caller can.
func TestPipeBreaks(t *testing.T) {
	pipes := NewPipes()
	from, to := serve(t, gardentest.Options{}), serve(t, gardentest.Options{})
	senders, receivers := gardentest.NewProxy(t, from.servers.Baggageclaim), gardentest.NewProxy(t, to.servers.Baggageclaim)
	content := file("f", random(16<<20)) // more than fits into the buffers between the two
	source := from.sealed(content)
	unavailable := func(err error) bool { return errors.Is(err, sdk.Unavailable) }
	cancelled := func(err error) bool { return err == context.Canceled }
	for name, c := range map[string]struct {
		stop func(cancel context.CancelFunc)
		want func(error) bool
	}{
		"cancelled":        {func(cancel context.CancelFunc) { cancel() }, cancelled},
		"receiver is cut":  {func(context.CancelFunc) { receivers.Cut(); receivers.Thaw() }, unavailable},
		"sender is cut":    {func(context.CancelFunc) { senders.Cut(); receivers.Thaw() }, unavailable},
		"receiver hangs":   {func(context.CancelFunc) {}, unavailable},
		"sender hangs":     {func(context.CancelFunc) { senders.Freeze(); receivers.Thaw() }, unavailable},
		"it was only slow": {func(context.CancelFunc) { receivers.Thaw() }, func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := storeOf(t, senders.Address(), piped(pipes, "z")), storeOf(t, receivers.Address(), piped(pipes, "z"))
			dst := to.volume()
			ticket, err := b.PeerTicket(to.ctx, dst, sdk.StreamIn{})
			to.ok(err)
			if strings.HasSuffix(name, " hangs") {
				for _, s := range []*Store{a, b} {
					s.config.StreamTimeout, s.config.RequestTimeout = time.Second, time.Second
				}
			}
			half := receivers.FreezeAfter(1 << 20)
			ctx, cancel := context.WithCancel(from.ctx)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- a.PeerSend(ctx, source, sdk.StreamOut{}, ticket) }()
			select {
			case <-half:
				c.stop(cancel)
			case err := <-ended: // on a machine that is busy a server may seem to hang before it does
				ended <- err
			case <-ctx.Done():
			}
			if err := first(from, ended, "the end of the stream"); !c.want(err) {
				t.Errorf("it ended with %v", err)
			}
			senders.Thaw()
			receivers.Thaw()
			// Both servers' ends are over, too, not only the call.
			testkit.Until(t, "no stream is left with either server", func() bool {
				a.http.CloseIdleConnections()
				b.http.CloseIdleConnections()
				return a.locks.size()+b.locks.size() == 0 && senders.Connections()+receivers.Connections() == 0
			})
		})
	}
	// The source is as it was.
	dst := to.volume()
	a, b := storeOf(t, senders.Address(), piped(pipes, "z")), storeOf(t, receivers.Address(), piped(pipes, "z"))
	ticket, err := b.PeerTicket(to.ctx, dst, sdk.StreamIn{})
	to.ok(err)
	from.ok(a.PeerSend(from.ctx, source, sdk.StreamOut{}, ticket))
	to.wantTree(to.tree(dst, ""), content)
}

// first waits for what comes from a channel first, or for its end.
func first[T any](b bench, from <-chan T, what string) (v T) {
	b.Helper()
	select {
	case v = <-from:
	case <-b.ctx.Done():
		b.Fatalf("%s did not come", what)
	}
	return v
}
