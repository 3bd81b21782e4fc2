package host

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// hears keeps what one who waits for a stream hears, and tells each kind of it.
type hears struct {
	mu       sync.Mutex
	left     bool
	late     int // things that were told when it had left
	progress []StreamProgress
	silent   []string // worker, and why; an end has none
}

func (e *hears) note(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left {
		e.late++
	}
	f()
}

func (e *hears) is(f func() bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return f()
}

// wait has the artifact brought to a worker, and gives the error.
func (e *hears) wait(ctx context.Context, h *Host, a *Artifact, w *worker) <-chan error {
	ended := make(chan error, 1)
	ctx = onSilence(ctx, func(worker string, why error) {
		e.note(func() {
			told := worker + ":"
			if why != nil {
				told += " " + why.Error()
			}
			e.silent = append(e.silent, told)
		})
	}, nil)
	go func() {
		_, err := h.replicate(ctx, a, w, func(s StreamProgress) { e.note(func() { e.progress = append(e.progress, s) }) })
		e.note(func() { e.left = true })
		ended <- err
	}()
	return ended
}

// TestAllHearOfAStream: who joins a stream that is under way hears how it stands and how it goes on to its end, also when who began it has left; that one
// hears no more.
func TestAllHearOfAStream(t *testing.T) {
	t.Parallel()
	making, make1 := make(chan struct{}), make(chan struct{})
	streaming, stream1 := make(chan struct{}), make(chan struct{})
	o := &hooked{Runtime: newMemory(t, "m"), hook: func(_ context.Context, call, _ string, n int, real func() error) error {
		switch {
		case call == "create-volume" && n == 1:
			close(making)
			<-make1
		case call == "stream-in" && n == 1:
			close(streaming)
			<-stream1
		}
		return real()
	}}
	cfg := testConfig("m")
	cfg.Timing.Stalled = 10 * time.Millisecond
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	a, err := h.AddDir(t.Context(), "text", "", tree(t, map[string]string{"a": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	w := mustWorker(t, h, "m")
	const why = "m: worker m has not answered for 10ms: create volume"
	ctx, leave := context.WithCancel(t.Context())
	var first, second hears
	firstEnded := first.wait(ctx, h, a, w)
	<-making
	testkit.Until(t, "the first hears of the silence", func() bool {
		return first.is(func() bool { return slices.Contains(first.silent, why) })
	})
	secondEnded := second.wait(t.Context(), h, a, w)
	testkit.Until(t, "the second hears of the silence", func() bool {
		return second.is(func() bool { return slices.Contains(second.silent, why) })
	})
	close(make1)
	<-streaming
	for of, e := range map[string]*hears{"first": &first, "second": &second} {
		testkit.Until(t, "the "+of+" hears that it goes on", func() bool {
			return e.is(func() bool { return len(e.progress) > 0 && slices.Contains(e.silent, "m:") })
		})
	}
	var third hears
	thirdEnded := third.wait(t.Context(), h, a, w)
	testkit.Until(t, "the third hears how it stands", func() bool { return third.is(func() bool { return len(third.progress) > 0 }) })
	leave()
	if err := <-firstEnded; !errors.Is(err, context.Canceled) {
		t.Errorf("the first, which leaves: %v", err)
	}
	close(stream1)
	if err := errors.Join(<-secondEnded, <-thirdEnded); err != nil {
		t.Fatal(err)
	}
	for of, e := range map[string]*hears{"second": &second, "third": &third} {
		if last := e.progress[len(e.progress)-1]; !last.Done {
			t.Errorf("the last that the %s hears is %+v", of, last)
		}
	}
	if n := first.late + second.late + third.late; n > 0 {
		t.Errorf("%d things were told to who had left", n)
	}
}
