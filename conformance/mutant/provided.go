package mutant

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/sdk"
)

// What an operator has made ready on a worker that is [provided].
const (
	imageRef, imageFile, imageText = "provided:1", "/provided", "by the image"
	importPath                     = "/provided/tree"

	// Destroying the volumes of these ids, which nobody else uses, takes the worker's server away and brings it back.
	takeAway, bringBack = sdk.VolumeID("provided-away"), sdk.VolumeID("provided-back")
)

// given says the same to the suite.
func (s *standing) given() conformance.Given {
	if !s.Extras {
		return conformance.Given{}
	}
	return conformance.Given{ImageRef: imageRef, ImageFile: imageFile, Import: importPath}
}

// away takes away the server of the worker of that name; nil where it has none.
func (s *standing) away(name string) func(context.Context) (func() error, error) {
	if !s.Extras {
		return nil
	}
	return func(ctx context.Context) (func() error, error) {
		w, err := s.inst.Runtime.Worker(name)
		if err != nil {
			return nil, err
		}
		return func() error { return w.DestroyVolume(context.WithoutCancel(ctx), bringBack) }, w.DestroyVolume(ctx, takeAway)
	}
}

// provided is a worker on which an operator has made something ready, and behind which there seems to be a server.
type provided struct {
	sdk.Worker

	mu    sync.Mutex
	image sdk.VolumeID // what imageRef stands for; empty: nobody has asked for it yet
	gone  bool         // the server is away
}

var errServerAway = &sdk.Error{Class: sdk.Unavailable, Message: "the server provided.example is away"}

// reach is nil unless the server is away.
func (p *provided) reach() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return errServerAway
	}
	return nil
}

func (p *provided) Status(ctx context.Context) (sdk.Status, error) {
	s, err := p.Worker.Status(ctx)
	if err != nil {
		return s, err
	}
	s.Features = append(slices.Clone(s.Features), sdk.FeatureImageRef, sdk.FeatureVolumeImport)
	if p.reach() != nil {
		s.Health, s.Reason = sdk.Away, errServerAway.Message
	}
	return s, nil
}

func (p *provided) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	if err := p.reach(); err != nil {
		return err
	}
	from := spec.Import
	spec.Import = ""
	if from == "" {
		return p.Worker.CreateVolume(ctx, spec)
	}
	if from != importPath {
		return sdk.NewInvalid(sdk.ReasonPath, "volume %q: the path to import %q is not there, or not allowed", spec.ID, from)
	}
	if err := p.Worker.CreateVolume(ctx, spec); err != nil {
		return err
	}
	return p.fill(ctx, spec.ID, "imported", "by the operator")
}

// fill puts a file into a volume.
func (p *provided) fill(ctx context.Context, id sdk.VolumeID, path, text string) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	return p.Worker.StreamIn(ctx, id, sdk.StreamIn{}, &b)
}

func (p *provided) ListVolumes(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	if err := p.reach(); err != nil {
		return err
	}
	return p.Worker.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error {
		p.mu.Lock()
		own := v.ID == p.image
		p.mu.Unlock()
		if own {
			return nil
		}
		return emit(v)
	})
}

func (p *provided) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	if id == takeAway || id == bringBack {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.gone = id == takeAway
		return nil
	}
	return p.Worker.DestroyVolume(ctx, id)
}

func (p *provided) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	switch spec.Image.Ref {
	case "":
		return p.Worker.CreateContainer(ctx, spec, progress)
	case imageRef:
		image, err := p.pull(ctx)
		if err != nil {
			return err
		}
		spec.Image = sdk.Image{Volume: image}
		return p.Worker.CreateContainer(ctx, spec, progress)
	}
	return sdk.NewInvalid(sdk.ReasonImage, "container %q: there is no image %q", spec.ID, spec.Image.Ref)
}

// pull makes what imageRef stands for, once.
func (p *provided) pull(ctx context.Context) (sdk.VolumeID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.image != "" {
		return p.image, nil
	}
	id := sdk.VolumeID("provided-" + strings.ToLower(string(sdk.NewToken())))
	if err := p.Worker.CreateVolume(ctx, sdk.VolumeSpec{ID: id, Token: sdk.NewToken()}); err != nil {
		return "", err
	}
	if err := p.fill(ctx, id, "rootfs"+imageFile, imageText); err != nil {
		return "", err
	}
	if err := p.Worker.SealVolume(ctx, id); err != nil {
		return "", err
	}
	p.image = id
	return id, nil
}
