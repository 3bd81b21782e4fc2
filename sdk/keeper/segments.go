package keeper

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

const (
	// A new segment begins at a part of the spill: what was dropped of the oldest one, or stays of the newest, is little beside
	// it. Within bounds: making a file costs as much as writing a megabyte.
	segmentsOfSpill = 16
	minSegmentBytes = 4 << 10
	maxSegmentBytes = 4 << 20
	// tailBytes is what is kept in memory when the disk takes nothing.
	tailBytes = 1 << 20
	// retryAfter is how long a disk that failed is left alone if nothing was dropped meanwhile.
	retryAfter = time.Second
)

// Segments is a [Store] of files in a directory, for a keeper that may be killed: whatever Journal.Write has returned for
// can be read by [OpenSegments] afterwards, and so can a part of what it was about to write. A loss of power is another matter.
//
// The files take no more than the spill, a sixteenth of it (4 KiB to 4 MiB) for a segment of which not all is kept any more, a
// record, and headers: next to nothing, or up to three eighths where records are very short.
//
// A disk that is full or fails loses nothing: up to a mebibyte is kept in memory, where it does not outlive the keeper; beyond
// that there is no room until something is dropped. As soon as the disk takes it again, what is in memory goes there.
type Segments struct {
	segmentFiles
	dir          string
	segmentBytes int64
	recordBytes  int64 // to which writes are joined
	maxRecords   int

	file   *os.File // the newest segment; nil: the next record begins one
	size   int64    // of it
	last   header   // the record at the end of it; its position is that of segmentFiles
	offset int64    // of that record in the file
	counts []int    // of records, for each segment
	total  int      // of counts

	retry  time.Time // the disk failed and is left alone until then
	sealed bool
}

// NewSegments keeps records in dir, which is made with the first one; only its parent must be there. If dir is there it must be
// empty. Spill of the spec bounds the files. Nothing is opened yet and nothing runs, so it need not be closed: the journal's
// Exit, Abandon or Abort lets go of the last file.
func NewSegments(dir string, spec sdk.ProcessSpec) *Segments {
	spill := spillOf(spec)
	size := min(max(spill/segmentsOfSpill, minSegmentBytes), maxSegmentBytes)
	return &Segments{
		segmentFiles: segmentFiles{fsys: os.DirFS(dir), growing: -1},
		dir:          dir,
		segmentBytes: size,
		recordBytes:  min(size, recordBytes),
		maxRecords:   recordsFor(spill),
	}
}

func (s *Segments) path(first sdk.Position) string { return filepath.Join(s.dir, segmentName(first)) }

// Append implements Store.
func (s *Segments) Append(stream sdk.Stream, at time.Time, p []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed || len(p) == 0 {
		return 0
	}
	if s.tail != nil && !s.flush(at) {
		return s.tail.Append(stream, at, p)
	}
	n, err := s.write(stream, at, p)
	if err == nil || n > 0 {
		return n
	}
	s.tail = newMemory(tailBytes)
	s.tail.maxBytes = tailBytes
	s.tail.oldest, s.tail.end = s.end, s.end
	s.retry = at.Add(retryAfter)
	return s.tail.Append(stream, at, p)
}

// write puts a part of p into one record of the newest file. Without an error it takes nothing only if there are too many records.
// A record's header is written first: where the file ends too early, all that is there is of that record. Where it is not the
// file that ends, the next segment's name says where the record did.
func (s *Segments) write(stream sdk.Stream, at time.Time, p []byte) (int, error) {
	room := int64(0)
	if s.file != nil && s.last.length > 0 {
		room = s.last.joinable(stream, at, s.recordBytes, s.total > s.maxRecords/2)
	}
	var err error
	if room > 0 {
		p = p[:min(int64(len(p)), room)]
		err = s.lengthen(int64(len(p)))
	} else {
		if s.total >= s.maxRecords {
			return 0, nil
		}
		p = p[:min(int64(len(p)), s.recordBytes)]
		err = s.begin(header{position: s.end, stream: stream, at: at, length: int64(len(p))})
	}
	n := 0
	if err == nil {
		n, err = s.file.WriteAt(p, s.size)
	}
	s.size += int64(n)
	s.end += sdk.Position(n)
	s.last.length += int64(n)
	if err != nil {
		s.leave()
	}
	return n, err
}

// lengthen says in the last record's header that n more bytes follow.
func (s *Segments) lengthen(n int64) error {
	_, err := s.file.WriteAt(binary.LittleEndian.AppendUint32(nil, uint32(s.last.length+n)), s.offset)
	return err
}

