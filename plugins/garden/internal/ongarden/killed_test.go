//go:build linux

package ongarden

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// TestKilledHost kills slipway, and its plugin with it, in the middle of a step. The step does not notice; a second slipway goes on with it, and has all that it
// wrote, each line once.
func TestKilledHost(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "slipway.hcl"), gardenHCL(worker{name: "here", garden: settings(t, servers)}))
	const lines = 400
	write(t, filepath.Join(dir, "job.hcl"), fmt.Sprintf(`
job "counting" {
  step "count" {
    outputs = ["out"]
    run {
      path = "sh"
      args = ["-ec", "echo begun >> out/begun; for i in $(seq 1 %d); do echo line $i; usleep 5000; done; until [ -e out/go ]; do usleep 10000; done"]
    }
  }
  output "out" { from = step.count.out }
}
`, lines))
	args := []string{"-c", filepath.Join(dir, "slipway.hcl"), "run", filepath.Join(dir, "job.hcl"), "--state", filepath.Join(dir, "state"), "--id", "a",
		"-o", "out=" + filepath.Join(dir, "out")}
	first := startSlipway(t, args...)
	first.await("count | line 20\n")
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.wait(-1)

	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "count | line %d\n", i+1)
	}
	second := startSlipway(t, args...)
	second.await("count | line 20\n")
	begun, err := filepath.Glob(filepath.Join(servers.VolumesDir(), "live", "*", "volume", "begun"))
	if err != nil || len(begun) != 1 {
		t.Fatalf("the step's output is at %q, %v", begun, err)
	}
	write(t, filepath.Join(filepath.Dir(begun[0]), "go"), "") // not before: it has not ended when the first is killed
	if got := second.wait(0); got != want.String() {
		t.Errorf("the second slipway prints\n%s", got)
	}
	if got := readFile(t, dir, "out", "begun"); got != "begun\n" {
		t.Errorf("the step ran %d times", strings.Count(got, "\n"))
	}
	if got := startSlipway(t, "logs", "a", "--state", filepath.Join(dir, "state")).wait(0); got != want.String() {
		t.Errorf("its log is\n%s", got)
	}
	nothingLeft(t, servers)
}
