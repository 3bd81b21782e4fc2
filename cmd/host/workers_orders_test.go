//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

const trueJob = `job "j" {
  step "s" {
    run { path = "true" }
  }
  step "gpu" {
    tags = ["gpu"]
    run { path = "true" }
  }
}
`

// TestWorkerOrders tells a worker what to do, and steps why it does not take them: over several commands on one state directory, as an
// operator does.
func TestWorkerOrders(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"job.hcl": trueJob})
	p.run("workers", "cordon", "memory").wants(codeUsage).says("needs --state DIR")
	p.run("--state", "st", "workers", "cordon", "mamory").wants(codeUsage).says(`there is no worker "mamory": those that this host knows are memory`)
	p.run("--state", "st", "workers", "nonsense").wants(codeUsage).says(`there is no command "nonsense"`)
	p.run("--state", "st", "workers", "cordon", "memory", "--reason", "a new disk").wants(0).prints("")

	var workers []struct{ State, Health, Reason string }
	if err := json.Unmarshal([]byte(p.run("--state", "st", "workers", "-o", "json").wants(0).out), &workers); err != nil {
		t.Fatal(err)
	}
	if len(workers) != 1 || workers[0].State != "cordoned" || workers[0].Health != "healthy" || workers[0].Reason != "a new disk" {
		t.Errorf("workers: %+v", workers)
	}
	p.run("--state", "st", "run", "job.hcl", "--id", "r1").wants(codeInternal).says("no compatible worker", "memory: cordoned, a new disk")
	for _, want := range []string{"step s: cannot run: no worker takes it", "memory  no        cordoned, a new disk"} {
		if r := p.run("--state", "st", "explain", "job.hcl", "s").wants(codeInternal); !strings.Contains(r.out, want) {
			t.Errorf("explain does not tell %q:\n%s", want, r.out)
		}
	}

	p.run("--state", "st", "workers", "land", "memory").wants(0)
	if r := p.run("--state", "st", "workers").wants(0); !strings.Contains(r.out, "memory  landed") {
		t.Errorf("workers after landing:\n%s", r.out)
	}
	p.run("--state", "st", "workers", "uncordon", "memory").wants(0)
	if r := p.run("--state", "st", "explain", "job.hcl").wants(codeInternal); !strings.Contains(r.out, "step s: would run on worker memory") ||
		!strings.Contains(r.out, "lacks gpu") {
		t.Errorf("explain:\n%s", r.out)
	}
	p.run("--state", "st", "run", "job.hcl", "--id", "r2").wants(codeInternal).says("gpu", "lacks gpu")
	var steps []jsonExplained
	if err := json.Unmarshal([]byte(p.run("--state", "st", "explain", "r2", "-o", "json").wants(0).out), &steps); err != nil {
		t.Fatal(err)
	}
	if len(steps) != 1 || steps[0].Step != "s" || steps[0].State != "placed" || steps[0].Worker != "memory" || len(steps[0].Scores) != 2 {
		t.Errorf("explain of a run: %+v", steps)
	}
	p.run("--state", "st", "explain", "r2", "gpu").wants(codeUsage).says("run r2 has no step gpu: it has s")
	p.run("--state", "st", "explain", "r3").wants(codeUsage).says("there is no run r3")
}

// TestUncordonWithoutAWorker: what a worker was told is taken back also while the configuration has it not, and whoever does so learns that it takes no work.
func TestUncordonWithoutAWorker(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	plugin := "plugin \"memory\" {\n  command = \"slipway-memory\"\n  config { world = \"unix:" + p.world() + "\" }\n}\n"
	p.write(map[string]string{
		"with.hcl":    plugin + "worker \"m\" { plugin = \"memory\" }\n",
		"without.hcl": plugin + "worker \"right\" { plugin = \"memory\" }\n",
		"job.hcl":     "job \"j\" {\n  step \"s\" {\n    caches = [\"c\"]\n    run { path = \"true\" }\n  }\n}\n",
	})
	p.run("--state", "st", "--config", "with.hcl", "run", "job.hcl").wants(0)
	p.run("--state", "st", "--config", "with.hcl", "workers", "cordon", "m").wants(0)
	p.run("--state", "st", "--config", "without.hcl", "workers", "cordon", "m").wants(codeUsage).says(`the configuration has no worker "m"`)
	p.run("--state", "st", "--config", "without.hcl", "workers", "uncordon", "m").wants(0).
		says("it takes no new work yet: the configuration has no worker of this name", "put it back")
	if r := p.run("--state", "st", "--config", "with.hcl", "workers").wants(0); !strings.Contains(r.out, "m       healthy") {
		t.Errorf("workers:\n%s", r.out)
	}
}
