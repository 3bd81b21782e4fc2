//go:build linux

package onnomad

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
)

// TestNoVolumes has steps with inputs or outputs on workers that have no volumes. They are told by name what is missing, before anything is in the cluster for them;
// a step without runs.
func TestNoVolumes(t *testing.T) {
	testkit.Soak(t, "an agent of its own; what the plugin alone answers is the gate's")
	a := nomadtest.Start(t, nomadtest.Options{Dev: true})
	exec := settings(a, nomadtest.Exec)
	for name, test := range map[string]struct {
		c     nomad.Config
		words []string
	}{
		"no store": {settings(a, nomadtest.RawExec), []string{"no store of volumes", "inputs or outputs", "block store"}},
		"exec":     {exec, []string{"the driver exec mounts no volumes", "inputs or outputs", "docker"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.c.Driver == nomadtest.Exec && !a.HasExec() {
				testkit.Lacking(t, "control groups, which Nomad's driver exec needs")
			}
			unchanged(t, a)
			h := openHost(t, hcl(t, test.c), 1)
			before := registered(t, a)
			dir := t.TempDir()
			write(t, filepath.Join(dir, "in.txt"), "content\n")
			for what, text := range map[string]string{
				"an input":  "input \"text\" {}\n step \"s\" {\n inputs = { text = input.text }",
				"an output": "step \"s\" {\n outputs = [\"made\"]",
			} {
				inputs := map[string]string{}
				if what == "an input" {
					inputs["text"] = dir
				}
				s := runStep(t, h, text, inputs)
				if s.State != host.StepErrored {
					t.Errorf("a step with %s %s: %v; want it to be errored", what, s.State, s.Err)
					continue
				}
				for _, w := range append([]string{"no compatible worker"}, test.words...) {
					if !strings.Contains(s.Err.Error(), w) {
						t.Errorf("a step with %s: %v; want it to say %q", what, s.Err, w)
					}
				}
			}
			if now := registered(t, a); !slices.Equal(now, before) {
				t.Errorf("in the cluster there were the jobs %q, and then %q", before, now)
			}
			if test.c.Driver == nomadtest.Exec {
				return // in whose chroot there is no shim at shim_path
			}
			if s := runStep(t, h, `step "s" {`, nil); s.State != host.StepSucceeded {
				t.Errorf("a step without either %s: %v", s.State, s.Err)
			}
		})
	}
}

// runStep runs a job of one step, of which text is all but what it runs, and gives its result.
func runStep(t *testing.T, h *host.Host, text string, inputs map[string]string) host.StepResult {
	t.Helper()
	j, diags := job.Parse(fmt.Appendf(nil, "job \"j\" {\n%s\n run {\n path = \"true\"\n }\n }\n}\n", text), "j.hcl")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	result, err := h.Run(testkit.Context(t), host.RunRequest{Job: j, Inputs: inputs})
	if err != nil || len(result.Steps) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	return result.Steps[0]
}
