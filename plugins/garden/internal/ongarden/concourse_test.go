//go:build linux

package ongarden

import (
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// onConcourse says why tests on Concourse's backend are left to the soak.
const onConcourse = "the gate neither downloads nor builds Concourse's backend; runcgarden has its manners"

// TestConcourse holds the plugin to the contract on the Garden server of a Concourse worker, as a host runs it.
func TestConcourse(t *testing.T) {
	testkit.Soak(t, onConcourse)
	servers := gardentest.Start(t, gardentest.Options{Concourse: true})
	target := pluginProgram(t, settings(t, servers))
	target.Probe = conformance.LinuxProbe(t)
	conformance.Run(t, target, conformance.Options{
		Short: true, TimeScale: 10 * testkit.TimeScale(), Profiles: usual(),
	})
}

// TestConcourseJob runs a job whose steps are on two workers, each the Garden server of a Concourse worker with a Baggageclaim.
func TestConcourseJob(t *testing.T) {
	testkit.Soak(t, onConcourse)
	pairOfSteps(t, gardentest.Options{Concourse: true})
}
