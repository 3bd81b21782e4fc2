package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

func TestCalls(t *testing.T) {
	w := newWorld(t)
	d := w.driver(t, Options{Log: testLog(t)})
	info, err := d.Ready(t.Context(), box)
	if err != nil || info.Version != "test" || !slices.Equal(info.Features, []sdk.Feature{sdk.FeatureTTY}) || !slices.Equal(info.Notes, []string{"a note"}) {
		t.Fatalf("%+v, %v", info, err)
	}
	if want := []string{"/slipway/shim", "relay", "/slipway/scratch"}; !slices.Equal(w.argv, want) {
		t.Errorf("ran %q, want %q", w.argv, want)
	}
	start(t, d, "p", "gen", "1", "100000")
	start(t, d, "p", "gen", "1", "100000") // the same again
	err = d.StartProcess(t.Context(), box, sdk.ProcessSpec{ID: "p", Token: "other", Path: "gen"})
	if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Class != sdk.AlreadyExists || e.Kind != sdk.KindProcess || e.ID != "p" || !strings.Contains(e.Message, `container "box"`) {
		t.Errorf("another token: %#v", err)
	}
	if err := d.StartProcess(t.Context(), box, sdk.ProcessSpec{ID: "q", Token: "t", Path: "no", Env: []string{"A=secret"}}); !errors.Is(err, sdk.ReasonExecutableNotFound) || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	if err := d.StartProcess(t.Context(), box, sdk.ProcessSpec{ID: "NO"}); !errors.Is(err, sdk.Invalid) {
		t.Error(err)
	}
	l := &listener{t: t}
	if err := d.FollowProcess(t.Context(), box, "p", 0, l.follow()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(l.err.Bytes(), seeded(1, 100000)) || len(l.exits) != 1 || l.exits[0].Code != 7 {
		t.Errorf("%d bytes, exits %v", l.err.Len(), l.exits)
	}
	for i := range 30 {
		start(t, d, sdk.ProcessID(fmt.Sprint("n", i)), "true")
	}
	all, err := d.ListProcesses(t.Context(), box)
	if err != nil || len(all) != 31 {
		t.Errorf("%d processes, %v", len(all), err)
	}
	if err := d.SignalProcess(t.Context(), box, "p", sdk.HUP); err != nil || !slices.Equal(w.signals, []sdk.Signal{sdk.HUP}) {
		t.Error(err, w.signals)
	}
	if err := d.SignalProcess(t.Context(), box, "p", "WINCH"); !errors.Is(err, sdk.ReasonSignal) {
		t.Error(err)
	}
	if err := d.SignalProcess(t.Context(), box, "none", sdk.HUP); !sdk.IsNotFound(err, sdk.KindProcess) {
		t.Error(err)
	}
	if err := d.ResizeProcess(t.Context(), box, "p", sdk.TTY{}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Error(err)
	}
	start(t, d, "s", "sleep")
	err = d.Quiesce(t.Context(), box)
	if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Reason != sdk.ReasonInUse || e.ID != "box" {
		t.Errorf("%#v: a container names another", err)
	}
	if n := w.count(); n != 1 {
		t.Errorf("%d execs", n)
	}
}

func TestFiles(t *testing.T) {
	w := newWorld(t)
	d := w.driver(t, Options{})
	root, other := t.TempDir(), t.TempDir()
	content := seeded(3, 300_000)
	if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "a/file"), content, 0o640); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if err := os.WriteFile(filepath.Join(root, "a/b", fmt.Sprint("f", i)), nil, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if i, err := d.StatFile(t.Context(), box, root, "a/file"); err != nil || i.Name != "file" || i.Size != int64(len(content)) {
		t.Error(i, err)
	}
	_, err := d.StatFile(t.Context(), box, root, "none")
	if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Class != sdk.NotFound || e.Kind != sdk.KindFile || e.ID != "none" {
		t.Errorf("%#v", err)
	}
	n := 0
	if err := d.ListFiles(t.Context(), box, root, "a/b", func(sdk.FileInfo) error { n++; return nil }); err != nil || n != 40 {
		t.Error(n, err)
	}
	mine := errors.New("mine")
	if err := d.ListFiles(t.Context(), box, root, "a/b", func(sdk.FileInfo) error { return mine }); err != mine {
		t.Error(err)
	}
	var b bytes.Buffer
	if err := d.ReadFile(t.Context(), box, root, "a/file", 1000, -1, &b); err != nil || !bytes.Equal(b.Bytes(), content[1000:]) {
		t.Error(b.Len(), err)
	}
	b.Reset()
	if err := d.ReadFile(t.Context(), box, root, "a/file", 1000, 70_000, &b); err != nil || !bytes.Equal(b.Bytes(), content[1000:71_000]) {
		t.Error(b.Len(), err)
	}
	if err := d.ReadFile(t.Context(), box, root, "a/file", 0, -1, failing{mine}); err != mine {
		t.Error(err)
	}
	if w.count() != 1 {
		t.Errorf("%d execs", w.count())
	}

	b.Reset()
	if err := d.StreamOut(t.Context(), box, root, "a", &b); err != nil {
		t.Fatal(err)
	}
	if err := d.StreamIn(t.Context(), box, other, "", bytes.NewReader(b.Bytes())); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(other, "file")); err != nil || !bytes.Equal(got, content) {
		t.Error(len(got), err)
	}
	if err := d.StreamOut(t.Context(), box, root, "none", &b); !sdk.IsNotFound(err, sdk.KindFile) {
		t.Error(err)
	}
	if err := d.StreamOut(t.Context(), box, root, "a", failing{mine}); err != mine {
		t.Error(err)
	}
	if err := d.StreamIn(t.Context(), box, other, "x", io.MultiReader(bytes.NewReader(b.Bytes()[:5000]), failing{mine})); err != mine {
		t.Error(err)
	}
	if err := d.StreamIn(t.Context(), box, other, "y", bytes.NewReader(b.Bytes()[:5000])); !errors.Is(err, sdk.ReasonArchive) {
		t.Error(err)
	}
	// A reader that blocks for good holds up nobody.
	r, closeReader := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := d.StreamIn(ctx, box, other, "z", r); err != context.DeadlineExceeded {
		t.Error(err)
	}
	closeReader.Close()
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
func (f failing) Read([]byte) (int, error)  { return 0, f.err }

