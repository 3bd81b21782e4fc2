//go:build linux

package garden

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestBadServers puts other things where one of the two servers should be. The worker is then away, says why and where, and no call waits for ever;
// what needs only the other server works.
func TestBadServers(t *testing.T) {
	x := newWorld(t, gardentest.Options{}, nil)
	x.statusOf(t)
	before, check := x.there(t), x.unchanged(t)
	type stranger struct {
		at    func(t *testing.T) string // host:port
		class sdk.Class                 // of calls on Baggageclaim; Garden has a call by which it says that it does not work, and then it is away
		words string                    // what the server said
		slow  bool                      // only the end of a call's time ends it
	}
	quick, slow := make(map[string]stranger), make(map[string]stranger)
	for name, c := range map[string]stranger{
		"nobody":           {at: func(*testing.T) string { return "127.0.0.1:1" }, class: sdk.Unavailable, slow: true},
		"TLS":              {at: func(t *testing.T) string { return web(t, true, http.NotFound) }, class: sdk.Unavailable},
		"another program":  {at: func(t *testing.T) string { return web(t, false, http.NotFound) }, class: sdk.Unavailable, words: "404"},
		"a page":           {at: func(t *testing.T) string { return web(t, false, says(http.StatusOK, "<html>hello")) }, class: sdk.Unavailable, words: "<html>hello"},
		"a broken gateway": {at: func(t *testing.T) string { return web(t, false, says(http.StatusBadGateway, "no upstream")) }, class: sdk.Unavailable, words: "no upstream"},
		"500":              {at: func(t *testing.T) string { return web(t, false, says(http.StatusInternalServerError, "it burns")) }, class: sdk.Unavailable, words: "it burns"},
		"500 in its words": {at: func(t *testing.T) string {
			return web(t, false, says(http.StatusInternalServerError, `{"Type":"","Message":"it burns","error":"it burns"}`))
		}, class: sdk.Internal, words: "it burns"},
		"garbage":        {at: func(t *testing.T) string { return raw(t, "SSH-2.0-x\r\n") }, class: sdk.Unavailable},
		"silence":        {at: func(t *testing.T) string { return raw(t, "") }, class: sdk.Unavailable, slow: true},
		"half an answer": {at: func(t *testing.T) string { return raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{") }, class: sdk.Unavailable, slow: true},
		"without end":    {at: func(t *testing.T) string { return web(t, false, endless) }, class: sdk.Unavailable, slow: true},
	} {
		if c.slow {
			slow[name] = c
		} else {
			quick[name] = c
		}
	}
	each := func(t *testing.T, all map[string]stranger) {
		for name, c := range all {
			t.Run(name, func(t *testing.T) {
				if c.slow && name != "nobody" && name != "silence" {
					testkit.Soak(t, "for the plugin it is silence in another form")
				}
				t.Parallel()
				at := c.at(t)
				patience := func(config *Config) {
					if c.slow {
						config.RequestTimeout, config.StreamTimeout = sdk.Duration(testkit.Scale(300*time.Millisecond)), sdk.Duration(testkit.Scale(300*time.Millisecond))
					}
				}
				t.Run("garden", func(t *testing.T) {
					t.Parallel() // what is slow waits
					y := x.with(t, func(config *Config) { patience(config); config.Garden = "tcp://" + at })
					y.checkAway(t, sdk.Degraded, "tcp://"+at, x.settings.Baggageclaim, c.words, sdk.Unavailable, map[string]func(context.Context) error{
						"create": func(ctx context.Context) error {
							return y.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: token, Image: sdk.Image{Volume: "image"}}, nil)
						},
						"list": func(ctx context.Context) error { return y.ListContainers(ctx, sdk.Filter{}, nil) },
						"start": func(ctx context.Context) error {
							return y.StartProcess(ctx, "c", sdk.ProcessSpec{ID: "p", Token: token, Path: "/bin/true"})
						},
						"follow":  func(ctx context.Context) error { return y.FollowProcess(ctx, "c", "p", 0, sdk.Follow{}) },
						"destroy": func(ctx context.Context) error { return y.DestroyContainer(ctx, "c") },
					})
				})
				t.Run("baggageclaim", func(t *testing.T) {
					t.Parallel() // what is slow waits
					y := x.with(t, func(config *Config) { patience(config); config.Baggageclaim = "http://" + at })
					y.checkAway(t, sdk.Away, "http://"+at, x.settings.Garden, c.words, c.class, map[string]func(context.Context) error{
						"create": func(ctx context.Context) error {
							return y.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: token, Image: sdk.Image{Volume: "image"}}, nil)
						},
						"volume":  func(ctx context.Context) error { return y.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: token}) },
						"seal":    func(ctx context.Context) error { return y.SealVolume(ctx, "v") },
						"list":    func(ctx context.Context) error { return y.ListVolumes(ctx, sdk.Filter{}, nil) },
						"destroy": func(ctx context.Context) error { return y.DestroyVolume(ctx, "v") },
						"in": func(ctx context.Context) error {
							return y.StreamIn(ctx, "v", sdk.StreamIn{}, strings.NewReader(string(pack(t, plain("f", "x")))))
						},
						"out": func(ctx context.Context) error { return y.StreamOut(ctx, "v", sdk.StreamOut{}, io.Discard) },
					})
				})
			})
		}
	}
	t.Run("quick", func(t *testing.T) { each(t, quick) })
	check()
	t.Run("slow", func(t *testing.T) { each(t, slow) })
	// The time of calls was short for the good server too: on a busy machine it may be at work for one that was given up. A host destroys
	// what it got no answer for.
	testkit.Until(t, "nothing is left on the servers", func() bool {
		x.drop(t, "c", "v")
		return cmp.Equal(before, x.there(t))
	})
}

