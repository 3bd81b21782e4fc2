//go:build linux

package store

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// asProgram has the test's own executable be slipway-store, built as the test is: under the race detector, if that is on.
const asProgram = "SLIPWAY_STORE_IS_THE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := Command(ctx, "test", os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	testkit.Main(m)
}
