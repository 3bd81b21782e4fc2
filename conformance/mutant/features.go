package mutant

import (
	"bytes"
	"context"
	"io"

	"github.com/slipway-run/slipway/sdk"
)

// featureMutants are broken in what they say that they can do, and in when they do it.
func featureMutants() []Mutant {
	return []Mutant{
		{
			ID: "limits-ignored", Doc: "limits that cannot be kept are ignored", Rule: 14,
			Killers: []string{"Y02-undeclared"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
					spec.Limits = sdk.Resources{}
					return w.CreateContainer(ctx, spec, progress)
				}}
			},
		},
		{
			ID: "root-granted", Doc: "whoever asks for root gets whatever user there is", Rule: 14,
			Killers: []string{"Y05-undeclared-user"},
			breaks: specChanged(func(s *sdk.ProcessSpec) {
				if s.User == "root" || s.User == "0" || s.User == "0:0" {
					s.User = ""
				}
			}),
		},
		{
			ID: "offset-ignored", Doc: "files are read from their beginning", Rule: 14,
			Killers: []string{"Y03-files-read"}, breaks: offsetIgnored,
		},
		{
			ID: "image-forgotten", Doc: "containers do not get the image that they were given", Rule: 9,
			Killers: []string{"Y04-image-volume"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
					spec.Image = sdk.Image{}
					return w.CreateContainer(ctx, spec, progress)
				}}
			},
		},
		{
			ID: "empty-image-refused", Doc: "an image that holds nothing is refused", Rule: 8,
			Killers: []string{"C17-empty-image"}, breaks: emptyImageRefused,
		},
		{
			ID: "cancel-ignored", Doc: "a context that has ended ends no call", Rule: 2, Near: true,
			Killers: []string{"K01-cancelled-before"}, breaks: cancelIgnored,
		},
	}
}

func offsetIgnored(w sdk.Worker) sdk.Worker {
	b := &broken{Worker: w}
	good := broken{Worker: w}
	b.readFile = func(ctx context.Context, id sdk.VolumeID, path string, offset, length int64, dst io.Writer) error {
		var whole bytes.Buffer
		if err := good.ReadFile(ctx, id, path, 0, -1, &whole); err != nil {
			return err
		}
		if length < 0 {
			length = int64(whole.Len())
		}
		_, err := io.CopyN(dst, &whole, min(length, int64(whole.Len())))
		return err
	}
	return b
}

func emptyImageRefused(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
		if spec.Image.Volume == "" {
			return w.CreateContainer(ctx, spec, progress)
		}
		var b bytes.Buffer
		if err := w.StreamOut(ctx, spec.Image.Volume, sdk.StreamOut{Path: "rootfs"}, &b); err != nil {
			return err
		}
		empty, err := isEmpty(&b)
		if err != nil {
			return err
		}
		if empty {
			return sdk.NewInvalid(sdk.ReasonImage, "image %q has no shell", spec.Image.Volume)
		}
		return w.CreateContainer(ctx, spec, progress)
	}}
}

func cancelIgnored(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w,
		createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
			return w.CreateVolume(context.WithoutCancel(ctx), spec)
		},
		startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			return w.StartProcess(context.WithoutCancel(ctx), id, spec)
		},
	}
}
