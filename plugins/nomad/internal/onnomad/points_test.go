//go:build linux

package onnomad

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/internal/hostproof"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
)

// pointsJob has each run of a step make an id that no other has. It is in a file of the machine, which no run can take away, and in the step's output.
const pointsJob = `
job "points" {
  input "text" {}
  step "work" {
    inputs  = { text = input.text }
    outputs = ["made"]
    run {
      path = "sh"
      args = ["-ec", "read id < /proc/sys/kernel/random/uuid; echo $id >> %[1]s; echo $id > made/began; echo $id; for i in $(seq 1 200); do echo line $i; sleep 0.002; done; cat text/in.txt > made/out.txt; echo done"]
    }
  }
  step "after" {
    inputs  = { made = step.work.made }
    outputs = ["copy"]
    run {
      path = "sh"
      args = ["-ec", "echo after >> %[1]s; cp made/out.txt made/began copy"]
    }
  }
  output "copy" { from = step.after.copy }
}
`

// TestHostKilledAtEveryPoint kills a host with SIGKILL, and its plugin with it, at each point around create, stream, clone, start, output, exit,
// seal and destroy; in the gate at a few. A second host on the same state directory brings the same run to its end: each step had one container
// and ran once, no byte of its output is lost or doubled, and nothing is left in the cluster.
func TestHostKilledAtEveryPoint(t *testing.T) {
	var building errgroup.Group
	building.Go(hostPrograms) // while the agent starts
	defer func() { _ = building.Wait() }()
	a := nomadtest.Start(t, nomadtest.Options{Dev: true, HostVolumes: []string{hostVolume}})
	check(t, building.Wait())
	c := withStore(a)
	healthy(t, workerOn(t, open(t, c), a)) // the store is up: its job stays
	config := hcl(t, c)
	for _, at := range hostproof.Points() {
		t.Run(at.String(), func(t *testing.T) { killedAt(t, a, config, at) })
	}
}

func killedAt(t *testing.T, a *nomadtest.Agent, config string, at hostproof.Point) {
	unchanged(t, a)
	before := registered(t, a)
	dir := t.TempDir()
	runs := filepath.Join(dir, "runs")
	check(t, os.Mkdir(filepath.Join(dir, "input"), 0o755))
	write(t, filepath.Join(dir, "slipway.hcl"), config)
	write(t, filepath.Join(dir, "input", "in.txt"), "content\n")
	write(t, runs, "")
	spec := hostproof.Spec{
		Config: filepath.Join(dir, "slipway.hcl"), State: filepath.Join(dir, "state"), Run: "points", Job: fmt.Sprintf(pointsJob, runs),
		Input: filepath.Join(dir, "input"), Output: filepath.Join(dir, "out"), Point: at.Name, Nth: at.Nth,
	}
	if res, killed := runHost(t, spec); !killed {
		t.Fatalf("the point was not reached: %+v", res)
	}
	spec.Point = ""
	res, _ := runHost(t, spec)
	if res.Err != "" || res.Steps["work"] != "succeeded" || res.Steps["after"] != "succeeded" {
		t.Fatalf("the second host: %+v", res)
	}
	id := strings.TrimSpace(readFile(t, spec.Output, "began"))
	if want := hostproof.Lines(id + "\n"); res.Output != want {
		t.Errorf("output of %d bytes, want %d: %.200q", len(res.Output), len(want), res.Output)
	}
	if out := readFile(t, spec.Output, "out.txt"); out != "content\n" {
		t.Errorf("the output file has %q, not what the input had", out)
	}
	if ran := strings.Fields(readFile(t, runs)); !slices.Equal(ran, []string{id, "after"}) {
		t.Errorf("steps ran as %q, and %s is what came of the first", ran, id)
	}
	made := registered(t, a)
	for _, job := range before {
		if i := slices.Index(made, job); i >= 0 {
			made = slices.Delete(made, i, i+1)
		}
	}
	if len(made) != 2 || made[0] == made[1] {
		t.Errorf("two steps had the containers %q", made)
	}
	if left := volumesOn(t, a); len(left) > 0 {
		t.Errorf("volumes are left: %q", left)
	}
}
