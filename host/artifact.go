package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

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

// DefaultArtifactTTL is how long an artifact that nobody owns is kept.
const DefaultArtifactTTL = 12 * time.Hour

// AddDir makes a directory of this machine an artifact under a name, or finds the one of that name. It is not read before a
// worker needs it; what is read then is what the artifact is. Adding the directory again, after a restart, gives the
// artifact its source back.
func (h *Host) AddDir(ctx context.Context, name, owner, dir string) (*Artifact, error) {
	a, err := h.findOrAddArtifact(ctx, name, owner)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.local[a.ID] = dir
	h.mu.Unlock()
	return a, nil
}

func (h *Host) findOrAddArtifact(ctx context.Context, name, owner string) (*Artifact, error) {
	var row store.Artifact
	err := h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) (err error) {
		if row, err = tx.ArtifactByName(name); !errors.Is(err, store.ErrNotFound) {
			return err
		}
		now := time.Now()
		row = store.Artifact{ID: newID("a"), Name: name, Owner: owner, CreatedAt: now, ExpiresAt: now.Add(DefaultArtifactTTL)}
		return tx.PutArtifact(row)
	})
	if err != nil {
		return nil, err
	}
	return &Artifact{ID: row.ID, Name: row.Name}, nil
}

// Artifact finds an artifact by its name. One that is not there is a store.ErrNotFound.
func (h *Host) Artifact(ctx context.Context, name string) (*Artifact, error) {
	var a *Artifact
	err := h.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.ArtifactByName(name)
		if err != nil {
			return fmt.Errorf("artifact %s: %w", name, err)
		}
		a = &Artifact{ID: row.ID, Name: row.Name}
		return nil
	})
	return a, err
}

// replica is content of an artifact on a worker.
type replica struct {
	volume sdk.VolumeID
	bytes  int64
}

// replicate brings an artifact to a worker, where it becomes one sealed volume, however many ask for it at once.
func (h *Host) replicate(ctx context.Context, a *Artifact, w *worker, progress func(StreamProgress)) (replica, error) {
	return h.replicas.do(ctx, a.ID+"@"+w.name, func(ctx context.Context) (replica, error) {
		have, err := h.volumes(ctx, store.VolumeFilter{Worker: w.name, Artifact: a.ID, States: []string{volumeSealed}})
		if err != nil {
			return replica{}, err
		}
		if len(have) > 0 {
			return replica{volume: sdk.VolumeID(have[0].ID), bytes: have[0].Bytes}, nil
		}
		return h.stream(ctx, a, w, progress)
	})
}

// source is where content can be read.
type source struct {
	name string // of a worker, or "local"
	read func(ctx context.Context, w io.Writer) error
}

const localSource = "local"

// dropReplica gives up a replica that its worker does not know, and tells whether it did: not the only one, for the worker may be wrong for
// a while.
func (h *Host) dropReplica(ctx context.Context, a *Artifact, w *worker, id string) bool {
	sources, err := h.sources(ctx, a)
	if err != nil || !slices.ContainsFunc(sources, func(s source) bool { return s.name != w.name }) {
		return false
	}
	row, err := h.volume(ctx, id)
	if err != nil {
		return errors.Is(err, store.ErrNotFound) // another has
	}
	return h.destroyVolume(ctx, row) == nil
}

// sources lists where an artifact can be read: other workers' replicas before this machine's directory, which may
// have changed since.
func (h *Host) sources(ctx context.Context, a *Artifact) ([]source, error) {
	rows, err := h.volumes(ctx, store.VolumeFilter{Artifact: a.ID, States: []string{volumeSealed}})
	if err != nil {
		return nil, err
	}
	var out []source
	for _, row := range rows {
		w, err := h.worker(row.Worker)
		if err != nil {
			continue
		}
		out = append(out, source{name: w.name, read: func(ctx context.Context, dst io.Writer) error {
			conn, err := w.acquire(ctx)
			if err != nil {
				return err
			}
			return conn.StreamOut(ctx, sdk.VolumeID(row.ID), sdk.StreamOut{}, dst)
		}})
	}
	h.mu.Lock()
	dir, ok := h.local[a.ID]
	h.mu.Unlock()
	if ok {
		out = append(out, source{name: localSource, read: func(ctx context.Context, dst io.Writer) error {
			return stream.PackDir(ctx, dir, dst)
		}})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("artifact %s has no content any more: make it again", a.Name)
	}
	return out, nil
}

