package host

import (
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/sdk"
)

// plan is a request with its paths resolved and its defaults filled in.
type plan struct {
	dir     string
	mounts  []plannedMount
	needs   []sdk.Feature
	wanting []pool.Content
}

type plannedMount struct {
	path   string
	input  *Artifact // nil: begins empty
	output string    // empty: none
}

func (r ContainerRequest) plan() (plan, error) {
	p := plan{dir: r.Dir, needs: slices.Clone(r.Features)}
	if p.dir == "" {
		p.dir = DefaultDir
	}
	if !path.IsAbs(p.dir) {
		return p, sdk.NewInvalid(sdk.ReasonPath, "dir %q is not absolute", p.dir)
	}
	var err error
	if p.dir, err = resolvePath("/", p.dir); err != nil {
		return p, err
	}
	for _, in := range r.Inputs {
		at, err := resolvePath(p.dir, in.Path)
		if err != nil {
			return p, fmt.Errorf("input %s: %w", in.Artifact.Name, err)
		}
		for _, m := range p.mounts {
			if m.path == at {
				return p, sdk.NewInvalid(sdk.ReasonPath, "inputs %s and %s are both at %s", m.input.Name, in.Artifact.Name, at)
			}
		}
		p.mounts = append(p.mounts, plannedMount{path: at, input: in.Artifact})
		p.wanting = append(p.wanting, pool.Content{Key: in.Artifact.ID})
	}
	for _, out := range r.Outputs {
		at, err := resolvePath(p.dir, out.Path)
		if err != nil {
			return p, fmt.Errorf("output %s: %w", out.Name, err)
		}
		i := slices.IndexFunc(p.mounts, func(m plannedMount) bool { return m.path == at })
		if i < 0 {
			p.mounts = append(p.mounts, plannedMount{path: at, output: out.Name})
			continue
		}
		if p.mounts[i].output != "" {
			return p, sdk.NewInvalid(sdk.ReasonPath, "outputs %s and %s are both at %s", p.mounts[i].output, out.Name, at)
		}
		p.mounts[i].output = out.Name
	}
	need := func(want bool, f sdk.Feature) {
		if want && !slices.Contains(p.needs, f) {
			p.needs = append(p.needs, f)
		}
	}
	need(r.Image != nil, sdk.FeatureImageVolume)
	need(r.ImageRef != "", sdk.FeatureImageRef)
	need(r.Privileged, sdk.FeaturePrivileged)
	need(r.Hermetic, sdk.FeatureNetworkNone)
	need(r.Limits.CPUMillis > 0, sdk.FeatureLimitsCPU)
	need(r.Limits.MemoryBytes > 0, sdk.FeatureLimitsMemory)
	need(r.Limits.DiskBytes > 0, sdk.FeatureLimitsDisk)
	need(r.Limits.PIDs > 0, sdk.FeatureLimitsPIDs)
	return p, nil
}

func (r ContainerRequest) tell(e Event) {
	if r.Observe != nil {
		e.Time = time.Now()
		r.Observe(e)
	}
}
