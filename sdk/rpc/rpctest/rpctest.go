// Package rpctest joins a runtime and its user by gRPC inside one process, for tests.
package rpctest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// Pair serves a runtime on a unix socket and gives the other end of it. Both ends are closed by t.Cleanup, which fails the
// test if the serving one did not end in order.
func Pair(t testing.TB, rt sdk.Runtime) sdk.Runtime {
	t.Helper()
	lis := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- rpc.ServeOn(ctx, lis, sdk.PluginInfo{Name: "rpctest", SDK: sdk.Version}, rt, rpc.ServeOptions{})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serving the runtime: %v", err)
		}
	})
	client, err := rpc.Dial(ctx, lis.Addr(), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("closing the client: %v", err)
		}
	})
	return client.Runtime()
}

// Open opens a plugin's runtime with those blocks and joins it as Pair does. The context given to the plugin ends with
// the test.
func Open(t testing.TB, p sdk.Plugin, cfg sdk.Config) sdk.Runtime {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	rt, err := p.Open(ctx, cfg)
	if err != nil {
		t.Fatalf("opening plugin %q: %v", p.Name, err)
	}
	return Pair(t, rt)
}

// listen takes a short path: those of t.TempDir may be longer than a socket's name can be.
func listen(t testing.TB) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "rpc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	lis, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	return lis
}