// stream fills a fresh volume from one source after another until one has worked, and seals it. It goes on while what it needs is away,
// for as long as the host waits for a worker.
func (h *Host) stream(ctx context.Context, a *Artifact, w *worker, progress func(StreamProgress)) (r replica, err error) {
	err = h.whileAway(ctx, func() error {
		r, err = h.streamOnce(ctx, a, w, progress)
		return err
	})
	return r, err
}

// whileAway repeats what begins anew each time, while it is Unavailable and for as long as the host waits for a worker.
func (h *Host) whileAway(ctx context.Context, try func() error) error {
	var b backoff
	began := time.Now()
	for {
		err := try()
		_, gone := errors.AsType[*WorkerGoneError](err)
		if gone || ctx.Err() != nil || !errors.Is(err, sdk.Unavailable) || time.Since(began) >= h.cfg.Timing.WorkerGone {
			return err
		}
		if b.wait(ctx, err) != nil {
			return err
		}
	}
}

func (h *Host) streamOnce(ctx context.Context, a *Artifact, w *worker, progress func(StreamProgress)) (replica, error) {
	sources, err := h.sources(ctx, a)
	if err == nil && sources[0].name == localSource {
		// A directory is read once: two workers must not get two contents of it. Whoever comes second finds a replica.
		var unlock func()
		if unlock, err = h.lockLocal(ctx, a.ID); err == nil {
			defer unlock()
			sources, err = h.sources(ctx, a)
		}
	}
	if err != nil {
		return replica{}, err
	}
	var errs []error
	for _, src := range sources {
		r, err := h.streamFrom(ctx, a, src, w, progress)
		if err == nil {
			return r, nil
		}
		err = fmt.Errorf("stream %s from %s to %s: %w", a.Name, src.name, w.name, err)
		if ctx.Err() != nil || !errors.Is(err, sdk.Unavailable) {
			return replica{}, err
		}
		errs = append(errs, err)
	}
	return replica{}, errors.Join(errs...)
}

// lockLocal waits until nobody else reads an artifact's directory.
func (h *Host) lockLocal(ctx context.Context, id string) (unlock func(), err error) {
	for {
		h.mu.Lock()
		busy := h.reading[id]
		if busy == nil {
			mine := make(chan struct{})
			h.reading[id] = mine
			h.mu.Unlock()
			return func() {
				h.mu.Lock()
				delete(h.reading, id)
				h.mu.Unlock()
				close(mine)
			}, nil
		}
		h.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (h *Host) streamFrom(ctx context.Context, a *Artifact, src source, w *worker, progress func(StreamProgress)) (_ replica, err error) {
	row, err := h.createVolume(ctx, w, store.Volume{Artifact: a.ID, Role: roleReplica}, sdk.VolumeSpec{Labels: h.labels(a.Name)})
	if err != nil {
		return replica{}, err
	}
	defer func() {
		if err != nil {
			h.discardVolume(ctx, row)
		}
	}()
	tell := func(s stream.Stats, done bool) {
		if progress != nil {
			progress(StreamProgress{Artifact: a.Name, From: src.name, To: w.name, Bytes: s.Bytes, Took: s.Took, Done: done})
		}
	}
	stats, err := stream.Relay(ctx, src.read, func(ctx context.Context, r io.Reader) error {
		conn, err := w.acquire(ctx)
		if err != nil {
			return err
		}
		return conn.StreamIn(ctx, sdk.VolumeID(row.ID), sdk.StreamIn{}, r)
	}, stream.Options{Progress: func(s stream.Stats) { tell(s, false) }, Idle: h.cfg.Timing.WorkerGone})
	if err != nil {
		return replica{}, err
	}
	if row, err = h.sealVolume(ctx, row); err != nil {
		return replica{}, err
	}
	row.Bytes = stats.Bytes
	err = h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		if _, err := tx.Artifact(a.ID); err != nil {
			return fmt.Errorf("artifact %s was removed meanwhile: %w", a.Name, err)
		}
		return tx.PutVolume(row)
	})
	if err != nil {
		return replica{}, err
	}
	h.index.AddVolume(w.name, a.ID, row.Bytes)
	tell(stats, true)
	return replica{volume: sdk.VolumeID(row.ID), bytes: row.Bytes}, nil
}

