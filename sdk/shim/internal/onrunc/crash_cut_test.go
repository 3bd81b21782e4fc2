//go:build linux

package onrunc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// cutter is a transport that breaks: as a whole, in one direction, or after some bytes.
type cutter struct {
	b *box
	d *dice

	mu    sync.Mutex
	count int
	alive map[int][3]func() // by exec: what ends it, its stdin, its stdout
}

func (c *cutter) exec(ctx context.Context, id sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inR, inW, err := os.Pipe()
	if err != nil {
		return err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, inR.Close(), inW.Close())
	}
	c.mu.Lock()
	n := c.count
	c.count++
	c.alive[n] = [3]func(){cancel, func() { inW.Close() }, func() { outR.Close() }}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.alive, n)
	}()
	budget := func() int64 {
		if c.d.below(3) > 0 {
			return 1 << 40
		}
		return int64(1 + c.d.below(1<<c.d.below(18)))
	}
	var copies sync.WaitGroup
	in, out := budget(), budget()
	copies.Go(func() {
		_, _ = io.CopyN(inW, stdin, in)
		inW.Close()
	})
	copies.Go(func() {
		_, _ = io.CopyN(stdout, outR, out)
		outR.Close()
	})
	err = c.b.exec(ctx, id, argv, inR, outW, stderr)
	inR.Close()
	outW.Close()
	_ = stdin.(*os.File).SetReadDeadline(time.Unix(1, 0)) // it is the driver's pipe, which it closes next
	copies.Wait()
	inW.Close()
	return err
}