func TestSharedRelay(t *testing.T) {
	w := newWorld(t)
	d := w.driver(t, Options{})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			id := sdk.ProcessID(fmt.Sprint("p", i))
			spec := sdk.ProcessSpec{ID: id, Token: "token", Path: "gen", Args: []string{fmt.Sprint(i), "200000"}}
			if err := d.StartProcess(t.Context(), box, spec); err != nil {
				t.Error(err)
				return
			}
			l := &listener{t: t}
			if err := d.FollowProcess(t.Context(), box, id, 0, l.follow()); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(l.err.Bytes(), seeded(uint64(i), 200000)) || len(l.exits) != 1 {
				t.Errorf("%s: %d bytes, %d exits", id, l.err.Len(), len(l.exits))
			}
		})
	}
	wg.Wait()
	if w.count() != 1 {
		t.Errorf("%d execs", w.count())
	}
}

// A follower whose Output blocks holds up neither others nor its own end.
func TestSlowFollower(t *testing.T) {
	w := newWorld(t)
	d := w.driver(t, Options{})
	start(t, d, "p", "gen", "1", "3000000")
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	l := &listener{t: t, slow: func() { once.Do(func() { close(entered); <-release }) }}
	done := make(chan error)
	go func() { done <- d.FollowProcess(t.Context(), box, "p", 0, l.follow()) }()
	<-entered
	for i := range 20 {
		id := sdk.ProcessID(fmt.Sprint("q", i))
		start(t, d, id, "gen", "2", "600000")
		o := &listener{t: t}
		if err := d.FollowProcess(t.Context(), box, id, 0, o.follow()); err != nil || o.err.Len() != 600000 {
			t.Fatal(err, o.err.Len())
		}
	}
	close(release)
	if err := <-done; err != nil || l.err.Len() != 3000000 {
		t.Error(err, l.err.Len())
	}
}

func TestIdle(t *testing.T) {
	w := newWorld(t)
	d := w.driver(t, Options{IdleTimeout: 30 * time.Millisecond})
	for range 3 {
		start(t, d, "p", "true")
		testkit.Until(t, "the relay is closed", func() bool {
			d.mu.Lock()
			kept := len(d.open)
			d.mu.Unlock()
			return kept == 0 && w.relays() == 0
		})
	}
	if w.count() != 3 {
		t.Errorf("%d execs", w.count())
	}
	// A call keeps it open.
	start(t, d, "s", "sleep")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := 0
	if err := d.FollowProcess(ctx, box, "s", 0, sdk.Follow{Opened: func(sdk.Opened) error {
		before = w.count() // until here it may have been idle
		time.AfterFunc(200*time.Millisecond, cancel)
		return nil
	}}); err != context.Canceled {
		t.Error(err)
	}
	if w.count() != before {
		t.Error("a relay in use was closed")
	}
}

