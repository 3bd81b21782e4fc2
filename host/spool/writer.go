package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A gap that the quota makes is written when it has grown to this.
const gapStep = 1 << 20

// Writer appends to the output of one process. Its methods may be called
// concurrently.
type Writer struct {
	spool  *Spool
	id     string
	stream *stream
	file   *os.File
	cut    int64 // bytes of a torn record that were cut off when it was opened

	mu       sync.Mutex
	at       mark
	dirty    bool   // there may be bytes after at.end
	finished bool   // trailer is in the file
	trailer  []byte // owned
	closed   bool
}

// mark is how far a Writer has come.
type mark struct {
	end  int64 // of the file
	pos  int64 // of the output
	kept int64 // bytes of data in the file
	gap  int64 // from here to pos is a gap that is not in the file yet
	time time.Time
}

// Writer opens the output of a process, making it if there is none; it is
// closed by its owner. ErrBusy: there is one open already.
//
// A record that a crash tore is cut off. *DamagedError: the file is none of
// ours, or it was finished and is damaged; it is left as it is.
func (s *Spool) Writer(id string) (*Writer, error) {
	if s.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	st, err := s.acquire(id, true)
	if err != nil {
		return nil, err
	}
	w := &Writer{spool: s, id: id, stream: st}
	if err := w.open(); err != nil {
		if w.file != nil {
			err = errors.Join(err, w.file.Close())
		}
		s.leave(id, st, true)
		return nil, fmt.Errorf("open the output of process %s: %w", id, err)
	}
	st.publish(w.at.end)
	return w, nil
}

func (w *Writer) open() (err error) {
	path := w.spool.path(w.id)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return w.create(path)
	}
	if err != nil {
		return err
	}
	sealed := finished(info)
	flags := os.O_RDWR
	if sealed {
		flags = os.O_RDONLY
	}
	if w.file, err = os.OpenFile(path, flags, 0); err != nil {
		return err
	}
	if info.Size() < int64(len(magic)) && !sealed { // torn while it was made
		w.dirty = true
		return w.commit([]byte(magic), mark{})
	}
	return w.recover(info.Size(), sealed)
}

func (w *Writer) create(path string) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if w.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	return w.commit([]byte(magic), mark{})
}

// recover reads the file to find where it ends, and cuts a torn tail.
func (w *Writer) recover(size int64, sealed bool) error {
	sc := &scanner{file: w.file}
	var err error
	for err == nil {
		var e entry
		if e, err = sc.next(math.MaxInt64); err == nil {
			w.at.kept += int64(len(e.Data))
			w.finished, w.trailer = e.finish, bytes.Clone(e.trailer)
		}
	}
	if err != errShort && err != errBad {
		return err
	}
	if sc.off == 0 || (sealed && (!w.finished || sc.off != size)) {
		return &DamagedError{File: w.file.Name(), Offset: sc.off}
	}
	w.at.end, w.at.pos, w.at.gap = sc.off, sc.pos, sc.pos
	w.cut = size - sc.off
	if w.cut > 0 {
		if err := w.file.Truncate(sc.off); err != nil {
			return err
		}
	}
	if w.finished && !sealed {
		return w.seal()
	}
	return nil
}

// Position is where to follow from: everything before it is stored, or dropped
// on purpose.
func (w *Writer) Position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at.pos
}

// Finished is the trailer, if Finish has come, in this life or an earlier one.
func (w *Writer) Finished() (trailer []byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.trailer), w.finished
}

