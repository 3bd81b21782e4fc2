package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-run/slipway/sdk"
)

// peerCases check streams from worker to worker, by ticket. A target needs two workers for them.
func peerCases() []Case {
	must := func(id, title, doc string, run func(context.Context, *C), promises ...string) Case {
		return Case{ID: id, Title: title, Doc: doc, Promises: promises, Level: Must, Profile: P2P, Run: run, Needs: []sdk.Feature{sdk.FeaturePeerStream}}
	}
	return []Case{
		must("B01-peer-equal", "a volume that one worker sends to another comes out there as it is, both ways, and from and to a path inside", "Catches what the way over the host has and the straight one forgets: paths, owners, links.", runPeerEqual, "9v"),
		must("B02-ticket-once", "a ticket works once, and one that was made up or changed not at all", "Catches a right to write that stays: whoever reads a log may fill a volume.", runTicketOnce, "9v", "13d"),
		must("B03-peer-refused", "what is open is not sent, what is sealed is not received, and what is not there is NotFound", "Catches checks that only the way over the host has.", runPeerRefused, "9v"),
		must("B04-peer-gone", "sending to a volume that was destroyed fails, and the source can be sent again", "Catches a far end that fails without a word: an empty volume is sealed and cached.", runPeerGone, "9v"),
		must("B05-peer-cancel", "a stream to another worker that is cancelled ends, and what was received can be destroyed", "Catches a stream that goes on behind everybody's back, and holds both volumes.", runPeerCancel, "9v", "2a"),
	}
}

// peer is one end of a stream between workers.
type peer struct {
	sdk.PeerStreamer
	w sdk.Worker // tracked as C.W is
}

// Peers gives the case's worker and another one that streams can be sent to, and from.
func (c *C) Peers(ctx context.Context) (here, there peer) {
	p, ok := c.Optional().(sdk.PeerStreamer)
	if !ok {
		c.Fatalf("a feature that is named works", "the worker names %s and has no such methods", sdk.FeaturePeerStream)
	}
	here = peer{p, c.W}
	names, err := workerNames(ctx, c.suite.inst.Runtime)
	c.OK(err, "asking for the workers")
	if c.suite.target.Peer != "" {
		names = slices.DeleteFunc(names, func(n string) bool { return n != c.suite.target.Peer })
	}
	for _, name := range names {
		if name == c.suite.name {
			continue
		}
		w, err := c.suite.inst.Runtime.Worker(name)
		c.OK(err, "worker %q", name)
		c.Cleanup(func() { w.Close() })
		status, err := w.Status(ctx)
		c.OK(err, "asking for the status of worker %q", name)
		p, ok := w.(sdk.PeerStreamer)
		if ok && status.Has(sdk.FeaturePeerStream) && status.Zone != "" && status.Zone == c.Status.Zone {
			return here, peer{p, guard{c: c, on: &slot{w: w}}}
		}
	}
	c.NotObservable(fmt.Sprintf("there is no second worker in the zone %q that names %s", c.Status.Zone, sdk.FeaturePeerStream))
	return here, there
}

// on lets f make things on another worker.
func (c *C) on(w sdk.Worker, f func()) {
	own := c.W
	c.W = w
	defer func() { c.W = own }()
	f()
}

// sealedOn makes a sealed volume on a worker, and volumeOn an open one.
func (c *C) sealedOn(ctx context.Context, w sdk.Worker, entries ...Entry) (id sdk.VolumeID) {
	c.on(w, func() { id = c.Sealed(ctx, entries...) })
	return id
}

func (c *C) volumeOn(ctx context.Context, w sdk.Worker) (id sdk.VolumeID) {
	c.on(w, func() { id = c.Volume(ctx) })
	return id
}

// treeOn seals a volume and gives what is in it.
func (c *C) treeOn(ctx context.Context, w sdk.Worker, id sdk.VolumeID) (entries []Entry) {
	c.on(w, func() {
		c.OK(w.SealVolume(ctx, id), "sealing what was received")
		entries = c.Tree(ctx, id, "")
	})
	return entries
}