func TestRest(t *testing.T) {
	w := newWorld(t)
	d := w.driver(t, Options{Log: testLog(t)})
	d.Rest(t.Context(), box) // there is no relay
	start(t, d, "s", "sleep")
	ctx, cancel := context.WithCancel(t.Context())
	opened, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- d.FollowProcess(ctx, box, "s", 0, sdk.Follow{Opened: func(sdk.Opened) error { close(opened); return nil }})
	}()
	<-opened
	d.Rest(t.Context(), box)
	if n := w.relays(); n != 1 {
		t.Errorf("%d relays while a call uses it", n)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	d.Rest(t.Context(), box)
	if n := w.relays(); n != 0 {
		t.Errorf("%d relays are left", n)
	}
	if all, err := d.ListProcesses(t.Context(), box); err != nil || len(all) != 1 {
		t.Errorf("%d processes, %v", len(all), err)
	}
	if n := w.count(); n != 2 {
		t.Errorf("%d execs", n)
	}
}

func TestForgetAndClose(t *testing.T) {
	for _, end := range []struct {
		name  string
		do    func(*Driver)
		check func(error) bool
	}{
		{"forget", func(d *Driver) { d.Forget(box) }, func(err error) bool { return sdk.IsNotFound(err, sdk.KindContainer) }},
		{"close", func(d *Driver) {
			if err := d.Close(); err != nil {
				panic(err)
			}
		}, func(err error) bool { return errors.Is(err, sdk.Unavailable) }},
	} {
		t.Run(end.name, func(t *testing.T) {
			w := newWorld(t)
			d := w.driver(t, Options{})
			start(t, d, "s", "sleep")
			ctx := testkit.Context(t)
			var wg, opened sync.WaitGroup
			opened.Add(16)
			for range 16 {
				wg.Go(func() {
					arrived := sync.OnceFunc(opened.Done) // also where a later one was there before it
					defer arrived()
					err := d.FollowProcess(ctx, box, "s", 0, sdk.Follow{Opened: func(sdk.Opened) error { arrived(); return nil }})
					if !end.check(err) && !errors.Is(err, sdk.ReasonSuperseded) {
						t.Error(err)
					}
				})
			}
			r, closeReader := io.Pipe()
			defer closeReader.Close()
			asked := make(chan struct{}) // the archive is asked for, so its call is under way: one that came after Forget would be another exec's
			wg.Go(func() {
				if err := d.StreamIn(ctx, box, t.TempDir(), "", &firstRead{r, sync.OnceFunc(func() { close(asked) })}); !end.check(err) {
					t.Error(err)
				}
			})
			opened.Wait()
			<-asked
			end.do(d)
			wg.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			if len(d.open) != 0 {
				t.Error("it keeps the container")
			}
		})
	}
}

// firstRead is a reader that tells when it is read.
type firstRead struct {
	io.Reader
	told func()
}

func (r *firstRead) Read(p []byte) (int, error) {
	r.told()
	return r.Reader.Read(p)
}

func TestOpeningFails(t *testing.T) {
	gone := sdk.NewNotFound(sdk.KindContainer, "box")
	for _, c := range []struct {
		name  string
		exec  error
		hello wire.Hello
		check func(error) bool
	}{
		{"container not found", gone, wire.Hello{}, func(err error) bool { return err == gone }},
		{"other error", errors.New("no route"), wire.Hello{}, func(err error) bool {
			return errors.Is(err, sdk.Unavailable) && strings.Contains(err.Error(), "no route") && strings.Contains(err.Error(), `"box"`)
		}},
		{"never started", nil, wire.Hello{State: wire.StateNone}, func(err error) bool { return errors.Is(err, sdk.ReasonCreating) }},
		{"busy", nil, wire.Hello{State: wire.StateBusy}, func(err error) bool { return errors.Is(err, sdk.Unavailable) }},
		{"refused", nil, wire.Hello{Error: &wire.Failure{Class: sdk.Exhausted, Message: "no room"}}, func(err error) bool { return errors.Is(err, sdk.Exhausted) }},
		{"not a session's", nil, wire.Hello{State: wire.StateFiles}, func(err error) bool { return errors.Is(err, sdk.Internal) && errors.Is(err, wire.ErrProtocol) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.failExec, w.hello = c.exec, c.hello
			d := w.driver(t, Options{})
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if _, err := d.ListProcesses(t.Context(), box); !c.check(err) {
						t.Error(err)
					}
					if err := d.FollowProcess(t.Context(), box, "p", 0, sdk.Follow{}); !c.check(err) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			w.mu.Lock()
			w.failExec, w.hello = nil, wire.Hello{State: wire.StateReady}
			w.mu.Unlock()
			if _, err := d.ListProcesses(t.Context(), box); err != nil {
				t.Errorf("a failed opening fails later calls: %v", err)
			}
		})
	}
}

