//go:build linux

package machine

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shelf"
	"github.com/slipway-run/slipway/sdk/shim"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

// Where the shim is in every container.
const (
	shimDir     = "/slipway"
	shimPath    = shimDir + "/shim"
	scratchPath = shimDir + "/scratch"
)

// notOwn are directories of every root that are not the container's to mount at.
func notOwn() []string { return []string{shimDir, "/proc", "/sys", "/dev"} }

// cleanup bounds what is done after a failure.
const cleanup = 30 * time.Second

// CreateContainer makes a container whole. After an error nothing is left of it, or what is left is listed as half made.
func (w *Worker) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
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
		rec = record{}
	case err != nil:
		return volumedir.Fault(err, sdk.KindContainer, id)
	case rec.Spec.Token != spec.Token:
		return sdk.NewAlreadyExists(sdk.KindContainer, id)
	case rec.State == sdk.ContainerReady:
		ok, _, err := w.runs(ctx, rec)
		if err == nil && !ok {
			err = dead(spec.ID)
		}
		return volumedir.Fault(err, sdk.KindContainer, id)
	case rec.State == sdk.ContainerGone:
		return dead(spec.ID)
	}
	if rec.State == sdk.ContainerCreating { // an attempt was cut off
		if err := w.clear(ctx, rec); err != nil {
			return volumedir.Fault(err, sdk.KindContainer, id)
		}
	}
	err = w.create(ctx, spec, progress)
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	if undone := w.remove(undo, spec.ID); undone != nil {
		w.o.Log.Error("a container is left half made", "container", id, "error", undone)
	}
	return volumedir.Fault(err, sdk.KindContainer, id)
}

// create makes the container that is not there. Its lock is held.
func (w *Worker) create(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
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
	_, err = w.build(ctx, spec, volumes, progress)
	return err
}

// build makes the files of a container that has none, starts it, and records it as ready. Its volumes are shared.
func (w *Worker) build(ctx context.Context, spec sdk.ContainerSpec, volumes map[sdk.VolumeID]volumedir.Volume, progress func(sdk.Progress)) (shim.Info, error) {
	id := string(spec.ID)
	rec := record{Spec: spec, State: sdk.ContainerCreating, Attempt: rand.Text(), Boot: w.boot}
	defer w.mark(w.making, rec.Attempt)()
	w.driver.Forget(spec.ID) // no call on an attempt before may end up in this one
	if err := w.containers.Write(id, rec); err != nil {
		return shim.Info{}, err
	}
	progress(sdk.Progress{Phase: "copying", Message: "the container's root"})
	c := w.container(rec)
	if err := w.makeRoot(ctx, spec, c.Root); err != nil {
		return shim.Info{}, err
	}
	if err := os.Mkdir(c.Dir, 0o700); err != nil {
		return shim.Info{}, err
	}
	var err error
	if rec.Mounts, err = w.makePlaces(spec, c.Root, volumes); err != nil {
		return shim.Info{}, err
	}
	if err := w.containers.Write(id, rec); err != nil {
		return shim.Info{}, err
	}
	progress(sdk.Progress{Phase: "starting"})
	if err := w.f.Create(ctx, w.container(rec)); err != nil {
		return shim.Info{}, err
	}
	info, err := w.driver.Ready(ctx, spec.ID)
	if err != nil {
		return shim.Info{}, err
	}
	rec.State = sdk.ContainerReady
	return info, w.containers.Write(id, rec)
}

