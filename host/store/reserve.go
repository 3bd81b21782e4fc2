package store

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

const (
	defaultReserve = 4 << 20 // SQLite's log grows to about this before it is reused
	refillInterval = time.Second
	reserveFile    = "reserve"
	roomTried      = 64 << 10 // more than what readers share of the log
)

// errGivenUp: what was kept in reserve has made room for what destroys.
var errGivenUp = errors.New("the reserve has just been given up")

// reserve is a file of random bytes (zeros may take no room), there to be
// removed when the disk is full. Its methods are the writer's.
type reserve struct {
	path  string
	size  int64 // 0: there is none to keep
	there bool
	why   error     // it is not there
	tried time.Time // last attempt to fill it
}

// openReserve makes the reserve. A disk without room for it is a state that
// the writer handles, not an error.
func openReserve(dir string, size int64) *reserve {
	if size == 0 {
		size = defaultReserve
	}
	r := &reserve{path: filepath.Join(dir, reserveFile), size: max(size, 0)}
	info, err := os.Stat(r.path)
	r.there = err == nil && info.Size() == r.size
	if !r.there {
		r.fill()
	}
	return r
}

// giveReserve removes the reserve of a directory that is not open; true if that made room.
func giveReserve(dir string) bool { return os.Remove(filepath.Join(dir, reserveFile)) == nil }

// noRoom tells whether err, of SQLite, is for want of room on dir's disk. SQLite tells some such errors as any other failure of the disk, so
// it is tried out.
func noRoom(dir string, err error) bool {
	if errors.Is(err, ErrFull) {
		return true
	}
	if code(err)&0xff != sqlite3.SQLITE_IOERR {
		return false
	}
	return lacksRoom(tryWrite(dir))
}

// whole says that nothing needs to be done.
func (r *reserve) whole() bool { return r.there || r.size == 0 }

// give removes the file; true if that made room.
func (r *reserve) give() bool {
	if !r.there {
		return false
	}
	r.there, r.why = false, errGivenUp
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
	r.why = r.write()
	r.there = r.why == nil
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
