package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// allComing has each of some workers make no volume before all of them are about to: nothing is read before that.
func allComing(t *testing.T, workers ...*farWorker) {
	t.Helper()
	all := make(chan struct{})
	var mu sync.Mutex
	arrived := 0
	for _, w := range workers {
		var once sync.Once
		w.create = func() {
			once.Do(func() {
				mu.Lock()
				if arrived++; arrived == len(workers) {
					close(all)
				}
				mu.Unlock()
				<-all // each has noted by now that it comes
			})
		}
	}
}

// What many workers want at once is read once, however many ask for it on each; one that refuses it disturbs no other, and neither does a
// caller that leaves.
func TestOneReadForMany(t *testing.T) {
	t.Parallel()
	var reads atomic.Int64
	a := &farWorker{name: "a", encodings: faraway, out: func(_ context.Context, w io.Writer) io.Writer { reads.Add(1); return w }}
	b, c, d := &farWorker{name: "b", encodings: faraway}, &farWorker{name: "c", encodings: faraway}, &farWorker{name: "d", encodings: faraway}
	d.refuse = sdk.NewInvalid(sdk.ReasonTooLarge, "it can never fit")
	f := newFar(t, a, b, c, d)
	h, art := farHost(t, time.Hour, Options{gather: time.Hour}, f, "a", "b", "c", "d")
	allComing(t, b, c, d)
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var progress last
	for range 3 {
		for _, name := range []string{"b", "c"} {
			callers.Go(func() {
				if _, err := h.replicate(t.Context(), art, mustWorker(t, h, name), progress.tell); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	left := make(chan error, 1)
	go func() { // one of those who want it on b
		_, err := h.replicate(ctx, art, mustWorker(t, h, "b"), nil)
		left <- err
	}()
	testkit.Until(t, "all four wait for it on b", func() bool {
		h.replicas.mu.Lock()
		defer h.replicas.mu.Unlock()
		f := h.replicas.by[art.ID+"@b"]
		return f != nil && f.waiting == 4
	})
	cancel()
	select {
	case err := <-left:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that leaves: %v", err)
		}
	case <-testkit.Context(t).Done():
		t.Error("the caller that leaves waits for the others")
	}
	callers.Go(func() { // only with this one are all coming
		if _, err := h.replicate(t.Context(), art, mustWorker(t, h, "d"), nil); !errors.Is(err, sdk.ReasonTooLarge) {
			t.Errorf("d: %v", err)
		}
	})
	callers.Wait()
	if n := reads.Load(); n != 1 {
		t.Errorf("the source was read %d times", n)
	}
	for _, w := range []*farWorker{b, c} {
		if w.volumes.Load() != 1 {
			t.Errorf("%d volumes were made on %s", w.volumes.Load(), w.name)
		}
		sameContent(t, h, f, art, "a", w.name)
	}
	if left := onWorker(t, f.Runtime, "d"); len(left) > 0 {
		t.Errorf("left on d: %q", left)
	}
	if s := progress.get(); !s.Done || s.Bytes == 0 || s.Rate() <= 0 {
		t.Errorf("told %+v", s)
	}
}

// A directory of this machine is read once, for it may change meanwhile: also for a worker that wants it packed otherwise.
func TestDirectoryIsReadOnce(t *testing.T) {
	t.Parallel()
	b, c, d := &farWorker{name: "b", encodings: faraway}, &farWorker{name: "c", encodings: faraway}, &farWorker{name: "d", encodings: nearby}
	f := newFar(t, &farWorker{name: "a"}, b, c, d)
	h, _ := farHost(t, time.Hour, Options{gather: time.Hour}, f, "a", "b", "c", "d")
	dir := tree(t, map[string]string{"f": string(patches(1 << 20))})
	art, err := h.AddDir(t.Context(), "dir", "", dir)
	if err != nil {
		t.Fatal(err)
	}
	allComing(t, b, c, d)
	var streams sync.Map
	var wg sync.WaitGroup
	for _, name := range []string{"b", "c", "d"} {
		wg.Go(func() {
			_, err := h.replicate(t.Context(), art, mustWorker(t, h, name), func(s StreamProgress) {
				if s.Done {
					streams.Store(name, s.From)
				}
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	for _, name := range []string{"b", "c", "d"} {
		r, err := h.replicate(t.Context(), art, mustWorker(t, h, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(f.content(t, name, r.volume), string(patches(1<<20))) {
			t.Errorf("%s has something else", name)
		}
	}
	local := map[string]bool{}
	for _, name := range []string{"b", "c", "d"} {
		from, _ := streams.Load(name)
		if from == localSource {
			local[map[bool]string{true: "packed", false: "raw"}[name != "d"]] = true
		}
	}
	if len(local) != 1 {
		t.Errorf("read once for each of %v", local)
	}
}

// A stream that stands still holds nobody up who wants the same elsewhere.
func TestStuckCastIsPassed(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	a, b := &farWorker{name: "a", encodings: faraway}, &farWorker{name: "b", encodings: faraway}
	f := newFar(t, a, b, &farWorker{name: "c", encodings: faraway})
	h, art := farHost(t, time.Hour, Options{stuck: 100 * time.Millisecond}, f, "a", "b", "c")
	var first atomic.Bool
	first.Store(true)
	a.out = func(ctx context.Context, w io.Writer) io.Writer {
		if !first.Swap(false) {
			return w
		}
		return writerFunc(func(p []byte) (int, error) {
			select {
			case stuck <- struct{}{}:
			case <-ctx.Done():
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := h.replicate(ctx, art, mustWorker(t, h, "b"), nil); err == nil {
			t.Error("the stuck one came to an end")
		}
	})
	<-stuck
	if _, err := h.replicate(t.Context(), art, mustWorker(t, h, "c"), nil); err != nil {
		t.Error(err)
	}
	cancel()
	wg.Wait()
	sameContent(t, h, f, art, "a", "c")
}

// The inputs of one container come side by side: each of two streams waits for the other.
func TestInputsInParallel(t *testing.T) {
	t.Parallel()
	var both sync.WaitGroup
	both.Add(2)
	o := &hooked{Runtime: newMemory(t, "m"), on: map[string]func(int, func() error) error{"stream-in": func(n int, real func() error) error {
		if n <= 2 {
			both.Done()
			both.Wait()
		}
		return real()
	}}}
	h := openHost(t, o, Options{}, "m")
	var req ContainerRequest
	for _, name := range []string{"one", "two"} {
		a, err := h.Upload(t.Context(), Upload{Name: name}, bytes.NewReader(archiveOf(t, "", map[string]string{"f": name})))
		if err != nil {
			t.Fatal(err)
		}
		req.Inputs = append(req.Inputs, Input{a, name})
	}
	if _, err := h.Container(testkit.Context(t), "o", req); err != nil {
		t.Fatal(err)
	}
}

// TestEncodingOfACast: all who share a stream get the bytes that they joined for, though what one of them says of encodings changes while its volume is made.
func TestEncodingOfACast(t *testing.T) {
	t.Parallel()
	b, c := &farWorker{name: "b", encodings: faraway}, &farWorker{name: "c", encodings: faraway}
	f := newFar(t, &farWorker{name: "a", encodings: faraway}, b, c)
	h, art := farHost(t, time.Hour, Options{gather: time.Hour}, f, "a", "b", "c")
	allComing(t, b, c)
	changed, come := mustWorker(t, h, "b"), b.create
	b.create = func() {
		come() // so that the other has joined, or will, under the same key
		b.mu.Lock()
		b.encodings = []string{"gzip", "raw"}
		b.mu.Unlock()
		changed.lookNow()
		testkit.Until(t, "the host knows of other encodings", func() bool {
			return changed.report().Status.Encodings[0] == "gzip"
		})
	}
	var wg sync.WaitGroup
	for _, w := range []*farWorker{b, c} {
		wg.Go(func() {
			if _, err := h.replicate(t.Context(), art, mustWorker(t, h, w.name), nil); err != nil {
				t.Errorf("%s: %v", w.name, err)
			}
		})
	}
	wg.Wait()
	for _, w := range []*farWorker{b, c} {
		if e := w.streamed.Load(); e == nil || *e != "zstd" {
			t.Errorf("%s was sent to as %v", w.name, e)
		}
		if w.volumes.Load() != 1 {
			t.Errorf("%d volumes were made on %s", w.volumes.Load(), w.name)
		}
		sameContent(t, h, f, art, "a", w.name)
	}
}
