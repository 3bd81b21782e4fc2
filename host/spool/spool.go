package spool

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Options are the settings of a spool; the zero value is good.
type Options struct {
	// MaxBytes is how many bytes of data are kept of one process, the first
	// ones; those beyond are dropped and become a gap. 0 means all. A dropped
	// byte counts as stored: Position moves on, at once; the gap reaches the
	// file by the MiB, and with Finish and Close.
	MaxBytes int64

	// ReadOnly opens a spool that another process may be writing.
	ReadOnly bool
}

// Spool is a directory of outputs. All methods may be called concurrently.
type Spool struct {
	dir  string
	opts Options

	mu      sync.Mutex
	streams map[string]*stream
	closed  bool

	buffers sync.Pool // of *[]byte, for Append: an idle Writer should hold none
}

// Open opens the spool in dir, making it (0700) if there is none. A read-only
// spool must be there.
func Open(dir string, opts Options) (*Spool, error) {
	if opts.ReadOnly {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("open spool: %w", err)
		}
	}
	if !opts.ReadOnly {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open spool: %w", err)
		}
	}
	return &Spool{dir: dir, opts: opts, streams: map[string]*stream{}}, nil
}

// Close ends the waiting of all Readers with ErrClosed and refuses new ones and
// new Writers. Those that are open stay their owners' to close.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, st := range s.streams {
		st.stop(ErrClosed)
	}
	return nil
}

// maxID leaves room for a container's id and a process's together: each is at most 48 bytes.
const maxID = 100

// validID keeps ids that are no file names out.
func validID(id string) error {
	ok := len(id) >= 1 && len(id) <= maxID && id[0] != '-' && id[len(id)-1] != '-'
	for _, c := range []byte(id) {
		ok = ok && (c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z')
	}
	if !ok {
		return fmt.Errorf("process id %q: %w", id, ErrInvalid)
	}
	return nil
}

func (s *Spool) shard(id string) string {
	h := fnv.New32a()
	h.Write([]byte(id))
	return filepath.Join(s.dir, fmt.Sprintf("%02x", h.Sum32()&0xff))
}

func (s *Spool) path(id string) string { return filepath.Join(s.shard(id), id) }

// acquire joins the stream of id, as its only writer or as a reader.
func (s *Spool) acquire(id string, writer bool) (*stream, error) {
	if err := validID(id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	st := s.streams[id]
	if st == nil {
		st = newStream()
		s.streams[id] = st
	}
	if writer && st.writer {
		return nil, fmt.Errorf("output of process %s: %w", id, ErrBusy)
	}
	st.writer = st.writer || writer
	st.refs++
	return st, nil
}

func (s *Spool) leave(id string, st *stream, writer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if writer {
		st.writer = false
	}
	st.refs--
	if st.refs == 0 && s.streams[id] == st {
		delete(s.streams, id)
	}
}

// Remove deletes the output of a process; nil if there is none, ErrBusy while
// it has a Writer. Readers read on to the end of what was there, and then get
// ErrRemoved if it was not finished.
func (s *Spool) Remove(id string) error {
	if err := validID(id); err != nil {
		return err
	}
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[id]
	if st != nil && st.writer {
		return fmt.Errorf("remove the output of process %s: %w", id, ErrBusy)
	}
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if st != nil {
		st.stop(ErrRemoved)
		delete(s.streams, id)
	}
	return nil
}

func (s *Spool) buffer() *[]byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

// giveBack takes a buffer that has become b, unless that has grown out of proportion.
func (s *Spool) giveBack(buf *[]byte, b []byte) {
	if cap(b) > 2*maxPayload {
		return
	}
	*buf = b
	s.buffers.Put(buf)
}

// finished tells a finished file from others.
func finished(info fs.FileInfo) bool { return info.Mode().Perm()&0o200 == 0 }
