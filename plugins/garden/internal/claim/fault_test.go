//go:build linux

package claim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestFaults breaks the connection to a real server in many ways.
func TestFaults(t *testing.T) {
	b := serve(t, gardentest.Options{Driver: "naive"})
	proxy := gardentest.NewProxy(t, b.servers.Baggageclaim)
	direct := b.s
	b.s = storeOf(t, proxy.Address())
	big := pack(file("a", random(4<<20)))
	id := b.filled(file("a", random(4<<20)))
	b.ok(b.s.SealVolume(b.ctx, id, nil))

	b.sub("cut in the middle of a stream out", func(b bench) {
		for _, encoding := range []string{"raw", "gzip", "zstd"} {
			w := &hookWriter{after: 200_000, hook: proxy.Cut}
			b.unavailable(b.s.StreamOut(b.ctx, id, sdk.StreamOut{Encoding: encoding}, w))
			if w.n >= len(big) {
				b.Errorf("all %d bytes came", w.n)
			}
		}
		b.wantTree(b.tree(id, ""), file("a", random(4<<20)))
	})
	b.sub("cut in the middle of a stream in", func(b bench) {
		for _, encoding := range []string{"raw", "gzip", "zstd"} {
			encoded := encode(b.T, encoding, big)
			into := b.volume()
			r := &hookReader{r: bytes.NewReader(encoded), after: 200_000, hook: proxy.Cut}
			b.unavailable(b.s.StreamIn(b.ctx, into, sdk.StreamIn{Encoding: encoding}, r))
			b.ok(b.s.DestroyVolume(b.ctx, into)) // the server may still be writing what it got
			// Also while the reader hangs: nobody waits for it when the server is gone.
			into = b.volume()
			pr, pw := io.Pipe()
			cut := make(chan struct{})
			go func() {
				defer close(cut)
				pw.Write(encoded[:200_000])
				proxy.Cut()
			}()
			b.unavailable(b.s.StreamIn(b.ctx, into, sdk.StreamIn{Encoding: encoding}, pr))
			pr.Close()
			<-cut
			b.ok(b.s.DestroyVolume(b.ctx, into))
		}
	})
	b.sub("a server that hangs", func(b bench) {
		impatient := storeOf(b.T, proxy.Address(), func(c *Config) {
			c.RequestTimeout, c.StreamTimeout = 300*time.Millisecond, 300*time.Millisecond
		})
		into, doomed := b.volume(), b.volume()
		// More than all buffers on the way hold: however late the writer gets it, not all has left the server when it is frozen.
		large := b.filled(file("a", strings.Repeat(random(4<<20), 8)))
		proxy.Freeze()
		b.unavailable(impatient.Ping(b.ctx))
		b.unavailable(impatient.SealVolume(b.ctx, into, nil))
		b.unavailable(impatient.ListVolumes(b.ctx, sdk.Filter{}, func(sdk.VolumeInfo) error { return nil }))
		b.unavailable(impatient.DestroyVolume(b.ctx, into))
		b.unavailable(impatient.Remove(b.ctx, string(doomed)))
		proxy.Thaw()
		b.unavailable(impatient.StreamOut(b.ctx, large, sdk.StreamOut{}, &hookWriter{after: 100_000, hook: proxy.Freeze}))
		proxy.Thaw()
		b.unavailable(impatient.StreamIn(b.ctx, into, sdk.StreamIn{}, &hookReader{r: bytes.NewReader(bytes.Repeat(big, 8)), after: 100_000, hook: proxy.Freeze}))
		proxy.Thaw()
		// A context ends at once, whatever the server does.
		proxy.Freeze()
		ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
		defer cancel()
		if err := b.s.StreamOut(ctx, id, sdk.StreamOut{}, io.Discard); !errors.Is(err, context.DeadlineExceeded) || sdk.ClassOf(err) != "" {
			b.Errorf("StreamOut ended with %v", err)
		}
		proxy.Thaw()
	})
	b.sub("a caller that hangs", func(b bench) {
		// What waits for the caller's reader or writer is no server that hangs: nothing is then about to end the stream.
		store := storeOf(b.T, proxy.Address())
		alarms := newAlarms()
		store.alarm = alarms.set
		quiet := func() {
			if err := alarms.quiet(b.ctx); err != nil {
				b.Errorf("the server is waited for while the caller is: %v", err)
			}
		}
		patient := b.volume()
		b.ok(store.StreamIn(b.ctx, patient, sdk.StreamIn{}, &hookReader{r: bytes.NewReader(big), after: 100_000, hook: quiet}))
		b.ok(store.StreamOut(b.ctx, patient, sdk.StreamOut{}, &hookWriter{after: 100_000, hook: quiet}))
		if alarms.count == 0 {
			b.Error("no stream was watched")
		}
	})
	b.sub("refused", func(b bench) {
		into := b.volume()
		b.s.reconnect = 50 * time.Millisecond
		defer func() { b.s.reconnect = reconnect }()
		proxy.Refuse()
		proxy.Cut()
		for _, err := range []error{
			b.s.Ping(b.ctx), b.s.CreateVolume(b.ctx, sdk.VolumeSpec{ID: newID(), Token: "t"}), b.s.SealVolume(b.ctx, into, nil),
			b.s.StreamIn(b.ctx, into, sdk.StreamIn{}, bytes.NewReader(big)), b.s.StreamOut(b.ctx, id, sdk.StreamOut{}, io.Discard),
		} {
			b.unavailable(err)
			if err != nil && (!strings.Contains(err.Error(), proxy.Address()) || !strings.Contains(err.Error(), "refused")) {
				b.Errorf("the server is not named, or not what it did: %v", err)
			}
		}
		proxy.Accept(b.T)
		b.ok(b.s.Ping(b.ctx))
	})
	b.sub("back in a moment", func(b bench) {
		b.s.reconnect = time.Hour // however long a moment is on a machine that is busy
		defer func() { b.s.reconnect = reconnect }()
		proxy.Refuse()
		proxy.Cut()
		back := make(chan struct{})
		time.AfterFunc(100*time.Millisecond, func() {
			defer close(back)
			proxy.Accept(t)
		})
		b.ok(b.s.Ping(b.ctx))
		<-back
	})
	b.sub("destroyed under a stream", func(b bench) {
		doomed := b.filled(file("a", random(8<<20)))
		err := b.s.StreamOut(b.ctx, doomed, sdk.StreamOut{Encoding: "zstd"}, &hookWriter{after: 100_000, hook: func() { b.ok(direct.DestroyVolume(b.ctx, doomed)) }})
		if err != nil { // tar may have it open, and then it is whole
			b.wantNotFound(err, sdk.KindVolume)
		}
	})
	b.sub("changed under a stream", func(b bench) {
		// The server finds out in the middle, says so after what it takes for a whole archive, and calls all that a success.
		open := b.volume()
		volumes, release, err := b.s.Share(b.ctx, open)
		b.ok(err)
		release()
		path := filepath.Join(volumes[open].Path, "shrinks")
		for _, encoding := range []string{"raw", "gzip", "zstd"} {
			b.ok(os.WriteFile(path, []byte(random(8<<20)), 0o644))
			var out bytes.Buffer
			err := b.s.StreamOut(b.ctx, open, sdk.StreamOut{Encoding: encoding}, &hookWriter{w: &out, after: 100_000, hook: func() { b.ok(os.Truncate(path, 1<<20)) }})
			if err == nil {
				b.wantTree(b.unpack(bytes.NewReader(decode(b.T, encoding, out.Bytes()))), file("shrinks", random(8<<20)))
			} else if sdk.ClassOf(err) != sdk.Internal || !strings.Contains(err.Error(), "failed to stream out") {
				b.Errorf("as %s: %v (%s)", encoding, err, sdk.ClassOf(err))
			}
			b.Log(err)
		}
	})
	b.sub("changed under a look", func(b bench) {
		// As when the server still unpacks an archive whose sender is gone.
		open := b.volume()
		volumes, release, err := b.s.Share(b.ctx, open)
		b.ok(err)
		release()
		grows, err := os.Create(filepath.Join(volumes[open].Path, "grows"))
		b.ok(err)
		defer grows.Close()
		b.ok(grows.Truncate(32 << 20))
		over, growing := make(chan struct{}), make(chan error, 1)
		go func() {
			for n := int64(32 << 20); ; n++ {
				select {
				case <-over:
					growing <- nil
					return
				default:
				}
				if err := grows.Truncate(n); err != nil {
					growing <- err
					return
				}
			}
		}()
		for err = nil; err == nil && b.ctx.Err() == nil; { // it may come through between two changes
			err = b.s.StreamIn(b.ctx, open, sdk.StreamIn{}, bytes.NewReader(pack(file("b", "b"))))
			_, release, shareErr := b.s.Share(b.ctx, open) // so that it is looked through each time
			b.ok(shareErr)
			release()
		}
		b.unavailable(err)
		close(over)
		b.ok(<-growing)
		b.ok(b.s.StreamIn(b.ctx, open, sdk.StreamIn{}, bytes.NewReader(pack(file("b", "b")))))
	})
	b.sub("started anew", func(b bench) {
		spec := sdk.VolumeSpec{ID: newID(), Token: sdk.NewToken()}
		b.destroyLater(spec.ID)
		b.ok(direct.CreateVolume(b.ctx, spec))
		was, err := direct.Incarnation(b.ctx)
		b.ok(err)
		pr, pw := io.Pipe()
		ended := make(chan error)
		go func() { ended <- streamIn(b.ctx, direct, spec.ID, pr) }()
		pw.Write(big[:1<<20])
		b.servers.KillBaggageclaim()
		b.unavailable(<-ended)
		pw.Close()
		direct.reconnect = 50 * time.Millisecond // nobody comes back meanwhile
		b.unavailable(direct.Ping(b.ctx))
		direct.reconnect = reconnect
		b.servers.StartBaggageclaim(b.T)
		b.ok(direct.Ping(b.ctx))
		if now, err := direct.Incarnation(b.ctx); err != nil || now != was {
			b.Errorf("the store was %q and is %q (%v)", was, now, err)
		}
		b.ok(direct.CreateVolume(b.ctx, spec))
		b.wantTree(b.tree(id, ""), file("a", random(4<<20)))
	})
}

