package rpc

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// blocking is a worker whose Status waits until the test lets it go, whatever its context says.
type blocking struct {
	unused
	entered, release chan struct{}
}

type unused struct{ sdk.Worker }

func (b *blocking) Workers(context.Context, func(sdk.WorkerEvent) error) error { return nil }

func (b *blocking) Worker(string) (sdk.Worker, error) { return b, nil }

func (b *blocking) Status(context.Context) (sdk.Status, error) {
	b.entered <- struct{}{}
	<-b.release
	return sdk.Status{Health: sdk.Healthy}, nil
}

func (b *blocking) Close() error { return nil }

func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rpc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func listenOn(t *testing.T, path string) net.Listener {
	t.Helper()
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return lis
}

func TestRunningCallsMayFinish(t *testing.T) {
	for name, patient := range map[string]bool{"in time": true, "not in time": false} {
		t.Run(name, func(t *testing.T) {
			b := &blocking{entered: make(chan struct{}), release: make(chan struct{})}
			s := newServer(sdk.PluginInfo{}, slog.New(slog.DiscardHandler))
			s.configured, s.runtime = true, b
			s.grace = time.Hour
			if !patient {
				s.grace = time.Millisecond
			}
			lis := listenOn(t, socket(t))
			ctx, stop := context.WithCancel(t.Context())
			ended, answered := make(chan error, 1), make(chan error, 1)
			go func() { ended <- s.serveOn(ctx, lis) }()
			c, err := Dial(t.Context(), lis.Addr(), DialOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			w, _ := c.Runtime().Worker("w")
			go func() {
				_, err := w.Status(t.Context())
				answered <- err
			}()
			<-b.entered
			stop()
			if patient {
				<-s.life.Done() // it has begun to end
				if err := c.Health(t.Context()); sdk.ClassOf(err) != sdk.Unavailable {
					t.Errorf("a new call during the end: %v", err)
				}
				close(b.release)
			}
			err = <-answered
			if (err == nil) != patient {
				t.Errorf("the running call got %v", err)
			}
			if err := <-ended; err != nil { // though a call that heeds nothing may still be running
				t.Errorf("the server ended with %v", err)
			}
			if !patient {
				close(b.release)
				<-s.calls.idle
				s.readers.Wait()
			}
		})
	}
}

func TestClientFindsARestartedServer(t *testing.T) {
	path := socket(t)
	serve := func() (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		lis, ended := listenOn(t, path), make(chan error, 1)
		go func() { ended <- ServeOn(ctx, lis, sdk.PluginInfo{}, &blocking{}, ServeOptions{}) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	stop := serve()
	c, err := Dial(t.Context(), &net.UnixAddr{Net: "unix", Name: path}, DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := c.Health(t.Context()); sdk.ClassOf(err) != sdk.Unavailable {
		t.Errorf("without a server: %v", err)
	}
	defer serve()()
	ctx := testkit.Context(t)
	control := c.conns[0]
	control.Connect()
	for s := control.GetState(); s != connectivity.Ready; s = control.GetState() {
		if !control.WaitForStateChange(ctx, s) {
			t.Fatal("the client did not come back")
		}
		control.Connect()
	}
	if err := c.Health(ctx); err != nil {
		t.Errorf("with a new server: %v", err)
	}
}
