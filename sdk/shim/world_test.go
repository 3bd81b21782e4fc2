package shim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keeper"
	"github.com/slipway-run/slipway/sdk/shim/internal/server"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// built is where tests have put the program, if any has.
var built string

func TestMain(m *testing.M) {
	testkit.Main(m, func() {
		if built != "" {
			os.RemoveAll(built)
		}
	})
}

// world is a container whose program runs in the test: the real server and journals, with goroutines for commands.
type world struct {
	mu        sync.Mutex
	processes map[sdk.ProcessID]*command
	lines     map[*line]bool
	execs     int
	most      int // lines at once
	argv      []string
	hello     wire.Hello
	quiesced  bool
	signals   []sdk.Signal
	signalled map[sdk.ProcessID]int
	failExec  error
	commands  sync.WaitGroup
	ctx       context.Context
	end       context.CancelFunc
}

type command struct {
	token   sdk.Token
	journal *keeper.Journal
	started time.Time
	stdin   bytes.Buffer // what it read; of its goroutine until it has exited
}

// line is one exec under way.
type line struct{ in, out *os.File }

func (l *line) Read(p []byte) (int, error)  { return l.in.Read(p) }
func (l *line) Write(p []byte) (int, error) { return l.out.Write(p) }
func (l *line) Close() error                { return errors.Join(l.in.Close(), l.out.Close()) }

func newWorld(t testing.TB) *world {
	w := &world{processes: make(map[sdk.ProcessID]*command), signalled: make(map[sdk.ProcessID]int), lines: make(map[*line]bool), hello: wire.Hello{State: wire.StateReady, Program: "test",
		Features: []sdk.Feature{sdk.FeatureTTY}, Notes: []string{"a note"}}}
	w.ctx, w.end = context.WithCancel(context.Background())
	t.Cleanup(func() { w.end(); w.commands.Wait() })
	return w
}

// driver makes a driver on w, closed at the test's end, before w ends.
func (w *world) driver(t testing.TB, o Options) *Driver { return patient(t, w.exec, o) }

// patient makes a driver, closed at the test's end, that waits for what must come as long as the test may: a slow machine ends none of its
// calls.
func patient(t testing.TB, exec Exec, o Options) *Driver {
	bound := testkit.Bound(t)
	o.HelloTimeout, o.CallTimeout = cmp.Or(o.HelloTimeout, bound), cmp.Or(o.CallTimeout, bound)
	d := New(exec, o)
	d.keepAlive, d.closeGrace = bound, bound
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (w *world) exec(ctx context.Context, _ sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	l := &line{stdin.(*os.File), stdout.(*os.File)}
	w.mu.Lock()
	w.execs++
	w.argv = argv
	fail, hello := w.failExec, w.hello
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.lines, l)
		w.mu.Unlock()
	}()
	if fail != nil {
		return fail
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	if verb := wire.Verb(argv[1]); verb == wire.VerbIn || verb == wire.VerbOut {
		if err := wire.WriteHello(stdout, wire.Hello{State: wire.StateFiles}); err != nil {
			return err
		}
		return server.Archive(ctx, stdin, stdout, verb)
	}
	if err := wire.WriteHello(stdout, hello); err != nil {
		return err
	}
	if hello.State != wire.StateReady && hello.State != wire.StateDead {
		return nil
	}
	w.mu.Lock()
	w.lines[l] = true
	w.most = max(w.most, len(w.lines))
	w.mu.Unlock()
	return server.Serve(ctx, l, w)
}

// cut breaks all relays.
func (w *world) cut() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.lines {
		l.Close()
		delete(w.lines, l)
		n++
	}
	return n
}

// relays is how many are open.
func (w *world) relays() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.lines)
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.execs
}

// Start knows commands by their path.
func (w *world) Start(_ context.Context, spec sdk.ProcessSpec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.processes[spec.ID]; c != nil {
		if c.token != spec.Token {
			return sdk.NewAlreadyExists(sdk.KindProcess, string(spec.ID))
		}
		return nil
	}
	if w.quiesced {
		return sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindProcess, string(spec.ID), "sealed")
	}
	run, ok := map[string]func(*command, []string){"echo": w.echo, "gen": w.generate, "both": w.both, "true": func(*command, []string) {}, "sleep": w.sleep}[spec.Path]
	if !ok {
		return sdk.NewInvalid(sdk.ReasonExecutableNotFound, "no %s", spec.Path)
	}
	c := &command{token: spec.Token, started: time.Now(), journal: keeper.New(spec, nil)}
	w.processes[spec.ID] = c
	w.commands.Go(func() {
		run(c, spec.Args)
		c.journal.Exit(sdk.Exit{Code: 7, Reason: sdk.ExitExited})
	})
	return nil
}

