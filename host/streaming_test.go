package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

var (
	nearby  = []string{"raw", "zstd", "gzip"}
	faraway = []string{"zstd", "gzip", "raw"}
)

// last keeps the last progress of a stream.
type last struct {
	mu sync.Mutex
	s  StreamProgress
}

func (l *last) tell(s StreamProgress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s = s
}

func (l *last) get() StreamProgress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s
}

// sameContent fails unless a replica holds what the first worker's does.
func sameContent(t *testing.T, h *Host, f *far, a *Artifact, from, to string) {
	t.Helper()
	ids := make(map[string]sdk.VolumeID)
	for _, w := range []string{from, to} {
		r, err := h.replicate(t.Context(), a, mustWorker(t, h, w), nil)
		if err != nil {
			t.Fatal(err)
		}
		ids[w] = r.volume
	}
	if f.content(t, from, ids[from]) != f.content(t, to, ids[to]) {
		t.Errorf("%s has something else than %s", to, from)
	}
	rows := onWorker(t, f.Runtime, to)
	if len(rows) != 1 {
		t.Errorf("on %s there are %q, want the replica only", to, rows)
	}
}

// Bytes cross in the best encoding that both ends name, packed or unpacked here only where there is none, and what a volume weighs does
// not depend on it.
func TestStreamsInTheBestEncoding(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to []string
		limits   StreamLimits
		want     string // that the destination is sent
	}{
		"both nearby":          {nearby, nearby, StreamLimits{}, "raw"},
		"both far":             {faraway, faraway, StreamLimits{}, "zstd"},
		"one far":              {nearby, faraway, StreamLimits{}, "zstd"},
		"the source's order":   {[]string{"gzip", "zstd", "raw"}, faraway, StreamLimits{}, "gzip"},
		"nothing shared":       {[]string{"gzip"}, []string{"zstd"}, StreamLimits{}, "zstd"},
		"counted on the way":   {faraway, faraway, StreamLimits{Unpacked: 2 << 20}, "zstd"},
		"counted, not shared":  {[]string{"zstd"}, []string{"gzip"}, StreamLimits{Unpacked: 2 << 20, Sent: 2 << 20}, "gzip"},
		"counted, raw":         {nearby, nearby, StreamLimits{Unpacked: 2 << 20}, "raw"},
		"nothing but raw here": {[]string{"raw"}, faraway, StreamLimits{}, "raw"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFar(t, &farWorker{name: "a", encodings: c.from}, &farWorker{name: "b", encodings: c.to})
			h, a := farHost(t, patient, Options{Streams: c.limits}, f, "a", "b")
			if got, want := *f.workers["a"].streamed.Load(), stream.Own(c.from); got != want {
				t.Errorf("uploaded in %s, want %s", got, want)
			}
			var told last
			b := mustWorker(t, h, "b")
			r, err := h.replicate(t.Context(), a, b, told.tell)
			if err != nil {
				t.Fatal(err)
			}
			if got := *f.workers["b"].streamed.Load(); got != c.want {
				t.Errorf("sent in %s, want %s", got, c.want)
			}
			if s := told.get(); s.Via != c.want || !s.Done || s.Bytes == 0 || c.want != "raw" && s.Bytes > 500<<10 {
				t.Errorf("told %+v", s)
			}
			if r.bytes < 700<<10 {
				t.Errorf("a replica of 700 KiB and more is taken for %d bytes", r.bytes)
			}
			sameContent(t, h, f, a, "a", "b")
			target := filepath.Join(t.TempDir(), "out")
			if err := h.DownloadDir(t.Context(), a, target, false); err != nil {
				t.Fatal(err)
			}
			var local, remote bytes.Buffer
			if err := errors.Join(stream.PackDir(t.Context(), target, &local), h.Download(t.Context(), a, &remote)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(local.Bytes(), patches(700<<10)) || !bytes.Contains(remote.Bytes(), patches(700<<10)) {
				t.Error("what was downloaded is not what was uploaded")
			}
		})
	}
}

