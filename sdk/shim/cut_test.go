package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// A follow whose relay is cut at random moments delivers what it would have, exactly, and so does stdin.
func TestCutRelays(t *testing.T) {
	cuts := testkit.Times(50, 500)
	for _, c := range []struct {
		name   string
		pause  time.Duration // of the reader
		lag    int           // of acknowledgements, in bytes
		noAcks bool          // nil Acks
	}{
		{"fast", 0, 1, false},
		{"slow", time.Millisecond, 200_000, false},
		{"nil acks", 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			made := 0
			for seed := uint64(1); made <= cuts/3; seed++ {
				made += cutRelays(t, seed, c.pause, c.lag, c.noAcks)
				if t.Failed() {
					return
				}
			}
			t.Logf("%d cuts", made)
		})
	}
}

// cutRelays follows one process to its end, and tells how often its relay was cut meanwhile.
func cutRelays(t *testing.T, seed uint64, pause time.Duration, lag int, noAcks bool) (cuts int) {
	w := newWorld(t)
	d := w.driver(t, Options{})
	const outBytes, inBytes = 5_000_000, 1_500_000
	in := seeded(seed+1000, inBytes)
	start(t, d, "p", "both", fmt.Sprint(seed), fmt.Sprint(outBytes))

	progress := make(chan struct{}, 1)
	note := func() {
		select {
		case progress <- struct{}{}:
		default:
		}
	}
	r := rand.New(rand.NewPCG(seed, uint64(pause)))
	done := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for {
			select {
			case <-progress:
			case <-done:
				return
			}
			time.Sleep(time.Duration(r.IntN(500)) * time.Microsecond)
			cuts += w.cut()
		}
	})
	acks := make(chan sdk.Position)
	first := sync.OnceFunc(func() { cuts += w.cut() }) // one is certain, and is made before the cutter's first
	l := &listener{t: t, slow: func() { first(); note(); time.Sleep(pause) }}
	f := l.follow()
	var acking sync.WaitGroup
	latest := make(chan sdk.Position, 1)
	if !noAcks {
		f.Acks = acks
		output, exit := f.Output, f.Exit
		tell := func(p sdk.Position) {
			select {
			case <-latest:
			default:
			}
			latest <- p
		}
		f.Output = func(records []sdk.Record) error {
			err := output(records)
			if l.next > sdk.Position(lag) {
				tell(l.next - sdk.Position(lag))
			}
			return err
		}
		f.Exit = func(e sdk.Exit) error { tell(l.next); return exit(e) }
		acking.Go(func() {
			for {
				select {
				case p := <-latest:
					select {
					case acks <- p:
					case <-done:
						return
					}
				case <-done:
					return
				}
			}
		})
	}
	f.Stdin = &slowReader{r: bytes.NewReader(in), pause: pause / 4}
	err := d.FollowProcess(testkit.Context(t), box, "p", 0, f)
	close(done)
	cutter.Wait()
	acking.Wait()
	if err != nil {
		t.Fatalf("after %d cuts, %d bytes: %v", cuts, l.next, err)
	}
	if !bytes.Equal(l.err.Bytes(), seeded(seed, outBytes)) {
		t.Errorf("stderr differs, %d bytes", l.err.Len())
	}
	if !bytes.Equal(l.out.Bytes(), in) {
		t.Errorf("the echo differs, %d bytes", l.out.Len())
	}
	if got := w.processes["p"].stdin.Bytes(); !bytes.Equal(got, in) {
		t.Errorf("stdin differs, %d bytes", len(got))
	}
	if l.opened != 1 || len(l.exits) != 1 || l.taken != inBytes {
		t.Errorf("opened %d times, %d exits, %d taken", l.opened, len(l.exits), l.taken)
	}
	return cuts
}

type slowReader struct {
	r     io.Reader
	pause time.Duration
}

func (s *slowReader) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	return s.r.Read(p)
}

