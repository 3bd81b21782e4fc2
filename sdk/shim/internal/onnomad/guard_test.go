//go:build linux

package onnomad

import (
	"testing"

	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
)

// TestOwnRoot is what cases that act as root in a container rest on.
func TestOwnRoot(t *testing.T) {
	a := startAgent(t, nomadtest.Options{Dev: true})
	if !a.HasExec() {
		t.Skip("Nomad has no exec driver here")
	}
	ownRoot(t, settings(t, a, nomadtest.Exec))
}
