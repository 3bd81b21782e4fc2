package host

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// asked is a runtime whose workers name more features than they have, and remember what they were asked to make.
type asked struct {
	sdk.Runtime
	more map[string][]sdk.Feature

	mu         sync.Mutex
	containers map[string]sdk.ContainerSpec // by worker
	volumes    map[string][]sdk.VolumeSpec
}

func (a *asked) Worker(name string) (sdk.Worker, error) {
	w, err := a.Runtime.Worker(name)
	return &askedWorker{w, a, name}, err
}

type askedWorker struct {
	sdk.Worker
	of   *asked
	name string
}

func (w *askedWorker) Status(ctx context.Context) (sdk.Status, error) {
	s, err := w.Worker.Status(ctx)
	s.Features = append(slices.DeleteFunc(s.Features, func(f sdk.Feature) bool { return f == sdk.FeatureNetworkNone || f == sdk.FeaturePrivileged }), w.of.more[w.name]...)
	return s, err
}

func (w *askedWorker) CreateVolume(ctx context.Context, s sdk.VolumeSpec) error {
	w.of.mu.Lock()
	w.of.volumes[w.name] = append(w.of.volumes[w.name], s)
	w.of.mu.Unlock()
	s.Privileged = false // which memory knows nothing of
	return w.Worker.CreateVolume(ctx, s)
}

func (w *askedWorker) CreateContainer(ctx context.Context, s sdk.ContainerSpec, p func(sdk.Progress)) error {
	w.of.mu.Lock()
	w.of.containers[w.name] = s
	w.of.mu.Unlock()
	s.Privileged, s.Limits = false, sdk.Resources{}
	return w.Worker.CreateContainer(ctx, s, p)
}

func (w *askedWorker) StartProcess(ctx context.Context, id sdk.ContainerID, s sdk.ProcessSpec) error {
	s.User = "" // which memory knows nothing of
	return w.Worker.StartProcess(ctx, id, s)
}

func newAsked(t *testing.T, more map[string][]sdk.Feature) *asked {
	return &asked{Runtime: newMemory(t, slices.Sorted(maps.Keys(more))...), more: more, containers: make(map[string]sdk.ContainerSpec), volumes: make(map[string][]sdk.VolumeSpec)}
}

// TestBounds: what a step is limited to, and whom its volumes are to belong to, its worker is asked for, and none that cannot is taken.
func TestBounds(t *testing.T) {
	t.Parallel()
	rt := newAsked(t, map[string][]sdk.Feature{"able": {sdk.FeatureLimitsCPU, sdk.FeatureLimitsMemory, sdk.FeatureLimitsDisk, sdk.FeatureLimitsPIDs, sdk.FeatureUsers}, "unable": {sdk.FeatureUsers}})
	h := openHost(t, rt, Options{}, "able", "unable")
	image, err := h.UploadDir(t.Context(), Upload{Name: "image"}, tree(t, map[string]string{
		"metadata.json": `{"user": "worker"}`, "rootfs/etc/passwd": "worker:x:1000:2000::/:/bin/sh\n", "rootfs/etc/group": ""}))
	if err != nil {
		t.Fatal(err)
	}
	limits := sdk.Resources{CPUMillis: 500, MemoryBytes: 64 << 20, DiskBytes: 1 << 30, PIDs: 100}
	_, err = h.Container(t.Context(), "owner", ContainerRequest{Image: image, Limits: limits, Inputs: []Input{{uploaded(t, h, "in"), "in"}}, Outputs: []Output{{"out", "out"}}})
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := rt.containers["able"]; !ok || c.Limits != limits {
		t.Errorf("asked for is %+v", rt.containers)
	}
	owned := 0
	for _, v := range rt.volumes["able"] {
		if v.UID == 1000 && v.GID == 2000 {
			owned++
		}
	}
	if owned != 2 { // the clone of the input, and the output
		t.Errorf("%d volumes are the user's, of %+v", owned, rt.volumes["able"])
	}
}

// TestIsolation: a step that is to have no network, or all rights, runs only where that is to be had, and its worker is asked for it, for what is mounted, too.
func TestIsolation(t *testing.T) {
	t.Parallel()
	rt := newAsked(t, map[string][]sdk.Feature{"hermetic": {sdk.FeatureNetworkNone}, "privileged": {sdk.FeaturePrivileged}, "neither": nil})
	h := openHost(t, rt, Options{}, "hermetic", "privileged", "neither")
	res, err := h.Run(t.Context(), RunRequest{ID: "r", Job: parseJob(t, `
job "isolated" {
  step "hermetic" {
    hermetic = true
    outputs  = ["made"]
    run {
      path = "true"
    }
  }
  step "privileged" {
    privileged = true
    inputs     = { in = step.hermetic.made }
    outputs    = ["made"]
    run {
      path = "true"
    }
  }
  step "both" {
    privileged = true
    hermetic   = true
    run {
      path = "true"
    }
  }
}`)})
	if err != nil || states(res) != "hermetic=succeeded privileged=succeeded both=errored" {
		t.Fatalf("%s, %v", states(res), err)
	}
	for _, s := range res.Steps {
		if s.Step != "both" && s.Worker != s.Step {
			t.Errorf("step %s ran on %s", s.Step, s.Worker)
		}
	}
	if c := rt.containers["hermetic"]; !c.Hermetic || c.Privileged {
		t.Errorf("the hermetic one was asked for as %+v", c)
	}
	if c := rt.containers["privileged"]; c.Hermetic || !c.Privileged {
		t.Errorf("the privileged one was asked for as %+v", c)
	}
	mounted := 0
	for _, v := range rt.volumes["privileged"] {
		if v.Privileged {
			mounted++
		}
	}
	if mounted != 2 || slices.ContainsFunc(rt.volumes["hermetic"], func(v sdk.VolumeSpec) bool { return v.Privileged }) {
		t.Errorf("volumes: %+v", rt.volumes)
	}
	if len(rt.containers) != 2 {
		t.Errorf("containers: %+v", rt.containers)
	}
}
