package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"syscall"

	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
	"github.com/slipway-run/slipway/plugins/memory/internal/wasi"
	"github.com/slipway-run/slipway/sdk"
)

// container is a file system and the processes in it.
type container struct {
	id     sdk.ContainerID
	token  sdk.Token
	labels map[string]string
	dir    string

	memory *wasi.Memory // limit of its programs; nil: it has none

	root   *tree.Tree // its own
	mounts []mounted
	files  *tree.Namespace

	processes map[sdk.ProcessID]*process
	gone      bool // DestroyContainer has begun
}

type mounted struct {
	volume   *volume // held
	path     string
	readOnly bool
}

// CreateContainer makes a container whole or not at all; there is no progress to tell of.
func (w *worker) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, _ func(sdk.Progress)) error {
	if err := w.supported(spec); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.containers[spec.ID]; ok {
		switch {
		case c.token != spec.Token:
			return sdk.NewAlreadyExists(sdk.KindContainer, string(spec.ID))
		case c.gone:
			return c.dead()
		}
		return nil
	}
	c := &container{
		id: spec.ID, token: spec.Token, labels: maps.Clone(spec.Labels), dir: spec.Dir,
		processes: make(map[sdk.ProcessID]*process),
	}
	if limit := spec.Limits.MemoryBytes; limit != 0 {
		c.memory = wasi.NewMemory(fmt.Sprintf("container %q", c.id), limit, w.memory)
	}
	if err := w.build(c, spec); err != nil {
		c.release()
		return err
	}
	w.containers[spec.ID] = c
	return nil
}

// supported refuses whatever this runtime would have to ignore.
func (w *worker) supported(spec sdk.ContainerSpec) error {
	switch l := spec.Limits; {
	case spec.Image.Ref != "":
		return sdk.NewUnsupported(sdk.FeatureImageRef)
	case spec.Privileged:
		return sdk.NewUnsupported(sdk.FeaturePrivileged)
	case l.CPUMillis != 0:
		return sdk.NewUnsupported(sdk.FeatureLimitsCPU)
	case l.MemoryBytes != 0 && w.memory == nil: // what a script takes, nobody can tell
		return sdk.NewUnsupported(sdk.FeatureLimitsMemory)
	case l.DiskBytes != 0:
		return sdk.NewUnsupported(sdk.FeatureLimitsDisk)
	case l.PIDs != 0:
		return sdk.NewUnsupported(sdk.FeatureLimitsPIDs)
	}
	return nil
}

// build puts the container's files together. What it has got by the time of an error, release gives back.
func (w *worker) build(c *container, spec sdk.ContainerSpec) error {
	var mounts []tree.Mount
	for _, m := range spec.Mounts {
		v, err := w.volume(m.Volume)
		if err != nil {
			return err
		}
		if v.tree.Sealed() && !m.ReadOnly {
			return sealedMount(v, m.Path)
		}
		v.holds++
		c.mounts = append(c.mounts, mounted{volume: v, path: m.Path, readOnly: m.ReadOnly})
		mounts = append(mounts, tree.Mount{Path: m.Path, Tree: v.tree, ReadOnly: m.ReadOnly})
	}
	root, err := w.newRoot(spec)
	if err != nil {
		return err
	}
	c.root = root
	c.files, err = tree.NewNamespace(root, mounts, tree.NamespaceOptions{})
	if err != nil {
		return w.pathError(err, "container %q", c.id)
	}
	if c.dir == "" {
		c.dir = "/"
	}
	return w.makeDir(c, c.dir)
}

// newRoot makes the tree at the container's root: a copy of the image, or what every script may expect.
func (w *worker) newRoot(spec sdk.ContainerSpec) (*tree.Tree, error) {
	if spec.Image.Volume != "" {
		v, err := w.volume(spec.Image.Volume)
		if err != nil {
			return nil, err
		}
		if !v.tree.Sealed() {
			return nil, sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, string(v.id),
				"volume %q is the image of container %q and must be sealed", v.id, spec.ID)
		}
		root, err := imageRoot(v.tree)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil, sdk.NewInvalid(sdk.ReasonImage, "container %q: volume %q is no image: it has no directory \"rootfs\"", spec.ID, v.id)
		}
		if err != nil {
			return nil, w.pathError(err, "container %q: image %q", spec.ID, v.id)
		}
		return root, nil
	}
	root, err := emptyRoot(w.budget)
	if err != nil {
		return nil, w.pathError(err, "container %q", spec.ID)
	}
	return root, nil
}

// ListContainers emits the containers as they are at one moment.
func (w *worker) ListContainers(ctx context.Context, filter sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	for _, info := range w.selectContainers(filter) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(info); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *worker) selectContainers(filter sdk.Filter) []sdk.ContainerInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	var infos []sdk.ContainerInfo
	for id, c := range w.containers {
		if !filter.Match(string(id), c.labels) {
			continue
		}
		info := sdk.ContainerInfo{ID: id, Token: c.token, Labels: maps.Clone(c.labels), State: sdk.ContainerReady}
		if c.gone {
			info.State, info.Reason = sdk.ContainerGone, "it is being destroyed"
		}
		infos = append(infos, info)
	}
	return infos
}

// DestroyContainer kills all processes and waits until the last of them has let go of the files. If ctx ends first, the
// container is listed as gone and DestroyContainer can be called again.
func (w *worker) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	w.mu.Lock()
	c, ok := w.containers[id]
	if !ok {
		w.mu.Unlock()
		return nil
	}
	c.gone = true // no process comes after this
	w.mu.Unlock()
	for _, p := range c.processes {
		p.journal.Abort(sdk.NewNotFound(sdk.KindContainer, string(id)))
		p.kill()
	}
	for _, p := range c.processes {
		select {
		case <-p.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.containers[id] == c { // not so if another call was quicker
		delete(w.containers, id)
		c.release()
	}
	return nil
}

// release needs the worker's mutex, but for a container that is not in the table yet.
func (c *container) release() {
	for _, m := range c.mounts {
		m.volume.release()
	}
	if c.root != nil {
		c.root.Release()
	}
}

// container needs the mutex.
func (w *worker) container(id sdk.ContainerID) (*container, error) {
	c, ok := w.containers[id]
	if !ok {
		return nil, sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	return c, nil
}

func (c *container) dead() error {
	return sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, string(c.id),
		"container %q is being destroyed and takes no process", c.id)
}

func sealedMount(v *volume, path string) error {
	return sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(v.id),
		"volume %q at %q is sealed and can only be mounted read-only", v.id, path)
}

// makeDir makes a directory of the container where it is missing.
func (w *worker) makeDir(c *container, dir string) error {
	if err := c.files.MkdirAll("/", dir, 0o755); err != nil {
		return w.pathError(err, "container %q", c.id)
	}
	return nil
}

// pathError makes an error of the contract from what making files of a container yielded.
func (w *worker) pathError(err error, what string, args ...any) error {
	if errors.Is(err, syscall.ENOSPC) {
		return w.noRoom(what, args...)
	}
	return sdk.NewInvalid(sdk.ReasonPath, "%s: %v", fmt.Sprintf(what, args...), err)
}