// A start is sent again after a cut, and takes effect once; a signal is not.
func TestCutCalls(t *testing.T) {
	w := newWorld(t)
	d := w.driver(t, Options{})
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Microsecond):
				w.cut()
			}
		}
	})
	for i := range 200 {
		id := sdk.ProcessID(fmt.Sprint("p", i))
		err := d.StartProcess(t.Context(), box, sdk.ProcessSpec{ID: id, Token: "token", Path: "true"})
		if err != nil && !errors.Is(err, sdk.Unavailable) {
			t.Error(err)
		}
		if _, err := d.ListProcesses(t.Context(), box); err != nil && !errors.Is(err, sdk.Unavailable) {
			t.Error(err)
		}
		w.mu.Lock()
		if err == nil && w.processes[id] == nil {
			t.Errorf("%s was started and is not there", id)
		}
		w.mu.Unlock()
		if err != nil {
			continue
		}
		err = d.SignalProcess(t.Context(), box, id, sdk.USR1)
		if err != nil && !errors.Is(err, sdk.Unavailable) {
			t.Error(err)
		}
		w.mu.Lock()
		if sent := w.signalled[id]; err == nil && sent != 1 {
			t.Errorf("the signal was sent %d times", sent)
		}
		w.mu.Unlock()
	}
	close(stop)
	cutter.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, sent := range w.signalled {
		if sent > 1 {
			t.Errorf("the signal to %s was sent %d times", id, sent)
		}
	}
}

// Relays that bring nothing are not tried for ever, one that does not open not twice.
func TestGivesUp(t *testing.T) {
	w := newWorld(t)
	d := w.driver(t, Options{})
	start(t, d, "s", "sleep")
	d.Forget(box)
	var cutter sync.WaitGroup
	stop := make(chan struct{})
	cutter.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				w.cut()
			}
		}
	})
	before := w.count()
	err := d.FollowProcess(t.Context(), box, "s", 0, sdk.Follow{})
	close(stop)
	cutter.Wait()
	if !errors.Is(err, sdk.Unavailable) {
		t.Error(err)
	}
	if n := w.count() - before; n > 2*vainRelays {
		t.Errorf("%d relays", n)
	}

	w.failExec = nil
	err = d.FollowProcess(t.Context(), box, "s", 0, sdk.Follow{Opened: func(sdk.Opened) error {
		w.mu.Lock()
		w.failExec = errors.New("no more")
		w.mu.Unlock()
		w.cut()
		return nil
	}})
	if !errors.Is(err, sdk.Unavailable) {
		t.Error(err)
	}
}

