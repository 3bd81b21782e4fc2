package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// Upload describes an artifact that somebody brings.
type Upload struct {
	// Name is what others find it by, written as an owner's. Names that begin with "run/" are for the inputs of runs, whose owner begins so, too.
	Name  string
	Owner string // who keeps it for as long as he wants it; empty: it goes after its time
	Team  string // whose it is; empty: nobody's in particular
	// Source is what it is made of, for people, in at most 4096 bytes; of a run's input the absolute path of its directory, by which a resumed run
	// knows that it is given another. Empty: nobody says.
	Source string

	// TTL is how long it is kept where it has no owner; zero: the configuration's.
	TTL time.Duration
	// Encoding of the archive that is brought: raw, gzip or zstd; empty: raw.
	Encoding string

	// Idle is how long nothing may come of what [Host.Upload] and [Host.UploadFrom] are given; then the upload is given up, so that others have
	// the room that it takes. Zero: as long as the host waits for a worker, which bounds other streams, too; negative: for ever.
	Idle time.Duration
}

// Upload makes an artifact of a tar archive. Its content waits in the state directory until a worker needs it, within Options.Blobs: an archive
// that can never fit is Invalid with sdk.ReasonTooLarge, one for which there is no room now Exhausted with sdk.ReasonStorage. One that is cut or
// damaged is Invalid with sdk.ReasonArchive, and a name that is taken AlreadyExists. One of which nothing came for as long as u.Idle is Unavailable,
// and [stream.ErrIdle]. After any error nothing of it is left.
//
// Where ctx ends, or nothing came for too long, a read of r may be under way when Upload returns: r is not to be used before that has returned, too.
// Nothing else is read of it then.
func (h *Host) Upload(ctx context.Context, u Upload, r io.Reader) (*Artifact, error) {
	return h.UploadFrom(ctx, u, func(ctx context.Context, w io.Writer) error {
		_, err := io.Copy(w, &leavingReader{ctx: ctx, r: r})
		return err
	})
}

// leavingReader leaves a read alone that is under way when its context ends.
type leavingReader struct {
	ctx context.Context
	r   io.Reader
	buf []byte // what is being read: p is the caller's again once Read has returned
}

func (l *leavingReader) Read(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil { // what is read now would be lost
		return 0, err
	}
	if l.buf == nil {
		l.buf = make([]byte, 32<<10)
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := l.r.Read(l.buf[:min(len(p), len(l.buf))])
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return copy(p, l.buf[:r.n]), r.err
	case <-l.ctx.Done():
		return 0, l.ctx.Err()
	}
}

// UploadFrom is Upload of the archive that src writes, whose error is then that of the upload. Src has to return when its context ends, which it
// does, too, when nothing came for too long.
func (h *Host) UploadFrom(ctx context.Context, u Upload, src func(ctx context.Context, w io.Writer) error) (*Artifact, error) {
	idle := cmp.Or(u.Idle, h.cfg().Timing.WorkerGone)
	return h.upload(ctx, u, stream.Decoded(u.Encoding, func(ctx context.Context, w io.Writer) error {
		out := &counter{w: w, idle: idle}
		err := out.unlessIdle(ctx, func(ctx context.Context) error { return src(ctx, out) })
		if errors.Is(err, stream.ErrIdle) {
			err = sdk.NewUnavailable(stream.ErrIdle, "nothing has come of it for %s, and others may have its room now: send it anew without such a pause, "+
				"as from a file, or raise worker_gone in the configuration's timing block", idle)
		}
		return err
	}))
}

// UploadDir makes an artifact of a directory of this machine, or of a single file, as it is now. Its errors are those of Upload, and
// *stream.PackError.
func (h *Host) UploadDir(ctx context.Context, u Upload, dir string) (*Artifact, error) {
	return h.upload(ctx, u, func(ctx context.Context, w io.Writer) error { return stream.PackDir(ctx, dir, w) })
}

// UploadFiles makes an artifact of bytes. Its errors are those of Upload.
func (h *Host) UploadFiles(ctx context.Context, u Upload, files ...stream.File) (*Artifact, error) {
	return h.upload(ctx, u, func(_ context.Context, w io.Writer) error { return stream.PackFiles(files, w) })
}

func (h *Host) upload(ctx context.Context, u Upload, src func(context.Context, io.Writer) error) (*Artifact, error) {
	if err := u.check(); err != nil {
		return nil, err
	}
	u.TTL = cmp.Or(u.TTL, h.artifactTTL())
	a := &Artifact{ID: newID("a"), Name: u.Name}
	err := h.store.View(ctx, func(tx *store.Tx) error { return nameFree(tx, u.Name) }) // before all that is read for nothing
	if err != nil {
		return nil, err
	}
	ctx, stop := h.untilClosed(ctx)
	defer stop()
	sum, n, err := h.blobs.write(ctx, a.ID, func(want int64) { h.evictBlobs(ctx, want) }, src)
	if err != nil {
		return nil, fmt.Errorf("upload artifact %s: %w", u.Name, err)
	}
	h.fault("blob-written")
	now := h.clock.wall()
	row := store.Artifact{ID: a.ID, Name: u.Name, Owner: u.Owner, Team: u.Team, Source: u.Source, Blob: sum, Bytes: n, TTL: u.TTL,
		CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(u.TTL)}
	err = h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		if err := nameFree(tx, u.Name); err != nil {
			return err
		}
		return h.putArtifact(tx, row)
	})
	if err != nil {
		return nil, errors.Join(err, h.blobs.remove(a.ID))
	}
	return a, nil
}

func (u *Upload) check() error {
	if err := checkOwner(u.Name); err != nil {
		return fmt.Errorf("artifact name: %w", err)
	}
	if u.Owner != "" {
		if err := checkOwner(u.Owner); err != nil {
			return err
		}
	}
	for _, reserved := range []string{"run/", cachePrefix} {
		if strings.HasPrefix(u.Name, reserved) && !strings.HasPrefix(u.Owner, reserved) {
			return sdk.NewInvalid(sdk.ReasonSpec, "artifact name %q begins with %q, which the host gives itself: take another", u.Name, reserved)
		}
	}
	if !stream.Speaks(u.Encoding) {
		return sdk.NewInvalid(sdk.ReasonEncoding, "artifact %s: encoding %q is none of raw, gzip and zstd", u.Name, u.Encoding)
	}
	if len(u.Source) > maxSource {
		return sdk.NewInvalid(sdk.ReasonSpec, "artifact %s: its source has %d bytes, %d are allowed", u.Name, len(u.Source), maxSource)
	}
	if u.TTL < 0 {
		return sdk.NewInvalid(sdk.ReasonSpec, "artifact %s: it cannot be kept for %s", u.Name, u.TTL)
	}
	return nil
}

const maxSource = 4096 // a path's length on Linux

// KindArtifact is the kind of thing that errors about artifacts are about.
const KindArtifact sdk.Kind = "artifact"

func nameFree(tx *store.Tx, name string) error {
	_, err := tx.ArtifactByName(name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return &sdk.Error{Class: sdk.AlreadyExists, Kind: KindArtifact, ID: name,
		Message: fmt.Sprintf("there is an artifact %s already: remove it first, or give another name", name)}
}

// untilClosed ends a context with the host, too.
func (h *Host) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}
