//go:build linux

package nomad

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// TestQuota has Nomad Enterprise say that a namespace's quota is used up: there may be room later, and it is the namespace that has none now, not the node.
func TestQuota(t *testing.T) {
	n := &node{name: "pool/1", id: "12345678-1", pool: &pool{c: Config{Namespace: "team-a"}}}
	const said = "memory exhausted (1024 needed > 512 limit)"
	err := n.noPlace("c", &api.Resources{MemoryMB: new(1), CPU: new(1)}, &api.AllocationMetric{NodesEvaluated: 1, QuotaExhausted: []string{said}})
	if !errors.Is(err, sdk.Exhausted) {
		t.Errorf("%v, want exhausted", err)
	}
	for _, words := range []string{said, "quota", `"team-a"`} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%v; want it to say %q", err, words)
		}
	}
}

// testForbidden has a namespace in which the driver is not allowed: its servers say so, of each container, and the worker does.
func testForbidden(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	space := &api.Namespace{Name: "strict", Capabilities: &api.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}}}
	if _, err := a.Client().Namespaces().Register(space, nil); err != nil {
		t.Fatal(err)
	}
	c := config(a)
	c.Namespace = space.Name
	_, n := open(t, a, c, nil)
	err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: "forbidden", Token: "t"}, nil)
	if !errors.Is(err, sdk.Invalid) {
		t.Errorf("%v, want invalid", err)
	}
	words := []string{"raw_exec", "not allowed", `"strict"`}
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%v; want it to say %q", err, w)
		}
	}
	degraded(ctx, t, n, words...)
}

// testInherited has a container whose node is in the cluster no more: another of the block's tells of it, to the installation whose it is, and takes it away.
func testInherited(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	_, n := open(t, a, config(a), nil)
	register := func(id sdk.ContainerID, there string) {
		t.Helper()
		job, err := n.job(sdk.ContainerSpec{ID: id, Token: "t", Labels: map[string]string{sdk.LabelInstallation: "i"}}, &holding{})
		if err != nil {
			t.Fatal(err)
		}
		job.Meta[metaNode], job.Constraints[0].RTarget = there, there
		if _, _, err := a.Client().Jobs().Register(job, nil); err != nil {
			t.Fatal(err)
		}
	}
	const gone = "01234567-89ab-cdef-0123-456789abcdef"
	register("left", gone)
	register(probePrefix+"left", gone)
	for installation, want := range map[string][]sdk.ContainerID{"i": {"left"}, "another": nil, "": nil} {
		var f sdk.Filter
		if installation != "" {
			f.Labels = map[string]string{sdk.LabelInstallation: installation}
		}
		var listed []sdk.ContainerID
		err := n.ListContainers(ctx, f, func(c sdk.ContainerInfo) error {
			listed = append(listed, c.ID)
			if c.State != sdk.ContainerGone || !strings.Contains(c.Reason, short(gone)) {
				t.Errorf("it is listed as %+v", c)
			}
			return nil
		})
		if err != nil || !slices.Equal(listed, want) {
			t.Errorf("for the installation %q: %q, %v; want %q", installation, listed, err, want)
		}
	}
	if err := n.DestroyContainer(ctx, "left"); err != nil {
		t.Error(err)
	}
	n.dropProbes(ctx, probePrefix+"own")
	jobs, _, err := a.Client().Jobs().List(nil)
	left, _ := json.Marshal(jobs)
	if err != nil || strings.Contains(string(left), `"slipway-left"`) || strings.Contains(string(left), jobID(probePrefix+"left")) {
		t.Errorf("left in the cluster: %s, %v", left, err)
	}
}
