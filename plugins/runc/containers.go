//go:build linux

package runc

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shelf"
	"github.com/slipway-run/slipway/sdk/shim"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

// containerRecord is what is kept of a container beside its files. A spec holds no secret (rule 13).
type containerRecord struct {
	Spec    sdk.ContainerSpec
	State   sdk.ContainerState // ContainerGone: DestroyContainer has begun
	Attempt string             // a random word for this one to make it
}

// writes tells whether the container can write a volume.
func (c containerRecord) writes(id sdk.VolumeID) bool {
	return slices.ContainsFunc(c.Spec.Mounts, func(m sdk.Mount) bool { return m.Volume == id && !m.ReadOnly })
}

// Where the shim is in every container.
const (
	slipwayDir  = "/slipway"
	shimPath    = slipwayDir + "/shim"
	scratchPath = slipwayDir + "/scratch"
)

// cleanup bounds what is done after a failure.
const cleanup = 30 * time.Second

// CreateContainer makes a container whole, or nothing is left of it but what can be made again.
func (w *worker) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	if err := w.supported(ctx, spec); err != nil {
		return err
	}
	if progress == nil {
		progress = func(sdk.Progress) {}
	}
	id := string(spec.ID)
	unlock, err := w.containers.Make(ctx, id)
	if err != nil {
		return volumedir.Fault(err, sdk.KindContainer, id)
	}
	defer unlock()
	rec, err := w.containers.Read(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return volumedir.Fault(err, sdk.KindContainer, id)
	case rec.Spec.Token != spec.Token:
		return sdk.NewAlreadyExists(sdk.KindContainer, id)
	case rec.State == sdk.ContainerReady:
		now := []sdk.ContainerInfo{{ID: spec.ID, State: rec.State}}
		err := w.findGone(ctx, now)
		if err == nil && now[0].State == sdk.ContainerGone {
			err = dead(spec.ID)
		}
		return volumedir.Fault(err, sdk.KindContainer, id)
	case rec.State == sdk.ContainerGone:
		return dead(spec.ID)
	}
	err = w.create(ctx, spec, progress)
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	if undone := w.remove(undo, spec.ID); undone != nil {
		w.log.Error("a container is left half made", "container", id, "error", undone)
	}
	return volumedir.Fault(err, sdk.KindContainer, id)
}

// supported refuses what could only be ignored.
func (w *worker) supported(ctx context.Context, spec sdk.ContainerSpec) error {
	l := spec.Limits
	switch {
	case spec.Image.Ref != "":
		return sdk.NewUnsupported(sdk.FeatureImageRef)
	case l.Containers != 0 || l.Volumes != 0:
		return sdk.NewInvalid(sdk.ReasonSpec, "container %q: a container has no limit of containers or volumes", spec.ID)
	}
	if l.DiskBytes != 0 {
		features, err := w.probe(ctx)
		if err != nil {
			return volumedir.Fault(err, sdk.KindWorker, w.name)
		}
		if !slices.Contains(features, sdk.FeatureLimitsDisk) {
			return sdk.NewUnsupported(sdk.FeatureLimitsDisk)
		}
	}
	there := w.engine.Controllers()
	for feature, asked := range map[sdk.Feature]int64{
		sdk.FeatureLimitsCPU: l.CPUMillis, sdk.FeatureLimitsMemory: l.MemoryBytes, sdk.FeatureLimitsPIDs: l.PIDs,
	} {
		if asked != 0 && !slices.Contains(there, strings.TrimPrefix(string(feature), "limits.")) {
			return sdk.NewUnsupported(feature)
		}
	}
	for _, m := range spec.Mounts {
		for _, own := range []string{slipwayDir, "/proc", "/sys", "/dev"} {
			if m.Path == own || strings.HasPrefix(m.Path, own+"/") {
				return sdk.NewInvalid(sdk.ReasonPath, "container %q: nothing can be mounted at %q: %s is not the container's own", spec.ID, m.Path, own)
			}
		}
	}
	return nil
}

