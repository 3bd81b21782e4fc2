package memory

import (
	"context"
	"testing"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

func TestPeersSendToEachOther(t *testing.T) {
	rt := rpctest.Open(t, Plugin(), config(`{}`, map[string]string{"a": `{"zone": "here"}`, "b": `{"zone": "here"}`, "c": `{"zone": "there"}`, "d": ""}))
	a, b, c, d := openWorker(t, rt, "a"), openWorker(t, rt, "b"), openWorker(t, rt, "c"), openWorker(t, rt, "d")
	for w, zone := range map[sdk.Worker]string{a: "here", c: "there", d: ""} {
		if s := statusOf(t, w); s.Zone != zone || s.Has(sdk.FeaturePeerStream) != (zone != "") {
			t.Errorf("in zone %q: %+v", zone, s)
		}
	}
	createVolume(t, a, "src")
	fill(t, a, "src", map[string]string{"dir/f": "content", "g": "more"})
	must(t, a.SealVolume(t.Context(), "src"))
	peerA, peerB := a.(sdk.PeerStreamer), b.(sdk.PeerStreamer)
	ticket := func(dst sdk.VolumeID, in sdk.StreamIn) sdk.PeerTicket {
		t.Helper()
		got, err := peerB.PeerTicket(t.Context(), dst, in)
		must(t, err)
		if got.Zone != "here" || got.Protocol == "" || len(got.Data) == 0 {
			t.Errorf("ticket %+v", got)
		}
		return got
	}

	createVolume(t, b, "dst")
	tk := ticket("dst", sdk.StreamIn{Path: "below"})
	must(t, peerA.PeerSend(t.Context(), "src", sdk.StreamOut{}, tk))
	if got := files(t, b, "dst"); got["below/dir/f"] != "content" || got["below/g"] != "more" || len(got) != 2 {
		t.Errorf("arrived: %v", got)
	}
	wantError(t, peerA.PeerSend(t.Context(), "src", sdk.StreamOut{}, tk), sdk.Invalid, sdk.ReasonSpec) // once

	tk = ticket("dst", sdk.StreamIn{Path: "zipped", Encoding: "zstd"})
	must(t, peerA.PeerSend(t.Context(), "src", sdk.StreamOut{Path: "dir", Encoding: "zstd"}, tk))
	if got := files(t, b, "dst"); got["zipped/f"] != "content" {
		t.Errorf("arrived: %v", got)
	}

	// What goes wrong.
	tk = ticket("dst", sdk.StreamIn{Encoding: "gzip"})
	wantError(t, peerA.PeerSend(t.Context(), "src", sdk.StreamOut{}, tk), sdk.Invalid, sdk.ReasonEncoding)
	tk = ticket("dst", sdk.StreamIn{})
	wantError(t, peerA.PeerSend(t.Context(), "src", sdk.StreamOut{Path: "nope"}, tk), sdk.NotFound, sdk.KindFile)
	tk = ticket("dst", sdk.StreamIn{})
	wantError(t, peerA.PeerSend(t.Context(), "nope", sdk.StreamOut{}, tk), sdk.NotFound, sdk.KindVolume)
	wantError(t, c.(sdk.PeerStreamer).PeerSend(t.Context(), "src", sdk.StreamOut{}, tk), sdk.Unsupported, sdk.FeaturePeerStream)
	tk.Protocol = "memory/of-another-process"
	wantError(t, peerA.PeerSend(t.Context(), "src", sdk.StreamOut{}, tk), sdk.Unsupported, sdk.FeaturePeerStream)
	createVolume(t, a, "open")
	wantError(t, peerA.PeerSend(t.Context(), "open", sdk.StreamOut{}, ticket("dst", sdk.StreamIn{})), sdk.FailedPrecondition, sdk.ReasonNotSealed)

	tk = ticket("dst", sdk.StreamIn{})
	must(t, b.DestroyVolume(t.Context(), "dst"))
	wantError(t, peerA.PeerSend(t.Context(), "src", sdk.StreamOut{}, tk), sdk.NotFound, sdk.KindVolume)
	_, err := peerB.PeerTicket(t.Context(), "dst", sdk.StreamIn{})
	wantError(t, err, sdk.NotFound, sdk.KindVolume)
	createVolume(t, b, "sealed")
	tk = ticket("sealed", sdk.StreamIn{})
	must(t, b.SealVolume(t.Context(), "sealed"))
	wantError(t, peerA.PeerSend(t.Context(), "src", sdk.StreamOut{}, tk), sdk.FailedPrecondition, sdk.ReasonSealed)
	_, err = peerB.PeerTicket(t.Context(), "sealed", sdk.StreamIn{})
	wantError(t, err, sdk.FailedPrecondition, sdk.ReasonSealed)
	_, err = asCalled(t, b).(sdk.PeerStreamer).PeerTicket(t.Context(), "sealed", sdk.StreamIn{Path: "/abs"})
	wantError(t, err, sdk.Invalid, sdk.ReasonPath)
}

func TestPeerSendIsCancelled(t *testing.T) {
	r := New([]string{"a", "b"}, Options{Workers: map[string]WorkerOptions{"a": {Zone: "z"}, "b": {Zone: "z"}}})
	defer func() { must(t, r.Close(context.Background())) }()
	a, b := r.workers["a"], r.workers["b"]
	createVolume(t, a, "src")
	fill(t, a, "src", map[string]string{"f": "x"})
	must(t, a.SealVolume(t.Context(), "src"))
	createVolume(t, b, "dst")
	tk, err := b.PeerTicket(t.Context(), "dst", sdk.StreamIn{})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	v, err := a.hold("src")
	must(t, err)
	defer a.release(v)
	redeemed, err := a.peers.tickets.Redeem(string(tk.Data))
	must(t, err)
	cancel()
	if err := a.sendTo(ctx, v, sdk.StreamOut{}, redeemed); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

// The workers of a world are peers, and those of another one are not.
func TestPeersInAWorld(t *testing.T) {
	one, other := socketPath(t), socketPath(t)
	startWorld(t, "--socket", one, "--worker", "a", "--worker", "b", "--zone", "z")
	startWorld(t, "--socket", other, "--worker", "c", "--zone", "z")
	near := openProxy(t, one, "a", "b")
	a, b, c := openWorker(t, near, "a"), openWorker(t, near, "b"), openWorker(t, openProxy(t, other, "c"), "c")
	if s := statusOf(t, a); s.Zone != "z" || !s.Has(sdk.FeaturePeerStream) {
		t.Errorf("status %+v", s)
	}
	createVolume(t, a, "src")
	fill(t, a, "src", map[string]string{"f": "x"})
	must(t, a.SealVolume(t.Context(), "src"))
	for w, class := range map[sdk.Worker]sdk.Class{b: "", c: sdk.Unsupported} {
		createVolume(t, w, "dst")
		tk, err := w.(sdk.PeerStreamer).PeerTicket(t.Context(), "dst", sdk.StreamIn{})
		must(t, err)
		if err := a.(sdk.PeerStreamer).PeerSend(t.Context(), "src", sdk.StreamOut{}, tk); sdk.ClassOf(err) != class {
			t.Errorf("got %v, want %q", err, class)
		}
	}
	if got := files(t, b, "dst"); got["f"] != "x" {
		t.Errorf("arrived: %v", got)
	}
}