// While a follower's relay is cut another takes over: the older one does not take it back.
func TestSupersededWhileCut(t *testing.T) {
	w := newWorld(t)
	older, newer := w.driver(t, Options{}), w.driver(t, Options{})
	start(t, older, "s", "sleep")
	ctx, cancel := context.WithCancel(t.Context())
	opened, done := make(chan struct{}), make(chan error, 1)
	err := older.FollowProcess(t.Context(), box, "s", 0, sdk.Follow{Opened: func(sdk.Opened) error {
		w.cut()
		go func() {
			done <- newer.FollowProcess(ctx, box, "s", 0, sdk.Follow{Opened: func(sdk.Opened) error { close(opened); return nil }})
		}()
		<-opened
		return nil
	}})
	if !errors.Is(err, sdk.ReasonSuperseded) {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != context.Canceled {
		t.Error(err)
	}
}

// What was delivered and not acknowledged is still the caller's to ask for after a cut, and what it acknowledges too soon does not count.
func TestCutKeepsUnacknowledged(t *testing.T) {
	w := newWorld(t)
	d := w.driver(t, Options{})
	start(t, d, "p", "gen", "1", "2000000")
	acks, acked := make(chan sdk.Position), make(chan struct{})
	go func() {
		acks <- 1 << 40
		close(acked)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	l := &listener{t: t}
	f := l.follow()
	f.Acks = acks
	output := f.Output
	f.Output = func(records []sdk.Record) error {
		<-acked
		if l.next == 0 {
			w.cut()
		}
		return output(records)
	}
	f.Exit = func(sdk.Exit) error { cancel(); return nil }
	if err := d.FollowProcess(ctx, box, "p", 0, f); err != context.Canceled {
		t.Fatal(err)
	}
	if w.count() != 2 || !bytes.Equal(l.err.Bytes(), seeded(1, 2000000)) {
		t.Errorf("%d execs, %d bytes", w.count(), l.err.Len())
	}
	again := &listener{t: t}
	if err := d.FollowProcess(t.Context(), box, "p", 0, again.follow()); err != nil || !bytes.Equal(again.err.Bytes(), seeded(1, 2000000)) {
		t.Errorf("%d bytes, %v", again.err.Len(), err)
	}
}

// TestGhost: a keeper may come to a request after the relay that brought it is gone, whoever made it, and after a later one. It is refused, and whoever follows goes on.
func TestGhost(t *testing.T) {
	w := newWorld(t)
	d := w.driver(t, Options{})
	start(t, d, "p", "echo")
	ctx, cancel := context.WithCancel(testkit.Context(t))
	if err := d.FollowProcess(ctx, box, "p", 0, sdk.Follow{Opened: func(sdk.Opened) error { cancel(); return nil }}); err != context.Canceled {
		t.Fatal(err)
	}
	stdin, end := io.Pipe()
	l := &listener{t: t}
	f := l.follow()
	f.Stdin = stdin
	opened := f.Opened
	f.Opened = func(o sdk.Opened) error {
		for turn := d.turns.Load() - 1; turn >= 0; turn-- {
			if err := w.Follow(t.Context(), "p", wire.Follow{Name: "before", Caller: d.name, Turn: turn}, sdk.Follow{}); !errors.Is(err, sdk.ReasonSuperseded) {
				t.Errorf("turn %d of %d: %v", turn, d.turns.Load(), err)
			}
		}
		go func() {
			_, _ = io.WriteString(end, "on it goes")
			end.Close()
		}()
		return opened(o)
	}
	if err := d.FollowProcess(testkit.Context(t), box, "p", 0, f); err != nil || l.out.String() != "on it goes" {
		t.Errorf("%q, %v", l.out.String(), err)
	}
}

// TestAcknowledgedAcrossACut: what was delivered before a relay was cut, and is acknowledged after that, is told the keeper only once it has told as much on the new
// relay: before, it would ignore that, and wait for ever.
func TestAcknowledgedAcrossACut(t *testing.T) {
	acks, delivered := make(chan sdk.Position), make(chan struct{})
	relays := 0
	opened := wire.Opened{State: sdk.ProcessRunning}
	output := sdk.Record{Stream: sdk.Stdout, Data: []byte("0123456789")}
	d := patient(t, evil(func(c *wire.Conn, s *yamux.Stream, r wire.Request) {
		relays++
		if relays == 1 {
			if err := errors.Join(c.WriteMessage(wire.KindOpened, opened), c.WriteOutput(output)); err != nil {
				t.Error(err)
			}
			<-delivered
			s.Session().Close()
			return
		}
		for range 2 { // the second is taken once it is known what the first one said
			acks <- 10
		}
		if err := c.WriteMessage(wire.KindOpened, opened); err != nil {
			t.Error(err)
		}
		if r.Follow.From != 0 {
			t.Errorf("it is followed on from %d", r.Follow.From)
		}
		kind, p, err := c.Read()
		early := err != nil || kind != wire.KindStdin || string(p) != "typed" // acknowledgements go before stdin
		if early {
			t.Errorf("before anything is told: kind %d, %q, %v", kind, p, err)
		}
		if err := errors.Join(c.WriteNumber(wire.KindTaken, 5), c.WriteOutput(output)); err != nil {
			t.Error(err)
		}
		if !early {
			kind, p, err = c.Read()
			if n, wrong := wire.Number(p); err != nil || kind != wire.KindAck || wrong != nil || n != 10 {
				t.Errorf("once it is told: kind %d, %q, %v", kind, p, err)
			}
		}
		if err := c.WriteMessage(wire.KindExit, &wire.Exit{Reason: sdk.ExitExited}); err != nil {
			t.Error(err)
		}
		_ = c.Write(wire.KindEnd) // once the driver has it, it may close the session before this is told that it was sent
	}), Options{})
	var typing sync.WaitGroup
	defer typing.Wait()
	stdin, feed := io.Pipe()
	defer feed.Close()
	l := &listener{t: t}
	f := l.follow()
	f.Acks, f.Stdin = acks, stdin
	got := f.Output
	f.Output = func(r []sdk.Record) error {
		defer close(delivered)
		return got(r)
	}
	typing.Go(func() { _, _ = io.WriteString(feed, "typed") })
	if err := d.FollowProcess(testkit.Context(t), box, "p", 0, f); err != nil || l.out.String() != "0123456789" || len(l.exits) != 1 || relays != 2 {
		t.Errorf("%v, %q, %d exits, %d relays", err, l.out.String(), len(l.exits), relays)
	}
}

// A relay that is cut may end a call's stream a moment before it is gone: that is no breach of the protocol.
func TestCutBetweenTheEnds(t *testing.T) {
	w := newWorld(t)
	var once sync.Once
	d := New(func(ctx context.Context, id sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
		exec := w.exec
		once.Do(func() {
			exec = raw(func(l *line) {
				if wire.WriteHello(l, wire.Hello{State: wire.StateReady}) != nil {
					return
				}
				_, _ = io.ReadFull(l.in, make([]byte, 24)) // a stream was opened
				_, _ = l.Write(mux(1, 4, 1, 0))            // and is ended
				_, _ = l.in.Read(make([]byte, 1))          // the session is asked whether it lives, and is over then
			})
		})
		return exec(ctx, id, argv, stdin, stdout, stderr)
	}, Options{})
	defer d.Close()
	if _, err := d.ListProcesses(t.Context(), box); err != nil {
		t.Error(err)
	}
	if n := w.count(); n != 1 {
		t.Errorf("%d relays after the one that was cut", n)
	}
}

// TestModel has a process write, a reader acknowledge and relays break in any order. What is delivered is what was written, and no
// acknowledged byte is asked for again.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		d := w.driver(t, Options{})
		start(t, d, "p", "sleep")
		journal := w.processes["p"].journal
		ctx, cancel := context.WithCancel(testkit.Context(t))
		defer cancel()

		var mu sync.Mutex
		arrived := sync.NewCond(&mu)
		acks := make(chan sdk.Position)
		l := &listener{t: t}
		f := l.follow()
		output := f.Output
		f.Output = func(r []sdk.Record) error {
			mu.Lock()
			defer mu.Unlock()
			defer arrived.Broadcast()
			return output(r)
		}
		f.Acks = acks
		done := make(chan error, 1)
		over := false
		go func() {
			err := d.FollowProcess(ctx, box, "p", 0, f)
			mu.Lock()
			over = true
			arrived.Broadcast()
			mu.Unlock()
			done <- err
		}()
		var written []byte
		acked := sdk.Position(0)
		await := func() {
			mu.Lock()
			defer mu.Unlock()
			for int(l.next) < len(written) && !over && ctx.Err() == nil {
				arrived.Wait()
			}
		}
		defer context.AfterFunc(ctx, arrived.Broadcast)()
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"write", "write", "cut", "ack", "await"}).Draw(rt, "step") {
			case "write":
				p := seeded(uint64(len(written)), rapid.IntRange(1, 150_000).Draw(rt, "size"))
				written = append(written, p...)
				if _, err := journal.Write(ctx, sdk.Stdout, p); err != nil {
					rt.Fatal(err)
				}
			case "cut":
				w.cut()
				if rapid.Bool().Draw(rt, "then await") {
					await()
				}
			case "ack":
				mu.Lock()
				to := l.next
				mu.Unlock()
				if to > acked {
					acked = sdk.Position(rapid.Int64Range(int64(acked), int64(to)).Draw(rt, "to"))
				}
				select {
				case acks <- acked:
				case err := <-done: // told below
					done <- err
				}
			case "await":
				await()
			}
		}
		await()
		journal.Exit(sdk.Exit{Reason: sdk.ExitExited})
		select {
		case acks <- sdk.Position(len(written)):
		case err := <-done:
			done <- err
		}
		if err := <-done; err != nil && !errors.Is(err, sdk.Unavailable) { // after three cuts in a row
			rt.Fatal(err)
		} else if err != nil {
			rt.Skip("cut too often")
		}
		if !bytes.Equal(l.out.Bytes(), written) || l.opened != 1 || len(l.exits) != 1 {
			rt.Fatalf("%d of %d bytes, opened %d times, %d exits", l.out.Len(), len(written), l.opened, len(l.exits))
		}
	})
}
