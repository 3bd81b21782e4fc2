package mutant

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// transferMutants are broken in how archives go in and out.
func transferMutants() []Mutant {
	return []Mutant{
		{
			ID: "whole-path-named", Doc: "a file that is streamed out alone is named by its whole path", Rule: 9,
			Killers: []string{"F14-single-file"}, breaks: wholePathNamed,
		},
		{
			ID: "subpath-ignored", Doc: "archives always go into the volume's root", Rule: 9,
			Killers: []string{"F15-subpath"},
			breaks: pathsIn(func(p string) string {
				if strings.Contains(p, "..") {
					return p
				}
				return ""
			}),
		},
		{
			ID: "dotdot-cleaned", Doc: "a path that leaves the volume is cleaned until it does not", Rule: 9,
			Killers: []string{"F15-subpath"}, Near: true, breaks: dotdotCleaned, // else sdk.Checked refuses the path before it
		},
		{
			ID: "path-blamed-on-archive", Doc: "where the path of a stream cannot be, its archive is told to be damaged", Rule: 9,
			Killers: []string{"F49-path-passes"}, breaks: pathBlamedOnArchive,
		},
		{
			ID: "absolute-path-taken", Doc: "a slash at the beginning of a path is ignored", Rule: 11,
			Killers: []string{"F18-absolute-path"}, Near: true, breaks: pathsIn(func(p string) string { return strings.TrimLeft(p, "/") }),
		},
		{
			ID: "bad-archive-accepted", Doc: "an archive that is damaged or leaves the volume counts as done", Rule: 9,
			Killers: []string{"F16-damaged", "Z01-dotdot", "Z03-hard-link"},
			breaks:  archiveErrorsTaken(func(sdk.StreamIn) bool { return true }),
		},
		{
			ID: "half-encoded-accepted", Doc: "an encoded archive that ends early counts as done", Rule: 9,
			Killers: []string{"F22-encodings"},
			breaks:  archiveErrorsTaken(func(in sdk.StreamIn) bool { return in.Encoding != "" && in.Encoding != sdk.EncodingRaw }),
		},
		{
			ID: "encoding-guessed", Doc: "an encoding that nobody knows is taken for none", Rule: 9,
			Killers: []string{"F17-encoding-unknown"}, breaks: encodingGuessed,
		},
		{
			ID: "missing-is-empty", Doc: "streaming out what is not there gives an empty archive", Rule: 9,
			Killers: []string{"F19-missing"}, breaks: missingIsEmpty,
		},
		{
			ID: "caller-error-wrapped", Doc: "an error of the caller's reader or writer comes back in other words", Rule: 14, Near: true,
			Killers: []string{"F23-caller-errors"}, breaks: streamErrors(func(err error) bool { return sdk.ClassOf(err) == sdk.Internal }),
		},
		{
			ID: "cancel-is-failure", Doc: "a stream that is cancelled ends with an error of the worker's", Rule: 14, Near: true,
			Killers: []string{"K04-cancel-stream"}, breaks: streamErrors(func(err error) bool { return errors.Is(err, context.Canceled) }),
		},
		{
			ID: "existing-kept", Doc: "what is there already is not replaced", Rule: 9,
			Killers: []string{"F24-replace"}, breaks: existingKept,
		},
	}
}

func wholePathNamed(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
		var b, changed bytes.Buffer
		if err := w.StreamOut(ctx, id, out, &b); err != nil || out.Path == "" {
			_, copying := io.Copy(dst, &b)
			return errors.Join(err, copying)
		}
		err := rewrite(&changed, &b, func(h *tar.Header, data []byte) ([]byte, bool) {
			if h.Name == path.Base(out.Path) {
				h.Name = out.Path
			}
			return data, true
		})
		if err != nil {
			return err
		}
		_, err = io.Copy(dst, &changed)
		return err
	}}
}

// pathsIn breaks the path of StreamIn.
func pathsIn(change func(string) string) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
			in.Path = change(in.Path)
			return w.StreamIn(ctx, id, in, r)
		}}
	}
}

func dotdotCleaned(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
		if strings.Contains(out.Path, "..") {
			out.Path = strings.TrimPrefix(path.Clean("/"+out.Path), "/")
		}
		return w.StreamOut(ctx, id, out, dst)
	}}
}

func archiveErrorsTaken(where func(sdk.StreamIn) bool) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
			err := w.StreamIn(ctx, id, in, r)
			if errors.Is(err, sdk.ReasonArchive) && where(in) {
				return nil
			}
			return err
		}}
	}
}

func encodingGuessed(w sdk.Worker) sdk.Worker {
	known := func(encoding string) string {
		if encoding == "gzip" || encoding == "zstd" {
			return encoding
		}
		return ""
	}
	return &broken{Worker: w,
		streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
			in.Encoding = known(in.Encoding)
			return w.StreamIn(ctx, id, in, r)
		},
		streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
			out.Encoding = known(out.Encoding)
			return w.StreamOut(ctx, id, out, dst)
		},
	}
}

func missingIsEmpty(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
		err := w.StreamOut(ctx, id, out, dst)
		if sdk.IsNotFound(err, sdk.KindFile) {
			return tar.NewWriter(dst).Close()
		}
		return err
	}}
}

// streamErrors says some errors of streams in other words.
func streamErrors(which func(error) bool) func(sdk.Worker) sdk.Worker {
	wrap := func(err error) error {
		if err == nil || !which(err) {
			return err
		}
		return sdk.NewInternal(nil, "streaming: %v", err)
	}
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w,
			streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
				return wrap(w.StreamIn(ctx, id, in, r))
			},
			streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
				return wrap(w.StreamOut(ctx, id, out, dst))
			},
		}
	}
}

func existingKept(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
		there := make(map[string]bool)
		var b, changed bytes.Buffer
		if err := w.StreamOut(ctx, id, sdk.StreamOut{}, &b); err != nil {
			return err
		}
		err := rewrite(io.Discard, &b, func(h *tar.Header, data []byte) ([]byte, bool) {
			there[path.Join("/", h.Name)] = true
			return data, true
		})
		if err != nil {
			return err
		}
		err = rewrite(&changed, r, func(h *tar.Header, data []byte) ([]byte, bool) {
			return data, !there[path.Join("/", in.Path, h.Name)]
		})
		if err != nil {
			return err
		}
		return w.StreamIn(ctx, id, in, &changed)
	}}
}

func pathBlamedOnArchive(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
		err := w.StreamIn(ctx, id, in, r)
		if errors.Is(err, sdk.ReasonPath) {
			return sdk.NewInvalid(sdk.ReasonArchive, "volume %q: %v", id, err)
		}
		return err
	}}
}
