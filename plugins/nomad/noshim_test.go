//go:build linux

package nomad

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// testNoShim has nodes look for the shim where it is not: on the node, and for exec in the chroot, where it is not although the node has it. The worker says so, and
// steps go to others.
func testNoShim(t *testing.T, a *nomadtest.Agent, drivers ...string) {
	ctx := testkit.Context(t)
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			c, path := config(a), "/nowhere/slipway-shim"
			switch driver {
			case "docker":
				c.Image = nomadtest.Image
			case "exec":
				path = program(shimProgram)
				if !a.HasExec() {
					testkit.Lacking(t, "control groups, which Nomad's driver exec needs")
				}
			}
			c.Driver, c.ShimPath = driver, path
			_, n := open(t, a, c, nil)
			err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: "no-shim", Token: "t"}, nil)
			if !errors.Is(err, sdk.Unsupported) || !errors.Is(err, sdk.ReasonConfig) {
				t.Errorf("%v, want unsupported (config)", err)
			}
			for _, w := range []string{"shim_path", path, short(a.NodeID()), driver, "Driver Failure"} {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("%v; want it to say %q", err, w)
				}
			}
			if _, err := n.lookup(ctx, "no-shim"); !sdk.IsNotFound(err, sdk.KindContainer) {
				t.Errorf("its job is left: %v", err)
			}
			degraded(ctx, t, n, "shim_path", path)
		})
	}
}