func (w *world) sleep(*command, []string) { <-w.ctx.Done() }

// echo copies stdin to stdout.
func (w *world) echo(c *command, _ []string) {
	buf := make([]byte, 10_000)
	for {
		n, err := c.journal.ReadStdin(w.ctx, buf)
		c.stdin.Write(buf[:n])
		if _, werr := c.journal.Write(w.ctx, sdk.Stdout, buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// generate writes a seeded stream of so many bytes in pieces of any size to stderr.
func (w *world) generate(c *command, args []string) {
	seed, _ := strconv.ParseUint(args[0], 10, 64)
	size, _ := strconv.Atoi(args[1])
	pieces := rand.New(rand.NewPCG(seed, 1))
	for p := seeded(seed, size); len(p) > 0; {
		n := min(len(p), 1+pieces.IntN(1<<pieces.IntN(18)))
		if _, err := c.journal.Write(w.ctx, sdk.Stderr, p[:n]); err != nil {
			return
		}
		p = p[n:]
	}
}

func (w *world) both(c *command, args []string) {
	var wg sync.WaitGroup
	wg.Go(func() { w.echo(c, nil) })
	wg.Go(func() { w.generate(c, args) })
	wg.Wait()
}

func seeded(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (w *world) List() (all []sdk.ProcessInfo, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, c := range w.processes {
		info := sdk.ProcessInfo{ID: id, Token: c.token, StartedAt: c.started}
		info.State, info.Exit = c.journal.Status()
		all = append(all, info)
	}
	return all, nil
}

func (w *world) Follow(ctx context.Context, id sdk.ProcessID, by wire.Follow, f sdk.Follow) error {
	w.mu.Lock()
	c := w.processes[id]
	w.mu.Unlock()
	if c == nil {
		return sdk.NewNotFound(sdk.KindProcess, string(id))
	}
	return c.journal.FollowAs(ctx, keeper.As{Name: by.Name, Resume: by.Resume, Caller: by.Caller, Turn: by.Turn}, by.From, f)
}

func (w *world) Signal(_ context.Context, id sdk.ProcessID, s sdk.Signal) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.processes[id] == nil {
		return sdk.NewNotFound(sdk.KindProcess, string(id))
	}
	w.signals = append(w.signals, s)
	w.signalled[id]++
	return nil
}

func (w *world) Resize(_ context.Context, id sdk.ProcessID, _ sdk.TTY) error {
	return sdk.NewFailedPrecondition("", sdk.KindProcess, string(id), "no terminal")
}

func (w *world) Quiesce(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.processes {
		if c.journal.State() == sdk.ProcessRunning {
			return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindContainer, "somebody else's", "a process lives")
		}
	}
	w.quiesced = true
	return nil
}

// box is the container of all tests with one.
const box sdk.ContainerID = "box"

func start(t testing.TB, d *Driver, id sdk.ProcessID, path string, args ...string) {
	t.Helper()
	spec := sdk.ProcessSpec{ID: id, Token: "token", Path: path, Args: args, Stdin: path == "echo" || path == "both"}
	if err := d.StartProcess(t.Context(), box, spec); err != nil {
		t.Fatal(err)
	}
}

// listener collects what a follower learns and checks the order of it.
type listener struct {
	t        testing.TB
	from     sdk.Position
	out, err bytes.Buffer
	next     sdk.Position
	opened   int
	exits    []sdk.Exit
	taken    int64
	slow     func()
}

func (l *listener) follow() sdk.Follow {
	l.next = l.from
	return sdk.Follow{
		Opened: func(sdk.Opened) error { l.opened++; return nil },
		Output: func(records []sdk.Record) error {
			size := 0
			if len(records) == 0 || len(records) > 1024 {
				l.t.Errorf("%d records at once", len(records))
			}
			for _, r := range records {
				if r.Position != l.next || len(l.exits) > 0 || l.opened != 1 {
					l.t.Errorf("record at %d, next is %d, %d exits, %d opened", r.Position, l.next, len(l.exits), l.opened)
				}
				l.next = r.End()
				size += len(r.Data)
				if r.Stream == sdk.Stdout {
					l.out.Write(r.Data)
				} else {
					l.err.Write(r.Data)
				}
			}
			if size > 256<<10 {
				l.t.Errorf("%d bytes at once", size)
			}
			if l.slow != nil {
				l.slow()
			}
			return nil
		},
		Taken: func(n int64) {
			if n < l.taken {
				l.t.Errorf("taken %d after %d", n, l.taken)
			}
			l.taken = n
		},
		Exit: func(e sdk.Exit) error { l.exits = append(l.exits, e); return nil },
	}
}

func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
