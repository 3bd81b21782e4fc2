package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// statusCases check what a worker says of itself, and long lists.
func statusCases() []Case {
	must := func(id, title, doc string, run func(context.Context, *C), promises ...string) Case {
		return Case{ID: id, Title: title, Doc: doc, Promises: promises, Level: Must, Profile: Core, Run: run}
	}
	tracks := must("W08-used-tracks", "what is used grows by what is made and shrinks by what is destroyed, where it is told at all",
		"Catches numbers that are written once: a host fills a worker that is full, or leaves an empty one alone.", runUsedTracks, "4d")
	tracks.Exclusive = true
	return []Case{
		must("W28-capacity", "capacity and use are not below zero, and use is not above capacity", "Catches unknown that is told as -1, and units that are mixed up.", runCapacity, "4d"),
		tracks,
		must("W18-features-known", "features are of the contract, or have a dot and so cannot be taken for one", "Catches misspelt names: the host never asks for what it could have.", runFeaturesKnown, "14h"),
		must("W23-list-nothing", "a filter that nothing passes gives an empty list and no error", "Catches NotFound for an empty answer: a host would take the worker for broken.", runListNothing, "10c"),
		must("W24-list-many", "three hundred volumes are listed, each once, with its own labels", "Catches pages, and messages that are full at a hundred.", runListMany, "10d"),
		must("W25-lists-at-once", "eight lists at once give the same things", "Catches a cursor that all of them share.", runListsAtOnce, "10d"),
		must("W26-container-churn", "a container that lives through a whole list is in it exactly once while others come and go", "Catches what W22 does, for containers, whose lists come from elsewhere.", runContainerChurn, "10d"),
		must("W27-list-states", "lists tell open, sealed and ready, and the parent of a clone", "Catches a list that tells what was asked for at creation, not what is.", runListStates, "10e"),
	}
}

func (c *C) askStatus(ctx context.Context) sdk.Status {
	s, err := c.W.Status(ctx)
	c.OK(err, "asking for the status")
	return s
}

func runCapacity(ctx context.Context, c *C) {
	s := c.askStatus(ctx)
	for what, pair := range map[string][2]int64{
		"CPU": {s.Used.CPUMillis, s.Capacity.CPUMillis}, "memory": {s.Used.MemoryBytes, s.Capacity.MemoryBytes}, "disk": {s.Used.DiskBytes, s.Capacity.DiskBytes},
		"PIDs": {s.Used.PIDs, s.Capacity.PIDs}, "containers": {s.Used.Containers, s.Capacity.Containers}, "volumes": {s.Used.Volumes, s.Capacity.Volumes},
	} {
		used, capacity := pair[0], pair[1]
		if used < 0 || capacity < 0 {
			c.Errorf("zero stands for what is not known", "%s: %d of %d is used", what, used, capacity)
		}
		if what != "CPU" && capacity > 0 && used > capacity { // processors can be asked for more than they have
			c.Errorf("a host places by what is left", "%s: %d of %d is used", what, used, capacity)
		}
	}
}

func runUsedTracks(ctx context.Context, c *C) {
	before := c.askStatus(ctx).Used
	v, k := c.Filled(ctx, File("a", pattern(1_000_000))), c.Container(ctx)
	during := c.askStatus(ctx).Used
	c.OK(c.W.DestroyContainer(ctx, k), "destroying the container")
	c.OK(c.W.DestroyVolume(ctx, v), "destroying the volume")
	after := c.askStatus(ctx).Used
	told := false
	for what, n := range map[string][3]int64{"containers": {before.Containers, during.Containers, after.Containers}, "volumes": {before.Volumes, during.Volumes, after.Volumes}} {
		if n[1] == 0 {
			continue // it is not told
		}
		told = true
		if n[1] != n[0]+1 || n[2] != n[0] {
			c.Errorf("a host places by what is used", "%s: %d, then %d with one more, then %d without it", what, n[0], n[1], n[2])
		}
	}
	if !told {
		c.NotOffered("the worker does not tell how many containers or volumes it has")
	}
}

// knownFeatures are those of the contract.
func knownFeatures() []sdk.Feature {
	return []sdk.Feature{
		sdk.FeatureTTY, sdk.FeatureUsers, sdk.FeaturePrivileged, sdk.FeatureNetworkNone, sdk.FeatureImageVolume, sdk.FeatureImageRef, sdk.FeatureCloneLive,
		sdk.FeatureVolumeImport, sdk.FeatureLimitsCPU, sdk.FeatureLimitsMemory, sdk.FeatureLimitsDisk, sdk.FeatureLimitsPIDs, sdk.FeatureExitOOM, sdk.FeatureTarXattrs,
		sdk.FeatureTarSparse, sdk.FeatureTarDevices, sdk.FeatureVolatile, sdk.FeatureTarDirTimes, sdk.FeatureTTYResize, sdk.FeatureFileRead, sdk.FeaturePeerStream,
	}
}

func runFeaturesKnown(ctx context.Context, c *C) {
	known := knownFeatures()
	s := c.askStatus(ctx)
	for _, f := range s.Features {
		switch {
		case !isFeature(f):
			c.Errorf("features have names of lower-case words", "feature %q is none", f)
		case slices.Contains(known, f) || strings.HasPrefix(string(f), sdk.ResourceTypePrefix):
		case strings.Contains(string(f), "."):
			c.Logf("feature %q is not known to this suite", f) // it may be of a newer contract, or the plugin's own
		default:
			c.Errorf("a name without a dot is one of the contract's", "feature %q is none of this contract's, which are %q; one of the plugin's own has a dot in its name", f, known)
		}
	}
	if s.Has(sdk.FeatureTTYResize) && !s.Has(sdk.FeatureTTY) || s.Has(sdk.FeatureExitOOM) && !s.Has(sdk.FeatureLimitsMemory) {
		c.Errorf("a feature that rests on another comes with it", "features are %q", s.Features)
	}
}

