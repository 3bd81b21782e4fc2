//go:build linux

package nomadtest

import (
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
