package store

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	defaultReserve = 4 << 20 // SQLite's log grows to about this before it is reused
	refillInterval = time.Second
)

// reserve is a file of random bytes (zeros may take no room), there to be
// removed when the disk is full. Its methods are the writer's.
type reserve struct {
	path  string
	size  int64 // 0: there is none to keep
	there bool
	tried time.Time // last attempt to fill it
}

// openReserve makes the reserve. A disk without room for it is a state that
// the writer handles, not an error.
func openReserve(dir string, size int64) *reserve {
	if size == 0 {
		size = defaultReserve
	}
	r := &reserve{path: filepath.Join(dir, "reserve"), size: max(size, 0)}
	info, err := os.Stat(r.path)
	r.there = err == nil && info.Size() == r.size
	if !r.there {
		r.fill()
	}
	return r
}

// whole says that nothing needs to be done.
func (r *reserve) whole() bool { return r.there || r.size == 0 }

// give removes the file; true if that made room.
func (r *reserve) give() bool {
	if !r.there {
		return false
	}
	r.there = false
	r.tried = time.Now()
	return os.Remove(r.path) == nil
}

// refill makes the file again if it may be time for it.
func (r *reserve) refill() bool {
	if time.Since(r.tried) < refillInterval {
		return false
	}
	return r.fill()
}

func (r *reserve) fill() bool {
	r.tried = time.Now()
	r.there = r.write() == nil
	if !r.there {
		_ = os.Remove(r.path)
	}
	return r.there
}

func (r *reserve) write() error {
	if r.size == 0 {
		if err := os.Remove(r.path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.Reader, r.size)
	return errors.Join(err, f.Close())
}
