package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keylock"
)

// BlobLimits bound the content that the host itself keeps, in its state directory: what was uploaded before a worker was chosen, and what was copied off a worker
// that has as many volumes as it may.
type BlobLimits struct {
	Total int64 // bytes of all archives together; zero: as the configuration says, else DefaultBlobTotal; negative: none are kept
	One   int64 // bytes of one archive; zero: as the configuration says, else as many as Total
}

// DefaultBlobTotal is how much the host keeps where nothing else was asked: 16 GiB.
const DefaultBlobTotal = 16 << 30

// blobs is a directory of raw archives, one file for an artifact's content under the artifact's id. A file without a row is nobody's.
type blobs struct {
	dir   string
	names keylock.Locks // of an artifact whose row begins or ceases to name its blob, where the artifact is there already

	mu    sync.Mutex
	total int64
	one   int64
	used  int64 // bytes of the files, those being written included
}

// openBlobs opens the directory, made where missing, and removes the files that have no row.
func openBlobs(dir string, limits BlobLimits, known map[string]bool) (*blobs, error) {
	b := &blobs{dir: dir}
	b.limit(limits)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !known[e.Name()] {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		b.used += info.Size()
	}
	return b, nil
}

// loadBlobs opens the directory of the host's blobs. What an upload left that did not come to its end goes.
func (h *Host) loadBlobs(ctx context.Context) (*blobs, error) {
	known := make(map[string]bool)
	err := h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Artifacts(store.ArtifactFilter{Blobs: true})
		for _, row := range rows {
			known[row.ID] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return openBlobs(filepath.Join(h.dir, "blobs"), h.blobLimits(), known)
}

// blobLimits are those of the options, and where they say nothing the configuration's.
func (h *Host) blobLimits() BlobLimits {
	limits := h.opts.Blobs
	limits.Total = cmp.Or(limits.Total, h.cfg().Artifacts.Quota)
	limits.One = cmp.Or(limits.One, h.cfg().Artifacts.Upload)
	return limits
}

// limit changes the limits. What is there stays, though it may be more.
func (b *blobs) limit(limits BlobLimits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total = cmp.Or(limits.Total, DefaultBlobTotal)
	b.one = b.total
	if limits.One != 0 {
		b.one = min(limits.One, b.total)
	}
}

func (b *blobs) limits() BlobLimits {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BlobLimits{Total: b.total, One: b.one}
}

// newFile is a blob that has no row yet.
const newFile = ".new"

// write keeps what src writes, a raw archive, as the blob of id, and gives its checksum and size. It is on the disk when write returns; after
// an error there is no such blob.
func (b *blobs) write(ctx context.Context, id string, makeRoom func(want int64), src func(context.Context, io.Writer) error) (sum string, n int64, err error) {
	sum, n, err = b.fill(ctx, id, makeRoom, src)
	if err != nil {
		return "", 0, err
	}
	if err := b.place(id); err != nil {
		return "", 0, errors.Join(err, b.drop(id, n), b.remove(id))
	}
	return sum, n, nil
}

// fill is write of what is not the blob of id before place is called, nor ever if drop is. After an error there is nothing to drop. One that is being filled
// already is an error.
func (b *blobs) fill(ctx context.Context, id string, makeRoom func(want int64), src func(context.Context, io.Writer) error) (sum string, n int64, err error) {
	path := filepath.Join(b.dir, id+newFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", 0, store.WithoutRoom(err)
	}
	w := &blobWriter{blobs: b, f: f, sum: sha256.New(), makeRoom: makeRoom}
	err = stream.Checked(src)(ctx, w)
	if err == nil {
		err = store.WithoutRoom(f.Sync())
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return "", 0, errors.Join(err, b.drop(id, w.n))
	}
	return hex.EncodeToString(w.sum.Sum(nil)), w.n, nil
}

// place makes what was filled the blob of id, in place of any other.
func (b *blobs) place(id string) error {
	path := filepath.Join(b.dir, id)
	if err := b.remove(id); err != nil {
		return err
	}
	if err := os.Rename(path+newFile, path); err != nil {
		return err
	}
	return syncDir(b.dir)
}

// drop removes what was filled, of so many bytes, unless it has been placed.
func (b *blobs) drop(id string, n int64) error {
	err := os.Remove(filepath.Join(b.dir, id+newFile))
	if err == nil {
		b.free(n)
	}
	return ignoreMissing(err)
}

// mayHold looks whether an archive of about so many bytes would fit, before it is read for nothing; makeRoom is asked for what lacks. Its errors are those of
// write.
func (b *blobs) mayHold(n int64, makeRoom func(want int64)) error {
	if l := b.limits(); l.One <= 0 || n > l.One {
		return l.tooLarge()
	}
	if lacks := b.lacks(n); lacks > 0 {
		makeRoom(lacks)
		if b.lacks(n) > 0 {
			return usedUp(b.limits().Total)
		}
	}
	return nil
}

// lacks is how many bytes there are too few for so many more.
func (b *blobs) lacks(n int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used + n - b.total
}

func (l BlobLimits) tooLarge() error {
	key := "quota"
	if l.One < l.Total {
		key = "upload_size"
	}
	return sdk.NewInvalid(sdk.ReasonTooLarge, "the artifact's archive has more than the %d bytes that one may have here: make it smaller, or raise %s in the configuration's artifacts block", max(l.One, 0), key)
}

func usedUp(total int64) error {
	return sdk.NewExhausted(sdk.ReasonStorage, "the %d bytes for artifacts on this host's disk are used up: remove some, or raise quota in the configuration's artifacts block", total)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// blobWriter counts what it writes against the limits.
type blobWriter struct {
	blobs    *blobs
	f        *os.File
	sum      hash.Hash
	makeRoom func(want int64)
	n        int64
}

func (w *blobWriter) Write(p []byte) (int, error) {
	b := w.blobs
	if l := b.limits(); w.n+int64(len(p)) > l.One {
		return 0, l.tooLarge()
	}
	if !b.take(int64(len(p))) {
		w.makeRoom(int64(len(p)))
		if !b.take(int64(len(p))) {
			return 0, usedUp(b.limits().Total)
		}
	}
	n, err := w.f.Write(p)
	err = store.WithoutRoom(err)
	b.free(int64(len(p) - n))
	w.n += int64(n)
	w.sum.Write(p[:n])
	return n, err
}

func (b *blobs) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.total {
		return false
	}
	b.used += n
	return true
}

func (b *blobs) free(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}

// read writes a blob to w. One that is not what was kept under its checksum fails as Invalid with sdk.ReasonArchive, at its end.
func (b *blobs) read(ctx context.Context, id, sum string, w io.Writer) error {
	f, err := os.Open(filepath.Join(b.dir, id))
	if err != nil {
		return fmt.Errorf("content that the host keeps: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, 128<<10)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.Read(buf)
		if n > 0 {
			h.Write(buf[:n])
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return sdk.NewInvalid(sdk.ReasonArchive, "content that the host kept in %s has changed: its checksum is %s, and was %s", f.Name(), got, sum)
	}
	return nil
}

// remove removes a blob of so many bytes. Idempotent.
func (b *blobs) remove(id string) error {
	path := filepath.Join(b.dir, id)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return ignoreMissing(err) // somebody else has, and counts it
	}
	b.free(info.Size())
	return nil
}
