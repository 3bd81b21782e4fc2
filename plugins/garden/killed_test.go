//go:build linux

package garden

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestKilledBetweenSteps has the plugin vanish after each of the requests that making a container takes; in the gate after every fifth. The next plugin completes what the host asks
// for again, or takes all of it away.
func TestKilledBetweenSteps(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	x := worldOn(t, servers, nil)
	x.statusOf(t)
	x.volume(t, sdk.VolumeSpec{ID: "work"}, nil)
	x.container(t, sdk.ContainerSpec{ID: "warm", Image: sdk.Image{Volume: "image"}}) // what is made once is made
	check := x.unchanged(t)
	for n := 1; ; n += testkit.Times(5, 1) {
		g := newGate(t, servers, n)
		doomed := x.with(t, func(c *Config) { c.Garden, c.Baggageclaim = g.garden, g.baggageclaim })
		doomed.abilities = x.abilities
		id := sdk.ContainerID(fmt.Sprintf("step-%d", n))
		spec := sdk.ContainerSpec{ID: id, Token: token, Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "work", Path: "/work"}}, Dir: "/work"}
		err := doomed.CreateContainer(testkit.Context(t), spec, nil)
		if err := doomed.runtime.Close(); err != nil {
			t.Errorf("after %d requests: %v", n, err)
		}
		g.close()
		if !g.shut() {
			if err != nil || n < 10 {
				t.Fatalf("after %d requests: %v", n, err)
			}
			x.drop(t, id)
			check()
			t.Logf("making a container takes less than %d requests", n)
			return
		}
		if err == nil && n < 10 {
			t.Errorf("after %d requests: no error, although the rest was cut off", n)
		}
		next := x.with(t, func(*Config) {})
		next.abilities = x.abilities
		if n%2 == 0 {
			if err := next.CreateContainer(testkit.Context(t), spec, nil); err != nil {
				t.Fatalf("after %d requests: creating it again: %v", n, err)
			}
			if out := next.sh(t, id, "p", "pwd; touch f"); out != "/work\n" {
				t.Errorf("after %d requests: %q", n, out)
			}
		}
		next.drop(t, id)
		check()
		if t.Failed() {
			t.Fatalf("that was after %d requests", n)
		}
	}
}

// gate lets a number of requests through to both servers together. Then it answers nobody any more: for the servers, whoever asked has died.
type gate struct {
	garden, baggageclaim string

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	ends   []io.Closer

	mu   sync.Mutex
	left int
}

func newGate(t *testing.T, s *gardentest.Servers, requests int) *gate {
	t.Helper()
	g := &gate{left: requests}
	g.ctx, g.cancel = context.WithCancel(t.Context())
	t.Cleanup(g.close)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.ends, g.garden = append(g.ends, front), "tcp://"+front.Addr().String()
	g.work.Go(func() { g.serveGarden(front, strings.TrimPrefix(s.Garden, "tcp://")) })
	to, err := url.Parse(s.Baggageclaim)
	if err != nil {
		t.Fatal(err)
	}
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = transport
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.pass() {
			panic(http.ErrAbortHandler) // cuts the connection
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context()))) // it gets to the server whole
		if g.shut() {
			panic(http.ErrAbortHandler)
		}
	})}
	g.ends, g.baggageclaim = append(g.ends, server), "http://"+web.Addr().String()
	g.work.Go(func() { _ = server.Serve(web) })
	return g
}

// pass counts a request, and tells whether it is let through. After the last one that is, all others are cut.
func (g *gate) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left--
	return g.left >= 0
}

// shut tells whether a request was cut off.
func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.left < 0
}

// close cuts everything, and waits.
func (g *gate) close() {
	g.cancel()
	for _, e := range g.ends {
		e.Close()
	}
	g.work.Wait()
}

// serveGarden relays connections, each of which is one request.
func (g *gate) serveGarden(l net.Listener, to string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		if !g.pass() {
			client.Close()
			continue
		}
		server, err := (&net.Dialer{}).DialContext(g.ctx, "tcp", to)
		if err != nil {
			client.Close()
			continue
		}
		g.work.Go(func() { relay(g.ctx, client, client, server) })
	}
}

// relay carries what a client says, of which some may have been read already, to a server, and the answer back, until both have ended or ctx has.
func relay(ctx context.Context, client net.Conn, said io.Reader, server net.Conn) {
	defer context.AfterFunc(ctx, func() { client.Close(); server.Close() })()
	defer client.Close()
	defer server.Close()
	half := func(dst net.Conn, src io.Reader) {
		io.Copy(dst, src)
		dst.(*net.TCPConn).CloseWrite()
	}
	var both sync.WaitGroup
	both.Go(func() { half(server, said) })
	both.Go(func() { half(client, server) })
	both.Wait()
}