// send sends a volume, with a ticket of its own.
func (c *C) send(ctx context.Context, from, to peer, src, dst sdk.VolumeID) error {
	t, err := to.PeerTicket(ctx, dst, sdk.StreamIn{})
	c.OK(err, "asking for a ticket for volume %q", dst)
	return from.PeerSend(ctx, src, sdk.StreamOut{}, t)
}

func runPeerEqual(ctx context.Context, c *C) {
	here, there := c.Peers(ctx)
	want := append(someTree(), File("big", pattern(3_000_000)))
	for what, ends := range map[string][2]peer{"to the other worker": {here, there}, "from the other worker": {there, here}} {
		from, to := ends[0], ends[1]
		src, dst := c.sealedOn(ctx, from.w, want...), c.volumeOn(ctx, to.w)
		c.OK(c.send(ctx, from, to, src, dst), "sending a volume %s", what)
		c.WantTree(c.treeOn(ctx, to.w, dst), want, c.treeTimes(), "what was sent %s", what)

		part := c.sealedOn(ctx, from.w, Dir("d"), File("d/in", "in"), File("beside", "beside"))
		below := c.volumeOn(ctx, to.w)
		t, err := to.PeerTicket(ctx, below, sdk.StreamIn{Path: "new/place"})
		c.OK(err, "asking for a ticket for a path")
		c.OK(from.PeerSend(ctx, part, sdk.StreamOut{Path: "d"}, t), "sending a directory %s", what)
		c.WantTree(c.treeOn(ctx, to.w, below), []Entry{Dir("new"), Dir("new/place"), File("new/place/in", "in")}, IgnoreMeta, "a directory that was sent %s", what)
	}
}

func runTicketOnce(ctx context.Context, c *C) {
	here, there := c.Peers(ctx)
	first, second := c.sealedOn(ctx, there.w, File("f", "first")), c.sealedOn(ctx, there.w, File("f", "second"))
	dst := c.Volume(ctx)
	t, err := here.PeerTicket(ctx, dst, sdk.StreamIn{})
	c.OK(err, "asking for a ticket")
	if len(t.Data) > sdk.MaxTicketBytes || t.Zone != c.Status.Zone || t.Protocol == "" {
		c.Errorf("a host compares protocol and zone before it sends", "a ticket has %d bytes, protocol %q and zone %q, want at most %d, one, and %q",
			len(t.Data), t.Protocol, t.Zone, sdk.MaxTicketBytes, c.Status.Zone)
	}
	refused := func(err error, what string) {
		if err == nil || !errors.Is(err, sdk.Invalid) && !errors.Is(err, sdk.Unsupported) {
			c.Errorf("a ticket is a right to write, for one stream and its bearer", "%s: got %s, want invalid or unsupported", what, describe(err))
		}
	}
	for what, bend := range map[string]func(*sdk.PeerTicket){
		"nothing in the ticket":    func(t *sdk.PeerTicket) { t.Data = nil },
		"another protocol":         func(t *sdk.PeerTicket) { t.Protocol += "-of-others" },
		"more than a ticket holds": func(t *sdk.PeerTicket) { t.Data = bytes.Repeat([]byte("x"), sdk.MaxTicketBytes+1) },
		"something made up":        func(t *sdk.PeerTicket) { t.Data = []byte(`{"volume":"` + dst + `"}`) },
	} {
		bent := t
		bend(&bent)
		refused(there.PeerSend(ctx, second, sdk.StreamOut{}, bent), what)
	}
	c.OK(there.PeerSend(ctx, first, sdk.StreamOut{}, t), "sending with the ticket")
	refused(there.PeerSend(ctx, second, sdk.StreamOut{}, t), "the same ticket again")
	c.WantTree(c.treeOn(ctx, here.w, dst), []Entry{File("f", "first")}, 0, "what was received with one ticket, used twice")
}

