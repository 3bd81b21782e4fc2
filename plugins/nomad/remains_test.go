//go:build linux

package nomad

import (
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// testRemains has a volume of a container's own whose container has no job: it is listed as gone, and goes when that is destroyed.
func testRemains(t *testing.T, a *nomadtest.Agent) {
	_, n := open(t, a, onDocker(a), nil)
	ctx := testkit.Context(t)
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]string{sdk.LabelInstallation: "remains"}
	if err := n.CreateVolume(ctx, sdk.VolumeSpec{ID: "image", Token: "t", Labels: ours}); err != nil {
		t.Fatal(err)
	}
	if err := n.SealVolume(ctx, "image"); err != nil {
		t.Fatal(err)
	}
	spec := sdk.ContainerSpec{ID: "half", Token: "t", Labels: map[string]string{sdk.LabelInstallation: "remains", "other": "x"}, Image: sdk.Image{Volume: "image"}}
	own := ownVolume(spec.ID, "/")
	if err := n.makeOwn(ctx, s, spec, own, "image"); err != nil {
		t.Fatal(err)
	}
	listed := func(labels map[string]string) (all []sdk.ContainerInfo) {
		t.Helper()
		err := n.ListContainers(ctx, sdk.Filter{Labels: labels}, func(c sdk.ContainerInfo) error { all = append(all, c); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	var all []sdk.ContainerInfo
	testkit.Until(t, "it is listed", func() bool { // a store that does not answer in time is left out of a list
		all = listed(ours)
		return len(all) > 0
	})
	if len(all) != 1 || all[0].ID != "half" || all[0].Token != "t" || all[0].State != sdk.ContainerGone || all[0].Labels[sdk.LabelInstallation] != "remains" {
		t.Errorf("%+v", all)
	}
	if all := listed(map[string]string{sdk.LabelInstallation: "another"}); len(all) > 0 {
		t.Errorf("another installation is told of %+v", all)
	}
	end := n.beginMaking("half")
	if all := listed(ours); len(all) > 0 {
		t.Errorf("while it is made: %+v", all)
	}
	end()
	if err := n.DestroyContainer(ctx, "half"); err != nil {
		t.Error(err)
	}
	if all := listed(ours); len(all) > 0 {
		t.Errorf("after its end: %+v", all)
	}
	if _, err := s.StatFile(ctx, own, "."); !sdk.IsNotFound(err, sdk.KindVolume) {
		t.Errorf("its volume: %v", err)
	}
	if err := n.DestroyVolume(ctx, "image"); err != nil {
		t.Error(err)
	}
}
