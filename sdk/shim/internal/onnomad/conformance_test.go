//go:build linux

package onnomad

import (
	"log/slog"
	"os"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// TestConformance holds processes over alloc exec to the contract. The plugin is a process of its own, so that it can be killed; the agent lives on.
func TestConformance(t *testing.T) {
	a := startAgent(t, nomadtest.Options{Dev: true})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	drivers(t, a, func(t *testing.T, driver string) {
		target := conformance.Command(conformance.Program{
			Path: self, Env: map[string]string{pluginEnv: "1", "PATH": os.Getenv("PATH")},
			Plugin: sdk.Block{Name: "onnomad"}, Workers: []sdk.Block{block(settings(t, a, driver))},
			Launch: launch.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))},
		})
		// Cases for Linux change /etc as root. Where a container has no root of its own, that is this machine's.
		if target.Linux = driver == nomadtest.Exec; target.Linux {
			ownRoot(t, settings(t, a, driver))
		}
		conformance.Run(t, target, conformance.Options{Short: true, Only: groups, Skip: skipped(driver), TimeScale: 4})
	})
}

// groups are the cases about processes: starting, exits, output and stdin, terminals, signals, acknowledgements, recovery and limits. Volumes
// and containers are the proving runtime's own, of which nothing is shown.
var groups = []string{"P*", "X*", "I*", "T*", "S*", "A*", "R*", "L*"}

// skipped are the cases that cannot be seen on a driver. With raw_exec nothing has a root of its own, so that those for Linux do not run either.
func skipped(driver string) []string {
	if driver == nomadtest.Exec {
		return nil
	}
	return []string{
		"P03-exec-bad", "P19-dir", "P20-start-once", "I02-binary-safe", "R01-kill-idle", // they mount a volume
		"A09-churn", // it counts the open files of all processes in /proc, which are the machine's
	}
}

// ownRoot ends the test unless a container's root is another than this machine's.
func ownRoot(t *testing.T, c config) {
	t.Helper()
	b := newBox(t, c)
	for _, path := range []string{c.State, c.Allocs} { // they are there on the machine
		if r := b.run(sh(`[ -e "$0" ] && echo there || echo not there`, path)); r.stdout != "not there\n" || r.exit.Code != 0 {
			t.Fatalf("a container sees %s of this machine: %q, exit %+v: no case may run as root in it", path, r.stdout, r.exit)
		}
	}
}
