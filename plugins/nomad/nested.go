package nomad

import (
	"archive/tar"
	"bytes"
	"context"
	"io/fs"
	"path"
	"strings"

	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
)

// withPoints gives where a volume is that can be mounted, with directories in it for the mounts that lie in this one. Docker makes them itself
// where it can write. Where it cannot, a container gets a clone of its own of a sealed volume, which has them. An open one must have them already: it
// cannot be cloned, and what is mounted read-only is not written.
func (n *node) withPoints(ctx context.Context, s *storenet.Store, spec sdk.ContainerSpec, m sdk.Mount, v storenet.Volume) (string, error) {
	if !m.ReadOnly {
		return v.Path, nil
	}
	var lacking []string
	for _, inner := range spec.Mounts {
		name, in := strings.CutPrefix(inner.Path, m.Path+"/")
		if !in || outermost(spec.Mounts, inner.Path) != m.Path {
			continue
		}
		missing, err := missingIn(ctx, s, m.Volume, name)
		if err != nil {
			return "", err
		}
		lacking = append(lacking, missing...)
	}
	if len(lacking) == 0 {
		return v.Path, nil
	}
	if v.State != sdk.VolumeSealed {
		return "", sdk.NewInvalid(sdk.ReasonPath, "container %q: nothing can be mounted at %q: volume %q, which is mounted read-only at %q, has no directory %q there, and gets none: "+
			"make it before, or seal the volume", spec.ID, path.Join(m.Path, lacking[0]), m.Volume, m.Path, lacking[0])
	}
	id := ownVolume(spec.ID, m.Path)
	if err := n.makeOwn(ctx, s, spec, id, m.Volume); err != nil {
		return "", err
	}
	if err := s.StreamIn(ctx, id, sdk.StreamIn{}, directories(lacking)); err != nil {
		return "", err
	}
	lease, err := s.Share(ctx, id)
	if err != nil {
		return "", err
	}
	lease.Abandon() // nobody else knows of it
	return lease.Volumes[id].Path, nil
}

// outermost gives the mount that a path lies in, which is the deepest of those around it.
func outermost(mounts []sdk.Mount, at string) string {
	deepest := ""
	for _, m := range mounts {
		if strings.HasPrefix(at, m.Path+"/") && len(m.Path) > len(deepest) {
			deepest = m.Path
		}
	}
	return deepest
}

// missingIn gives the directories of a name that are not in a volume, outer ones first. A link on the way docker follows.
func missingIn(ctx context.Context, s *storenet.Store, id sdk.VolumeID, name string) ([]string, error) {
	var missing []string
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, part)
		if len(missing) > 0 {
			missing = append(missing, at)
			continue
		}
		info, err := s.StatFile(ctx, id, at)
		switch {
		case sdk.IsNotFound(err, sdk.KindFile):
			missing = append(missing, at)
		case err != nil:
			return nil, err
		case info.Mode&fs.ModeSymlink != 0:
			return nil, nil
		case !info.Mode.IsDir():
			return nil, sdk.NewInvalid(sdk.ReasonPath, "nothing can be mounted at %q in volume %q: %q is no directory", name, id, at)
		}
	}
	return missing, nil
}

// directories makes an archive of directories.
func directories(names []string) *bytes.Buffer {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	seen := make(map[string]bool)
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}) // a bytes.Buffer takes all
		}
	}
	_ = w.Close()
	return &b
}
