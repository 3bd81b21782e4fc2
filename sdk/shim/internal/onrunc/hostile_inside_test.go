//go:build linux

package onrunc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// hasty is a driver that waits little.
func (b *box) hasty() host {
	h := host{shim.New(b.exec, shim.Options{HelloTimeout: 3 * time.Second, CallTimeout: 10 * time.Second}), b.id}
	b.t.Cleanup(func() { b.check(h.Close()) })
	return h
}

// patient is another driver, that waits for as long as it takes.
func (b *box) patient() host {
	h := host{shim.New(b.exec, shim.Options{HelloTimeout: testkit.Bound(b.t), CallTimeout: testkit.Bound(b.t)}), b.id}
	b.t.Cleanup(func() { b.check(h.Close()) })
	return h
}

// endsSoon runs each call, at once on drivers that wait little, and wants an answer of one of those classes.
func (b *box) endsSoon(id sdk.ProcessID, classes ...sdk.Class) {
	b.t.Helper()
	calls := map[string]func(context.Context, host) error{
		"list": func(ctx context.Context, h host) error { _, err := h.ListProcesses(ctx, h.id); return err },
		"start": func(ctx context.Context, h host) error {
			return h.StartProcess(ctx, h.id, counted("hostile", "exit 0"))
		},
		"signal": func(ctx context.Context, h host) error { return h.SignalProcess(ctx, h.id, id, sdk.Signal("USR1")) },
		"follow": func(ctx context.Context, h host) error {
			return h.FollowProcess(ctx, h.id, id, 0, sdk.Follow{Exit: func(sdk.Exit) error { return errors.New("an exit") }})
		},
	}
	ctx := testkit.Context(b.t)
	var all sync.WaitGroup
	for name, call := range calls {
		h := b.hasty()
		all.Go(func() {
			err := call(ctx, h)
			if ctx.Err() != nil {
				b.t.Errorf("%s does not end", name)
			}
			if !slices.ContainsFunc(classes, func(c sdk.Class) bool { return errors.Is(err, c) }) {
				b.t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
}

// TestHostileSocket puts another listener in the place of the supervisor's.
func TestHostileSocket(t *testing.T) {
	t.Parallel() // it mostly waits
	hello := new(bytes.Buffer)
	if err := wire.WriteHello(hello, wire.Hello{State: wire.StateReady}); err != nil {
		t.Fatal(err)
	}
	for name, serve := range map[string]func(net.Conn){
		"nothing":   func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"its end":   func(net.Conn) {},
		"garbage":   func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte("\x00\xffgarbage"), 1<<16)) },
		"hello":     func(c net.Conn) { _, _ = c.Write(hello.Bytes()); _, _ = io.Copy(io.Discard, c) },
		"half":      func(c net.Conn) { _, _ = c.Write(hello.Bytes()[:20]); _, _ = io.Copy(io.Discard, c) },
		"no frames": func(c net.Conn) { _, _ = c.Write(hello.Bytes()); _, _ = c.Write(bytes.Repeat([]byte{0xff}, 1<<16)) },
		"endless":   func(c net.Conn) { _, _ = io.Copy(c, endless{}) },
		"wrong calls": func(c net.Conn) {
			_, _ = c.Write(hello.Bytes())
			forge(c, []byte{byte(wire.KindExit), 0, 0, 2, '{', '}'})
		},
		"huge frames": func(c net.Conn) {
			_, _ = c.Write(hello.Bytes())
			forge(c, []byte{byte(wire.KindReply), 0xff, 0xff, 0xff})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, setting{})
			b.check(b.StartProcess(t.Context(), b.id, counted("long", "echo out; sleep 1000")))
			b.check(b.journalled(t.Context(), "long", "out\n"))
			sock := filepath.Join(b.scratch, "sock")
			b.check(os.Rename(sock, sock+".kept"))
			l, err := net.Listen("unix", sock)
			b.check(err)
			served := make(chan struct{})
			go func() {
				defer close(served)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() { // ends with the relay
						defer c.Close()
						serve(c)
					}()
				}
			}()
			b.endsSoon("long", sdk.Unavailable, sdk.Internal)
			l.Close() // and removes the socket
			<-served
			b.check(os.Rename(sock+".kept", sock))
			if p, err := b.listed(t.Context(), "long"); err != nil || p.State != sdk.ProcessRunning {
				t.Errorf("afterwards: %+v, %v", p, err)
			}
			b.check(b.SignalProcess(t.Context(), b.id, "long", sdk.KILL))
			b.check(b.ends(t.Context(), "long", "out\n", "", 137))
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// forge answers each call with a frame.
func forge(c net.Conn, frame []byte) {
	session, err := yamux.Server(c, quietMux())
	if err != nil {
		return
	}
	defer session.Close()
	for {
		s, err := session.AcceptStream()
		if err != nil {
			return
		}
		_, _ = s.Write(frame)
	}
}

func quietMux() *yamux.Config {
	c := yamux.DefaultConfig()
	c.LogOutput = io.Discard
	return c
}

// TestHostileNames takes the names on the scratch volume away while the keeper lives.
func TestHostileNames(t *testing.T) {
	t.Parallel() // it mostly waits
	b := newBox(t, setting{})
	ctx := t.Context()
	b.check(b.StartProcess(ctx, b.id, counted("long", "echo out; until [ -e /tmp/go ]; do sleep 0.02; done; exit 3")))
	b.check(b.journalled(ctx, "long", "out\n")) // its keeper makes no more files there meanwhile
	b.check(os.RemoveAll(filepath.Join(b.scratch, "p")))
	b.write("tmp/go", "", 0o644)
	s := newStory(0)
	b.check(b.FollowProcess(ctx, b.id, "long", 0, s.follow()))
	if s.wrong != nil || s.exit.Code != 3 || s.next != 4 { // its output may be lost with its journal
		t.Errorf("%v, %+v at %d", s.wrong, s.exit, s.next)
	}
	b.check(b.StartProcess(ctx, b.id, counted("next", "echo out; exit 4")))
	b.check(b.ends(ctx, "next", "out\n", "", 4))
	b.ranOnce(2)
	b.Forget(b.id)
	for _, name := range []string{"sock", "lock"} {
		b.check(os.Rename(filepath.Join(b.scratch, name), filepath.Join(b.dir, name)))
		_, err := b.hasty().ListProcesses(testkit.Context(t), b.id)
		if !errors.Is(err, sdk.Unavailable) && !errors.Is(err, sdk.ReasonCreating) {
			t.Errorf("without %s: %v", name, err)
		}
		b.check(os.Rename(filepath.Join(b.dir, name), filepath.Join(b.scratch, name)))
	}
	if p, err := b.listed(ctx, "long"); err != nil || p.Exit == nil || p.Exit.Code != 3 {
		t.Errorf("%+v, %v", p, err)
	}
}

// maxFlooded is what a flood may make of the supervisor. Root in the container can have any program use as much.
const maxFlooded = 160 << 20

// TestHostileFloods has root in the container talk to the supervisor more than anybody should.
func TestHostileFloods(t *testing.T) {
	b := newBox(t, setting{initMode: true})
	keeper := b.keeper()
	try := func() net.Conn {
		c, err := net.Dial("unix", filepath.Join(b.scratch, "sock"))
		if err != nil {
			return nil // its backlog is full
		}
		return c
	}
	dial := func() (c net.Conn) {
		testkit.Until(t, "there is room for one more connection", func() bool { c = try(); return c != nil })
		return c
	}
	big := make([]byte, 4+wire.MaxFrame)
	big[0], big[1] = byte(wire.KindMore), 1
	for name, flood := range map[string]func() (close func()){
		"connections": func() func() {
			var all []net.Conn
			for range 600 {
				if c := try(); c != nil {
					all = append(all, c)
				}
			}
			return func() {
				for _, c := range all {
					c.Close()
				}
			}
		},
		"streams that ask for nothing": func() func() { return streams(dial(), 10_000, nil) },
		"requests without an end":      func() func() { return streams(dial(), 10_000, bytes.Repeat(big, 70)) },
		"requests that are never sent": func() func() { return streams(dial(), 300, bytes.Repeat(big, 62)) },
		"frames that are no frames":    func() func() { return streams(dial(), 10_000, []byte{1, 0xff, 0xff, 0xff, 0}) },
		"raw bytes": func() func() {
			c := dial()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.CopyN(c, endless{}, 64<<20)
			return func() { c.Close() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "connections" {
				testkit.Soak(t, "hundreds of megabytes of each kind of flood")
			}
			end := flood()
			t.Logf("the supervisor has %d KiB", b.rss(keeper)>>10)
			if n := b.rss(keeper); n > maxFlooded {
				t.Errorf("the supervisor has %d MiB", n>>20)
			}
			if _, err := b.hasty().ListProcesses(testkit.Context(t), b.id); err != nil && !errors.Is(err, sdk.Unavailable) {
				t.Errorf("meanwhile: %v", err)
			}
			end()
			id := sdk.ProcessID("after-" + strings.ReplaceAll(name, " ", "-"))
			after := host{b.Driver, b.id} // whose session may have had to give way
			b.check(after.start(t.Context(), direct(id, "echo", "hi")))
			s := newStory(0)
			b.check(after.follow(t.Context(), id, s))
			b.check(s.is("hi\n", "", 0))
		})
	}
	// What it says of all that is bounded.
	for range testkit.Times(1000, 12_000) {
		if c := try(); c != nil {
			_, _ = c.Write(bytes.Repeat([]byte{0xff}, 64))
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}
	said, err := os.Stat(filepath.Join(b.scratch, "log"))
	b.check(err)
	if t.Logf("its log has %d bytes", said.Size()); said.Size() > 1<<20 {
		t.Error("that is too much")
	}
	if n := b.keeper(); n != keeper {
		t.Errorf("another supervisor, %d", n)
	}
}

// streams opens streams and says the same on each.
func streams(c net.Conn, n int, p []byte) func() {
	line := make([]byte, 1)
	for line[0] != '\n' { // the Hello
		if _, err := c.Read(line); err != nil {
			break
		}
	}
	config := quietMux()
	config.AcceptBacklog, config.ConnectionWriteTimeout, config.StreamOpenTimeout = n, 2*time.Second, 0
	session, err := yamux.Client(c, config)
	if err != nil {
		return func() { c.Close() }
	}
	for range n {
		s, err := session.OpenStream()
		if err != nil {
			break
		}
		_ = s.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := s.Write(p); errors.Is(err, yamux.ErrTimeout) {
			p = p[:min(len(p), 1<<10)] // it is full of these
		}
	}
	return func() { session.Close() }
}

// rss is how much memory a process has.
func (b *box) rss(pid int) int64 { return b.status(pid, "VmRSS") << 10 }

func (b *box) status(pid int, name string) (n int64) {
	b.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	b.check(err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			_, err := fmt.Sscan(value, &n)
			b.check(err)
		}
	}
	return n
}

// TestHostileUser shows that users of a container other than root have no part in it.
func TestHostileUser(t *testing.T) {
	b := newBox(t, setting{initMode: true})
	spec := sdk.ProcessSpec{Path: "sh", User: "alice", Args: []string{"-c", `
		for f in . lock sock log p p/* ../scratch/p/*/start; do
			cat /slipway/scratch/$f && echo READ $f; ls /slipway/scratch/$f && echo LISTED $f; echo >>/slipway/scratch/$f && echo WROTE $f; rm -rf /slipway/scratch/$f && echo GONE $f
		done
		chmod 777 /slipway/scratch && echo MODE
		for p in /proc/[0-9]*; do
			case $(cat $p/cmdline | tr '\0' ' ') in
			slipway-shim*|/slipway/shim*) kill -9 ${p#/proc/} && echo KILLED; kill -STOP ${p#/proc/} && echo STOPPED; head -c1 $p/mem && echo MEMORY; ls $p/fd && echo FDS; cat $p/environ && echo ENV;;
			esac
		done
		/slipway/shim relay /slipway/scratch </dev/null && echo RELAYED
		/slipway/shim init /slipway/scratch </dev/null && echo BORN
		ls /proc/self/fd | wc -l
		echo end`}}
	r := b.run(spec)
	if r.exit.Code != 0 || !strings.HasSuffix(r.stdout, "\nend\n") {
		t.Fatalf("%q %+v", r.stdout, r.exit)
	}
	for word := range strings.FieldsSeq(r.stdout) {
		if word == strings.ToUpper(word) && strings.ToLower(word) != word {
			t.Errorf("user alice: %s\n%s", r.stdout, r.stderr)
			break
		}
	}
	// Were the directory open, the supervisor would still not talk to her.
	sock := filepath.Join(b.scratch, "sock")
	if err := dialAs(1000, sock); !errors.Is(err, unix.EACCES) {
		t.Errorf("connecting: %v", err)
	}
	b.check(os.Chmod(b.scratch, 0o777))
	b.check(os.Chmod(sock, 0o777))
	if err := dialAs(1000, sock); !errors.Is(err, io.EOF) {
		t.Errorf("connecting to an open socket: %v", err)
	}
	if err := dialAs(0, sock); err != nil {
		t.Errorf("connecting as root: %v", err)
	}
}

// dialAs connects as another user and wants a byte. io.EOF: it gets none.
func dialAs(uid int, name string) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // and it ends with the goroutine
		ended <- func() error {
			if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
				return e
			}
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
				return err
			}
			n, err := unix.Read(fd, make([]byte, 1))
			if err == nil && n == 0 || err == unix.ECONNRESET {
				err = io.EOF
			}
			return err
		}()
	}()
	return <-ended
}
