package mutant

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// namedMutants name a feature and do without it.
func namedMutants() []Mutant {
	container := func(change func(*sdk.ContainerSpec)) func(sdk.Worker) sdk.Worker {
		return func(w sdk.Worker) sdk.Worker {
			return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
				change(&spec)
				return w.CreateContainer(ctx, spec, progress)
			}}
		}
	}
	entries := func(change entryFunc) func(sdk.Worker) sdk.Worker {
		return unpacker(func() entryFunc { return change })
	}
	return []Mutant{
		{
			ID: "live-clone-empty", Doc: "a clone of an open volume is empty", Rule: 9, Killers: []string{"Y06-clone-live"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
					open := false
					err := w.ListVolumes(ctx, sdk.Filter{ID: string(spec.Clone)}, func(v sdk.VolumeInfo) error {
						open = spec.Clone != "" && v.State == sdk.VolumeOpen
						return nil
					})
					if err != nil {
						return err
					}
					if open {
						spec.Clone = ""
					}
					return w.CreateVolume(ctx, spec)
				}}
			},
		},
		{
			ID: "network-given", Doc: "hermetic containers have the network that others have", Rule: 14, Killers: []string{"Y07-network-none"},
			breaks: container(func(s *sdk.ContainerSpec) { s.Hermetic = false }),
		},
		{
			ID: "privilege-dropped", Doc: "privileged containers are like others", Rule: 14, Killers: []string{"Y08-privileged"},
			breaks: container(func(s *sdk.ContainerSpec) { s.Privileged = false }),
		},
		{
			ID: "all-privileged", Doc: "every container is privileged", Rule: 14, Killers: []string{"Y08-privileged"},
			breaks: container(func(s *sdk.ContainerSpec) { s.Privileged = true }),
		},
		{
			ID: "holes-filled", Doc: "archives that come out have zeros for holes", Rule: 14, Killers: []string{"Y12-tar-sparse"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
					r, pw := io.Pipe()
					go func() { pw.CloseWithError(w.StreamOut(ctx, id, out, pw)) }() // ends with what reads it
					defer r.Close()
					return rewrite(dst, r, func(h *tar.Header, data []byte) ([]byte, bool) {
						if h.Typeflag == tar.TypeGNUSparse {
							h.Typeflag = tar.TypeReg
						}
						for name := range h.PAXRecords {
							if len(name) > 4 && name[:4] == "GNU." {
								delete(h.PAXRecords, name)
							}
						}
						return data, true
					})
				}}
			},
		},
		{
			ID: "directories-touched", Doc: "directories get the time at which they were unpacked", Rule: 14, Killers: []string{"Y13-tar-dir-mtimes"},
			breaks: entries(func(h *tar.Header, data []byte) ([]byte, bool) {
				if h.Typeflag == tar.TypeDir {
					h.ModTime = time.Now()
				}
				return data, true
			}),
		},
		{
			ID: "devices-alike", Doc: "all devices have the numbers of /dev/null", Rule: 14, Killers: []string{"Y14-tar-devices"},
			breaks: entries(func(h *tar.Header, data []byte) ([]byte, bool) {
				if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
					h.Devmajor, h.Devminor = 1, 3
				}
				return data, true
			}),
		},
		{
			ID: "reference-ignored", Doc: "an image that is named by a reference is not used", Rule: 14, Killers: []string{"Y09-image-ref"},
			breaks: container(func(s *sdk.ContainerSpec) { s.Image.Ref = "" }),
		},
		{
			ID: "import-empty", Doc: "a volume that should be imported is empty", Rule: 14, Killers: []string{"V13-import"},
			breaks: importer(func(ctx context.Context, w sdk.Worker, spec sdk.VolumeSpec) error {
				spec.Import = ""
				return w.CreateVolume(ctx, spec)
			}),
		},
		{
			ID: "import-shared", Doc: "what is imported again is what the first import has become", Rule: 14, Killers: []string{"V13-import"},
			breaks: func(w sdk.Worker) sdk.Worker {
				var mu sync.Mutex
				first := make(map[string]sdk.VolumeID)
				return importer(func(ctx context.Context, w sdk.Worker, spec sdk.VolumeSpec) error {
					mu.Lock()
					defer mu.Unlock()
					from, again := spec.Import, first[spec.Import]
					if again != "" {
						spec.Import, spec.Clone = "", again
					}
					err := w.CreateVolume(ctx, spec)
					if err == nil && again == "" {
						first[from] = spec.ID
					}
					return err
				})(w)
			},
		},
		{
			ID: "import-never-fails", Doc: "what cannot be imported is an empty volume", Rule: 14, Killers: []string{"V13-import"},
			breaks: importer(func(ctx context.Context, w sdk.Worker, spec sdk.VolumeSpec) error {
				err := w.CreateVolume(ctx, spec)
				if errors.Is(err, sdk.Invalid) {
					spec.Import = ""
					return w.CreateVolume(ctx, spec)
				}
				return err
			}),
		},
	}
}

// importer imports volumes in its own way.
func importer(create func(ctx context.Context, w sdk.Worker, spec sdk.VolumeSpec) error) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
			if spec.Import == "" {
				return w.CreateVolume(ctx, spec)
			}
			return create(ctx, w, spec)
		}}
	}
}