// A stream that is cut, damaged, too long or cancelled leaves no volume, and the worker is as good as before.
func TestFailedStreamsLeaveNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out    func(context.Context, io.Writer) io.Writer
		limits StreamLimits
		want   func(error) bool
	}{
		"cut": {out: breaks(100<<10, func(context.Context) error { return nil }),
			want: func(err error) bool { return errors.Is(err, errFarBroken) && !errors.Is(err, context.Canceled) }},
		"damaged": {out: func(_ context.Context, w io.Writer) io.Writer {
			n := 0
			return writerFunc(func(b []byte) (int, error) {
				b = bytes.Clone(b)
				if n += len(b); n > 100<<10 {
					b[0] ^= 0x55
				}
				return w.Write(b)
			})
		}, want: func(err error) bool { return errors.Is(err, sdk.ReasonArchive) }},
		"too many bytes":      {limits: StreamLimits{Sent: 100 << 10}, want: func(err error) bool { return errors.Is(err, sdk.ReasonTooLarge) }},
		"unpacks to too many": {limits: StreamLimits{Unpacked: 600 << 10}, want: func(err error) bool { return errors.Is(err, sdk.ReasonTooLarge) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFar(t, &farWorker{name: "a", encodings: faraway, out: c.out}, &farWorker{name: "b", encodings: faraway})
			h, a := farHost(t, patient, Options{}, f, "a", "b")
			h.opts.Streams = c.limits // not for the first copy
			h.mu.Lock()
			delete(h.local, a.ID) // which would be another source
			h.mu.Unlock()
			_, err := h.replicate(t.Context(), a, mustWorker(t, h, "b"), nil)
			if err == nil || !c.want(err) || !strings.Contains(err.Error(), "stream data from a to b") {
				t.Errorf("got %v", err)
			}
			if left := onWorker(t, f.Runtime, "b"); len(left) > 0 {
				t.Errorf("left on b: %q", left)
			}
			h.opts.Streams, f.workers["a"].out = StreamLimits{}, nil
			sameContent(t, h, f, a, "a", "b")
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		f := newFar(t, &farWorker{name: "b", encodings: faraway}, &farWorker{name: "a", encodings: faraway,
			out: breaks(100<<10, func(ctx context.Context) error {
				cancel()
				<-ctx.Done()
				ended <- ctx.Err()
				return ctx.Err()
			})})
		h, a := farHost(t, patient, Options{}, f, "a", "b")
		if _, err := h.replicate(ctx, a, mustWorker(t, h, "b"), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		<-ended
		if left := onWorker(t, f.Runtime, "b"); len(left) > 0 {
			t.Errorf("left on b: %q", left)
		}
	})
}

func peersOf(zone, protocol string) (*farWorker, *farWorker) {
	return &farWorker{name: "a", encodings: faraway, zone: zone, protocol: protocol},
		&farWorker{name: "b", encodings: faraway, zone: zone, protocol: protocol}
}

// Between workers of a zone the bytes never come here.
func TestStreamsDirectly(t *testing.T) {
	t.Parallel()
	a, b := peersOf("z", "p")
	f := newFar(t, a, b)
	f.wire = true
	h, art := farHost(t, patient, Options{}, f, "a", "b")
	var all []StreamProgress
	r, err := h.replicate(t.Context(), art, mustWorker(t, h, "b"), func(s StreamProgress) { all = append(all, s) })
	if err != nil {
		t.Fatal(err)
	}
	if b.streamed.Load() != nil || b.began.Load() != 1 || b.volumes.Load() != 1 {
		t.Errorf("%d streams from peers, %d volumes, from the host in %v", b.began.Load(), b.volumes.Load(), b.streamed.Load())
	}
	if len(all) != 2 || all[0].Via != ViaDirect || all[0].Bytes >= 0 || all[0].Done || all[1].Via != ViaDirect || !all[1].Done || all[1].Bytes < 700<<10 {
		t.Errorf("told %+v", all)
	}
	if r.bytes < 700<<10 {
		t.Errorf("taken for %d bytes", r.bytes)
	}
	sameContent(t, h, f, art, "a", "b")
	if b.tickets.Load() != 1 {
		t.Errorf("%d tickets for one volume", b.tickets.Load())
	}
}

// Whatever goes wrong on the direct way, the volume that it may have spoiled is given up, and another one filled through the host.
func TestDirectFailsIntoAnotherVolume(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil   func(a, b *farWorker)
		tickets int64
		volumes int64
	}{
		"another protocol": {func(_, b *farWorker) { b.protocol = "q" }, 1, 2},
		"no ticket": {func(_, b *farWorker) {
			b.ticket = func(context.Context, *sdk.PeerTicket) error { return sdk.NewUnavailable(nil, "no ports") }
		}, 1, 2},
		"a ticket for another zone": {func(_, b *farWorker) {
			b.ticket = func(_ context.Context, t *sdk.PeerTicket) error { t.Zone = "elsewhere"; return nil }
		}, 1, 2},
		"cut in the middle": {func(a, _ *farWorker) {
			first := true
			a.out = func(ctx context.Context, w io.Writer) io.Writer {
				if !first {
					return w
				}
				first = false
				return breaks(100<<10, func(context.Context) error { return nil })(ctx, w)
			}
		}, 1, 2},
		"another zone":      {func(_, b *farWorker) { b.zone = "y" }, 0, 1},
		"source in no zone": {func(a, _ *farWorker) { a.zone = "" }, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := peersOf("z", "p")
			c.spoil(a, b)
			f := newFar(t, a, b)
			f.wire = true
			h, art := farHost(t, patient, Options{}, f, "a", "b")
			var told last
			if _, err := h.replicate(t.Context(), art, mustWorker(t, h, "b"), told.tell); err != nil {
				t.Fatal(err)
			}
			if s := told.get(); s.Via != "zstd" || b.tickets.Load() != c.tickets || b.volumes.Load() != c.volumes {
				t.Errorf("told %+v; %d tickets and %d volumes, want %d and %d", s, b.tickets.Load(), b.volumes.Load(), c.tickets, c.volumes)
			}
			sameContent(t, h, f, art, "a", "b")
		})
	}
}

