//go:build linux

package nomad

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// testRaw has raw_exec mount volumes. What its containers have of the machine besides is not isolated, and no case of that runs.
func testRaw(t *testing.T, a *nomadtest.Agent, c Config) {
	rt, n := open(t, a, c, nil)
	ctx := testkit.Context(t)
	if s := healthy(ctx, t, n); !s.Has(sdk.FeatureImageVolume) {
		t.Errorf("features %v, without %s", s.Features, sdk.FeatureImageVolume)
	}
	target := conformance.InProcess(rt, n.name)
	target.Probe = conformance.LinuxProbe(t)
	conformance.Run(t, target, conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Only: []string{
		"C17-*", "C19-*", "C20-*", "C21-*", "C27-*", // of mounts and images
		"V18-*", "V23-*", "V24-*", "F33-*", // of volumes, from inside
	}})
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), a.HostVolume(hostVolume)) {
		t.Errorf("%v; the machine sees mounts of volumes: %s", err, mounts)
	}
}

// testNoMounts has shims that may mount nothing, and drivers that do not: workers say so, and run what needs no volumes.
func testNoMounts(t *testing.T, a *nomadtest.Agent, c Config) {
	ctx := testkit.Context(t)
	powerless := filepath.Join(t.TempDir(), "shim")
	script := "#!/bin/sh\nexec setpriv --bounding-set -sys_admin " + program(shimProgram) + ` "$@"` + "\n"
	if err := os.WriteFile(powerless, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Run("a shim that may not mount", func(t *testing.T) {
		c := c
		c.ShimPath = powerless
		_, n := open(t, a, c, nil)
		testkit.Until(t, "a look has succeeded", func() bool { _, err := n.able(ctx); return err == nil })
		degraded(ctx, t, n, "CAP_SYS_ADMIN", short(a.NodeID()))
		refused(ctx, t, n, "CAP_SYS_ADMIN")
		if err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: "none", Token: "t"}, nil); err != nil {
			t.Errorf("without volumes: %v", err)
		}
		if err := n.DestroyContainer(ctx, "none"); err != nil {
			t.Error(err)
		}
	})
	t.Run("exec", func(t *testing.T) {
		c, s := c, *c.Store
		c.Driver, c.Store, s.Driver = "exec", &s, "raw_exec"
		_, n := open(t, a, c, nil)
		refused(ctx, t, n, "driver exec", "docker")
		c.Store = nil
		_, n = open(t, a, c, nil)
		refused(ctx, t, n, "driver exec", "docker")
	})
}

// refused is what volumes must be on a worker, for a reason with these words.
func refused(ctx context.Context, t *testing.T, n *node, words ...string) {
	t.Helper()
	if s, err := n.Status(ctx); err != nil || s.Has(sdk.FeatureImageVolume) {
		t.Errorf("%+v, %v; it must not have %s", s, err, sdk.FeatureImageVolume)
	}
	err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: "t", Image: sdk.Image{Volume: "v"}}, nil)
	if !errors.Is(err, sdk.Unsupported) {
		t.Errorf("an image: %v, want unsupported", err)
	}
	mount := n.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: "t", Mounts: []sdk.Mount{{Volume: "v", Path: "/v"}}}, nil)
	errs := map[string]error{"a mount": mount}
	if n.pool.c.Driver == "exec" || n.pool.c.Store == nil { // before anything is streamed there
		errs["a volume"] = n.CreateVolume(ctx, sdk.VolumeSpec{ID: "w", Token: "t"})
	}
	for what, err := range errs {
		if !errors.Is(err, sdk.Unsupported) {
			t.Errorf("%s: %v, want unsupported", what, err)
			continue
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want it to say %q", what, err, w)
			}
		}
	}
}
