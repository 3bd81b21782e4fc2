package spool

import (
	"errors"
	"io"
)

const readAhead = 64 << 10

// scanner reads entries in their order from a file that may be growing. It
// holds no more than readAhead bytes, or one entry if that is larger.
type scanner struct {
	file io.ReaderAt
	off  int64  // in the file, of the next entry; 0 is before the magic
	pos  int64  // that the next entry must have
	ends bool   // the last entry was the finish
	buf  []byte // bytes from off on
	mem  []byte // what buf is a part of
}

// next returns the next entry, which is good until the next call, if it lies
// before limit. errShort: it is not all there (yet). errBad: what is there is
// none. After either, next may be called again.
func (s *scanner) next(limit int64) (entry, error) {
	if s.off == 0 {
		if err := s.start(limit); err != nil {
			return entry{}, err
		}
	}
	if s.ends {
		return entry{}, errShort
	}
	for {
		e, n, err := decode(s.buf)
		if err == errShort {
			if err := s.fill(n, limit); err != nil {
				return entry{}, err
			}
			continue
		}
		if err == nil && e.Position != s.pos {
			err = errBad
		}
		if err != nil {
			return entry{}, err
		}
		s.buf = s.buf[n:]
		s.off += int64(n)
		s.pos = e.End()
		s.ends = e.finish
		return e, nil
	}
}

func (s *scanner) start(limit int64) error {
	if err := s.fill(len(magic), limit); err != nil {
		return err
	}
	if string(s.buf[:len(magic)]) != magic {
		return errBad
	}
	s.buf = s.buf[len(magic):]
	s.off = int64(len(magic))
	return nil
}

// fill sees to it that buf has n bytes or more.
func (s *scanner) fill(n int, limit int64) error {
	if limit-s.off < int64(n) {
		return errShort
	}
	if need := max(n, readAhead); cap(s.mem) < need {
		s.mem = make([]byte, need)
	}
	have := copy(s.mem[:cap(s.mem)], s.buf)
	room := s.mem[have:cap(s.mem)]
	room = room[:min(int64(len(room)), limit-s.off-int64(have))]
	got, err := s.file.ReadAt(room, s.off+int64(have))
	s.buf = s.mem[:have+got]
	if len(s.buf) >= n {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return errShort
	}
	return err
}

// forget drops what was read ahead, which may have been replaced meanwhile.
func (s *scanner) forget() { s.buf = nil }
