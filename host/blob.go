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
)

// BlobLimits bound the content that the host itself keeps, in its state directory: what was uploaded before a worker was chosen.
type BlobLimits struct {
	Total int64 // bytes of all archives together; zero: as the configuration says, else DefaultBlobTotal; negative: none are kept
	One   int64 // bytes of one archive; zero: as the configuration says, else as many as Total
}

// DefaultBlobTotal is how much the host keeps where nothing else was asked: 16 GiB.
const DefaultBlobTotal = 16 << 30

// blobs is a directory of raw archives, one file for an artifact's content under the artifact's id. A file without a row is nobody's.
type blobs struct {
	dir string

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
	path := filepath.Join(b.dir, id)
	f, err := os.OpenFile(path+newFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", 0, store.WithoutRoom(err)
	}
	w := &blobWriter{blobs: b, f: f, sum: sha256.New(), makeRoom: makeRoom}
	defer func() {
		if err != nil {
			b.free(w.n)
			err = errors.Join(err, ignoreMissing(os.Remove(path+newFile)), ignoreMissing(os.Remove(path)))
		}
	}()
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
		return "", 0, err
	}
	if err := os.Rename(path+newFile, path); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(w.sum.Sum(nil)), w.n, syncDir(b.dir)
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
		key := "quota"
		if l.One < l.Total {
			key = "upload_size"
		}
		return 0, sdk.NewInvalid(sdk.ReasonTooLarge, "the artifact's archive has more than the %d bytes that one may have here: make it smaller, or raise %s in the configuration's artifacts block", max(l.One, 0), key)
	}
	if !b.take(int64(len(p))) {
		w.makeRoom(int64(len(p)))
		if !b.take(int64(len(p))) {
			return 0, sdk.NewExhausted(sdk.ReasonStorage, "the %d bytes for artifacts that no worker has yet are used up: remove some, or raise quota in the configuration's artifacts block", b.limits().Total)
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
		return err
	}
	b.free(info.Size())
	return nil
}
