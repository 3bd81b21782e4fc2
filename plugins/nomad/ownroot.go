package nomad

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// A container whose image is a volume gets a clone of it for its own. With raw_exec the shim makes it its root. Docker takes no directory as a root, and the shim may not change it from inside; so
// docker's own image is an empty one, and each thing at the top of the clone is mounted. What docker puts at /proc, /sys, /dev and into /etc it puts there
// as ever.

const (
	// ownKey is the key of the label that volumes have which are a container's own. They are never listed.
	ownKey  = "slipway.nomad/container"
	rootDir = "rootfs" // in an image's volume
	maxHops = 40       // of links that are followed, as Linux does
)

// notRoot are names at the top of a root that docker and Nomad mount something at.
func notRoot(name string) bool {
	switch name {
	case "proc", "sys", "dev", "local", "alloc", "secrets":
		return true
	}
	return false
}

// ownVolume names a volume of a container's own, for what is mounted at a path of it. It stands for the container's id, which may be as long as an id can be.
func ownVolume(id sdk.ContainerID, at string) sdk.VolumeID {
	sum := sha256.Sum256([]byte(string(id) + ":" + at))
	return sdk.VolumeID("own-" + hex.EncodeToString(sum[:20]))
}

// isOwn tells whether a volume is one of them.
func isOwn(labels map[string]string) bool { return labels[ownKey] != "" }

// makeOwn makes a volume of a container's own, a clone of a sealed one.
func (n *node) makeOwn(ctx context.Context, s *storenet.Store, spec sdk.ContainerSpec, id, clone sdk.VolumeID) error {
	labels := map[string]string{ownKey: string(spec.ID)}
	if installation, ok := spec.Labels[sdk.LabelInstallation]; ok {
		labels[sdk.LabelInstallation] = installation
	}
	return s.CreateVolume(ctx, sdk.VolumeSpec{ID: id, Token: spec.Token, Clone: clone, Labels: n.pool.labelled(labels)})
}

// ownRoot makes the clone, and gives where it is on the node, and what to mount of it where it is docker that mounts.
func (n *node) ownRoot(ctx context.Context, s *storenet.Store, dir string, spec sdk.ContainerSpec) (string, []shim.RootMount, error) {
	id := ownVolume(spec.ID, "/")
	if err := n.makeOwn(ctx, s, spec, id, spec.Image.Volume); err != nil {
		return "", nil, err
	}
	lease, err := s.Share(ctx, id)
	if err != nil {
		return "", nil, err
	}
	defer lease.Abandon() // nobody else knows of it
	root := path.Join(dir, lease.Volumes[id].Path, rootDir)
	var entries []sdk.FileInfo
	err = s.ListFiles(ctx, id, rootDir, func(f sdk.FileInfo) error { entries = append(entries, f); return nil })
	if err != nil {
		return "", nil, sdk.NewInvalid(sdk.ReasonImage, "container %q: image volume %q has no directory %s: %v", spec.ID, spec.Image.Volume, rootDir, err)
	}
	if n.pool.c.Driver != "docker" {
		return root, nil, nil
	}
	var binds []shim.RootMount
	for _, f := range entries {
		if notRoot(f.Name) {
			continue
		}
		to, err := follow(ctx, s, id, f.Name)
		if err != nil {
			return "", nil, err
		}
		if to != "" {
			binds = append(binds, shim.RootMount{Source: path.Join(root, to), Target: "/" + f.Name})
		}
	}
	return root, binds, nil
}

// follow gives the directory or regular file below the root that a name stands for, without links; empty: there is none.
func follow(ctx context.Context, s *storenet.Store, id sdk.VolumeID, name string) (string, error) {
	at, left := "", []string{name}
	for hops := 0; len(left) > 0; {
		part := left[0]
		left = left[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = strings.TrimPrefix(path.Dir("/"+at), "/")
			continue
		}
		next := path.Join(at, part)
		info, err := s.StatFile(ctx, id, path.Join(rootDir, next))
		switch {
		case sdk.IsNotFound(err, sdk.KindFile):
			return "", nil
		case err != nil:
			return "", err
		case info.Mode&fs.ModeSymlink != 0:
			if hops++; hops > maxHops {
				return "", nil
			}
			if path.IsAbs(info.LinkTarget) {
				at = ""
			}
			left = append(strings.Split(info.LinkTarget, "/"), left...)
		case info.Mode.IsDir(), info.Mode.IsRegular() && len(left) == 0:
			at = next
		default:
			return "", nil
		}
	}
	return at, nil
}

// mayOwn tells whether a container can have volumes for its own: for its root, and for mounts within mounts.
func mayOwn(spec sdk.ContainerSpec) bool { return spec.Image.Volume != "" || len(spec.Mounts) > 1 }

// dropLeft is dropOwn for a container that has no job. Mostly there is nothing to take away, so that it does not wait for a store that is not up.
func (n *node) dropLeft(ctx context.Context, id sdk.ContainerID) error {
	soon, stop := context.WithTimeout(ctx, patience)
	defer stop()
	err := n.dropOwn(soon, id)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if soon.Err() == nil && !errors.Is(err, sdk.Unavailable) {
		return err
	}
	n.log.Warn("volumes of a container's own may be left", "container", id, "error", err)
	return nil
}

// dropOwn takes away what a container has for its own.
func (n *node) dropOwn(ctx context.Context, id sdk.ContainerID) error {
	if n.pool.c.Store == nil || n.pool.c.Driver == "exec" {
		return nil
	}
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return err
	}
	var all []sdk.VolumeID
	err = s.ListVolumes(ctx, sdk.Filter{Labels: map[string]string{ownKey: string(id)}}, func(v sdk.VolumeInfo) error { all = append(all, v.ID); return nil })
	if err != nil {
		return err
	}
	for _, v := range all {
		if err := s.DestroyVolume(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// The empty image, which the plugin makes and serves.
const (
	emptyImage = "slipway-empty:1"
	emptyFile  = "slipway-empty.tar"
)

// emptyArchive is that image as docker saves one.
func emptyArchive(arch string) ([]byte, error) {
	var layer bytes.Buffer
	if err := tar.NewWriter(&layer).Close(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(layer.Bytes())
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{emptyImage}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	for _, f := range []struct {
		name string
		text []byte
	}{{"layer.tar", layer.Bytes()}, {"config.json", config}, {"manifest.json", manifest}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}
