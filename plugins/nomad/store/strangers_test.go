//go:build linux

package store

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// TestStrangers come without what lets one in.
func TestStrangers(t *testing.T) {
	p := serve(t, t.TempDir())
	h, ctx := p.hello(), testkit.Context(t)
	as := storenet.Introduction{Kind: storenet.KindWorker, Secret: h.Secret}

	wrong := strings.Repeat("0", len(h.Fingerprint))
	_, err := storenet.Connect(ctx, h.Addresses, wrong, as)
	if _, ok := errors.AsType[*storenet.Unreachable](err); !ok {
		t.Errorf("with another fingerprint: %v", err)
	}
	for _, secret := range []storenet.Secret{"", "x", h.Secret + "x", h.Secret[1:]} {
		for _, kind := range []storenet.Kind{storenet.KindWorker, storenet.KindSession, storenet.KindPeer, "other"} {
			if c, err := storenet.Connect(ctx, h.Addresses, h.Fingerprint, storenet.Introduction{Kind: kind, Secret: secret}); err == nil || sdk.ClassOf(err) == sdk.Internal {
				t.Errorf("as a %s with the secret %q: %v, %v", kind, string(secret), c, err)
			}
		}
	}
	for _, kind := range []storenet.Kind{storenet.KindPeer, "other"} { // which the store's own secret does not make one
		if c, err := storenet.Connect(ctx, h.Addresses, h.Fingerprint, storenet.Introduction{Kind: kind, Secret: h.Secret}); err == nil {
			t.Errorf("the store's secret makes one a %s: %v", kind, c)
		}
	}
	_, err = storenet.Connect(ctx, h.Addresses, h.Fingerprint, storenet.Introduction{Kind: storenet.Kind(strings.Repeat("x", 1<<20)), Secret: h.Secret})
	if err == nil {
		t.Error("a line without end is taken")
	}

	noise := make([]byte, 64<<10)
	rand.Read(noise)
	for _, said := range [][]byte{noise, []byte("GET / HTTP/1.1\r\n\r\n"), {}, {0x16, 0x03, 0x01, 0xff, 0xff}} {
		c := dialled(t, h)
		_, _ = c.Write(said)
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(testkit.Bound(t)))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
			t.Errorf("who says %q is not put out", said[:min(len(said), 16)])
		}
	}
	create(t, p.client(), "v", "content")
}

func dialled(t *testing.T, h storenet.Hello) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", h.Addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// TestManyStrangers who say nothing hold up nobody: the oldest have to go.
func TestManyStrangers(t *testing.T) {
	p := serve(t, t.TempDir())
	h := p.hello()
	s := p.client()
	var conns []net.Conn
	for range maxStrangers + 5 {
		conns = append(conns, dialled(t, h))
	}
	create(t, s, "v", "content")
	_ = conns[0].SetReadDeadline(time.Now().Add(testkit.Bound(t)))
	if _, err := conns[0].Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the oldest is still there: %v", err)
	}
}

// TestSlowStrangers have to go even if nobody needs their place, whatever they have said by then.
func TestSlowStrangers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	run, ended := t.TempDir(), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, Options{Dir: t.TempDir(), Run: run, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), patience: 100 * time.Millisecond})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var h storenet.Hello
	testkit.Until(t, "the store answers", func() bool {
		text, err := os.ReadFile(filepath.Join(run, storenet.HelloFile))
		if err == nil {
			h, err = storenet.ReadHello(text)
		}
		return err == nil
	})
	for _, slow := range []func(net.Conn) error{
		func(net.Conn) error { return nil },
		func(c net.Conn) error { _, err := c.Write([]byte{0x16}); return err },
		func(c net.Conn) error { // past the handshake, with a word half said
			secure := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{storenet.Protocol}})
			_, err := secure.Write([]byte("{"))
			return err
		},
	} {
		c := dialled(t, h)
		if err := slow(c); err != nil {
			t.Log(err) // it is a busy machine
		}
		_ = c.SetReadDeadline(time.Now().Add(testkit.Bound(t)))
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Error("who takes his time is still there")
		}
	}
}

// TestGuests may do what their ticket says, once.
func TestGuests(t *testing.T) {
	p := serve(t, t.TempDir())
	s := p.client()
	create(t, s, "v", "content")
	create(t, s, "secret", "content")
	to := ticketFor(t, s, "v")
	c, err := storenet.Connect(testkit.Context(t), to.Addresses, to.Fingerprint, storenet.Introduction{Kind: storenet.KindPeer, Secret: to.Secret})
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	client, err := rpc.Dial(t.Context(), c.RemoteAddr(), rpc.DialOptions{Dialer: func(context.Context) (got net.Conn, err error) {
		err = errors.New("no more")
		once.Do(func() { got, err = c, nil })
		return got, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	w, err := client.Runtime().Worker(storenet.WorkerName)
	if err != nil {
		t.Fatal(err)
	}
	ctx := testkit.Context(t)
	// All on the connection for data: there is but one.
	if err := w.StreamOut(ctx, "secret", sdk.StreamOut{}, io.Discard); !errors.Is(err, sdk.Unsupported) {
		t.Errorf("reading: %v", err)
	}
	if err := w.(sdk.FileReader).ReadFile(ctx, "secret", "file", 0, -1, io.Discard); !errors.Is(err, sdk.Unsupported) {
		t.Errorf("reading a file: %v", err)
	}
	if err := w.StreamIn(ctx, "secret", sdk.StreamIn{}, archive(t, "overwritten")); err != nil {
		t.Errorf("the one stream: %v", err)
	}
	if content(t, s, "secret") != "content" || content(t, s, "v") != "overwritten" {
		t.Error("the stream went where the ticket does not lead")
	}
	if err := w.StreamIn(ctx, "v", sdk.StreamIn{}, archive(t, "again")); !errors.Is(err, sdk.Invalid) {
		t.Errorf("a second stream: %v", err)
	}
	if content(t, s, "v") != "overwritten" {
		t.Error("the second stream was taken")
	}
}