// makeRoot copies the image, or what every container has without one, and puts the shim there.
func (w *Worker) makeRoot(ctx context.Context, spec sdk.ContainerSpec, root string) error {
	from, err := "", error(nil)
	if spec.Image.Volume != "" {
		from = filepath.Join(w.Dir(spec.Image.Volume), "rootfs")
		if info, err := os.Lstat(from); err != nil || !info.IsDir() {
			return sdk.NewInvalid(sdk.ReasonImage, "container %q: volume %q is no image: it has no directory \"rootfs\"", spec.ID, spec.Image.Volume)
		}
	} else if from, err = w.base(ctx); err != nil {
		return err
	}
	if err := volumedir.Copy(ctx, from, root); err != nil {
		return err
	}
	files, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer files.Close()
	for _, dir := range notOwn() {
		dir = strings.TrimPrefix(dir, "/")
		if info, err := files.Lstat(dir); err == nil && info.IsDir() && "/"+dir != shimDir {
			continue // whatever the image has there is hidden
		}
		if err := files.RemoveAll(dir); err != nil { // what the image has there may be a link to anywhere
			return err
		}
		if err := makeDir(files, dir); err != nil {
			return err
		}
	}
	if err := files.Mkdir(strings.TrimPrefix(scratchPath, "/"), 0o700); err != nil {
		return err
	}
	if err := copyProgram(ctx, w.o.Shim, root+shimPath); err != nil { // its own: root there may change it
		return err
	}
	if err := files.Chmod(strings.TrimPrefix(shimPath, "/"), 0o555); err != nil {
		return err
	}
	if spec.Hermetic {
		return nil
	}
	return copyResolver(files)
}

// copyResolver lets a container with the machine's network look up names as the machine does, unless its image says how.
func copyResolver(root *os.Root) error {
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

// makePlaces makes mount points and the container's working directory.
func (w *Worker) makePlaces(spec sdk.ContainerSpec, root string, volumes map[sdk.VolumeID]volumedir.Volume) ([]Mount, error) {
	p, err := newPlaces(root)
	if err != nil {
		return nil, err
	}
	defer p.close()
	unfit := func(what, path string, err error) error {
		if isDiskError(err) {
			return err
		}
		return sdk.NewInvalid(sdk.ReasonPath, "container %q: %s %q cannot be: %v", spec.ID, what, path, err)
	}
	mounts := slices.Clone(spec.Mounts)
	slices.SortFunc(mounts, func(a, b sdk.Mount) int { return cmp.Compare(a.Path, b.Path) }) // outer ones first
	var made []Mount
	for _, m := range mounts {
		at, err := p.find(m.Path)
		if err != nil {
			return nil, unfit("mount path", m.Path, err)
		}
		if at == "/" || slices.ContainsFunc(made, func(o Mount) bool { return o.Path == at || strings.HasPrefix(o.Path, at+"/") }) {
			return nil, unfit("mount path", m.Path, errors.New("by the image's links it would hide another mount, or all"))
		}
		for _, own := range notOwn() {
			if at == own || strings.HasPrefix(at, own+"/") {
				return nil, unfit("mount path", m.Path, errors.New(own+" is not the container's own"))
			}
		}
		made = append(made, Mount{Source: w.Dir(m.Volume), Path: at, Target: filepath.Join(root, at), ReadOnly: m.ReadOnly})
		if err := p.mount(w.Dir(m.Volume), at, m.ReadOnly || volumes[m.Volume].State == sdk.VolumeSealed); err != nil {
			return nil, err
		}
	}
	if _, err := p.find(cmp.Or(spec.Dir, "/")); err != nil {
		return nil, unfit("dir", spec.Dir, err)
	}
	return made, nil
}

// clear takes away what an attempt to make a container has left, but for its record. Its lock is held.
func (w *Worker) clear(ctx context.Context, rec record) error {
	c := w.container(rec)
	if err := w.f.Destroy(ctx, c); err != nil {
		return err
	}
	return errors.Join(shelf.Remove(c.Root), shelf.Remove(c.Dir))
}

// copyProgram copies a file that is executed right afterwards. Whatever this process starts meanwhile inherits the open copy, and closes
// it a moment after it was started: until then the kernel calls the copy busy and executes it for nobody. So nothing is started meanwhile.
func copyProgram(ctx context.Context, from, to string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return volumedir.CopyFile(ctx, from, to)
}