// begin writes the header of a new record, into a new file if need be.
func (s *Segments) begin(h header) error {
	if s.file == nil || s.size >= s.segmentBytes {
		if err := s.roll(); err != nil {
			return err
		}
	}
	if _, err := s.file.WriteAt(h.append(nil), s.size); err != nil {
		return err
	}
	s.offset, s.growing = s.size, h.position
	s.size += headerBytes
	s.last, s.last.length = h, 0
	s.counts[len(s.counts)-1]++
	s.total++
	return nil
}

// roll begins a new segment.
func (s *Segments) roll() error {
	if s.file != nil {
		s.leave()
	}
	if len(s.segments) == 0 {
		if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	f, err := os.OpenFile(s.path(s.end), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	s.file, s.size, s.last = f, 0, header{}
	s.segments = append(s.segments, s.end)
	s.counts = append(s.counts, 0)
	s.trim()
	return nil
}

// leave makes the next record begin a new segment, and removes one that has nothing.
func (s *Segments) leave() {
	if s.file == nil {
		return
	}
	_ = s.file.Close() // each write has said what became of it
	s.file, s.growing = nil, -1
	if n := len(s.segments) - 1; s.segments[n] == s.end {
		_ = os.Remove(s.path(s.end)) // or the name is not free, and the disk not well
		s.total -= s.counts[n]
		s.segments, s.counts = s.segments[:n], s.counts[:n]
	}
}

// trim removes the segments of which nothing is kept, but for the newest.
func (s *Segments) trim() {
	n := 0
	for n+1 < len(s.segments) && s.segments[n+1] <= s.oldest {
		n++
	}
	s.remove(n)
}

// remove takes the n oldest segments away.
func (s *Segments) remove(n int) {
	for i := range n {
		_ = os.Remove(s.path(s.segments[i])) // a file that stays is only below the oldest position
		s.total -= s.counts[i]
	}
	if n == len(s.segments) {
		s.segments, s.counts = nil, nil
		return
	}
	s.segments, s.counts = s.segments[n:], s.counts[n:]
}

// flush moves what is in memory to the files and tells whether that is all of it.
func (s *Segments) flush(now time.Time) bool {
	if now.Before(s.retry) {
		return false
	}
	for _, r := range s.tail.records {
		for len(r.Data) > 0 {
			n, err := s.write(r.Stream, r.Time, r.Data)
			r.Data = r.Data[n:]
			s.tail.Drop(s.end)
			if err != nil {
				s.retry = now.Add(retryAfter)
			}
			if err != nil || n == 0 {
				return false
			}
		}
	}
	s.tail = nil
	return true
}

// Drop implements Store.
func (s *Segments) Drop(to sdk.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(to)
}

func (s *Segments) drop(to sdk.Position) {
	if to <= s.oldest {
		return
	}
	before := len(s.segments)
	s.oldest = to
	s.trim()
	if s.tail == nil {
		s.bury()
		return
	}
	s.tail.Drop(to)
	if to >= s.end { // nothing in the files is kept
		s.leave()
		s.remove(len(s.segments))
		s.end = to
	}
	if len(s.segments) < before {
		s.retry = time.Time{}
	}
	s.flush(time.Now())
	if s.sealed {
		s.leave()
	}
	s.bury()
}

// Evict implements Store: it drops a whole segment, for nothing less makes room.
func (s *Segments) Evict() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.segments) > 1:
		s.drop(s.segments[1])
	case len(s.segments) == 1 && s.end > s.oldest:
		s.drop(s.end)
		if s.oldest == s.end { // else it made room for what was in memory
			s.leave()
			s.remove(len(s.segments))
		}
	case s.tail != nil && len(s.tail.records) > 0:
		s.drop(s.tail.records[0].End())
	default:
		return false
	}
	return true
}

// Seal implements Store. What is in memory gets another chance to come to the disk, here and with each Drop.
func (s *Segments) Seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return
	}
	s.sealed = true
	if s.tail != nil {
		s.retry = time.Time{}
		s.flush(time.Now())
	}
	s.leave()
	s.bury()
}

// bury leaves, once nothing is kept or will come, one empty segment whose name is the end. Renaming needs no room.
func (s *Segments) bury() {
	if _, end := s.bounds(); !s.sealed || s.oldest < end || end == 0 {
		return
	}
	grave := s.path(s.oldest)
	if n := len(s.segments) - 1; n >= 0 {
		if err := os.Rename(s.path(s.segments[n]), grave); err == nil {
			_ = os.Truncate(grave, 0) // what is in it lies before the position in its name: nobody reads it
		}
		s.remove(n)
		s.segments, s.counts = nil, nil
	} else if f, err := os.OpenFile(grave, os.O_WRONLY|os.O_CREATE, 0o600); err == nil { // or the end is lost, if the disk is still full
		_ = f.Close()
	}
	s.end, s.tail = s.oldest, nil
}
