//go:build linux

package nomad

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
)

// TestDocker has one agent with a real Docker for all that needs one.
func TestDocker(t *testing.T) {
	testkit.Soak(t, "the other driver")
	a := nomadtest.Start(t, nomadtest.Options{Dev: true, Docker: true, Privileged: true, HostVolumes: []string{hostVolume}})
	t.Run("conformance", func(t *testing.T) { testConformance(t, a) })
	t.Run("memory", func(t *testing.T) { testMemory(t, a) })
	t.Run("no shim", func(t *testing.T) { testNoShim(t, a, "docker") })
	t.Run("pull", func(t *testing.T) { testPull(t, a) })
	t.Run("remains", func(t *testing.T) { testRemains(t, a) })
	t.Run("program", func(t *testing.T) { testProgram(t, a) })
	t.Run("mixed", func(t *testing.T) { testMixed(t, a) })
}

// testConformance holds the plugin to the contract in this process, so that the race detector sees it. Nodes fetch what they need. What processes do once
// they are started is the shim's alone, and held to the contract on Nomad in sdk/shim/internal/onnomad: here it would only take its time.
func testConformance(t *testing.T, a *nomadtest.Agent) {
	c, lis := fetching(t, onDocker(a))
	rt, n := open(t, a, c, lis)
	ctx := testkit.Context(t)
	healthy(ctx, t, n) // then all that it can is known
	target := conformance.InProcess(rt, n.name)
	target.Probe = conformance.LinuxProbe(t) // beside busybox
	target.Given = conformance.Given{ImageRef: "slipway.test/marked:1", ImageFile: "/marked"}
	var image bytes.Buffer
	if err := nomadtest.BusyboxArchive(&image, map[string]string{target.Given.ImageFile: "by the image"}); err != nil {
		t.Fatal(err)
	}
	if err := a.ImportImage(ctx, target.Given.ImageRef, &image); err != nil {
		t.Fatal(err)
	}
	without := []conformance.Requirement{conformance.EnvCrash, conformance.EnvProgram} // which testProgram has
	skip := []string{
		"I*", "A*", "S*", "X*", "T*", "P*", "L*", "K*", // of processes
		"C35-*", "W10-*", "W22-*", "W25-*", "W26-*", // many containers at once
	}
	if !hasAllCapabilities(t) {
		skip = append(skip, "Y08-*") // Docker gives privileged containers all there are, and is refused that here
	}
	conformance.Run(t, target, conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Without: without, Skip: skip})
}

// hasAllCapabilities tells whether the machine may give a process all capabilities of its kernel: inside of some containers it may not.
func hasAllCapabilities(t *testing.T) bool {
	t.Helper()
	last, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(last)))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(own), "CapBnd:")
	line, _, _ := strings.Cut(after, "\n")
	bound, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return bound == 1<<(n+1)-1
}
