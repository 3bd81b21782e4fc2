package host

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// asked is a runtime whose workers name one more feature each, and remember what they were asked to make.
type asked struct {
	sdk.Runtime
	more map[string]sdk.Feature

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
	s.Features = append(slices.DeleteFunc(s.Features, func(f sdk.Feature) bool { return f == sdk.FeatureNetworkNone || f == sdk.FeaturePrivileged }), w.of.more[w.name])
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
	s.Privileged = false
	return w.Worker.CreateContainer(ctx, s, p)
}

// TestIsolation: a step that is to have no network, or all rights, runs only where that is to be had, and its worker is asked for it, for what is mounted, too.
func TestIsolation(t *testing.T) {
	t.Parallel()
	rt := &asked{Runtime: newMemory(t, "hermetic", "privileged", "neither"), more: map[string]sdk.Feature{"hermetic": sdk.FeatureNetworkNone, "privileged": sdk.FeaturePrivileged},
		containers: make(map[string]sdk.ContainerSpec), volumes: make(map[string][]sdk.VolumeSpec)}
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
