package memory

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

func TestMain(m *testing.M) {
	if worker := os.Getenv(callEnv); worker != "" {
		callOnce(worker)
		return
	}
	if os.Getenv(worldEnv) == "" {
		testkit.Main(m)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := WorldCommand(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