func TestDead(t *testing.T) {
	w := newWorld(t)
	w.hello.State = wire.StateDead
	d := w.driver(t, Options{})
	if err := d.Quiesce(t.Context(), box); err != nil {
		t.Error(err)
	}
	if _, err := d.Ready(t.Context(), box); !errors.Is(err, sdk.ReasonDead) {
		t.Error(err)
	}
	if _, err := d.Start(t.Context(), box); !errors.Is(err, sdk.ReasonDead) {
		t.Error(err)
	}
	// Only a live keeper says that a process never was.
	if err := d.FollowProcess(t.Context(), box, "p", 0, sdk.Follow{}); !errors.Is(err, sdk.ReasonDead) || errors.Is(err, sdk.NotFound) {
		t.Error(err)
	}
}

func TestReadyWaits(t *testing.T) {
	w := newWorld(t)
	w.hello.State = wire.StateNone
	d := w.driver(t, Options{})
	done := make(chan error)
	go func() { _, err := d.Ready(t.Context(), box); done <- err }()
	testkit.Until(t, "it has looked often", func() bool { return w.count() >= 3 })
	w.mu.Lock()
	w.hello.State = wire.StateReady
	w.mu.Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
	d.Forget(box)
	if _, err := d.Start(t.Context(), box); err != nil || w.argv[1] != "init" {
		t.Error(err, w.argv)
	}

	w.hello.State = wire.StateNone
	short := w.driver(t, Options{CallTimeout: 200 * time.Millisecond})
	testkit.Until(t, "it says what it saw", func() bool { // it says otherwise where it has not looked at all in that time
		_, err := short.Ready(t.Context(), box)
		if errors.Is(err, sdk.ReasonCreating) {
			return true
		}
		if !errors.Is(err, sdk.Unavailable) {
			t.Fatal(err)
		}
		return false
	})
}

// Cancelling one call is prompt and disturbs no other.
func TestCancel(t *testing.T) {
	w := newWorld(t)
	d := w.driver(t, Options{})
	start(t, d, "s", "sleep")
	start(t, d, "e", "echo")
	in, feed := io.Pipe()
	l := &listener{t: t}
	f := l.follow()
	f.Stdin = in
	done := make(chan error)
	go func() { done <- d.FollowProcess(t.Context(), box, "e", 0, f) }()
	for range 50 {
		ctx, cancel := context.WithCancel(testkit.Context(t))
		err := d.FollowProcess(ctx, box, "s", 0, sdk.Follow{Opened: func(sdk.Opened) error { cancel(); return nil }})
		if err != context.Canceled {
			t.Error(err)
		}
	}
	mine := errors.New("mine")
	if err := d.FollowProcess(t.Context(), box, "s", 0, sdk.Follow{Opened: func(sdk.Opened) error { return mine }}); err != mine {
		t.Error(err)
	}
	if _, err := feed.Write([]byte("hello")); err != nil {
		t.Error(err)
	}
	feed.Close()
	if err := <-done; err != nil || l.out.String() != "hello" || w.count() != 1 {
		t.Error(err, l.out.String(), w.count())
	}
	if err := d.FollowProcess(t.Context(), box, "s", 0, sdk.Follow{Stdin: failing{mine}}); err != mine {
		t.Error(err)
	}
}

// complaint is a log that is awaited to say something.
type complaint struct {
	what string
	came atomic.Bool
}

func (c *complaint) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.what)) {
		c.came.Store(true)
	}
	return len(p), nil
}

// An Exec that does not heed its context holds up nobody but Close, and that not for ever.
func TestStuckExec(t *testing.T) {
	release := make(chan struct{})
	logged := &complaint{what: "exec does not return"}
	d := New(func(_ context.Context, _ sdk.ContainerID, _ []string, _ io.Reader, _, stderr io.Writer) error {
		fmt.Fprint(stderr, strings.Repeat("x", 10_000), "\x1b[31mcannot")
		<-release
		return nil
	}, Options{HelloTimeout: 10 * time.Millisecond, Log: slog.New(slog.NewTextHandler(logged, nil))})
	d.execGrace, d.closeGrace = 20*time.Millisecond, 20*time.Millisecond
	var err error
	testkit.Until(t, "it complains before the time for its first words is over", func() bool {
		_, err = d.ListProcesses(t.Context(), box)
		return err == nil || strings.Contains(err.Error(), "cannot")
	})
	if !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), "cannot") || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 5000 {
		t.Error(err)
	}
	if err := d.Close(); !errors.Is(err, sdk.Internal) {
		t.Error(err)
	}
	testkit.Until(t, "the log tells of it", logged.came.Load)
	close(release)
	d.own.Wait()
	if _, err := d.ListProcesses(t.Context(), box); !errors.Is(err, sdk.Unavailable) {
		t.Error(err)
	}
}
