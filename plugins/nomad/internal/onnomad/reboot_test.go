//go:build linux

package onnomad

import (
	"context"
	"errors"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// TestReboot has a node's machine rebooted while a step runs there. Nomad begins the container's task anew, in the allocation that it has: nothing may run in
// that, or the step would run twice.
func TestReboot(t *testing.T) {
	testkit.Soak(t, "an agent of its own")
	a := nomadtest.Start(t, nomadtest.Options{})
	for name, lost := range map[string][]string{"all-kept": nil, "allocations-lost": {"data/alloc"}} { // which are on a disk that does not outlive the machine
		t.Run(name, func(t *testing.T) { testReboot(t, a, name, lost) })
	}
}

func testReboot(t *testing.T, a *nomadtest.Agent, name string, lost []string) {
	unchanged(t, a)
	ctx := testkit.Context(t)
	c := settings(a, nomadtest.RawExec)
	w := workerOn(t, open(t, c), a)
	id := makeContainer(t, w, name)
	p := sh("p", "echo run; exec sleep 1000")
	if err := w.StartProcess(ctx, id, p); err != nil {
		t.Fatal(err)
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	if _, _, err := follow(following, w, id, p.ID, 0, func(string) { stop() }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := a.Reboot(ctx, lost...); err != nil {
		t.Fatal(err)
	}
	for who, w := range map[string]sdk.Worker{"the same plugin": w, "another": workerOn(t, open(t, c), a)} {
		says(t, settled(ctx, func() error { return w.StartProcess(ctx, id, p) }), sdk.FailedPrecondition, sdk.ReasonDead)
		says(t, settled(ctx, func() error { _, err := w.ListProcesses(ctx, id); return err }), sdk.FailedPrecondition, sdk.ReasonRecordLost)
		if c, err := listed(ctx, w, id); err != nil || c.State != sdk.ContainerGone || c.Reason == "" {
			t.Errorf("%s: it is listed as %+v, error %v", who, c, err)
		}
	}
}
