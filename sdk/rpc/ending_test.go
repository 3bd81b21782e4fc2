package rpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
	"github.com/slipway-run/slipway/sdk/rpc/internal/testruntime"
)

// receive waits for the channel until shortly before the end of the test binary: what has not come by then hangs.
func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-testkit.Context(t).Done():
		t.Fatalf("%s: it does not come", what)
		panic("unreachable")
	}
}

func TestCancelReachesBothEnds(t *testing.T) {
	everyCall(t, func(t *testing.T, m method) {
		r := &recorder{answer: answers{blocks: true, entered: make(chan struct{}, 1), left: make(chan struct{}, 1)}}
		rt, w := join(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, _, _, err := m.call(ctx, r, rt, w)
			ended <- err
		}()
		receive(t, "the call coming in", r.answer.entered)
		cancel()
		if err := receive(t, "the caller's end", ended); err != context.Canceled {
			t.Errorf("got %v", err)
		}
		receive(t, "the plugin's end", r.answer.left)
	})
}

func TestDeadlineIsTheCallersOwn(t *testing.T) {
	r := &recorder{answer: answers{blocks: true}}
	_, w := join(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.Status(ctx); err != context.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
}

// served is a runtime served until stop is called.
type served struct {
	addr  net.Addr
	stop  context.CancelFunc
	ended chan error
}

func serve(t *testing.T, rt sdk.Runtime) *served {
	t.Helper()
	lis := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	s := &served{addr: lis.Addr(), stop: cancel, ended: make(chan error, 1)}
	go func() {
		s.ended <- rpc.ServeOn(ctx, lis, sdk.PluginInfo{Name: "n"}, rt, rpc.ServeOptions{})
		close(s.ended)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func dial(t *testing.T, addr net.Addr, opts rpc.DialOptions) *rpc.Client {
	t.Helper()
	c, err := rpc.Dial(t.Context(), addr, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func isGone(err error) bool {
	return errors.Is(err, sdk.Unavailable) && errors.Is(err, sdk.ReasonPluginGone)
}

func TestEveryCallEndsWhenThePluginIsGone(t *testing.T) {
	everyCall(t, func(t *testing.T, m method) {
		r := &recorder{answer: answers{blocks: true, entered: make(chan struct{}, 1)}}
		gone := make(chan struct{})
		c := dial(t, serve(t, r).addr, rpc.DialOptions{Gone: gone})
		w, _ := c.Runtime().Worker("w")
		ended := make(chan error, 1)
		go func() {
			_, _, _, err := m.call(t.Context(), r, c.Runtime(), w)
			ended <- err
		}()
		receive(t, "the call coming in", r.answer.entered)
		close(gone)
		if err := receive(t, "the call", ended); !isGone(err) {
			t.Errorf("got %v", err)
		}
		if _, err := w.Status(t.Context()); !isGone(err) {
			t.Errorf("a later call got %v", err)
		}
	})
}

func TestClosedClientAndMissingServer(t *testing.T) {
	s := serve(t, testruntime.New("w"))
	c := dial(t, s.addr, rpc.DialOptions{})
	if err := c.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := c.Health(t.Context()); !isGone(err) {
		t.Errorf("after Close: %v", err)
	}
	nobody := dial(t, &net.UnixAddr{Net: "unix", Name: s.addr.String() + ".none"}, rpc.DialOptions{})
	if err := nobody.Health(t.Context()); !isGone(err) {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestServerEndsInOrder(t *testing.T) {
	rt := testruntime.New("w")
	s := serve(t, rt)
	c := dial(t, s.addr, rpc.DialOptions{})
	events := make(chan sdk.WorkerEvent, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Runtime().Workers(t.Context(), func(e sdk.WorkerEvent) error { events <- e; return nil })
	}()
	receive(t, "the snapshot", events)
	s.stop()
	if err := receive(t, "Workers", ended); !isGone(err) {
		t.Errorf("Workers got %v", err)
	}
	if err := receive(t, "the server", s.ended); err != nil {
		t.Error(err)
	}
	if err := c.Health(t.Context()); !isGone(err) {
		t.Errorf("after the end: %v", err)
	}
}

func TestManyClientsOfOneServer(t *testing.T) {
	s := serve(t, testruntime.New("w"))
	for range 3 {
		c, err := rpc.Dial(t.Context(), s.addr, rpc.DialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Configure(t.Context(), sdk.Block{}, nil); !errors.Is(err, sdk.Unsupported) {
			t.Errorf("Configure: %v", err)
		}
		info, err := c.Info(t.Context(), sdk.HostInfo{Version: "1"})
		if err != nil || info.Name != "n" {
			t.Errorf("Info: %+v, %v", info, err)
		}
		w, _ := c.Runtime().Worker("w")
		if err := w.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "v", Token: "t"}); err != nil {
			t.Errorf("the same volume again: %v", err)
		}
		other, _ := c.Runtime().Worker("other")
		if _, err := other.Status(t.Context()); !sdk.IsNotFound(err, sdk.KindWorker) {
			t.Errorf("a worker that is not: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// gate is a writer that says when it was written to, and lets nothing through until it is opened.
type gate struct {
	entered chan struct{}
	open    chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	select {
	case g.entered <- struct{}{}:
	default:
	}
	<-g.open
	return len(p), nil
}

func TestStalledStreamsHoldUpNothing(t *testing.T) {
	r := &recorder{answer: answers{data: make([]byte, 32<<20)}}
	_, w := join(t, r)
	const streams = 4
	g := &gate{entered: make(chan struct{}, streams), open: make(chan struct{})}
	ended := make(chan error, streams)
	for range streams {
		go func() { ended <- w.StreamOut(t.Context(), "v", sdk.StreamOut{}, g) }()
	}
	for range streams {
		receive(t, "the first chunk", g.entered)
	}
	if _, err := w.Status(t.Context()); err != nil { // while all four are blocked
		t.Error(err)
	}
	if err := w.StreamIn(t.Context(), "v", sdk.StreamIn{}, io.LimitReader(endless{}, 8<<20)); err != nil { // and another stream, too
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("a stream ended early: %v", err)
	default:
	}
	close(g.open)
	for range streams {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestStreamInReturnsWithABlockedReader(t *testing.T) {
	r := &recorder{answer: answers{blocks: true, entered: make(chan struct{}, 1)}}
	_, w := join(t, r)
	pr, pw := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.StreamIn(ctx, "v", sdk.StreamIn{}, pr) }()
	receive(t, "the call", r.answer.entered)
	cancel()
	if err := receive(t, "the end", ended); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	_ = pw.Close()
}

func TestStreamInRefusedBeforeItIsRead(t *testing.T) {
	r := &recorder{answer: answers{err: sdk.NewExhausted(sdk.ReasonStorage, "full")}}
	_, w := join(t, r)
	pr, pw := io.Pipe()
	defer func() { _ = pw.Close() }()
	if err := w.StreamIn(t.Context(), "v", sdk.StreamIn{}, pr); !errors.Is(err, sdk.Exhausted) {
		t.Errorf("got %v", err)
	}
}

// TestSmallWritesArriveAtOnce shows that the writer does not hold back what does not fill a chunk.
func TestSmallWritesArriveAtOnce(t *testing.T) {
	r := &dripping{recorder: &recorder{}, next: make(chan struct{})}
	_, w := join(t, r)
	got := make(chan string, 3)
	ended := make(chan error, 1)
	go func() {
		ended <- w.StreamOut(t.Context(), "v", sdk.StreamOut{}, writerFunc(func(p []byte) { got <- string(p) }))
	}()
	for range 3 {
		if s := receive(t, "a drop", got); s != "drop" {
			t.Errorf("got %q", s)
		}
		r.next <- struct{}{}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

type dripping struct {
	*recorder
	next chan struct{}
}

func (d *dripping) Worker(string) (sdk.Worker, error) { return d, nil }

func (d *dripping) StreamOut(_ context.Context, _ sdk.VolumeID, _ sdk.StreamOut, w io.Writer) error {
	for range 3 {
		if _, err := io.WriteString(w, "drop"); err != nil {
			return err
		}
		<-d.next
	}
	return nil
}
