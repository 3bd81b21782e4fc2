package keeper

import (
	"os"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestMain runs the tests, or is a keeper that one of them kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	testkit.Main(m)
}
