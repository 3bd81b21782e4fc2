//go:build linux

package gdn

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"code.cloudfoundry.org/garden"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestBadServers: whatever is at the address, calls end with the class that fits and the address in the words.
func TestBadServers(t *testing.T) {
	for name, c := range map[string]struct {
		address func(t *testing.T) string
		class   sdk.Class
	}{
		"nobody":          {func(*testing.T) string { return "tcp://127.0.0.1:1" }, sdk.Unavailable},
		"no socket":       {func(t *testing.T) string { return "unix://" + t.TempDir() + "/garden.sock" }, sdk.Unavailable},
		"TLS":             {func(t *testing.T) string { return at(t, httptest.NewTLSServer(http.NotFoundHandler())) }, sdk.Unavailable},
		"another program": {func(t *testing.T) string { return at(t, httptest.NewServer(http.NotFoundHandler())) }, sdk.Unavailable},
		"HTML": {func(t *testing.T) string {
			return at(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") })))
		}, sdk.Unavailable},
		"500 in Garden's words": {func(t *testing.T) string {
			return at(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				io.WriteString(w, `{"Type":"","Message":"no subnet is left","Handle":"","ProcessID":"","Binary":""}`)
			})))
		}, sdk.Unavailable}, // its ping says so, too: it does not work
		"500 without words": {func(t *testing.T) string {
			return at(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })))
		}, sdk.Unavailable},
		"garbage": {func(t *testing.T) string {
			return listener(t, func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\r\n"); c.Close() })
		}, sdk.Unavailable},
		"silence": {func(t *testing.T) string { return listener(t, func(net.Conn) {}) }, sdk.Unavailable},
		"half an answer": {func(t *testing.T) string {
			return listener(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{") })
		}, sdk.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := c.address(t)
			var config Config
			if config.Address = address; name == "silence" || name == "half an answer" {
				config.RequestTimeout = 500 * time.Millisecond // the others say what ends a call
			}
			s, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx := testkit.Context(t)
			_, listErr := s.List(ctx, nil)
			_, execErr := s.Exec(ctx, "x", garden.ProcessSpec{Path: "/x"}, nil, io.Discard, io.Discard)
			for call, err := range map[string]error{
				"ping": s.Ping(ctx), "create": s.Create(ctx, garden.ContainerSpec{Handle: "x"}), "list": listErr,
				"exec": execErr,
			} {
				if !errors.Is(err, c.class) || !strings.Contains(err.Error(), address) {
					t.Errorf("%s: %s: %v; want %s with the address %s", call, sdk.ClassOf(err), err, c.class, address)
				}
			}
			if ctx.Err() != nil {
				t.Error("the calls did not end by themselves")
			}
			over, end := context.WithCancel(ctx)
			end()
			if err := s.Ping(over); !errors.Is(err, context.Canceled) {
				t.Errorf("a call that is cancelled: %v", err)
			}
		})
	}
}

func at(t *testing.T, s *httptest.Server) string {
	t.Helper()
	t.Cleanup(s.Close)
	return "tcp://" + s.Listener.Addr().String()
}

// listener answers each connection by f, and holds it open until the test ends.
func listener(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var own sync.WaitGroup
	done := make(chan struct{})
	own.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			own.Go(func() {
				f(c)
				<-done
				c.Close()
			})
		}
	})
	t.Cleanup(func() { close(done); l.Close(); own.Wait() })
	return "tcp://" + l.Addr().String()
}