// Download writes an artifact as a tar archive.
func (h *Host) Download(ctx context.Context, a *Artifact, w io.Writer) error {
	sources, err := h.sources(ctx, a)
	if err != nil {
		return err
	}
	if err := sources[0].read(ctx, w); err != nil {
		return fmt.Errorf("download %s from %s: %w", a.Name, sources[0].name, err)
	}
	return nil
}

// DownloadDir writes an artifact to a directory, which is there whole or not at all. A target that is not empty is only replaced
// if force is set.
func (h *Host) DownloadDir(ctx context.Context, a *Artifact, target string, force bool) error {
	return h.whileAway(ctx, func() error {
		return stream.ReplaceDir(ctx, target, force, func(ctx context.Context, dir string) error {
			_, err := stream.Relay(ctx,
				func(ctx context.Context, w io.Writer) error { return h.Download(ctx, a, w) },
				func(ctx context.Context, r io.Reader) error { return stream.UnpackDir(ctx, r, dir) },
				stream.Options{Idle: h.cfg.Timing.WorkerGone})
			return err
		})
	})
}

// RemoveArtifact destroys all that is left of an artifact. What a container still uses is FailedPrecondition
// with sdk.ReasonInUse. Where a worker is away
// what is on it goes when it is back, and the error says so.
func (h *Host) RemoveArtifact(ctx context.Context, a *Artifact) error {
	var rows []store.Volume
	cloned := make(map[string]bool) // by what is to be destroyed too
	err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) (err error) {
		if rows, err = tx.Volumes(store.VolumeFilter{Artifact: a.ID}); err != nil {
			return err
		}
		images, err := imagesInUse(tx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			children, err := tx.Volumes(store.VolumeFilter{Parent: row.ID})
			if err != nil {
				return err
			}
			used := images[row.ID]
			for _, c := range children {
				used = used || c.State != volumeDestroying
				cloned[row.ID] = true
			}
			if used {
				return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, row.ID, "artifact %s is still used by a container on %s: destroy that first", a.Name, row.Worker)
			}
			row.State = volumeDestroying
			if err := tx.PutVolume(row); err != nil {
				return err
			}
		}
		return tx.DeleteArtifact(a.ID)
	})
	if err != nil {
		return fmt.Errorf("remove artifact %s: %w", a.Name, err)
	}
	h.mu.Lock()
	delete(h.local, a.ID)
	h.mu.Unlock()
	var now []store.Volume
	for _, row := range rows {
		if !cloned[row.ID] {
			now = append(now, row)
			continue
		}
		h.index.RemoveVolume(row.Worker, a.ID)
		if w, err := h.worker(row.Worker); err == nil {
			w.left.Store(true) // after its clones
		}
	}
	if err := h.destroyVolumes(ctx, now); err != nil {
		return fmt.Errorf("remove artifact %s: %w", a.Name, err)
	}
	return nil
}

// imagesInUse are the volumes that are the root of a container.
func imagesInUse(tx *store.Tx) (map[string]bool, error) {
	rows, err := tx.Containers(store.ContainerFilter{States: []string{containerCreating, containerReady}})
	if err != nil {
		return nil, err
	}
	images := make(map[string]bool)
	for _, row := range rows {
		var r containerRecord
		if err := json.Unmarshal(row.Spec, &r); err != nil {
			return nil, fmt.Errorf("record of container %s: %w", row.ID, err)
		}
		images[string(r.Spec.Image.Volume)] = true
	}
	return images, nil
}
