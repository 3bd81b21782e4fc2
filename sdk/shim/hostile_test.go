package shim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// raw is an Exec whose command is f, which may do with its streams as it likes. They are closed when it returns or ctx ends.
func raw(f func(l *line)) Exec {
	return func(ctx context.Context, _ sdk.ContainerID, _ []string, stdin io.Reader, stdout, _ io.Writer) error {
		l := &line{stdin.(*os.File), stdout.(*os.File)}
		defer context.AfterFunc(ctx, func() { l.Close() })()
		f(l)
		l.Close()
		return nil
	}
}

// evil is an Exec whose program says hello and has f answer each call.
func evil(f func(c *wire.Conn, s *yamux.Stream, r wire.Request)) Exec {
	return raw(func(l *line) {
		if wire.WriteHello(l, wire.Hello{State: wire.StateReady}) != nil {
			return
		}
		config := yamux.DefaultConfig()
		config.LogOutput = io.Discard
		session, err := yamux.Server(l, config)
		if err != nil {
			return
		}
		defer session.Close()
		var calls sync.WaitGroup
		defer calls.Wait()
		defer session.Close()
		for {
			s, err := session.AcceptStream()
			if err != nil {
				return
			}
			calls.Go(func() {
				defer s.Close()
				c := wire.NewConn(s, s)
				if r, err := c.ReadRequest(); err == nil {
					f(c, s, r)
				}
			})
		}
	})
}

// calls are all that there are.
func calls(ctx context.Context, d *Driver) map[string]func() error {
	return map[string]func() error{
		"list": func() error { _, err := d.ListProcesses(ctx, box); return err },
		"start": func() error {
			return d.StartProcess(ctx, box, sdk.ProcessSpec{ID: "p", Token: "t", Path: "x", Env: []string{"KEY=secret"}})
		},
		"follow":  func() error { return d.FollowProcess(ctx, box, "p", 0, sdk.Follow{Stdin: strings.NewReader("in")}) },
		"signal":  func() error { return d.SignalProcess(ctx, box, "p", sdk.HUP) },
		"resize":  func() error { return d.ResizeProcess(ctx, box, "p", sdk.TTY{}) },
		"quiesce": func() error { return d.Quiesce(ctx, box) },
		"stat":    func() error { _, err := d.StatFile(ctx, box, "/", "x"); return err },
		"files":   func() error { return d.ListFiles(ctx, box, "/", "x", func(sdk.FileInfo) error { return nil }) },
		"read":    func() error { return d.ReadFile(ctx, box, "/", "x", 0, 10, io.Discard) },
		"in":      func() error { return d.StreamIn(ctx, box, "/", "x", strings.NewReader("archive")) },
		"out":     func() error { return d.StreamOut(ctx, box, "/", "x", io.Discard) },
	}
}

// every makes every call there is, one after the other.
func every(ctx context.Context, d *Driver) map[string]error {
	errs := make(map[string]error)
	for name, call := range calls(ctx, d) {
		errs[name] = call()
	}
	return errs
}

const shortly = 200 * time.Millisecond

// impatient makes a driver that waits shortly for a container, which is silent. Where the container must be heard it is a patient one.
func impatient(t testing.TB, exec Exec) *Driver {
	d := patient(t, exec, Options{HelloTimeout: shortly, CallTimeout: shortly})
	d.keepAlive = shortly
	return d
}

// check holds what is true of every error that a container can cause.
func check(t testing.TB, name string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if sdk.IsNotFound(err, sdk.KindContainer) || !strings.Contains(err.Error(), `"box"`) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%s: %v", name, err)
	}
	if len(err.Error()) > 10<<10 {
		t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
	}
}

