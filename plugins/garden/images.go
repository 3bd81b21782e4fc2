package garden

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/slipway-run/slipway/plugins/garden/internal/claim"
	"github.com/slipway-run/slipway/sdk"
)

// root is what a container's root is made of.
type root struct {
	uri    string // for Garden
	handle string // of the volume; empty: the server's own image plugin has it
	below  string // where in the volume, relative; empty: its root
	tree   string // what the volume was cloned from: a key of trees; it never changes
}

// makeRoot makes the volume of a container's root.
func (w *worker) makeRoot(ctx context.Context, spec sdk.ContainerSpec, properties map[string]string) (root, error) {
	r := root{handle: rootVolume(spec.ID)}
	own := claim.Own{Handle: r.handle, Privileged: spec.Privileged, Properties: properties}
	ref := spec.Image.Ref
	name, isType := strings.CutPrefix(ref, sdk.ResourceTypePrefix)
	switch {
	case spec.Image.Volume != "":
		sealed, err := w.store.Sealed(ctx, spec.Image.Volume)
		if err != nil {
			return root{}, err
		}
		if !sealed {
			return root{}, sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, string(spec.Image.Volume),
				"volume %q is the image of container %q and must be sealed", spec.Image.Volume, spec.ID)
		}
		dir, err := w.store.IsDir(ctx, string(spec.Image.Volume), "rootfs")
		if err != nil {
			return root{}, err
		}
		if !dir {
			return root{}, sdk.NewInvalid(sdk.ReasonImage, "container %q: volume %q is no image: it has no directory \"rootfs\"", spec.ID, spec.Image.Volume)
		}
		own.Clone, own.Shared, r.below = string(spec.Image.Volume), true, "rootfs"
	case isType:
		t, ok := w.config.resourceType(name)
		if !ok {
			return root{}, sdk.NewInvalid(sdk.ReasonImage, "container %q: worker %q has no resource type %q", spec.ID, w.name, name)
		}
		if t.Privileged && !spec.Privileged {
			return root{}, sdk.NewInvalid(sdk.ReasonImage, "container %q: resource type %q needs a privileged container", spec.ID, name)
		}
		base, err := w.imported(ctx, t.Image, t.Version, spec.Privileged)
		if err != nil {
			return root{}, err
		}
		own.Clone = base.ID
	case ref != "":
		return root{uri: ref}, w.fetched(spec.ID, ref)
	case w.config.Rootfs != "":
		base, err := w.imported(ctx, w.config.Rootfs, "", spec.Privileged)
		if err != nil {
			return root{}, err
		}
		own.Clone = base.ID
	default:
		return root{}, sdk.NewInvalid(sdk.ReasonImage, "container %q has no image: name one, or set \"rootfs\" of worker %q to a directory for containers without", spec.ID, w.name)
	}
	r.tree = own.Clone
	v, err := w.store.Make(ctx, own)
	r.uri = "raw://" + v.Path
	if r.below != "" {
		r.uri += "/" + r.below
	}
	return r, err
}

// fetched refuses references to anything but an image of a registry: servers take others for paths of their own machine, which are not a user's to
// name. The worst is raw:///, the machine's root.
func (w *worker) fetched(id sdk.ContainerID, ref string) error {
	if u, err := url.Parse(ref); err != nil || u.Scheme != "docker" {
		return sdk.NewInvalid(sdk.ReasonImage, "container %q: image %q is neither %sNAME nor docker://..., and worker %q passes nothing else on", id, ref, sdk.ResourceTypePrefix, w.name)
	}
	return nil
}

// imported gives the volume that holds what lies at a path on the worker, which is imported once.
func (w *worker) imported(ctx context.Context, path, version string, privileged bool) (claim.Volume, error) {
	v, err := w.store.Base(ctx, claim.Base{Key: fmt.Sprintf("import/%q%s", version, path), Privileged: privileged, Import: path})
	if e, ok := errors.AsType[*sdk.Error](err); ok && e.Class == sdk.Invalid {
		return v, &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonImage, Cause: e.Cause,
			Message: fmt.Sprintf("worker %q: what its operator set as an image cannot be one: %s", w.name, e.Message)}
	}
	return v, err
}

// shimBase gives the volume that holds the shim, for containers of one kind: bin with the program, and scratch, for its records.
func (w *worker) shimBase(ctx context.Context, privileged bool) (claim.Volume, error) {
	return w.store.Base(ctx, claim.Base{
		Key: "shim/" + w.digest, Privileged: privileged,
		Fill: func(put func(io.Reader) error) error {
			r, pw := io.Pipe()
			written := make(chan error, 1)
			go func() {
				err := writeShim(pw, w.config.Shim)
				pw.CloseWithError(err)
				written <- err
			}()
			err := put(r)
			r.CloseWithError(io.ErrClosedPipe)
			if fault := <-written; err == nil {
				err = fault
			}
			return err
		},
	})
}

// writeShim writes the archive of a shim's volume.
func writeShim(w io.Writer, program string) error {
	f, err := os.Open(program)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	when := time.Unix(0, 0) // so that all volumes of one program are the same
	tw := tar.NewWriter(w)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "scratch/", Mode: 0o700, ModTime: when},
		{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755, ModTime: when},
		{Typeflag: tar.TypeReg, Name: "bin/shim", Mode: 0o755, ModTime: when, Size: info.Size()},
	} {
		if err := tw.WriteHeader(&h); err != nil {
			return err
		}
	}
	if _, err := io.Copy(tw, f); err != nil {
		return err
	}
	return tw.Close()
}