// create makes the container that is not there, or only in parts. Its lock is held.
func (w *worker) create(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	rec := containerRecord{Spec: spec, State: sdk.ContainerCreating, Attempt: rand.Text()}
	defer w.mark(w.making, rec.Attempt)()
	var needed []sdk.VolumeID
	for _, m := range spec.Mounts {
		needed = append(needed, m.Volume)
	}
	if spec.Image.Volume != "" {
		needed = append(needed, spec.Image.Volume)
	}
	volumes, unlock, err := w.Share(ctx, needed...)
	if err != nil {
		return err
	}
	defer unlock()
	for _, m := range spec.Mounts {
		if volumes[m.Volume].State == sdk.VolumeSealed && !m.ReadOnly {
			return sealedMount(m)
		}
	}
	if image := spec.Image.Volume; image != "" && volumes[image].State != sdk.VolumeSealed {
		return sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, string(image),
			"volume %q is the image of container %q and must be sealed", image, spec.ID)
	}
	if err := w.containers.Write(string(spec.ID), rec); err != nil {
		return err
	}
	w.driver.Forget(spec.ID) // no call on an attempt before may end up in this one
	if _, err := w.build(ctx, rec, progress); err != nil {
		return err
	}
	rec.State = sdk.ContainerReady
	return w.containers.Write(string(spec.ID), rec)
}

// build makes the files and starts the container, over what an attempt that was cut off has left.
func (w *worker) build(ctx context.Context, rec containerRecord, progress func(sdk.Progress)) (shim.Info, error) {
	id := string(rec.Spec.ID)
	if err := w.engine.Delete(ctx, id); err != nil {
		return shim.Info{}, err
	}
	rootfs, scratch, program := w.containers.Path(id, "rootfs"), w.containers.Path(id, "scratch"), w.containers.Path(id, "shim")
	for _, old := range []string{rootfs, scratch, program} {
		if err := os.RemoveAll(old); err != nil {
			return shim.Info{}, err
		}
	}
	progress(sdk.Progress{Phase: "copying", Message: "the container's root"})
	if err := w.makeRoot(ctx, rec.Spec, rootfs); err != nil {
		return shim.Info{}, err
	}
	if err := w.checkDir(rec.Spec, rootfs); err != nil {
		return shim.Info{}, err
	}
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return shim.Info{}, err
	}
	if err := volumedir.CopyFile(ctx, w.config.Shim, program); err != nil { // its own: a privileged container could change it
		return shim.Info{}, err
	}
	if err := os.Chmod(program, 0o555); err != nil {
		return shim.Info{}, err
	}
	progress(sdk.Progress{Phase: "starting"})
	if err := w.engine.Create(ctx, w.engineSpec(rec.Spec, rootfs, scratch, program)); err != nil {
		return shim.Info{}, err
	}
	if w.config.Keeper == "init" {
		return w.driver.Start(ctx, rec.Spec.ID)
	}
	return w.driver.Ready(ctx, rec.Spec.ID)
}

func (w *worker) engineSpec(spec sdk.ContainerSpec, rootfs, scratch, program string) engine.Spec {
	s := engine.Spec{
		ID:     string(spec.ID),
		Rootfs: rootfs,
		Mounts: []engine.Mount{
			{Source: program, Path: shimPath, ReadOnly: true},
			{Source: scratch, Path: scratchPath},
		},
		Args:        []string{shimPath, "serve", scratchPath},
		Dir:         spec.Dir,
		CPUMillis:   spec.Limits.CPUMillis,
		DiskBytes:   spec.Limits.DiskBytes,
		Privileged:  spec.Privileged,
		HostNetwork: !spec.Hermetic,
		Annotations: map[string]string{"slipway.container": string(spec.ID)},
	}
	if w.config.Keeper == "init" {
		s.Args = []string{shimPath, "pause"}
	}
	if n := spec.Limits.MemoryBytes; n != 0 {
		s.MemoryBytes = n + shim.OverheadMemoryBytes
	}
	if n := spec.Limits.PIDs; n != 0 {
		s.PIDs = n + shim.OverheadPIDs
	}
	for _, m := range spec.Mounts {
		s.Mounts = append(s.Mounts, engine.Mount{Source: w.Dir(m.Volume), Path: m.Path, ReadOnly: m.ReadOnly})
	}
	return s
}

