package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// Artifact is a named handle to content, wherever that is: on one worker, on several, or still in a directory of this
// machine. Its content never changes.
type Artifact struct {
	ID   string
	Name string
}

// DefaultArtifactTTL is how long an artifact that nobody owns is kept where the configuration says nothing else.
const DefaultArtifactTTL = 12 * time.Hour

// ttlOf is how long an artifact is kept after its last use once nobody owns it.
func (h *Host) ttlOf(row store.Artifact) time.Duration { return cmp.Or(row.TTL, h.artifactTTL()) }

func (h *Host) artifactTTL() time.Duration { return cmp.Or(h.cfg().Artifacts.TTL, DefaultArtifactTTL) }

// AddDir makes a directory of this machine an artifact under a name, or finds the one of that name. It is not read before a
// worker needs it; what is read then is what the artifact is. Adding the directory again, after a restart, gives the
// artifact its source back.
func (h *Host) AddDir(ctx context.Context, name, owner, dir string) (*Artifact, error) {
	return h.addDir(ctx, name, owner, dir, "")
}

func (h *Host) addDir(ctx context.Context, name, owner, dir, source string) (*Artifact, error) {
	a, err := h.findOrAddArtifact(ctx, name, owner, source)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.local[a.ID] = dir
	h.mu.Unlock()
	return a, nil
}

func (h *Host) findOrAddArtifact(ctx context.Context, name, owner, source string) (*Artifact, error) {
	var row store.Artifact
	err := h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) (err error) {
		if row, err = tx.ArtifactByName(name); !errors.Is(err, store.ErrNotFound) {
			return err
		}
		now, ttl := h.clock.wall(), h.artifactTTL()
		row = store.Artifact{ID: newID("a"), Name: name, Owner: owner, Source: source, TTL: ttl, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(ttl)}
		return h.putArtifact(tx, row)
	})
	if err != nil {
		return nil, err
	}
	return &Artifact{ID: row.ID, Name: row.Name}, nil
}

// Artifact finds an artifact by its name. One that is not there is NotFound of KindArtifact, and a store.ErrNotFound.
func (h *Host) Artifact(ctx context.Context, name string) (*Artifact, error) {
	var a *Artifact
	err := h.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.ArtifactByName(name)
		if err != nil {
			return noArtifact(name, err)
		}
		a = &Artifact{ID: row.ID, Name: row.Name}
		return nil
	})
	return a, err
}

// noArtifact says of an artifact that its row is not there; any other error stays as it is.
func noArtifact(name string, err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return &sdk.Error{Class: sdk.NotFound, Kind: KindArtifact, ID: name, Cause: err,
		Message: fmt.Sprintf("there is no artifact %s: it was never made, was removed, or its time has passed", name)}
}

// volumeNeeded tells whether something on its worker is made of a volume: a clone, or a container that has it without a copy, each until it is
// destroyed.
func volumeNeeded(tx *store.Tx, row store.Volume) (bool, error) {
	clones, err := tx.Volumes(store.VolumeFilter{Parent: row.ID, Worker: row.Worker})
	if err != nil || len(clones) > 0 {
		return true, err
	}
	images, going, err := imagesInUse(tx)
	return images[row.ID] || going[row.ID], err
}

// Download writes an artifact as a tar archive. While no byte was written, another source of the content is asked where one is
// away, has lost it or is damaged. After an error w may have got a part, which lacks its end.
func (h *Host) Download(ctx context.Context, a *Artifact, w io.Writer) error {
	if err := h.readAnywhere(ctx, a, w, func(ctx context.Context, src source, w io.Writer) error { return src.read(ctx, w) }); err != nil {
		return fmt.Errorf("download %s %w", a.Name, err)
	}
	return nil
}

// DownloadDir writes an artifact to a directory, which is there whole or not at all. A target that is not empty is only replaced
// if force is set. Each source of the content that fails is passed over, however much it has given.
func (h *Host) DownloadDir(ctx context.Context, a *Artifact, target string, force bool) error {
	return h.downloadDir(ctx, a, target, force, func(string) error { return nil })
}

// downloadDir is DownloadDir that tells the directory, once it is filled, that will be in the target's place. An error leaves all as it was.
func (h *Host) downloadDir(ctx context.Context, a *Artifact, target string, force bool, filled func(dir string) error) error {
	unpacker := stream.Unpacker{MaxBytes: h.cfg().Artifacts.UnpackSize, MaxEntries: int64(h.cfg().Artifacts.UnpackEntries)}
	defer h.using(a.ID)()
	return h.whileAway(ctx, func() error {
		sources, err := h.sources(ctx, a)
		if err != nil {
			return err
		}
		nearest(sources, WorkerReport{})
		return h.fromAny(ctx, sources, func(src source) (ofSource bool, err error) {
			err = stream.ReplaceDir(ctx, target, force, func(ctx context.Context, dir string) error {
				if err := h.unpackFrom(ctx, a, src, unpacker, dir); err != nil {
					return err
				}
				return filled(dir)
			})
			return blamesSource(err), err
		})
	})
}

