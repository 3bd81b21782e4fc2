//go:build linux

package garden

import (
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// smoke are the cases that the gate takes: one for each thing that this plugin does on its own and not by what all plugins share, and the
// ones that say at once that something is out of order. The soak takes all.
var smoke = []string{
	"D01-create-again", "D03-other-token", "E02-unknown-ids", "K02-deadline-before", "W06-status", "W10-list-filter", "W27-list-states",
	"V06-clone-equal", "V07-clone-isolated", "V24-seal-in-use", "C01-minimal", "C07-destroy-running", "C19-mount-rw", "C20-mount-ro", "C21-mount-nested",
	"Y02-undeclared", "P02-exec-missing", "P12-cancel-leaves", "P18-env", "P20-start-once", "S01-trap",
	"F02-symlinks", "F08-owners", "F14-single-file", "F16-damaged", "F22-encodings", "F23-caller-errors", "Z02-symlink-write", "Z09-own-files", "S13-group", "T05-newlines",
}

// TestConformance holds the plugin to the contract on real servers: in this process, so that the race detector sees it in the soak.
func TestConformance(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	rt := newRuntime(t, config(t, servers))
	target := conformance.InProcess(rt, "here")
	target.Probe = conformance.LinuxProbe(t)                                           // beside busybox
	without := []conformance.Requirement{conformance.EnvCrash, conformance.EnvProgram} // which the package ongarden has
	options := conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Without: without}
	if testing.Short() {
		options.Only = smoke
	}
	conformance.Run(t, target, options)
}

// TestPeersConformance holds workers whose plugin carries what they send to the contract of peers.
func TestPeersConformance(t *testing.T) {
	workers := make(map[string]Config)
	for _, name := range []string{"here", "there"} {
		c := config(t, gardentest.Start(t, gardentest.Options{}))
		c.PeerZone, c.Peers = "zone", "plugin"
		workers[name] = c
	}
	target := conformance.InProcess(runtimeOf(t, workers), "here")
	conformance.Run(t, target, conformance.Options{Short: testing.Short(), TimeScale: 10 * testkit.TimeScale(), Profiles: []conformance.Profile{conformance.P2P}})
}
