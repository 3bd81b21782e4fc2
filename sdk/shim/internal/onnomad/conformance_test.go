//go:build linux

package onnomad

import (
	"log/slog"
	"os"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// TestAgent has one agent for all that the gate asks of Nomad.
func TestAgent(t *testing.T) {
	a := startAgent(t, nomadtest.Options{Dev: true})
	t.Run("own root", func(t *testing.T) { testOwnRoot(t, a) })
	t.Run("conformance", func(t *testing.T) { testConformance(t, a) })
}

// testConformance holds processes over alloc exec to the contract. The plugin is a process of its own, so that it can be killed; the agent lives on.
func testConformance(t *testing.T, a *nomadtest.Agent) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	drivers(t, a, func(t *testing.T, driver string) {
		if driver != nomadtest.Exec {
			testkit.Soak(t, "the other driver")
		}
		target := conformance.Command(conformance.Program{
			Path: self, Env: map[string]string{pluginEnv: "1", "PATH": os.Getenv("PATH")},
			Plugin: sdk.Block{Name: "onnomad"}, Workers: []sdk.Block{block(settings(t, a, driver))},
			Launch: launch.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))},
		})
		// Cases of users change /etc as root. Where a container has no root of its own, that is this machine's; nor has it a place for the probe.
		if driver == nomadtest.Exec {
			ownRoot(t, settings(t, a, driver))
			target.Probe = conformance.LinuxProbe(t)
		}
		options := conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Only: groups}
		if driver == nomadtest.RawExec {
			options.Only, options.Skip, options.Without = rawGroups, rawSkipped, []conformance.Requirement{conformance.EnvProbe}
		}
		if testing.Short() {
			options.Only = smoke
		}
		conformance.Run(t, target, options)
	})
}

// smoke are the cases of the gate: one for each thing that has to cross Nomad's exec.
var smoke = []string{"P01-*", "P02-*", "X01-*", "I01-*", "T01-*", "S11-*", "A01-*", "R01-*"}

// groups are the cases about processes: starting, exits, output and stdin, terminals, signals, acknowledgements, recovery and limits. Volumes
// and containers are the proving runtime's own, of which nothing is shown.
var groups = []string{"P*", "X*", "I*", "T*", "S*", "A*", "R*", "L*"}

// rawGroups are run where nothing has a root of its own, so that those for Linux do not run: what depends on how the driver runs a command.
var rawGroups = []string{"I*", "S*", "R*"}

// rawSkipped are the cases among them that mount a volume.
var rawSkipped = []string{
	"I02-binary-safe", "R01-kill-idle", "R04-kill-destroy", "R05-kill-often", "R10-kill-sealed", "R17-kill-tokens", "R18-kill-create",
}

// ownRoot ends the test unless a container's root is another than this machine's.
func ownRoot(t *testing.T, c config) {
	t.Helper()
	if newBox(t, c).seesMachine() {
		t.Fatal("a container sees files of this machine: no case may run as root in it")
	}
}

// seesMachine looks in a container for what is there on the machine, and changes nothing.
func (b *box) seesMachine() bool {
	b.t.Helper()
	r := b.run(sh(`for p in "$@"; do [ -e "$p" ] && exit 3; done; exit 4`, "sh", b.State, b.Allocs))
	if r.exit.Code != 3 && r.exit.Code != 4 {
		b.t.Fatalf("looking for files of this machine: %q, exit %+v", r.stdout, r.exit)
	}
	return r.exit.Code == 3
}