func TestHostileHello(t *testing.T) {
	good := func() []byte {
		var b bytes.Buffer
		if err := wire.WriteHello(&b, wire.Hello{State: wire.StateReady}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}()
	silence := func(l *line) { _, _ = io.Copy(io.Discard, l.in) }
	write := func(p []byte, then func(*line)) Exec {
		return raw(func(l *line) {
			if _, err := l.Write(p); err == nil && then != nil {
				then(l)
			}
		})
	}
	for _, c := range []struct {
		name string
		exec Exec
		want error
	}{
		{"garbage", write([]byte("\x00\xff what\n"), silence), wire.ErrProtocol},
		{"another version", write([]byte("slipway-shim 99 {}\n"), silence), sdk.ReasonVersion},
		{"no version", write([]byte("slipway-shim x {}\n"), silence), wire.ErrProtocol},
		{"no JSON", write([]byte("slipway-shim 1 {\n"), silence), wire.ErrProtocol},
		{"another type", write([]byte("slipway-shim 1 {\"State\":{}}\n"), silence), wire.ErrProtocol},
		{"an unknown state", write([]byte("slipway-shim 1 {\"State\":\"\\u0000no\"}\n"), silence), wire.ErrProtocol},
		{"nothing", write(nil, nil), sdk.Unavailable},
		{"silence", write(nil, silence), sdk.Unavailable},
		{"half a line", write(good[:10], nil), sdk.Unavailable},
		{"half a line and silence", write(good[:10], silence), sdk.Unavailable},
		{"endless", raw(func(l *line) {
			for {
				if _, err := l.Write(bytes.Repeat([]byte("slipway-shim 1 "), 1000)); err != nil {
					return
				}
			}
		}), wire.ErrProtocol},
		{"garbage after it", write(append(good[:len(good):len(good)], "what is this? more than a header of yamux"...), silence), wire.ErrProtocol},
		{"the end after it", write(good, nil), sdk.Unavailable},
		{"silence after it", write(good, silence), sdk.Unavailable},
		{"neither reading nor writing", write(good, func(l *line) { time.Sleep(time.Second) }), sdk.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := patient(t, c.exec, Options{})
			if strings.Contains(c.name, "silence") || c.name == "neither reading nor writing" {
				d = impatient(t, c.exec)
			}
			for name, err := range every(testkit.Context(t), d) {
				check(t, name, err)
				if archive := name == "in" || name == "out"; err == nil || !archive && !errors.Is(err, c.want) {
					t.Errorf("%s: %v, want %v", name, err, c.want)
				}
			}
			if _, err := d.Start(t.Context(), box); err != nil && !errors.Is(err, c.want) {
				t.Errorf("start of the keeper: %v", err)
			}
		})
	}
}

