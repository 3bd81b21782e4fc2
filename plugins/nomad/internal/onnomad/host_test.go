//go:build linux

package onnomad

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/hostproof"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
)

// hostVolume is where nodes keep volumes.
const hostVolume = "slipway"

// withStore are settings whose containers are processes of the machine, and whose volumes are kept in hostVolume.
func withStore(a *nomadtest.Agent) nomad.Config {
	c := settings(a, nomadtest.RawExec)
	c.Store = &nomad.StoreConfig{HostVolume: hostVolume, Path: program("slipway-store"), CPU: 50}
	return c
}

// hcl is the text of a host's configuration with one block, "pool", of those settings.
func hcl(t testing.TB, c nomad.Config) string {
	t.Helper()
	check(t, hostPrograms())
	var text strings.Builder
	fmt.Fprintf(&text, "plugin \"nomad\" { command = %q }\nworker \"pool\" {\n  plugin = \"nomad\"\n  config {\n", program("slipway-nomad"))
	fmt.Fprintf(&text, "    address = %q\n    driver = %q\n    shim_path = %q\n    cpu = %d\n    memory = \"%dMiB\"\n    rate = %d\n",
		c.Address, c.Driver, c.ShimPath, c.CPU, c.Memory>>20, c.Rate)
	for _, name := range []string{"place_timeout", "start_timeout", "request_timeout"} {
		fmt.Fprintf(&text, "    %s = %q\n", name, time.Duration(patient))
	}
	if c.Store != nil {
		fmt.Fprintf(&text, "    store {\n      host_volume = %q\n      path = %q\n      cpu = %d\n    }\n", c.Store.HostVolume, c.Store.Path, c.Store.CPU)
	}
	text.WriteString("  }\n}\n")
	return text.String()
}

// runHost runs a host in a process of its own, and its plugin with it, to its end, and tells whether it was killed.
func runHost(t *testing.T, spec hostproof.Spec) (res hostproof.Result, killed bool) {
	t.Helper()
	check(t, hostPrograms())
	return hostproof.Start(t, program("host.test"), spec).Wait(t)
}

// registered gives the jobs of containers that were ever registered in the cluster, as often as they were. Looks at what a node can do are left out.
func registered(t *testing.T, a *nomadtest.Agent) []string {
	t.Helper()
	evals, _, err := a.Client().Evaluations().List((&api.QueryOptions{}).WithContext(testkit.Context(t)))
	check(t, err)
	var all []string
	for _, e := range evals {
		if e.TriggeredBy == "job-register" && strings.HasPrefix(e.JobID, "slipway-") && !strings.HasPrefix(e.JobID, "slipway-probe-") {
			all = append(all, e.JobID)
		}
	}
	slices.Sort(all)
	return all
}

// volumesOn are those that the store of an agent's node keeps.
func volumesOn(t testing.TB, a *nomadtest.Agent) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(a.HostVolume(hostVolume), "volumes"))
	check(t, err)
	names := []string{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") { // the store's own
			names = append(names, e.Name())
		}
	}
	return names
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	check(t, err)
	return string(text)
}
