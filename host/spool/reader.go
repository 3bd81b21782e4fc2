package spool

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
)

// Reader reads the output of one process, from the file and not from memory,
// so it may be as slow as it likes. It is for one goroutine.
type Reader struct {
	spool   *Spool
	id      string
	stream  *stream
	file    *os.File
	from    int64
	scan    scanner
	known   bool // a Writer vouches for what is read
	doubt   bool // the file looked damaged, but may have changed meanwhile
	trailer []byte
	closed  bool
}

// Reader opens the output of a process, to be read from position from on; it
// is closed by its owner. fs.ErrNotExist: there is none.
func (s *Spool) Reader(id string, from int64) (*Reader, error) {
	if from < 0 {
		return nil, fmt.Errorf("read the output of process %s from %d: %w", id, from, ErrInvalid)
	}
	st, err := s.acquire(id, false)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(s.path(id))
	if err != nil {
		s.leave(id, st, false)
		return nil, fmt.Errorf("read the output of process %s: %w", id, err)
	}
	return &Reader{spool: s, id: id, stream: st, file: f, from: from, scan: scanner{file: f}}, nil
}

// Next returns the next record, cut so that it begins at the position asked
// for if that lies within; its Data is the caller's. It waits for one until
// ctx ends, and may be called again after that. io.EOF: the output is finished.
//
// Other ends: ErrRemoved; ErrClosed, after Spool.Close; *DamagedError; and in a
// read-only spool, which never waits, ErrNoMore.
func (r *Reader) Next(ctx context.Context) (Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Record{}, err
		}
		if r.closed {
			return Record{}, ErrClosed
		}
		if r.scan.ends {
			return Record{}, io.EOF
		}
		limit, known, version := r.stream.limit()
		if known != r.known {
			r.scan.forget() // the Writer may have cut what was read ahead
			r.known = known
		}
		e, err := r.scan.next(limit)
		if err == nil {
			r.doubt = false
			if e.finish {
				r.trailer = bytes.Clone(e.trailer)
			} else if e.End() > r.from {
				rec := e.cut(r.from)
				rec.Data = bytes.Clone(rec.Data)
				return rec, nil
			}
			continue
		}
		if err := r.stuck(ctx, err, version); err != nil {
			return Record{}, err
		}
	}
}

// stuck deals with the scanner's finding no entry. It returns nil once it is
// worth trying again.
func (r *Reader) stuck(ctx context.Context, err error, version int) error {
	if err != errShort && err != errBad {
		return err
	}
	damaged := err == errBad
	if !r.known {
		// Who may have written the tail is not known: read it anew next time.
		r.scan.forget()
		info, err := r.file.Stat()
		if err != nil {
			return err
		}
		// An unfinished file may have a torn tail, which the next Writer cuts.
		damaged = finished(info) || (damaged && r.spool.opts.ReadOnly)
		if damaged && !r.doubt {
			r.doubt = true
			return nil
		}
	}
	if damaged {
		return &DamagedError{File: r.file.Name(), Offset: r.scan.off}
	}
	if r.spool.opts.ReadOnly {
		return ErrNoMore
	}
	changed, err := r.stream.wait(version)
	if err != nil {
		return err
	}
	r.doubt = false
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Trailer is what Finish was given, once Next has returned io.EOF; nil before.
func (r *Reader) Trailer() []byte { return bytes.Clone(r.trailer) }

// Close gives the file back. Closing again is nil.
func (r *Reader) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	r.spool.leave(r.id, r.stream, false)
	return r.file.Close()
}
