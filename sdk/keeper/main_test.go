package keeper

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or is a keeper that one of them kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	goleak.VerifyTestMain(m)
}