// checkAway checks that the worker is away, or degraded to its volumes, because of the server at an address, and what calls on that answer. The other server is
// a good one, which a busy machine may keep from answering in a time that is short: then it is named, and asked again.
func (x *world) checkAway(t *testing.T, health sdk.Health, address, other, words string, class sdk.Class, calls map[string]func(context.Context) error) {
	t.Helper()
	ctx := testkit.Context(t)
	s := x.statusOf(t)
	for strings.Contains(s.Reason, other) && ctx.Err() == nil {
		s = x.statusOf(t)
	}
	if s.Health != health || s.ContainersAway != (health == sdk.Degraded) || !strings.Contains(s.Reason, address) || !strings.Contains(s.Reason, words) {
		t.Errorf("%v, containers away %v: %q; want %v, with %s and %q", s.Health, s.ContainersAway, s.Reason, health, address, words)
	}
	for name, call := range calls {
		err := call(ctx)
		for errors.Is(err, sdk.Unavailable) && !strings.Contains(err.Error(), address) && strings.Contains(err.Error(), other) && ctx.Err() == nil {
			err = call(ctx)
		}
		if sdk.ClassOf(err) != class || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %s: %v; want %s with %s and %q", name, sdk.ClassOf(err), err, class, address, words)
		}
	}
	if ctx.Err() != nil {
		t.Error("the calls did not end by themselves")
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	for name, call := range calls {
		if err := call(over); !errors.Is(err, context.Canceled) {
			t.Errorf("%s that is cancelled: %v", name, err)
		}
	}
}

func says(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, text)
	}
}

// endless sends spaces, which are the beginning of any JSON, until the other side has enough.
func endless(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte("    ")); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond): // slow enough to stay below all limits of size
		}
	}
}

// web serves HTTP and tells where.
func web(t *testing.T, secure bool, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.Listener.Addr().String()
}

// raw answers each connection with a text, and holds it open.
func raw(t *testing.T, answer string) string {
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
				io.WriteString(c, answer)
				<-done
				c.Close()
			})
		}
	})
	t.Cleanup(func() { close(done); l.Close(); own.Wait() })
	return l.Addr().String()
}

// TestServersComeBack takes each server away and brings it back. Nobody tells the plugin.
func TestServersComeBack(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	garden, baggage := gardentest.NewProxy(t, servers.Garden), gardentest.NewProxy(t, servers.Baggageclaim)
	x := worldOn(t, servers, func(c *Config) { c.Garden, c.Baggageclaim = garden.Address(), baggage.Address() })
	x.container(t, sdk.ContainerSpec{ID: "c", Image: sdk.Image{Volume: "image"}})
	before := x.statusOf(t)
	if before.Health != sdk.Healthy || before.ContainerIncarnation == "" || before.VolumeIncarnation == "" {
		t.Fatalf("%+v", before)
	}
	away := func(name string, p *gardentest.Proxy, health sdk.Health) {
		t.Helper()
		p.Refuse()
		p.Cut()
		if s := x.statusOf(t); s.Health != health || s.ContainersAway != (health == sdk.Degraded) || !strings.Contains(s.Reason, p.Address()) {
			t.Errorf("%s is away: %v, %q", name, s.Health, s.Reason)
		}
	}
	back := func(name string, p *gardentest.Proxy) {
		t.Helper()
		p.Accept(t)
		if s := x.statusOf(t); s.Health != sdk.Healthy || s.ContainerIncarnation != before.ContainerIncarnation || s.VolumeIncarnation != before.VolumeIncarnation {
			t.Errorf("%s is back: %+v, before it was %+v", name, s, before)
		}
		if out := x.sh(t, "c", sdk.ProcessID("after-"+name), "echo works"); out != "works\n" {
			t.Errorf("%s is back: %q", name, out)
		}
	}
	away("garden", garden, sdk.Degraded)
	x.volume(t, sdk.VolumeSpec{ID: "v"}, pack(t, plain("f", "text"))) // volumes work still
	if _, err := x.ListProcesses(testkit.Context(t), "c"); !errors.Is(err, sdk.Unavailable) {
		t.Errorf("processes, while garden is away: %v", err)
	}
	back("garden", garden)
	away("baggageclaim", baggage, sdk.Away)
	if out := x.sh(t, "c", "meanwhile", "echo works"); out != "works\n" { // so do processes
		t.Errorf("while baggageclaim is away: %q", out)
	}
	back("baggageclaim", baggage)
	x.seal(t, "v")
}