// cut breaks whatever is open.
func (c *cutter) cut() {
	how := c.d.below(4)
	if how == 3 {
		for _, p := range append(c.b.find("relay"), c.b.find("init")...) {
			_ = unix.Kill(p.pid, unix.SIGKILL)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ends := range c.alive {
		ends[how]()
	}
}

func (c *cutter) opened() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// host does what a host does with a driver that may answer Unavailable.
type host struct {
	*shim.Driver
	id sdk.ContainerID
}

// start starts a process, and settles what is not known by the list (rule 3).
func (h host) start(ctx context.Context, spec sdk.ProcessSpec) error {
	for {
		err := h.StartProcess(ctx, h.id, spec)
		if err == nil || !errors.Is(err, sdk.Unavailable) {
			return err
		}
		all, err := h.ListProcesses(ctx, h.id)
		if err != nil && !errors.Is(err, sdk.Unavailable) {
			return err
		}
		for _, p := range all {
			if p.ID == spec.ID && p.Token != spec.Token {
				return fmt.Errorf("%q has another token", p.ID)
			}
		}
	}
}

// follow follows to the end from where the story is.
func (h host) follow(ctx context.Context, id sdk.ProcessID, s *story) error {
	for {
		err := h.FollowProcess(ctx, h.id, id, s.next, s.follow())
		if !errors.Is(err, sdk.Unavailable) {
			return err
		}
		s.mu.Lock()
		s.exit = nil // it is told again
		s.mu.Unlock()
	}
}

// mostCuts come one after the other without anything being done meanwhile.
const mostCuts = 40

// TestCrashCuts cuts relays at random moments under everything that a driver does.
func TestCrashCuts(t *testing.T) {
	b := newBox(t, setting{})
	d := newDice(t)
	c := &cutter{b: b, d: d, alive: make(map[int][3]func())}
	// One that is cut in its first words says nothing any more: it is given up where nobody cuts it again.
	h := host{shim.New(c.exec, shim.Options{HelloTimeout: 30 * time.Second}), b.id}
	t.Cleanup(func() { b.check(h.Close()) })
	want := testkit.Times(32, 320)
	if testkit.Race {
		want /= 2
	}
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	var cutting sync.WaitGroup
	defer cutting.Wait()
	defer cancel()
	done := make(chan struct{}, 1) // something is, since that was looked at
	cutting.Go(func() {
		for vain := 0; ctx.Err() == nil; vain++ {
			if vain == mostCuts { // on a machine on which none ever gets through
				select {
				case <-done:
				case <-ctx.Done():
					return
				}
				vain = 0
			}
			d.pass(150 * time.Millisecond)
			c.cut()
			select {
			case <-done:
				vain = 0
			default:
			}
		}
	})
	seq := new(strings.Builder)
	for i := range 40_000 {
		fmt.Fprintln(seq, i+1)
	}
	started := 0
	var mu sync.Mutex
	next := func(kind string) sdk.ProcessID {
		mu.Lock()
		defer mu.Unlock()
		started++
		return newID(kind, started)
	}
	works := []func() error{
		func() error { // much output
			id := next("seq")
			s := newStory(0)
			acks, stop := make(chan sdk.Position), make(chan struct{})
			var acked sdk.Position // with s.mu
			s.hooks.Acks = acks
			var acking sync.WaitGroup
			defer acking.Wait()
			defer close(stop)
			acking.Go(func() { // somewhere behind what has come, so that a new relay begins within a record
				for {
					s.mu.Lock()
					at, ended := s.next, s.exit != nil
					if !ended {
						at -= min(at, sdk.Position(d.below(100_000)))
					}
					at = max(at, acked)
					acked = at // from here on it may be
					s.mu.Unlock()
					select {
					case acks <- at:
						d.pass(2 * time.Millisecond)
					case <-stop:
						return
					}
				}
			})
			if err := h.start(ctx, counted(id, "i=0; while [ $i -lt 20 ]; do seq $((2000*i+1)) $((2000*i+2000)); sleep 0.05; i=$((i+1)); done; exit 3")); err != nil {
				return err
			}
			for {
				part, cancel := context.WithTimeout(ctx, time.Duration(50+d.below(2000))*time.Millisecond)
				err := h.FollowProcess(part, b.id, id, s.next, s.follow())
				cancel()
				if err == nil {
					return s.is(seq.String(), "", 3)
				}
				if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, sdk.Unavailable) {
					return err
				}
				// As a host that comes back and has what it has acknowledged.
				s.mu.Lock()
				s.next, s.exit, s.out[sdk.Stdout] = acked, nil, s.out[sdk.Stdout][:acked]
				s.mu.Unlock()
			}
		},
		func() error { // stdin comes back
			id := next("cat")
			spec := counted(id, "cat; echo end >&2; exit 4")
			spec.Stdin = true
			if err := h.start(ctx, spec); err != nil {
				return err
			}
			text := seq.String()[:d.below(seq.Len())]
			s := newStory(0)
			s.stdin = []byte(text)
			if err := h.follow(ctx, id, s); err != nil {
				return err
			}
			return s.is(text, "end\n", 4)
		},
		func() error { // signals, at most once each; a sleep may come after the signal to the group, and must not hold the output
			id := next("sig")
			if err := h.start(ctx, counted(id, `trap 'echo got' USR1; trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 1000 >/dev/null 2>&1 & wait; done`)); err != nil {
				return err
			}
			s := newStory(0)
			got := make(chan string, 16)
			s.hooks.Output = func([]sdk.Record) error { got <- s.stdout(); return nil }
			followed := make(chan error, 1)
			go func() { followed <- h.follow(ctx, id, s) }()
			defer func() {
				for ctx.Err() == nil { // until the process has had it
					if err := h.SignalProcess(ctx, b.id, id, sdk.KILL); err == nil {
						return
					}
				}
			}()
			for {
				select {
				case text := <-got:
					if !strings.HasPrefix(text, "ready\n") {
						continue
					}
				case err := <-followed:
					return fmt.Errorf("before the signal: %v", err)
				}
				break
			}
			sent := 0
			for {
				sent++
				if err := h.SignalProcess(ctx, b.id, id, sdk.TERM); err == nil {
					break
				} else if !errors.Is(err, sdk.Unavailable) {
					return err
				}
			}
			if err := <-followed; err != nil {
				return err
			}
			return s.is("ready\nbye\n", "", 5)
		},
		func() error { // the list, and a start once more
			id := next("again")
			spec := counted(id, "exit 6")
			for range 3 {
				if err := h.start(ctx, spec); err != nil {
					return err
				}
			}
			all, err := h.ListProcesses(ctx, b.id)
			if errors.Is(err, sdk.Unavailable) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil || len(all) < started-8 || len(all) > started {
				return fmt.Errorf("%d of %d are listed: %v", len(all), started, err)
			}
			return nil
		},
	}
	for c.opened() < want && !t.Failed() {
		each(t, len(works), len(works), func(i int) error {
			err := works[i]()
			select {
			case done <- struct{}{}:
			default:
			}
			return err
		})
	}
	cancel()
	cutting.Wait()
	t.Logf("%d relays, %d processes", c.opened(), started)
	all, err := b.ListProcesses(t.Context(), b.id)
	b.check(err)
	for _, p := range all {
		if p.State != sdk.ProcessExited && p.State != sdk.ProcessRunning {
			t.Errorf("%+v", p)
		}
	}
	testkit.Until(t, "all have ended", func() bool { return len(b.runs()) == started })
	b.ranOnce(started)
}

// pluginJob tells a test binary that it is a plugin: the directory of a box and the file to store output in.
const pluginJob = "SLIPWAY_TEST_PLUGIN"

// plugin starts one process and follows it from what is stored, until it has ended or this is killed.
func plugin(job string) int {
	err := func() error {
		dir, store, _ := strings.Cut(job, ":")
		b, err := openBox(dir)
		if err != nil {
			return err
		}
		ctx := context.Background()
		h := host{b.Driver, b.id}
		if err := h.start(ctx, storedSpec()); err != nil {
			return err
		}
		f, err := os.OpenFile(store, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		s := newStory(sdk.Position(info.Size()))
		s.hooks.Output = func(records []sdk.Record) error {
			for _, r := range records {
				if _, err := f.Write(r.Data); err != nil {
					return err
				}
			}
			return nil
		}
		err = h.follow(ctx, storedSpec().ID, s)
		for errors.Is(err, sdk.ReasonSuperseded) { // the keeper may come late to a request of a plugin that was killed
			err = h.follow(ctx, storedSpec().ID, s)
		}
		if err != nil {
			return err
		}
		if s.wrong != nil || s.gaps > 0 || s.exit.Code != 9 {
			return fmt.Errorf("%v, %d bytes lost, exit %+v", s.wrong, s.gaps, s.exit)
		}
		return b.Close()
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// storedSpec waits for more than the journal takes, so that it needs its followers.
func storedSpec() sdk.ProcessSpec {
	spec := counted("stored", `i=0; while [ $i -lt 100 ]; do seq 1 3000; sleep 0.1; i=$((i+1)); done; exit 9`)
	spec.Token = "0123456789abcdef0123456789abcdef"
	spec.Spill = 64 << 10
	return spec
}

// TestCrashOfThePlugin kills the driver's whole program at random moments; the next one goes on.
func TestCrashOfThePlugin(t *testing.T) {
	t.Parallel() // it mostly waits
	b := newBox(t, setting{})
	d := newDice(t)
	b.Forget(b.id) // the test has a relay of its own
	store := b.dir + "/stored"
	kills := testkit.Times(6, 60)
	var last int64
	moved := 0
	for i := 0; ; i++ {
		cmd := b.plugin(t, store)
		b.check(cmd.Start())
		if i < kills {
			timer := time.AfterFunc(time.Duration(d.below(250))*time.Millisecond, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
		err := cmd.Wait()
		if info, err := os.Stat(store); err == nil && info.Size() != last {
			last = info.Size()
			moved++
		}
		if err == nil {
			t.Logf("done after %d kills, of which %d had stored something", i, moved)
			break
		}
		if i >= kills {
			t.Fatalf("the last one: %v: %s", err, cmd.Stderr)
		}
		if text := cmd.Stderr.(*bytes.Buffer).String(); text != "" {
			t.Fatalf("%v: %s", err, text)
		}
	}
	var want bytes.Buffer
	for range 100 {
		for i := range 3000 {
			fmt.Fprintln(&want, i+1)
		}
	}
	got, err := os.ReadFile(store)
	b.check(err)
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes stored, %d were written, or others", len(got), want.Len())
	}
	b.ranOnce(1)
	testkit.Until(t, "the relays are gone", func() bool { return len(b.find("relay")) == 0 })
}