func (b bench) unavailable(err error) {
	b.Helper()
	if sdk.ClassOf(err) != sdk.Unavailable {
		b.Errorf("got %v (%s), want Unavailable", err, sdk.ClassOf(err))
	}
	b.Log(err)
}

// hookWriter does something in the middle of a stream.
type hookWriter struct {
	w        io.Writer
	n, after int
	hook     func()
}

func (h *hookWriter) Write(p []byte) (int, error) {
	if h.n += len(p); h.n >= h.after && h.hook != nil {
		h.hook()
		h.hook = nil
	}
	if h.w != nil {
		return h.w.Write(p)
	}
	return len(p), nil
}

type hookReader struct {
	r        io.Reader
	n, after int
	hook     func()
}

func (h *hookReader) Read(p []byte) (int, error) {
	if h.n >= h.after && h.hook != nil {
		h.hook()
		h.hook = nil
	}
	n, err := h.r.Read(p)
	h.n += n
	return n, err
}

// TestFullDisk fills the disk of a real server.
func TestFullDisk(t *testing.T) {
	b := serve(t, gardentest.Options{Driver: "naive"})
	b.servers.StopBaggageclaim(t)
	dir := b.servers.VolumesDir()
	if err := unix.Mount("slipway-test", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.servers.StopBaggageclaim(t)
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	b.servers.StartBaggageclaim(t)
	for _, encoding := range []string{"raw", "gzip", "zstd"} {
		id := newID()
		b.ok(b.s.CreateVolume(b.ctx, sdk.VolumeSpec{ID: id, Token: "t"}))
		err := b.s.StreamIn(b.ctx, id, sdk.StreamIn{Encoding: encoding}, bytes.NewReader(encode(t, encoding, pack(file("a", random(8<<20))))))
		b.want(err, sdk.Exhausted, sdk.ReasonStorage)
		b.ok(b.s.DestroyVolume(b.ctx, id))
	}
	parent := newID()
	b.ok(b.s.CreateVolume(b.ctx, sdk.VolumeSpec{ID: parent, Token: "t"}))
	b.ok(b.s.StreamIn(b.ctx, parent, sdk.StreamIn{}, bytes.NewReader(pack(file("a", random(3<<20))))))
	b.ok(b.s.SealVolume(b.ctx, parent, nil))
	b.want(b.s.CreateVolume(b.ctx, sdk.VolumeSpec{ID: newID(), Token: "t", Clone: parent}), sdk.Exhausted, sdk.ReasonStorage)
	b.wantTree(b.tree(parent, ""), file("a", random(3<<20)))
	if v := b.servers.Volumes(t); len(v) != 1 {
		t.Errorf("left are %v", v)
	}
}

// TestStrangers asks servers that are none.
func TestStrangers(t *testing.T) {
	b := bench{T: t, ctx: testkit.Context(t)}
	t.Run("addresses", testAddresses)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	b.ok(err)
	t.Cleanup(func() { silent.Close() }) // what is asked in parallel is asked when this function has returned
	answers := func(code int, kind, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(tls.Close)
	banner, err := net.Listen("tcp", "127.0.0.1:0")
	b.ok(err)
	t.Cleanup(func() { banner.Close() })
	go func() {
		for {
			c, err := banner.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "SSH-2.0-OpenSSH_9.2\x1b[31m\r\n")
			c.Close()
		}
	}()
	for what, url := range map[string]string{
		"a web server":       answers(404, "text/html", "<html>not found</html>"),
		"one that is happy":  answers(200, "text/html", "<html>welcome</html>"),
		"one that is broken": answers(500, "text/plain", "boom\x1b[31m\x00"+strings.Repeat("x", 100_000)),
		"a proxy":            answers(503, "text/plain", "try later"),
		"one that redirects": answers(302, "text/plain", "elsewhere"),
		"an empty list":      answers(200, "application/json", "[]"),
		"another handle":     answers(200, "application/json", `{"handle":"x"}`),
		"plain to TLS":       strings.Replace(tls.URL, "https:", "http:", 1),
		"no certificate":     tls.URL,
		"TLS to plain":       strings.Replace(answers(404, "text/html", ""), "http:", "https:", 1),
		"a silent one":       "http://" + silent.Addr().String(),
		"another protocol":   "http://" + banner.Addr().String(),
		"no such host":       "http://no-such-host.invalid:7788",
		"a closed port":      "http://127.0.0.1:1",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			askStranger(bench{T: t, ctx: testkit.Context(t)}, url)
		})
	}
}

