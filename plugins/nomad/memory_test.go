//go:build linux

package nomad

import (
	"context"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// testMemory has processes take more memory than their container has. The one that does is told apart from one that was killed, and the container goes on; where it
// is the container's keeper that the kernel ends, all of it is lost.
func testMemory(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	_, n := open(t, a, onDocker(a), nil)
	if s := healthy(ctx, t, n); !s.Has(sdk.FeatureExitOOM) || !s.Has(sdk.FeatureLimitsMemory) {
		t.Fatalf("features %q", s.Features)
	}
	const eat = "exec dd if=/dev/zero of=/dev/null bs=512M count=1"
	spec := sdk.ContainerSpec{ID: "eaten", Token: "t", Limits: sdk.Resources{MemoryBytes: 32 << 20}}
	if err := n.CreateContainer(ctx, spec, nil); err != nil {
		t.Fatal(err)
	}
	run := func(id, script string) *sdk.Exit {
		t.Helper()
		p := sdk.ProcessSpec{ID: sdk.ProcessID(id), Token: "t", Path: "/bin/sh", Args: []string{"-c", script}}
		if err := n.StartProcess(ctx, spec.ID, p); err != nil {
			t.Fatal(err)
		}
		var exit *sdk.Exit
		if err := n.FollowProcess(ctx, spec.ID, p.ID, 0, sdk.Follow{Exit: func(e sdk.Exit) error { exit = &e; return nil }}); err != nil {
			t.Fatal(err)
		}
		return exit
	}
	if e := run("much", eat); e.Reason != sdk.ExitOOM || e.Code == 0 || e.Message == "" {
		t.Errorf("exit %+v of a process that took more memory than there is", e)
	}
	if e := run("killed", "kill -KILL $$"); e.Reason != sdk.ExitSignalled || e.Signal != sdk.KILL {
		t.Errorf("exit %+v of one that was killed", e)
	}
	if e := run("little", "exit 3"); e.Reason != sdk.ExitExited || e.Code != 3 {
		t.Errorf("exit %+v of one after it", e)
	}
	if err := n.DestroyContainer(ctx, spec.ID); err != nil {
		t.Error(err)
	}
	// Root of a container owns its keeper, and can have the kernel take that first.
	spec.ID = "starved"
	endsLost(t, a, []*node{n}, spec, "echo 1000 >/proc/1/oom_score_adj; echo 0 >/proc/self/oom_score_adj; echo begun; "+eat,
		func(context.Context, *api.Allocation) error { return nil }, []string{"Terminated", "137"})
}
