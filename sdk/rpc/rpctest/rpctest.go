// Package rpctest joins a runtime and its user by gRPC inside one process, for tests.
package rpctest

import (
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// Pair serves a runtime over a unix socket and gives the other end of it. Everything is closed by t.Cleanup.
func Pair(t testing.TB, rt sdk.Runtime) sdk.Runtime {
	t.Helper()
	t.Fatal("rpctest: services are not wired yet")
	return nil
}
