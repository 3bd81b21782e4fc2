//go:build linux

package onnomad

import (
	"context"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
)

// TestAway takes an agent away, in order and by force, and starts it again: what was made is there.
func TestAway(t *testing.T) {
	testkit.Soak(t, "an agent of its own")
	a := nomadtest.Start(t, nomadtest.Options{HostVolumes: []string{"slipway"}})
	c := settings(a, nomadtest.RawExec)
	c.Store = &nomad.StoreConfig{HostVolume: "slipway", Path: program("slipway-store"), CPU: 50}
	rt := open(t, c)
	healthy(t, workerOn(t, rt, a))
	for name, end := range map[string]func(context.Context) error{
		"stopped": a.Stop,
		"killed":  func(context.Context) error { a.Kill(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			target := conformance.InProcess(rt, nameOf(a))
			target.Away = func(ctx context.Context) (func() error, error) {
				return func() error { return a.Restart(testkit.Context(t)) }, end(ctx)
			}
			conformance.Run(t, target, conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Only: []string{"W29-*"}})
		})
	}
}