// askStranger asks for all that a server which is none could answer wrongly.
func askStranger(b bench, url string) {
	s := storeOf(b.T, url, func(c *Config) { c.RequestTimeout = 500 * time.Millisecond })
	err := s.Ping(b.ctx)
	b.unavailable(err)
	if err == nil {
		return
	}
	if msg := err.Error(); !strings.Contains(msg, url) || len(msg) > 1000 || strings.ContainsAny(msg, "\x1b\x00") {
		b.Errorf("the message is %q", msg)
	}
	if _, err := s.Incarnation(b.ctx); err == nil {
		b.Error("it has an incarnation")
	}
	err = s.CreateVolume(b.ctx, sdk.VolumeSpec{ID: "x", Token: "t"})
	if c := sdk.ClassOf(err); c != sdk.Unavailable && c != sdk.Internal && c != sdk.AlreadyExists {
		b.Errorf("CreateVolume: %v (%s)", err, c)
	}
}

// testAddresses gives what is no server's address.
func testAddresses(t *testing.T) {
	b := bench{T: t, ctx: testkit.Context(t)}
	for _, url := range []string{"", "10.0.0.5:7788", "ftp://x", "http://", "http://x?y=z", "::", "http://user:secret@ho st"} {
		_, err := New(Config{URL: url})
		b.want(err, sdk.Invalid, sdk.ReasonConfig)
		if strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "baggageclaim") {
			t.Errorf("the message is %q", err)
		}
	}
	_, err := New(Config{URL: "http://x", Imports: []string{"relative"}})
	b.want(err, sdk.Invalid, sdk.ReasonConfig)
}