// TestHostileBeforeACall has a session end for what a container sends, before a call that has it is on it.
func TestHostileBeforeACall(t *testing.T) {
	d := patient(t, raw(func(l *line) {
		if wire.WriteHello(l, wire.Hello{State: wire.StateReady}) == nil {
			_, _ = l.Write([]byte("what is this? more than a header of yamux"))
			_, _ = io.Copy(io.Discard, l.in)
		}
	}), Options{})
	c, err := d.enter(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	defer c.leave()
	r, err := c.relay(t.Context(), verbRelay)
	if err != nil || r.err != nil {
		t.Fatal(err, r.err)
	}
	<-r.ended
	if err := r.session.call(t.Context(), wire.Request{Verb: wire.VerbList}, func(*talk) error { return nil }); !errors.Is(err, wire.ErrProtocol) {
		t.Errorf("%v, want %v", err, wire.ErrProtocol)
	}
}

func TestHostileAnswers(t *testing.T) {
	exit := &wire.Exit{Reason: sdk.ExitExited}
	output := func(c *wire.Conn, at sdk.Position, p string) {
		_ = c.WriteOutput(sdk.Record{Position: at, Stream: sdk.Stdout, Data: []byte(p)})
	}
	opened := func(c *wire.Conn) { _ = c.WriteMessage(wire.KindOpened, wire.Opened{State: sdk.ProcessRunning}) }
	process := func(id string) wire.Process {
		return wire.Process{ID: sdk.ProcessID(id), Token: "t", State: sdk.ProcessRunning}
	}
	type answer = func(*wire.Conn, *yamux.Stream, wire.Request)
	all := []string{"list", "start", "follow", "signal", "resize", "quiesce", "stat", "files", "read"}
	follow, list := []string{"follow"}, []string{"list"}
	for _, c := range []struct {
		name  string
		calls []string
		f     answer
		ends  bool // and that is what is wrong
	}{
		{"a frame too big", all, func(c *wire.Conn, s *yamux.Stream, _ wire.Request) {
			_, _ = s.Write([]byte{byte(wire.KindReply), 0xff, 0xff, 0xff})
			_, _ = c.ReadRequest()
		}, false},
		{"more without end", all, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			for c.Write(wire.KindMore, make([]byte, wire.MaxFrame)) == nil {
			}
		}, false},
		{"another kind", all, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) { _ = c.Write(200) }, false},
		{"not JSON", all[:1], func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) { _ = c.Write(wire.KindReply, []byte("{")) }, false},
		{"the end at once", all, func(*wire.Conn, *yamux.Stream, wire.Request) {}, true},
		{"half a frame", all, func(_ *wire.Conn, s *yamux.Stream, _ wire.Request) { _, _ = s.Write([]byte{3, 0, 1}) }, true},
		{"no container", all, func(c *wire.Conn, _ *yamux.Stream, r wire.Request) {
			kind := wire.KindReply
			f := &wire.Failure{Class: sdk.NotFound, Kind: sdk.KindContainer, ID: []byte("box")}
			if r.Verb == wire.VerbFollow {
				_ = c.WriteMessage(wire.KindEnd, f)
				return
			}
			_ = c.WriteMessage(kind, wire.Reply{Error: f})
		}, false},
		{"no volume", all[:1], func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			_ = c.WriteMessage(wire.KindReply, wire.Reply{Error: &wire.Failure{Class: sdk.NotFound, Kind: sdk.KindVolume}})
		}, false},
		{"a class of its own", all[:1], func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			_ = c.WriteMessage(wire.KindReply, wire.Reply{Error: &wire.Failure{Class: "fine"}})
		}, false},
		{"a file missing where none was asked for", all[:2], func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			_ = c.WriteMessage(wire.KindReply, wire.Reply{Error: &wire.Failure{Class: sdk.NotFound, Kind: sdk.KindFile}})
		}, false},
		{"a list without end", list, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			for i := 0; ; i++ {
				var r wire.Reply
				for j := range wire.PerReply {
					r.Processes = append(r.Processes, process(fmt.Sprintf("%d-%d", i, j)))
				}
				if c.WriteMessage(wire.KindReply, r) != nil {
					return
				}
			}
		}, false},
		{"a process twice", list, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			_ = c.WriteMessage(wire.KindReply, wire.Reply{Processes: []wire.Process{process("a"), process("a")}})
		}, false},
		{"an id that is none", list, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			_ = c.WriteMessage(wire.KindReply, wire.Reply{Processes: []wire.Process{process("A/..")}})
		}, false},
		{"too many in a reply", list, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			var r wire.Reply
			for i := range wire.PerReply + 1 {
				r.Processes = append(r.Processes, process(fmt.Sprint(i)))
			}
			_ = c.WriteMessage(wire.KindReply, r)
		}, false},
		{"files out of order", []string{"files"}, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			_ = c.WriteMessage(wire.KindReply, wire.Reply{Files: []wire.File{{Name: []byte("b")}, {Name: []byte("a")}}})
		}, false},
		{"two files", []string{"stat"}, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			_ = c.WriteMessage(wire.KindReply, wire.Reply{Files: []wire.File{{Name: []byte("b")}, {Name: []byte("c")}}})
		}, false},
		{"a path as a name", []string{"stat", "files"}, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			_ = c.WriteMessage(wire.KindReply, wire.Reply{Files: []wire.File{{Name: []byte("../b")}}})
		}, false},
		{"more than was asked for", []string{"read"}, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) { _ = c.Write(wire.KindData, make([]byte, 11)) }, false},
		{"data of nothing", []string{"read"}, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			for c.Write(wire.KindData) == nil {
			}
		}, false},
		{"output before it is opened", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) { output(c, 0, "x") }, false},
		{"output that skips", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) { opened(c); output(c, 0, "x"); output(c, 2, "x") }, false},
		{"output that repeats", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) { opened(c); output(c, 0, "xx"); output(c, 1, "x") }, false},
		{"output of nothing", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			opened(c)
			_ = c.Write(wire.KindOutput, make([]byte, 17))
		}, false},
		{"a gap backwards", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			opened(c)
			_ = c.WriteOutput(sdk.Record{Position: 0, GapTo: -5})
		}, false},
		{"opened twice", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) { opened(c); opened(c) }, false},
		{"opened in no state", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			_ = c.WriteMessage(wire.KindOpened, wire.Opened{State: 77})
		}, false},
		{"the end without an exit", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			opened(c)
			output(c, 0, "x")
			_ = c.Write(wire.KindEnd)
		}, false},
		{"the exit before the end of the output", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			opened(c)
			_ = c.WriteMessage(wire.KindExit, exit)
			output(c, 0, "x")
		}, false},
		{"two exits", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			opened(c)
			_ = c.WriteMessage(wire.KindExit, exit)
			_ = c.WriteMessage(wire.KindExit, exit)
		}, false},
		{"an exit that nobody can have had", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			opened(c)
			_ = c.WriteMessage(wire.KindExit, &wire.Exit{Code: 256, Reason: sdk.ExitExited})
		}, false},
		{"stdin taken that was not sent", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			opened(c)
			_ = c.WriteNumber(wire.KindTaken, 1<<40)
		}, false},
		{"opened and not there", follow, func(c *wire.Conn, _ *yamux.Stream, _ wire.Request) {
			opened(c)
			_ = c.WriteMessage(wire.KindEnd, &wire.Failure{Class: sdk.NotFound, Kind: sdk.KindProcess, ID: []byte("p")})
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := patient(t, evil(func(conn *wire.Conn, s *yamux.Stream, r wire.Request) {
				c.f(conn, s, r)
				if !c.ends {
					_, _ = io.Copy(io.Discard, s) // so that it is what f said that is wrong, and not its end
				}
			}), Options{})
			all := calls(testkit.Context(t), d)
			for _, name := range c.calls {
				err := all[name]()
				check(t, name, err)
				if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Class != sdk.Internal || !errors.Is(e, wire.ErrProtocol) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// What says nothing is not waited for: neither for the answer, nor for the end after the exit, nor for the rest of a frame.
func TestHostileSilence(t *testing.T) {
	hang := func(s *yamux.Stream) { _, _ = io.Copy(io.Discard, s) }
	for name, f := range map[string]func(*wire.Conn, *yamux.Stream, wire.Request){
		"at once":      func(_ *wire.Conn, s *yamux.Stream, _ wire.Request) { hang(s) },
		"in mid-frame": func(_ *wire.Conn, s *yamux.Stream, _ wire.Request) { _, _ = s.Write([]byte{3, 0, 0, 9, '{'}); hang(s) },
		"after the exit": func(c *wire.Conn, s *yamux.Stream, r wire.Request) {
			if r.Verb == wire.VerbFollow {
				_ = c.WriteMessage(wire.KindOpened, wire.Opened{State: sdk.ProcessExited})
				_ = c.WriteMessage(wire.KindExit, &wire.Exit{Reason: sdk.ExitExited})
			}
			hang(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := patient(t, evil(f), Options{CallTimeout: shortly})
			for name, err := range every(testkit.Context(t), d) {
				check(t, name, err)
				if (name == "in" || name == "out") == errors.Is(err, sdk.Unavailable) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// mux makes a frame of yamux.
func mux(kind byte, flags uint16, stream, length uint32, body ...byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, kind}, flags)
	return append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, stream), length), body...)
}

// underneath is an Exec that says hello, awaits the first bytes of a session and then writes p again and again, until it cannot.
func underneath(again bool, p []byte) Exec {
	return raw(func(l *line) {
		if wire.WriteHello(l, wire.Hello{State: wire.StateReady}) != nil {
			return
		}
		if _, err := io.ReadFull(l.in, make([]byte, 12)); err != nil {
			return
		}
		for _, err := l.Write(p); err == nil && again; {
			_, err = l.Write(p)
		}
		_, _ = io.Copy(io.Discard, l.in)
	})
}

func TestHostileSession(t *testing.T) {
	streams := func() (b []byte) {
		for i := range uint32(500) {
			b = append(b, mux(1, 1, 2*(i+1), 0)...)
		}
		return b
	}()
	for _, c := range []struct {
		name string
		exec Exec
		want error
	}{
		{"streams opened towards us", underneath(false, streams), wire.ErrProtocol},
		{"a stream opened with data", underneath(false, mux(0, 1, 2, 4, 'a', 'b', 'c', 'd')), wire.ErrProtocol},
		{"more than the window", underneath(true, mux(0, 0, 1, 64<<10, make([]byte, 64<<10)...)), wire.ErrProtocol},
		{"a frame of 4 GiB", underneath(true, mux(0, 0, 1, 1<<32-1, make([]byte, 64<<10)...)), wire.ErrProtocol},
		{"another version of yamux", underneath(false, []byte{9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), wire.ErrProtocol},
		{"a type that is none", underneath(false, mux(4, 0, 1, 0)), wire.ErrProtocol},
		{"pings without end", underneath(true, mux(2, 1, 0, 1)), wire.ErrProtocol},
		{"pings that nobody asked for", underneath(false, bytes.Repeat(mux(2, 2, 0, 1), 1000)), sdk.Unavailable},
		{"two ends", underneath(false, append(mux(1, 4, 1, 0), mux(1, 4, 1, 0)...)), wire.ErrProtocol},
		{"going away", underneath(false, mux(3, 0, 0, 0)), sdk.Unavailable},
		{"going away in anger", underneath(false, mux(3, 0, 0, 1)), sdk.Unavailable},
		{"frames of no stream", underneath(false, bytes.Repeat(mux(0, 0, 77, 3, 1, 2, 3), 1000)), sdk.Unavailable},
		{"half a frame of yamux", underneath(false, mux(0, 0, 1, 1000, 1, 2, 3)), sdk.Unavailable},
		{"windows that overflow", underneath(false, bytes.Repeat(mux(1, 2, 1, 1<<31), 1000)), sdk.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := patient(t, c.exec, Options{})
			if c.want != wire.ErrProtocol {
				d = impatient(t, c.exec) // it is silent, sooner or later
			}
			ctx := testkit.Context(t)
			_, err := d.ListProcesses(ctx, box)
			check(t, "list", err)
			if !errors.Is(err, c.want) {
				t.Errorf("list: %v, want %v", err, c.want)
			}
			err = d.FollowProcess(ctx, box, "p", 0, sdk.Follow{Stdin: strings.NewReader("in")})
			check(t, "follow", err)
			if c.want == wire.ErrProtocol && !errors.Is(err, c.want) || err == nil {
				t.Errorf("follow: %v, want %v", err, c.want)
			}
		})
	}
}

// A call ends with its context whatever a container does: stop in the midst of yamux's own frame, or read nothing.
func TestHostileCancel(t *testing.T) {
	ended := make(chan struct{})
	for name, exec := range map[string]Exec{
		"half a frame":               underneath(false, mux(0, 0, 1, 1000, byte(wire.KindOpened), 0, 1)),
		"half a frame after the end": underneath(false, append(mux(1, 4, 1, 0), mux(0, 0, 1, 1000, 1)...)),
		"reads nothing": raw(func(l *line) {
			_ = wire.WriteHello(l, wire.Hello{State: wire.StateReady})
			_, _ = io.ReadFull(l.in, make([]byte, 24))
			<-ended
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := patient(t, exec, Options{}) // it waits for nothing that the container owes before the calls' context ends
			if name == "reads nothing" {
				defer close(ended)
			}
			spec := sdk.ProcessSpec{ID: "p", Token: "t", Path: "x", Args: []string{strings.Repeat("x", 2_000_000)}}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					if err := d.StartProcess(ctx, box, spec); err != context.DeadlineExceeded && !errors.Is(err, wire.ErrProtocol) {
						t.Error(err)
					}
				})
				wg.Go(func() {
					if err := d.FollowProcess(ctx, box, "p", 0, sdk.Follow{}); err != context.DeadlineExceeded && !errors.Is(err, wire.ErrProtocol) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// What a container sends is not kept: neither where a callback is slow nor where nobody listens.
func TestHostileFlood(t *testing.T) {
	d := patient(t, evil(func(c *wire.Conn, _ *yamux.Stream, r wire.Request) {
		_ = c.WriteMessage(wire.KindOpened, wire.Opened{State: sdk.ProcessRunning})
		p := make([]byte, wire.MaxOutput)
		for at := sdk.Position(0); c.WriteOutput(sdk.Record{Position: at, Stream: sdk.Stdout, Data: p}) == nil; at += sdk.Position(len(p)) {
		}
	}), Options{})
	const followers = 8
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithCancel(t.Context())
	var wg, entered sync.WaitGroup
	entered.Add(followers)
	for range followers {
		wg.Go(func() {
			var once sync.Once
			err := d.FollowProcess(ctx, box, "p", 0, sdk.Follow{Output: func([]sdk.Record) error {
				once.Do(entered.Done)
				<-ctx.Done()
				return ctx.Err()
			}})
			if err != context.Canceled {
				t.Error(err)
			}
		})
	}
	entered.Wait()
	time.Sleep(300 * time.Millisecond) // as much as it can send meanwhile
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapInuse) - int64(before.HeapInuse); kept > followers*(4<<20) {
		t.Errorf("%d followers keep %d bytes", followers, kept)
	}
	cancel()
	wg.Wait()
}
