package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

// far is a memory runtime whose workers behave as those of servers far away: they name what a test says, and send to each
// other over the network. All bytes are those of memory's real volumes.
type far struct {
	*memory.Runtime
	workers map[string]*farWorker
	wire    bool // the host reaches them by gRPC, as a plugin's
}

func newFar(t testing.TB, workers ...*farWorker) *far {
	t.Helper()
	f := &far{workers: make(map[string]*farWorker)}
	var names []string
	for _, w := range workers {
		f.workers[w.name] = w
		names = append(names, w.name)
	}
	f.Runtime = newMemory(t, names...)
	return f
}

func (f *far) Worker(name string) (sdk.Worker, error) {
	w, err := f.Runtime.Worker(name)
	if err != nil {
		return nil, err
	}
	fw := f.workers[name]
	fw.open.Do(func() { fw.Worker = w })
	return fw, nil
}

// farWorker is one of them. Its zero hooks do nothing.
type farWorker struct {
	name      string
	encodings []string // as its status shall name them; nil: as memory does
	zone      string   // with it, it is a peer
	protocol  string   // of its tickets, the only one that it takes

	volatile bool // as it says, what is on it dies with its plugin

	create func()
	out    func(ctx context.Context, w io.Writer) io.Writer // wraps where its archives go
	ticket func(ctx context.Context, t *sdk.PeerTicket) error
	refuse error // of StreamIn

	open sync.Once
	sdk.Worker

	streamed atomic.Pointer[string] // the encoding of its last StreamIn from the host
	volumes  atomic.Int64           // made on it
	tickets  atomic.Int64
	began    atomic.Int64 // streams from peers

	mu       sync.Mutex
	offered  []net.Listener // behind tickets
	arriving sync.WaitGroup // at them
}

func (w *farWorker) Status(ctx context.Context) (sdk.Status, error) {
	s, err := w.Worker.Status(ctx)
	w.mu.Lock()
	if w.encodings != nil {
		s.Encodings = w.encodings
	}
	w.mu.Unlock()
	if w.volatile {
		s.Features = append(slices.Clone(s.Features), sdk.FeatureVolatile)
	}
	if s.Zone = w.zone; w.zone != "" {
		s.Features = append(s.Features, sdk.FeaturePeerStream)
	}
	return s, err
}

// ListVolumes tells of no sizes, as many servers.
func (w *farWorker) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	return w.Worker.ListVolumes(ctx, filter, func(i sdk.VolumeInfo) error {
		i.Bytes = -1
		return emit(i)
	})
}

func (w *farWorker) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	w.volumes.Add(1)
	if w.create != nil {
		w.create()
	}
	return w.Worker.CreateVolume(ctx, spec)
}

func (w *farWorker) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	w.streamed.Store(&in.Encoding)
	if w.refuse != nil {
		return w.refuse
	}
	return w.Worker.StreamIn(ctx, id, in, r)
}

func (w *farWorker) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
	if w.out != nil {
		dst = w.out(ctx, dst)
	}
	return w.Worker.StreamOut(ctx, id, out, dst)
}

// PeerTicket listens on the loopback for one connection, whose bytes come into the volume. What came of it goes back as one byte.
func (w *farWorker) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (sdk.PeerTicket, error) {
	w.tickets.Add(1)
	t := sdk.PeerTicket{Protocol: w.protocol, Zone: w.zone}
	if w.ticket != nil {
		if err := w.ticket(ctx, &t); err != nil {
			return sdk.PeerTicket{}, err
		}
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return sdk.PeerTicket{}, err
	}
	t.Data = []byte(lis.Addr().String())
	w.mu.Lock()
	w.offered = append(w.offered, lis)
	w.mu.Unlock()
	w.arriving.Go(func() {
		c, err := lis.Accept()
		lis.Close()
		if err != nil {
			return
		}
		defer c.Close()
		w.began.Add(1)
		if err := w.Worker.StreamIn(context.WithoutCancel(ctx), dst, in, c); err == nil {
			_, _ = c.Write([]byte{1}) // the other end sees what is missing
		}
	})
	return t, nil
}

// quiet takes back the tickets that were not used, and waits for the streams of the others.
func (w *farWorker) quiet() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, lis := range w.offered {
		lis.Close()
	}
	w.arriving.Wait()
}

// PeerSend sends to where a ticket of its own protocol says.
func (w *farWorker) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, t sdk.PeerTicket) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", string(t.Data))
	if err != nil {
		return sdk.NewUnavailable(err, "%v", err)
	}
	defer c.Close()
	if t.Protocol != w.protocol {
		return sdk.NewInvalid(sdk.ReasonSpec, "protocol %q is not %q", t.Protocol, w.protocol)
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	err = w.StreamOut(ctx, src, out, c)
	if err == nil {
		err = c.(*net.TCPConn).CloseWrite()
	}
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return sdk.NewUnavailable(err, "the far end has not got it all: %v", err)
	}
	return nil
}

var errFarBroken = errors.New("broken on purpose")

// breaks lets n bytes through, then runs then, once. Its error, else errFarBroken, is that of the write.
func breaks(n int, then func(ctx context.Context) error) func(context.Context, io.Writer) io.Writer {
	return func(ctx context.Context, w io.Writer) io.Writer {
		return writerFunc(func(b []byte) (int, error) {
			if n -= len(b); n >= 0 {
				return w.Write(b)
			}
			if err := then(ctx); err != nil {
				return 0, err
			}
			return 0, errFarBroken
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// patient makes room for a slow machine: a direct stream that is not over in its time goes through the host.
const patient = time.Hour

// farHost opens a host on far workers, with an artifact whose content is on the first of them. The host waits for what is away as long as wait says.
func farHost(t *testing.T, wait time.Duration, opts Options, f *far, names ...string) (*Host, *Artifact) {
	t.Helper()
	for _, w := range f.workers { // after the host was closed
		t.Cleanup(w.quiet)
	}
	cfg := testConfig(names...)
	cfg.Timing.WorkerGone = wait
	opts.Runtimes = map[string]sdk.Runtime{"memory": f}
	if f.wire {
		opts.Runtimes["memory"] = rpctest.Pair(t, f)
	}
	h := openConfig(t, cfg, opts)
	a, err := h.AddDir(t.Context(), "data", "", tree(t, map[string]string{"big": string(patches(700 << 10)), "dir/small": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.replicate(t.Context(), a, mustWorker(t, h, names[0]), nil); err != nil {
		t.Fatal(err)
	}
	return h, a
}

func mustWorker(t testing.TB, h *Host, name string) *worker {
	t.Helper()
	w, err := h.worker(name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// patches is content that packs to less than half, as text does.
func patches(n int) []byte {
	var b bytes.Buffer
	for i := uint32(1); b.Len() < n; i = i*1664525 + 1013904223 {
		fmt.Fprintf(&b, "the word of line %d is %08x, and more follows\n", b.Len(), i)
	}
	return b.Bytes()[:n]
}

// content is what a volume holds, by the worker itself.
func (f *far) content(t *testing.T, worker string, id sdk.VolumeID) string {
	t.Helper()
	w, err := f.Runtime.Worker(worker)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := w.StreamOut(t.Context(), id, sdk.StreamOut{}, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