// makeRoot copies the image, or what every script may expect.
func (w *worker) makeRoot(ctx context.Context, spec sdk.ContainerSpec, rootfs string) error {
	from, err := "", error(nil)
	if spec.Image.Volume != "" {
		from = filepath.Join(w.Dir(spec.Image.Volume), "rootfs")
		if info, err := os.Lstat(from); err != nil || !info.IsDir() {
			return sdk.NewInvalid(sdk.ReasonImage, "container %q: volume %q is no image: it has no directory \"rootfs\"", spec.ID, spec.Image.Volume)
		}
	} else if from, err = w.base(ctx); err != nil {
		return err
	}
	if err := volumedir.Copy(ctx, from, rootfs); err != nil {
		return err
	}
	if spec.Hermetic {
		return nil
	}
	return copyResolver(rootfs)
}

// copyResolver lets a container with the machine's network look up names as the machine does, unless its image says how.
func copyResolver(rootfs string) error {
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{"etc/resolv.conf", "etc/hosts"} {
		text, err := os.ReadFile("/" + name)
		if err != nil {
			continue // the machine has none
		}
		if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if root.MkdirAll("etc", 0o755) != nil {
			continue // an image whose /etc is something else must do without
		}
		if err := root.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// checkDir refuses a Dir that cannot be one. Where it is missing runc makes it.
func (w *worker) checkDir(spec sdk.ContainerSpec, rootfs string) error {
	dir := cmp.Or(spec.Dir, "/")
	source, below, readOnly := rootfs, strings.TrimPrefix(dir, "/"), false
	deepest := -1
	for _, m := range spec.Mounts {
		rel, ok := strings.CutPrefix(dir+"/", m.Path+"/")
		if ok && len(m.Path) > deepest {
			deepest, source, below, readOnly = len(m.Path), w.Dir(m.Volume), rel, m.ReadOnly
		}
		if strings.HasPrefix(m.Path+"/", dir+"/") {
			return nil // it is on the way to a mount, which is made
		}
	}
	root, err := os.OpenRoot(source)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(cmp.Or(path.Clean(below), "."))
	switch {
	case err == nil && !info.IsDir(), errors.Is(err, unix.ENOTDIR):
		return sdk.NewInvalid(sdk.ReasonPath, "container %q: dir %q is no directory", spec.ID, dir)
	case errors.Is(err, fs.ErrNotExist) && readOnly:
		return sdk.NewInvalid(sdk.ReasonPath, "container %q: dir %q is missing and cannot be made in a volume that is mounted read-only", spec.ID, dir)
	}
	return nil
}

// ListContainers emits what there is; runc says what still runs.
func (w *worker) ListContainers(ctx context.Context, filter sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var infos []sdk.ContainerInfo
	err := w.containers.Each(func(id string, rec containerRecord) error {
		if !isProbe(id) && filter.Match(id, rec.Spec.Labels) {
			infos = append(infos, sdk.ContainerInfo{ID: sdk.ContainerID(id), Token: rec.Spec.Token, Labels: rec.Spec.Labels, State: rec.State})
		}
		return ctx.Err()
	})
	if err != nil {
		return volumedir.Fault(err, sdk.KindWorker, w.name)
	}
	if err := w.findGone(ctx, infos); err != nil {
		return volumedir.Fault(err, sdk.KindWorker, w.name)
	}
	for _, info := range infos {
		if err := ctx.Err(); err != nil {
			return err
		}
		if info.State == 0 { // destroyed since
			continue
		}
		if err := emit(info); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// findGone finds those that are ready no more.
func (w *worker) findGone(ctx context.Context, infos []sdk.ContainerInfo) error {
	if !slices.ContainsFunc(infos, func(i sdk.ContainerInfo) bool { return i.State == sdk.ContainerReady }) {
		return nil
	}
	all, err := w.engine.List(ctx)
	if err != nil {
		return err
	}
	runs := make(map[string]bool, len(all))
	for _, c := range all {
		runs[c.ID] = c.Status == engine.Running || c.Status == engine.Paused
	}
	for i := range infos {
		info := &infos[i]
		if info.State != sdk.ContainerReady || runs[string(info.ID)] {
			continue
		}
		rec, err := w.containers.Read(string(info.ID))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			info.State = 0
			continue
		case err != nil:
			return err
		}
		if info.State, info.Reason = sdk.ContainerGone, "its process 1 has ended"; rec.State == sdk.ContainerReady {
			if said, err := w.engine.Output(string(info.ID), 1<<10); err == nil && len(said) > 0 {
				info.Reason += "; it said: " + strings.ToValidUTF8(string(said), "?")
			}
		}
	}
	for i := range infos {
		if infos[i].State == sdk.ContainerGone && infos[i].Reason == "" {
			infos[i].Reason = "it is being destroyed"
		}
	}
	return nil
}

// DestroyContainer kills at once. It is done when nothing of the container can write any more.
func (w *worker) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	if err := sdk.CheckID(sdk.KindContainer, string(id)); err != nil {
		return err
	}
	unlock, err := w.containers.Lock(ctx, string(id), shelf.Exclusive)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return volumedir.Fault(err, sdk.KindContainer, string(id))
	}
	defer unlock()
	rec, err := w.containers.Read(string(id))
	if err == nil {
		defer w.mark(w.ending, rec.Attempt)()
		rec.State = sdk.ContainerGone
		err = w.containers.Write(string(id), rec)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return volumedir.Fault(err, sdk.KindContainer, string(id))
	}
	return volumedir.Fault(w.remove(ctx, id), sdk.KindContainer, string(id))
}

// remove takes away all that there is of a container. Its lock is held.
func (w *worker) remove(ctx context.Context, id sdk.ContainerID) error {
	if err := w.engine.Delete(ctx, string(id)); err != nil {
		return err
	}
	w.driver.Forget(id) // before there may be another one of that id
	return w.containers.Discard(string(id))
}

// quiesce has the containers that can write a volume start nothing more.
func (w *worker) quiesce(ctx context.Context, id sdk.VolumeID) error {
	return w.containers.Each(func(container string, c containerRecord) error {
		if c.State != sdk.ContainerReady || !c.writes(id) {
			return nil
		}
		err := w.driver.Quiesce(ctx, sdk.ContainerID(container))
		switch {
		case errors.Is(err, sdk.ReasonInUse):
			return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, string(id),
				"volume %q: a process lives in container %q, which can write it; end it before sealing", id, container)
		case sdk.IsNotFound(err, sdk.KindContainer), errors.Is(err, sdk.ReasonRecordLost): // nothing of it can run
			return nil
		}
		return err
	})
}

func dead(id sdk.ContainerID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, string(id), "container %q is gone and takes no process; destroy it", id)
}

func sealedMount(m sdk.Mount) error {
	return sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(m.Volume),
		"volume %q at %q is sealed and can only be mounted read-only", m.Volume, m.Path)
}

func creating(id sdk.ContainerID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonCreating, sdk.KindContainer, string(id), "container %q is half made; create it again or destroy it", id)
}

func lost(id sdk.ContainerID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonRecordLost, sdk.KindContainer, string(id),
		"container %q: its process 1 has ended, and nothing can be read of its processes; destroy it", id)
}