func runPeerRefused(ctx context.Context, c *C) {
	here, there := c.Peers(ctx)
	open := c.Filled(ctx, File("a", "open"))
	dst := c.volumeOn(ctx, there.w)
	ticket := func() sdk.PeerTicket {
		t, err := there.PeerTicket(ctx, dst, sdk.StreamIn{})
		c.OK(err, "asking for a ticket")
		return t
	}
	c.WantReason(here.PeerSend(ctx, open, sdk.StreamOut{}, ticket()), sdk.FailedPrecondition, sdk.ReasonNotSealed, "what may still change is sent to nobody", "sending an open volume")
	c.WantNotFound(here.PeerSend(ctx, c.VolumeID(), sdk.StreamOut{}, ticket()), sdk.KindVolume, "a host must learn what is lost", "sending a volume that is not there")
	sealed := c.Sealed(ctx, File("a", "sealed"))
	c.WantNotFound(here.PeerSend(ctx, sealed, sdk.StreamOut{Path: "no/such"}, ticket()), sdk.KindFile, "a host tells a missing result from an empty one", "sending a path that is not there")
	_, err := here.PeerTicket(ctx, sealed, sdk.StreamIn{})
	c.WantReason(err, sdk.FailedPrecondition, sdk.ReasonSealed, "sealed is for ever", "a ticket for a sealed volume")
	_, err = here.PeerTicket(ctx, c.VolumeID(), sdk.StreamIn{})
	c.WantNotFound(err, sdk.KindVolume, "a host must learn what is lost", "a ticket for a volume that is not there")
	_, err = here.PeerTicket(ctx, open, sdk.StreamIn{Path: "../x"})
	c.WantClass(err, sdk.Invalid, "paths inside a volume never leave it", "a ticket for ../x")
	c.WantTree(c.Tree(ctx, open, ""), []Entry{File("a", "open")}, 0, "the open volume afterwards")
	c.WantTree(c.Tree(ctx, sealed, ""), []Entry{File("a", "sealed")}, 0, "the sealed volume afterwards")
}

func runPeerGone(ctx context.Context, c *C) {
	here, there := c.Peers(ctx)
	src := c.Sealed(ctx, File("a", pattern(100_000)))
	dst := c.volumeOn(ctx, there.w)
	t, err := there.PeerTicket(ctx, dst, sdk.StreamIn{})
	c.OK(err, "asking for a ticket")
	c.OK(there.w.DestroyVolume(ctx, dst), "destroying the volume that the ticket is for")
	if here.PeerSend(ctx, src, sdk.StreamOut{}, t) == nil {
		c.Errorf("success says that the far end has it whole", "sending to a volume that was destroyed succeeded")
	}
	fresh := c.volumeOn(ctx, there.w)
	c.OK(c.send(ctx, here, there, src, fresh), "sending it again, to a fresh volume")
	c.WantTree(c.treeOn(ctx, there.w, fresh), []Entry{File("a", pattern(100_000))}, 0, "the fresh volume")
}

func runPeerCancel(ctx context.Context, c *C) {
	here, there := c.Peers(ctx)
	src := c.Sealed(ctx, File("a", pattern(5_000_000)))
	over, cancel := context.WithCancel(ctx)
	cancel()
	for i := range 5 {
		dst := c.volumeOn(ctx, there.w)
		t, err := there.PeerTicket(ctx, dst, sdk.StreamIn{})
		c.OK(err, "asking for a ticket")
		if i == 0 {
			if err := here.PeerSend(over, src, sdk.StreamOut{}, t); !isCanceled(err) {
				c.Errorf("a context that has ended ends the call, as context.Canceled", "sending: got %s", describe(err))
			}
		} else {
			half, cancel := context.WithCancel(ctx)
			ended := make(chan error, 1)
			c.Go(func(context.Context) { ended <- here.PeerSend(half, src, sdk.StreamOut{}, t) })
			cancel()
			if err := c.AwaitError(ctx, ended, "the end of a stream that was cancelled"); err != nil && !isCanceled(err) {
				c.Errorf("a context that has ended ends the call, as context.Canceled", "sending, cancelled at once: got %s", describe(err))
			}
		}
		c.OK(there.w.DestroyVolume(ctx, dst), "destroying what a cancelled stream went into")
	}
	dst := c.volumeOn(ctx, there.w)
	c.OK(c.send(ctx, here, there, src, dst), "sending it whole")
	c.WantTree(c.treeOn(ctx, there.w, dst), []Entry{File("a", pattern(5_000_000))}, 0, "what was sent after streams that were cancelled")
}
