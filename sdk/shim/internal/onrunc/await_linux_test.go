//go:build linux

package onrunc

import (
	"io"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// awaitQuiet awaits that nothing lives in the container that a process has started. Of that no event tells.
func (b *box) awaitQuiet() {
	b.t.Helper()
	testkit.Until(b.t, "nothing lives any more", func() bool {
		err := b.Quiesce(b.t.Context(), b.id)
		if err != nil && reasonOf(err) != sdk.ReasonInUse {
			b.t.Fatal(err)
		}
		return err == nil
	})
}

// live is a process that is followed meanwhile.
type live struct {
	b     *box
	id    sdk.ProcessID
	stdin *io.PipeWriter

	mu      sync.Mutex
	changed *sync.Cond
	result  result
	seen    int // of stdout, by expect
	ended   bool
	err     error
	over    chan struct{}
}

// open starts a process and follows it, with stdin if it has one.
func (b *box) open(spec sdk.ProcessSpec) *live {
	b.t.Helper()
	l := &live{b: b, id: b.start(spec), over: make(chan struct{})}
	l.changed = sync.NewCond(&l.mu)
	f := l.result.follow()
	record := f.Output
	f.Output = func(records []sdk.Record) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		defer l.changed.Broadcast()
		return record(records)
	}
	if spec.Stdin {
		f.Stdin, l.stdin = io.Pipe()
	}
	ctx := testkit.Context(b.t)
	go func() { // ends with the process, or in time
		defer close(l.over)
		err := b.FollowProcess(ctx, b.id, l.id, 0, f)
		l.mu.Lock()
		l.ended, l.err = true, err
		l.mu.Unlock()
		l.changed.Broadcast()
		if l.stdin != nil {
			l.stdin.CloseWithError(io.ErrClosedPipe)
		}
	}()
	return l
}

// expect awaits a text in what stdout has not yet been asked for, and gives all up to its end.
func (l *live) expect(text string) string {
	l.b.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if i := strings.Index(l.result.stdout[l.seen:], text); i >= 0 {
			got := l.result.stdout[l.seen : l.seen+i+len(text)]
			l.seen += len(got)
			return got
		}
		if l.ended {
			l.b.t.Fatalf("process %q never says %q (%v), but %q and %q", l.id, text, l.err, l.result.stdout[l.seen:], l.result.stderr)
		}
		l.changed.Wait()
	}
}

// send feeds stdin.
func (l *live) send(text string) {
	l.b.t.Helper()
	if _, err := io.WriteString(l.stdin, text); err != nil {
		l.b.t.Fatalf("stdin of process %q: %v", l.id, err)
	}
}

// signal signals it.
func (l *live) signal(s sdk.Signal) {
	l.b.t.Helper()
	l.b.check(l.b.SignalProcess(l.b.t.Context(), l.b.id, l.id, s))
}

// end awaits its end.
func (l *live) end() result {
	l.b.t.Helper()
	<-l.over
	if l.err != nil {
		l.b.t.Fatalf("process %q: %v (%q and %q)", l.id, l.err, l.result.stdout, l.result.stderr)
	}
	return l.result
}