// isFeature tells whether a name can be that of a feature: of the contract, of a newer one, or of a root file system that the worker has.
func isFeature(f sdk.Feature) bool {
	if name, ok := strings.CutPrefix(string(f), sdk.ResourceTypePrefix); ok {
		return name != ""
	}
	return f != "" && !strings.ContainsFunc(string(f), func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-') })
}

func runListNothing(ctx context.Context, c *C) {
	c.Volume(ctx)
	c.Container(ctx)
	for what, f := range map[string]sdk.Filter{
		"an id that nothing has":      {ID: string(c.VolumeID())},
		"a label that nothing has":    {Labels: map[string]string{"slipway.conformance.none": "x"}},
		"an installation of nobody's": {Labels: map[string]string{sdk.LabelInstallation: "nobody"}},
	} {
		n := 0
		c.OK(c.W.ListVolumes(ctx, f, func(sdk.VolumeInfo) error { n++; return nil }), "listing volumes by %s", what)
		c.OK(c.W.ListContainers(ctx, f, func(sdk.ContainerInfo) error { n++; return nil }), "listing containers by %s", what)
		if n != 0 {
			c.Errorf("a list holds what the filter passes", "by %s %d things are listed", what, n)
		}
	}
}

func runListMany(ctx context.Context, c *C) {
	n := c.Times(300)
	want := make(map[sdk.VolumeID]string, n)
	for i := range n {
		spec := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels()}
		want[spec.ID] = fmt.Sprint(i)
		spec.Labels["number"] = want[spec.ID]
		c.OK(c.W.CreateVolume(ctx, spec), "creating volume %d", i)
	}
	seen := make(map[sdk.VolumeID]int)
	c.OK(c.W.ListVolumes(ctx, sdk.Filter{Labels: c.Labels()}, func(v sdk.VolumeInfo) error {
		seen[v.ID]++
		if v.Labels["number"] != want[v.ID] {
			c.Errorf("labels come back as they were given", "volume %q has number %q, want %q", v.ID, v.Labels["number"], want[v.ID])
		}
		return nil
	}), "listing %d volumes", n)
	for id := range want {
		if seen[id] != 1 {
			c.Errorf("what lives through the whole call is listed exactly once", "of %d volumes, %q is listed %d times", n, id, seen[id])
		}
	}
	if len(seen) != n {
		c.Errorf("a list holds what the filter passes", "%d volumes are listed, want %d", len(seen), n)
	}
}

func runListsAtOnce(ctx context.Context, c *C) {
	for range 12 {
		c.Volume(ctx)
	}
	c.Container(ctx)
	c.Each(ctx, 8, 8, func(ctx context.Context, i int) { c.wantCount(ctx, 12, 1) })
}

func runContainerChurn(ctx context.Context, c *C) {
	stable := c.Container(ctx)
	stop, ended := make(chan struct{}), make(chan struct{})
	c.Go(func(ctx context.Context) {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			spec := c.ContainerSpec()
			c.OK(c.W.CreateContainer(ctx, spec, nil), "creating a container")
			c.OK(c.W.DestroyContainer(ctx, spec.ID), "destroying it")
		}
	})
	for range max(10, c.Times(50)) {
		seen := 0
		c.OK(c.W.ListContainers(ctx, sdk.Filter{Labels: c.Labels()}, func(i sdk.ContainerInfo) error {
			if i.ID == stable {
				seen++
			}
			return nil
		}), "listing containers")
		if seen != 1 {
			c.Errorf("what lives through the whole call is listed exactly once", "the container that stays is listed %d times", seen)
			break
		}
	}
	close(stop)
	c.Await(ctx, ended, "the end of the container that was being made")
}

func runListStates(ctx context.Context, c *C) {
	parent := c.Sealed(ctx, File("a", "a"))
	open := c.Volume(ctx)
	clone := c.Clone(ctx, parent)
	sealedClone := c.Clone(ctx, parent)
	c.OK(c.W.SealVolume(ctx, sealedClone), "sealing a clone")
	for id, want := range map[sdk.VolumeID]sdk.VolumeInfo{
		parent: {State: sdk.VolumeSealed}, open: {State: sdk.VolumeOpen}, clone: {State: sdk.VolumeOpen, Parent: parent}, sealedClone: {State: sdk.VolumeSealed, Parent: parent},
	} {
		if i, ok := c.ListVolume(ctx, id); !ok || i.State != want.State || i.Parent != want.Parent {
			c.Errorf("a host trusts the list", "volume %q: listed %v, %s, parent %q; want %s, %q", id, ok, i.State, i.Parent, want.State, want.Parent)
		}
	}
	k := c.Container(ctx, c.Mounts(sdk.Mount{Volume: open, Path: "/v"}))
	if i, ok := c.ListContainer(ctx, k); !ok || i.State != sdk.ContainerReady {
		c.Errorf("a host trusts the list", "container: listed %v, %s; want ready", ok, i.State)
	}
}
