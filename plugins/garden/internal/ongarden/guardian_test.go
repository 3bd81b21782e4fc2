//go:build linux

package ongarden

import (
	"bytes"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// onGuardian says why tests on guardian are left to the soak.
const onGuardian = "the gate neither downloads nor builds guardian; runcgarden has its manners"

// TestGuardian holds the plugin to the contract on guardian itself, as a host runs it.
func TestGuardian(t *testing.T) {
	testkit.Soak(t, onGuardian)
	servers := gardentest.Start(t, gardentest.Options{Guardian: true})
	target := pluginProgram(t, settings(t, servers))
	target.Probe = conformance.LinuxProbe(t)
	conformance.Run(t, target, conformance.Options{
		Short: true, TimeScale: 10 * testkit.TimeScale(), Profiles: usual(),
	})
}

// usual are the profiles that are taken on real servers.
func usual() []conformance.Profile {
	return []conformance.Profile{
		conformance.Core, conformance.Linux, conformance.Wire, conformance.Streaming, conformance.Isolation, conformance.Recovery, conformance.P2P,
	}
}

// tagged gives each worker of a configuration its name as its tag.
func tagged(hcl string) string {
	return regexp.MustCompile(`worker "(.*)" \{`).ReplaceAllString(hcl, "worker \"$1\" {\n  tags = [\"$1\"]")
}

// TestGuardianJob runs a job whose steps are on two workers, each a guardian with a Baggageclaim: what the first makes the second reads.
func TestGuardianJob(t *testing.T) {
	testkit.Soak(t, onGuardian)
	pairOfSteps(t, gardentest.Options{Guardian: true})
}

func pairOfSteps(t *testing.T, o gardentest.Options) {
	t.Helper()
	one, two := gardentest.Start(t, o), gardentest.Start(t, o)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "slipway.hcl"), tagged(gardenHCL(worker{name: "one", garden: settings(t, one)}, worker{name: "two", garden: settings(t, two)})))
	write(t, filepath.Join(dir, "job.hcl"), `
job "pair" {
  step "make" {
    tags    = ["one"]
    outputs = ["made"]
    run {
      path = "sh"
      args = ["-ec", "head -c 1000000 /dev/urandom > made/f; sha256sum made/f > made/sum; hostname > made/host"]
    }
  }
  step "check" {
    tags    = ["two"]
    inputs  = { made = step.make.made }
    outputs = ["seen"]
    run {
      path = "sh"
      args = ["-ec", "sha256sum -c made/sum; cp made/f seen; id -u"]
    }
  }
  output "made" { from = step.make.made }
  output "seen" { from = step.check.seen }
}
`)
	out := startSlipway(t, "-c", filepath.Join(dir, "slipway.hcl"), "run", filepath.Join(dir, "job.hcl"), "--state", filepath.Join(dir, "state"),
		"-o", "made="+filepath.Join(dir, "made"), "-o", "seen="+filepath.Join(dir, "seen")).wait(0)
	if out != "check | made/f: OK\ncheck | 0\n" {
		t.Errorf("it says %q", out)
	}
	if !bytes.Equal([]byte(readFile(t, dir, "made", "f")), []byte(readFile(t, dir, "seen", "f"))) {
		t.Error("what the second step read is not what the first wrote")
	}
	nothingLeft(t, one)
	nothingLeft(t, two)
}
