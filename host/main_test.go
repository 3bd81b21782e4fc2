package host

import (
	"os"
	"testing"

	"github.com/slipway-run/slipway/internal/hostproof"
	"github.com/slipway-run/slipway/internal/testkit"
)

// TestMain runs the tests, or is a process of its own for one of them.
func TestMain(m *testing.M) {
	if text := os.Getenv(hostproof.Env); text != "" {
		os.Exit(runChild(text))
	}
	if text := os.Getenv(relayEnv); text != "" {
		os.Exit(runRelay(text))
	}
	testkit.Main(m, removeBuilt)
}
