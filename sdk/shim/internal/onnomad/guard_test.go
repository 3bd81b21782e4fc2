//go:build linux

package onnomad

import (
	"testing"

	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
)

// testOwnRoot is what cases that act as root in a container rest on: the look finds the machine where it is there to be found.
func testOwnRoot(t *testing.T, a *nomadtest.Agent) {
	drivers(t, a, func(t *testing.T, driver string) {
		want := driver == nomadtest.RawExec
		if got := newBox(t, settings(t, a, driver)).seesMachine(); got != want {
			t.Errorf("a container sees this machine: %v, want %v", got, want)
		}
	})
}