// unpackFrom unpacks what one source has of an artifact into a directory. A failure is a *stream.SideError.
func (h *Host) unpackFrom(ctx context.Context, a *Artifact, src source, unpacker stream.Unpacker, dir string) error {
	_, err := stream.Relay(ctx,
		func(ctx context.Context, w io.Writer) error {
			return readFrom(ctx, a, src, &counter{w: w, idle: h.cfg().Timing.WorkerGone}, func(ctx context.Context, src source, w io.Writer) error { return src.read(ctx, w) })
		},
		func(ctx context.Context, r io.Reader) error { return unpacker.Unpack(ctx, r, dir) },
		stream.Options{Idle: h.cfg().Timing.WorkerGone})
	if err == nil {
		return nil
	}
	if errors.Is(err, sdk.ReasonTooLarge) {
		err = fmt.Errorf("%w; unpack_size and unpack_entries in the configuration's artifacts block say how much may come", err)
	}
	return fmt.Errorf("download %s from %s: %w", a.Name, src.name, err)
}

// RemoveArtifact destroys all that is left of an artifact. What a container still uses is FailedPrecondition
// with sdk.ReasonInUse. Where a worker is away
// what is on it goes when it is back, and the error says so.
func (h *Host) RemoveArtifact(ctx context.Context, a *Artifact) error {
	return h.removeArtifact(ctx, a, nil)
}

func (h *Host) removeArtifact(ctx context.Context, a *Artifact, may func(*store.Tx) error) error {
	doomed, err := h.giveUpArtifact(ctx, a, may)
	if err == nil {
		err = h.awaitAllGone(ctx, doomed)
	}
	if err != nil {
		return fmt.Errorf("remove artifact %s: %w", a.Name, err)
	}
	return nil
}

// removeUnused is RemoveArtifact for what nobody asked to remove, if it is unused.
func (h *Host) removeUnused(ctx context.Context, a *Artifact) error {
	return h.removeArtifact(ctx, a, h.unused(a, nil))
}

// unused looks whether an artifact may go that nobody asked to remove: what is in use, by whoever began a moment ago too, stays and is
// FailedPrecondition with sdk.ReasonInUse. Due, if not nil, tells whether its row still says that it shall go; else it stays, and this is
// errChanged.
func (h *Host) unused(a *Artifact, due func(*store.Tx, store.Artifact) (bool, error)) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		if h.inUse(a.ID) {
			return sdk.NewFailedPrecondition(sdk.ReasonInUse, KindArtifact, a.ID, "artifact %s is in use: it goes when that has ended", a.Name)
		}
		row, err := tx.Artifact(a.ID)
		if err != nil || due == nil {
			return ignoreNotFound(err)
		}
		if is, err := due(tx, row); err != nil || !is {
			return errors.Join(err, errChanged)
		}
		return nil
	}
}

// giveUpArtifact notes that all that is left of an artifact is to be destroyed, and gives that. May, if not nil, looks in the same transaction
// whether it may still go.
func (h *Host) giveUpArtifact(ctx context.Context, a *Artifact, may func(*store.Tx) error) (out []doomed, err error) {
	err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) (err error) {
		out = nil
		if may != nil {
			if err := may(tx); err != nil {
				return err
			}
		}
		rows, err := tx.Volumes(store.VolumeFilter{Artifact: a.ID})
		if err != nil {
			return err
		}
		images, _, err := imagesInUse(tx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			children, err := tx.Volumes(store.VolumeFilter{Parent: row.ID})
			if err != nil {
				return err
			}
			used := images[row.ID] || slices.ContainsFunc(children, func(c store.Volume) bool { return c.State != lifecycle.VolumeDestroying })
			if used {
				return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, row.ID, "artifact %s is still used by a container on %s: destroy that first", a.Name, row.Worker)
			}
			if _, err := h.moveVolume(tx, row.ID, lifecycle.Doomed, nil); err != nil {
				return err
			}
			out = append(out, doomed{row.Worker, []reap.Thing{volumeThing(row.ID)}})
		}
		return h.deleteArtifact(tx, a.ID)
	})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	delete(h.local, a.ID)
	h.mu.Unlock()
	defer h.roomOnDisk()
	return out, h.blobs.remove(a.ID)
}

// imagesInUse are the volumes that containers use without a copy: their roots, and what they mount read-only. Going are those of
// containers that are to be destroyed, and may be there still.
func imagesInUse(tx *store.Tx) (images, going map[string]bool, err error) {
	rows, err := tx.Containers(store.ContainerFilter{States: []string{lifecycle.ContainerCreating, lifecycle.ContainerReady, lifecycle.ContainerDestroying}})
	if err != nil {
		return nil, nil, err
	}
	images, going = make(map[string]bool), make(map[string]bool)
	for _, row := range rows {
		used, err := mountedBy(row)
		if err != nil {
			return nil, nil, err
		}
		in := images
		if row.State == lifecycle.ContainerDestroying {
			in = going
		}
		for _, id := range used {
			in[id] = true
		}
	}
	return images, going, nil
}

// mountedBy lists the volumes that a container has: its root, and what it mounts, its own among them.
func mountedBy(row store.Container) ([]string, error) {
	var r containerRecord
	if err := json.Unmarshal(row.Spec, &r); err != nil {
		return nil, fmt.Errorf("record of container %s: %w", row.ID, err)
	}
	return r.mounted(), nil
}

func (r containerRecord) mounted() (ids []string) {
	if v := r.Spec.Image.Volume; v != "" {
		ids = append(ids, string(v))
	}
	for _, m := range r.Spec.Mounts {
		if m.Volume != "" {
			ids = append(ids, string(m.Volume))
		}
	}
	return ids
}