// Append stores records, all of them or, after an error, none; they may then be
// appended again, for instance when the disk has room again. It takes what it
// needs from recs before it returns.
//
// Records come in the order of their positions, without holes. What lies below
// Position is left out: it is there already. *BeyondError: a record begins
// beyond it. ErrFinished: there is something new after Finish.
func (w *Writer) Append(recs []Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	buf := w.spool.buffer()
	b, at := (*buf)[:0], w.at
	defer func() { w.spool.giveBack(buf, b) }()
	for _, r := range recs {
		if !r.valid() {
			return fmt.Errorf("output of process %s: record at %d: %w", w.id, r.Position, ErrInvalid)
		}
		if r.Position > at.pos {
			return &BeyondError{ID: w.id, Want: at.pos, Got: r.Position}
		}
		if r.End() <= at.pos {
			continue
		}
		if w.finished {
			return fmt.Errorf("output of process %s: %w", w.id, ErrFinished)
		}
		b = w.encode(b, &at, r.cut(at.pos))
	}
	if at.pos == w.at.pos {
		return nil
	}
	if err := w.commit(b, at); err != nil {
		return err
	}
	w.stream.publish(w.at.end)
	return nil
}

// encode adds r, which begins at at.pos, to b.
func (w *Writer) encode(b []byte, at *mark, r Record) []byte {
	at.time = r.Time
	data := r.Data
	if limit := w.spool.opts.MaxBytes; limit > 0 {
		data = data[:min(int64(len(data)), max(limit-at.kept, 0))]
	}
	whole := at.gap == at.pos // always, unless the quota is used up
	for len(data) > 0 {
		part := data[:min(len(data), maxPayload)]
		b = appendEntry(b, kindData, r.Stream, at.pos, r.Time, part)
		at.pos += int64(len(part))
		at.kept += int64(len(part))
		data = data[len(part):]
	}
	if whole {
		at.gap = at.pos
	}
	end := r.End()
	if at.pos == end {
		return b
	}
	at.pos = end
	if len(r.Data) == 0 || at.pos-at.gap >= gapStep {
		return w.flushGap(b, at)
	}
	return b
}

func (w *Writer) flushGap(b []byte, at *mark) []byte {
	if at.gap == at.pos {
		return b
	}
	b = appendGap(b, at.gap, at.pos, at.time)
	at.gap = at.pos
	return b
}

// commit writes b at the end of the file, all or nothing, and moves to at.
func (w *Writer) commit(b []byte, at mark) error {
	if w.dirty {
		if err := w.file.Truncate(w.at.end); err != nil {
			return err
		}
		w.dirty = false
	}
	if _, err := w.file.WriteAt(b, w.at.end); err != nil {
		w.dirty = w.file.Truncate(w.at.end) != nil
		return err
	}
	at.end = w.at.end + int64(len(b))
	w.at = at
	return nil
}

// Finish records the end of the output. trailer, at most 256 KiB, is the
// caller's (the exit). Readers get io.EOF after the last record, and nothing
// new can be appended. Finishing again with the same trailer is nil.
func (w *Writer) Finish(trailer []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	if len(trailer) > maxPayload {
		return fmt.Errorf("output of process %s: a trailer of %d bytes: %w", w.id, len(trailer), ErrInvalid)
	}
	if w.finished && !bytes.Equal(trailer, w.trailer) {
		return fmt.Errorf("output of process %s: %w", w.id, ErrFinished)
	}
	if !w.finished {
		at := w.at
		b := w.flushGap(nil, &at)
		b = appendEntry(b, kindFinish, 0, at.pos, time.Time{}, trailer)
		if err := w.commit(b, at); err != nil {
			return err
		}
		w.finished, w.trailer = true, bytes.Clone(trailer)
	}
	if err := w.seal(); err != nil {
		return err
	}
	w.stream.publish(w.at.end)
	return nil
}

// seal marks the file as finished.
func (w *Writer) seal() error { return os.Chmod(w.file.Name(), 0o400) }

// flush brings the gap of the quota into the file.
func (w *Writer) flush() error {
	at := w.at
	b := w.flushGap(nil, &at)
	if len(b) == 0 {
		return nil
	}
	if err := w.commit(b, at); err != nil {
		return err
	}
	w.stream.publish(w.at.end)
	return nil
}

// Close gives the file back without finishing it; another Writer may go on.
// Readers keep waiting for that. Closing again is nil.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	err := errors.Join(w.flush(), w.file.Close())
	w.closed = true
	w.spool.leave(w.id, w.stream, true)
	return err
}
