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

	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
)

// point is a place in the host, by the name that it is marked with there, and the time that it is come by.
type point struct {
	name string
	nth  int
}

// points are those of the host's own proof on memory, around create, stream, clone, start, output, exit, seal and destroy. The gate has two
// at which the cluster knows more than the host.
func points() []point {
	if testing.Short() {
		return []point{{"container-made", 1}, {"start-sent", 1}}
	}
	return []point{
		{"claimed", 1}, {"volume-intent", 1}, {"volume-made", 1}, {"volume-intent", 2}, {"volume-made", 2}, {"volume-intent", 3}, {"volume-made", 3},
		{"container-intent", 1}, {"container-made", 1}, {"container-ready", 1},
		{"start-intent", 1}, {"start-send", 1}, {"start-sent", 1}, {"started", 1},
		{"output", 1}, {"output", 2}, {"exit", 1}, {"exit-stored", 1},
		{"destroy-intent", 1}, {"destroyed", 1}, {"output-sealed", 1}, {"output-registered", 1}, {"step-kept", 1},
		{"claimed", 2}, {"volume-intent", 4}, {"volume-made", 4}, {"container-made", 2}, {"start-send", 2}, {"exit-stored", 2}, {"destroyed", 2},
		{"output-placing", 1}, {"output-placed", 1},
	}
}

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
	for _, at := range points() {
		t.Run(fmt.Sprintf("%s-%d", at.name, at.nth), func(t *testing.T) { killedAt(t, a, config, at) })
	}
}

func killedAt(t *testing.T, a *nomadtest.Agent, config string, at point) {
	unchanged(t, a)
	before := registered(t, a)
	dir := t.TempDir()
	runs := filepath.Join(dir, "runs")
	check(t, os.Mkdir(filepath.Join(dir, "input"), 0o755))
	write(t, filepath.Join(dir, "slipway.hcl"), config)
	write(t, filepath.Join(dir, "input", "in.txt"), "content\n")
	write(t, runs, "")
	spec := hostSpec{
		Config: filepath.Join(dir, "slipway.hcl"), State: filepath.Join(dir, "state"), Run: "points", Job: fmt.Sprintf(pointsJob, runs),
		Input: filepath.Join(dir, "input"), Output: filepath.Join(dir, "out"), Point: at.name, Nth: at.nth,
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
	var want strings.Builder
	fmt.Fprintln(&want, id)
	for i := range 200 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	want.WriteString("done\n")
	if res.Output != want.String() {
		t.Errorf("output of %d bytes, want %d: %.200q", len(res.Output), want.Len(), res.Output)
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
