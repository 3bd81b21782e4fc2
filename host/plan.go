package host

import (
	"fmt"
	"path"
	"slices"
	"strings"
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

	resourceType string // that its image is of; empty: none
}

type plannedMount struct {
	path     string
	input    *Artifact // nil: begins empty
	readOnly bool      // input itself
	output   string    // empty: none
	cache    string    // its key; empty: none
}

// what names a mount to people.
func (m plannedMount) what() string {
	switch {
	case m.cache != "":
		return "cache " + m.cache
	case m.output != "":
		return "output " + m.output
	}
	return "input " + m.input.Name
}

func (r ContainerRequest) plan() (plan, error) {
	p := plan{dir: r.Dir, needs: slices.Clone(r.Features)}
	if p.dir == "" {
		p.dir = DefaultDir
	}
	if r.TTL < 0 {
		return p, sdk.NewInvalid(sdk.ReasonSpec, "a TTL of %s: want a positive time, or none", r.TTL)
	}
	if !path.IsAbs(p.dir) {
		return p, sdk.NewInvalid(sdk.ReasonPath, "dir %q is not absolute", p.dir)
	}
	if r.Image != nil {
		p.wanting = append(p.wanting, pool.Content{Key: r.Image.ID})
	}
	var err error
	if p.dir, err = resolvePath("/", p.dir); err != nil {
		return p, err
	}
	for i, in := range slices.Concat(r.Inputs, r.Shared) {
		at, err := resolvePath(p.dir, in.Path)
		if err != nil {
			return p, fmt.Errorf("input %s: %w", in.Artifact.Name, err)
		}
		for _, m := range p.mounts {
			if m.path == at {
				return p, sdk.NewInvalid(sdk.ReasonPath, "inputs %s and %s are both at %s", m.input.Name, in.Artifact.Name, at)
			}
		}
		p.mounts = append(p.mounts, plannedMount{path: at, input: in.Artifact, readOnly: i >= len(r.Inputs)})
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
		if p.mounts[i].readOnly {
			return p, sdk.NewInvalid(sdk.ReasonPath, "output %s is at %s, where input %s is read-only", out.Name, at, p.mounts[i].input.Name)
		}
		if p.mounts[i].output != "" {
			return p, sdk.NewInvalid(sdk.ReasonPath, "outputs %s and %s are both at %s", p.mounts[i].output, out.Name, at)
		}
		p.mounts[i].output = out.Name
	}
	for _, c := range r.Caches {
		at, err := resolvePath(p.dir, c.Path)
		if err != nil {
			return p, fmt.Errorf("cache %s: %w", c.Key, err)
		}
		if c.TTL < 0 {
			return p, sdk.NewInvalid(sdk.ReasonSpec, "the cache at %s has a TTL of %s: want a positive time, or none", at, c.TTL)
		}
		if c.Key == "" {
			return p, sdk.NewInvalid(sdk.ReasonSpec, "the cache at %s has no key", at)
		}
		for _, m := range p.mounts {
			if m.path == at || m.cache == c.Key {
				return p, sdk.NewInvalid(sdk.ReasonPath, "%s and cache %s are both at %s, or have one key", m.what(), c.Key, at)
			}
		}
		p.mounts = append(p.mounts, plannedMount{path: at, cache: c.Key})
	}
	if err := p.checkOverlaps(); err != nil {
		return p, err
	}
	need := func(want bool, f sdk.Feature) {
		if want && !slices.Contains(p.needs, f) {
			p.needs = append(p.needs, f)
		}
	}
	need(r.Image != nil, sdk.FeatureImageVolume)
	need(r.ImageRef != "", sdk.FeatureImageRef)
	p.resourceType, _ = strings.CutPrefix(r.ImageRef, sdk.ResourceTypePrefix)
	if p.resourceType == r.ImageRef {
		p.resourceType = ""
	}
	need(r.Privileged, sdk.FeaturePrivileged)
	need(r.Hermetic, sdk.FeatureNetworkNone)
	need(r.Limits.CPUMillis > 0, sdk.FeatureLimitsCPU)
	need(r.Limits.MemoryBytes > 0, sdk.FeatureLimitsMemory)
	need(r.Limits.DiskBytes > 0, sdk.FeatureLimitsDisk)
	need(r.Limits.PIDs > 0, sdk.FeatureLimitsPIDs)
	return p, nil
}

// ownVolumes is how many volumes are made for the container alone. What it mounts read-only is not its own.
func (p plan) ownVolumes() (n int) {
	for _, m := range p.mounts {
		if !m.readOnly {
			n++
		}
	}
	return n
}

// artifacts are those that a request names.
func (p plan) artifacts(r ContainerRequest) (out []*Artifact) {
	if r.Image != nil {
		out = append(out, r.Image)
	}
	for _, m := range p.mounts {
		if m.input != nil {
			out = append(out, m.input)
		}
	}
	return out
}

// checkOverlaps refuses mounts that would hide a part of another, or be missing in what is kept of it: inputs may hold outputs and caches,
// which are made for them, and nothing else holds anything.
func (p plan) checkOverlaps() error {
	for _, inner := range p.mounts {
		for _, outer := range p.mounts {
			if inner.path == outer.path || !strings.HasPrefix(inner.path, strings.TrimSuffix(outer.path, "/")+"/") {
				continue
			}
			if outer.input == nil || outer.readOnly || outer.output != "" || inner.output == "" && inner.cache == "" {
				return sdk.NewInvalid(sdk.ReasonPath, "%s at %s lies within %s at %s: put them side by side", inner.what(), inner.path, outer.what(), outer.path)
			}
		}
	}
	return nil
}

func (r ContainerRequest) tell(e Event) {
	if r.Observe != nil {
		e.Time = time.Now()
		r.Observe(e)
	}
}