// A destination that takes neither way is told as it is, and keeps nothing.
func TestDestinationRefuses(t *testing.T) {
	t.Parallel()
	a, b := peersOf("z", "p")
	b.ticket = func(context.Context, *sdk.PeerTicket) error { return sdk.NewUnavailable(nil, "no ports") }
	b.refuse = sdk.NewInvalid(sdk.ReasonTooLarge, "it can never fit")
	f := newFar(t, a, b)
	f.wire = true
	h, art := farHost(t, patient, Options{}, f, "a", "b")
	_, err := h.replicate(t.Context(), art, mustWorker(t, h, "b"), nil)
	side, ok := errors.AsType[*stream.SideError](err)
	if !ok || side.Side != stream.Destination || !errors.Is(err, sdk.ReasonTooLarge) {
		t.Errorf("got %v", err)
	}
	if left := onWorker(t, f.Runtime, "b"); len(left) > 0 || b.volumes.Load() != 2 {
		t.Errorf("left on b: %q; %d volumes were made", left, b.volumes.Load())
	}
}

// A direct stream that hangs goes through the host after its time, and the next ones at once.
func TestDirectHangs(t *testing.T) {
	t.Parallel()
	a, b := peersOf("z", "p")
	b.ticket = func(ctx context.Context, _ *sdk.PeerTicket) error { <-ctx.Done(); return ctx.Err() }
	f := newFar(t, a, b)
	f.wire = true
	h, art := farHost(t, testkit.Scale(10*time.Second), Options{}, f, "a", "b") // also what a relay may stand still: this machine may stall
	other, err := h.AddDir(t.Context(), "other", "", tree(t, map[string]string{"x": "y"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.replicate(t.Context(), other, mustWorker(t, h, "a"), nil); err != nil {
		t.Fatal(err)
	}
	for i, x := range []*Artifact{art, other} {
		var told last
		if _, err := h.replicate(t.Context(), x, mustWorker(t, h, "b"), told.tell); err != nil || told.get().Via != "zstd" {
			t.Errorf("%v, told %+v", err, told.get())
		}
		h.mu.Lock()
		noted := len(h.hung) == 1
		h.hung = map[pair]time.Time{{"a", "b"}: time.Now().Add(time.Hour)} // however slow this machine is
		h.mu.Unlock()
		if !noted {
			t.Errorf("after %d streams nothing is noted", i+1)
		}
	}
	if b.tickets.Load() != 1 {
		t.Errorf("%d tickets asked for", b.tickets.Load())
	}
}

// Cancelling a direct stream reaches both ends, and nothing goes through the host instead.
func TestDirectCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, b := peersOf("z", "p")
	ended := make(chan struct{})
	a.out = breaks(100<<10, func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	f := newFar(t, a, b)
	f.wire = true
	h, art := farHost(t, patient, Options{}, f, "a", "b")
	if _, err := h.replicate(ctx, art, mustWorker(t, h, "b"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ended
	b.quiet()
	if left := onWorker(t, f.Runtime, "b"); len(left) > 0 || b.volumes.Load() != 1 {
		t.Errorf("left on b: %q; %d volumes were made", left, b.volumes.Load())
	}
}

// Many who want it at one place share one direct stream; two places have one each.
func TestDirectTwoAtOnce(t *testing.T) {
	t.Parallel()
	a, b := peersOf("z", "p")
	c := &farWorker{name: "c", encodings: faraway, zone: "z", protocol: "p"}
	f := newFar(t, a, b, c)
	f.wire = true
	h, art := farHost(t, patient, Options{}, f, "a", "b", "c")
	var wg sync.WaitGroup
	for range 4 {
		for _, name := range []string{"b", "c"} {
			wg.Go(func() {
				if _, err := h.replicate(t.Context(), art, mustWorker(t, h, name), nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for _, w := range []*farWorker{b, c} {
		if w.tickets.Load() != 1 || w.began.Load() != 1 || w.volumes.Load() != 1 || w.streamed.Load() != nil {
			t.Errorf("%s: %d tickets, %d streams, %d volumes", w.name, w.tickets.Load(), w.began.Load(), w.volumes.Load())
		}
		sameContent(t, h, f, art, "a", w.name)
	}
}

// A source that is up is asked before one that is away, whatever their order.
func TestNearestSource(t *testing.T) {
	t.Parallel()
	up := func(name, zone string) source {
		w := newWorker(name, "p", time.Minute, nil)
		w.setUp(&farWorker{}, sdk.Status{Zone: zone, Features: []sdk.Feature{sdk.FeaturePeerStream}})
		return source{name: name, worker: w}
	}
	away := source{name: "away", worker: newWorker("away", "p", time.Minute, nil)}
	sources := []source{away, up("far", "y"), up("near", "z"), {name: localSource}}
	nearest(sources, WorkerReport{Status: sdk.Status{Zone: "z", Features: []sdk.Feature{sdk.FeaturePeerStream}}})
	var got []string
	for _, s := range sources {
		got = append(got, s.name)
	}
	if strings.Join(got, " ") != "near far away local" {
		t.Errorf("asked in the order %q", got)
	}
}
