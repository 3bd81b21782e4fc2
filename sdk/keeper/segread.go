package keeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// A segment is a file named by the position of its first byte, and holds records one after another: a header (length of the data
// 4, stream 1, zero 3, position 8, unix nanoseconds 8; little endian), then the data. It ends where the next segment begins, or
// where its file does, or with the first thing that is not the record to come; a part of a record's data is a shorter record.
const (
	headerBytes = 24
	nameDigits  = 16
	nameSuffix  = ".seg"

	// What no file of ours exceeds: it is not read further.
	maxSegmentFile = maxSegmentBytes + recordBytes + headerBytes
	maxSegments    = 1 << 16
	maxPosition    = 1 << 62

	// readBytes bounds what is read at once, and so what a follower keeps.
	readBytes = 2 * (recordBytes + headerBytes)
)

func (h header) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(h.length))
	b = append(b, byte(h.stream), 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.position))
	return binary.LittleEndian.AppendUint64(b, uint64(h.at.UnixNano()))
}

// parse reads the header that b begins with, and says whether it is one of a record at that position. Its length is not looked at.
func parse(b []byte, position sdk.Position) (header, bool) {
	if len(b) < headerBytes {
		return header{}, false
	}
	h := header{
		length:   int64(binary.LittleEndian.Uint32(b)),
		stream:   sdk.Stream(b[4]),
		position: sdk.Position(binary.LittleEndian.Uint64(b[8:])),
		at:       time.Unix(0, int64(binary.LittleEndian.Uint64(b[16:]))),
	}
	known := h.stream == sdk.Stdout || h.stream == sdk.Stderr
	return h, known && b[5] == 0 && b[6] == 0 && b[7] == 0 && h.position == position
}

func segmentName(first sdk.Position) string {
	return fmt.Sprintf("%0*x%s", nameDigits, int64(first), nameSuffix)
}

// segmentFiles is what Readers know of a Store of segments.
type segmentFiles struct {
	fsys fs.FS

	mu       sync.Mutex
	segments []sdk.Position // the first of each; ascending
	oldest   sdk.Position
	end      sdk.Position // of the files
	growing  sdk.Position // of the record whose length still changes, at the end; -1 if there is none
	tail     *memory      // what comes after the files; nil if there is nothing
}

// Bounds implements Store.
func (s *segmentFiles) Bounds() (oldest, end sdk.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bounds()
}

func (s *segmentFiles) bounds() (oldest, end sdk.Position) {
	if s.tail != nil {
		_, end := s.tail.Bounds()
		return s.oldest, end
	}
	return s.oldest, s.end
}

// Reader implements Store.
func (s *segmentFiles) Reader() Reader { return &segmentReader{files: s} }

// kept is a store of segments that somebody left.
type kept struct{ segmentFiles }

// OpenSegments reads what a [Segments] has left in a directory, for [Ended], and changes nothing there; dropping only moves
// positions. The journal's end is where the files end, or at, if that is more: what is missing before it is a gap. A directory that
// is not there has no records.
//
// Nothing of the content is trusted. Whatever is not a segment or not a record in its place is not read: it becomes a gap or
// the end. The files may even change while they are read. The error is that of listing the directory.
func OpenSegments(fsys fs.FS, at sdk.Position) (Store, error) {
	segments, err := list(fsys)
	if err != nil {
		return nil, fmt.Errorf("list the segments of a journal: %w", err)
	}
	s := &kept{segmentFiles{fsys: fsys, segments: segments, growing: -1}}
	if len(segments) > 0 {
		s.oldest = segments[0]
		s.end = extent(fsys, segments[len(segments)-1])
	}
	s.end = max(s.end, at)
	return s, nil
}

func (s *kept) Append(sdk.Stream, time.Time, []byte) int { return 0 }

func (s *kept) Drop(to sdk.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = max(s.oldest, to)
}

func (s *kept) Evict() bool { return false }

func (s *kept) Seal() {}

// list finds the segments of a directory, in their order.
func list(fsys fs.FS) (segments []sdk.Position, err error) {
	d, err := fsys.Open(".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // only read
	dir, ok := d.(fs.ReadDirFile)
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: ".", Err: errors.ErrUnsupported}
	}
	for n := 0; n < maxSegments; {
		entries, err := dir.ReadDir(256)
		for _, e := range entries {
			hex, ok := bytes.CutSuffix([]byte(e.Name()), []byte(nameSuffix))
			first, bad := strconv.ParseInt(string(hex), 16, 64)
			if ok && bad == nil && first >= 0 && first <= maxPosition && e.Name() == segmentName(sdk.Position(first)) && e.Type().IsRegular() {
				segments = append(segments, sdk.Position(first))
			}
		}
		n += len(entries)
		if err == io.EOF || err == nil && len(entries) == 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(segments)
	return segments, nil
}

// extent finds where a segment ends that no other follows.
func extent(fsys fs.FS, first sdk.Position) sdk.Position {
	r := segmentReader{files: &segmentFiles{fsys: fsys}}
	defer r.leave()
	at := segment{first: first, end: math.MaxInt64, growing: -1}
	end := first
	for {
		records, _ := r.read(at, end)
		if len(records) == 0 {
			return end
		}
		end = records[len(records)-1].End()
	}
}

// openSegment opens a segment's file, unless it is something that could block or never end.
func openSegment(fsys fs.FS, name string) (io.ReaderAt, io.Closer, error) {
	switch info, err := fs.Lstat(fsys, name); {
	case err != nil:
		return nil, nil, err
	case !info.Mode().IsRegular():
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, nil, err
	}
	if at, ok := f.(io.ReaderAt); ok {
		return at, f, nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSegmentFile))
	if err != nil {
		_ = f.Close() // only read
		return nil, nil, err
	}
	return bytes.NewReader(b), f, nil
}

// passing tells whether an error says nothing about the file.
func passing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR, syscall.EAGAIN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// segment is what a reader must know of one: it holds the positions from first to end, which need not all be there.
type segment struct{ first, end, growing sdk.Position }

// segmentReader reads segments one after another. What it knows of the one that it read last spares looking for the place.
type segmentReader struct {
	files *segmentFiles

	at       io.ReaderAt
	close    io.Closer
	first    sdk.Position // of the open segment
	offset   int64        // of a header in it
	position sdk.Position // of that header's record

	buf     []byte
	records []sdk.Record
}

// Close implements Reader.
func (r *segmentReader) Close() { r.leave() }

// leave closes the file.
func (r *segmentReader) leave() {
	if r.close != nil {
		_ = r.close.Close() // only read
		r.at, r.close = nil, nil
	}
}

// Read implements Reader. A file that was removed since find held nothing that was not dropped.
func (r *segmentReader) Read(from sdk.Position) ([]sdk.Record, error) {
	at, records := r.files.find(from)
	if records != nil {
		r.leave()
		return records, nil
	}
	records, err := r.read(at, from)
	switch {
	case len(records) > 0:
		return records, nil
	case passing(err):
		return nil, err
	}
	return []sdk.Record{gap(from, at.end)}, nil
}

// find gives the segment with a position, or the records themselves if no file is needed for them.
func (s *segmentFiles) find(from sdk.Position) (segment, []sdk.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from < s.oldest {
		return segment{}, []sdk.Record{gap(from, s.oldest)}
	}
	if s.tail != nil && from >= s.end {
		return segment{}, s.tail.read(from)
	}
	next := sort.Search(len(s.segments), func(i int) bool { return s.segments[i] > from })
	at := segment{end: s.end, growing: s.growing}
	if next < len(s.segments) {
		at = segment{end: s.segments[next], growing: -1}
	}
	if next == 0 {
		return segment{}, []sdk.Record{gap(from, at.end)}
	}
	at.first = s.segments[next-1]
	return at, nil
}

// read gives records of one segment; none if there are none in it from that position on.
func (r *segmentReader) read(at segment, from sdk.Position) ([]sdk.Record, error) {
	if r.at == nil || r.first != at.first {
		r.leave()
		var err error
		if r.at, r.close, err = openSegment(r.files.fsys, segmentName(at.first)); err != nil {
			return nil, err
		}
		r.first, r.offset, r.position = at.first, 0, at.first
	}
	if r.position > from {
		r.offset, r.position = 0, at.first
	}
	h, err := r.seek(at, from)
	if err != nil || h.length == 0 {
		return nil, err
	}
	skip := int64(from - h.position)
	want := 2*min(int64(at.end-from), readBytes/2) + headerBytes // there are headers in between
	if int64(len(r.buf)) < want {
		r.buf = make([]byte, want)
	}
	n, err := r.at.ReadAt(r.buf[:want], r.offset+headerBytes+skip)
	if n == 0 {
		if err == io.EOF {
			err = nil
		}
		return nil, err
	}
	records := r.split(at, h, from, r.buf[:n])
	if at.growing < 0 && records[len(records)-1].End() == at.end {
		r.leave() // an open file takes room even after it was removed
	}
	return records, nil
}

// seek goes to the record with a position. Its length is zero if that is not there.
func (r *segmentReader) seek(at segment, from sdk.Position) (header, error) {
	var b [headerBytes]byte
	for r.offset < maxSegmentFile {
		n, err := r.at.ReadAt(b[:], r.offset)
		h, ok := parse(b[:n], r.position)
		if !ok {
			if err == io.EOF {
				err = nil
			}
			return header{}, err
		}
		length := at.length(h)
		if length == 0 {
			return header{}, nil
		}
		if from < r.position+sdk.Position(length) {
			h.length = length
			return h, nil
		}
		r.offset += headerBytes + length
		r.position += sdk.Position(length)
	}
	return header{}, nil
}

// length is that of a record in the segment, 0 if its header says what cannot be.
func (s segment) length(h header) int64 {
	left := int64(s.end - h.position)
	if h.position == s.growing {
		return left // the header is being rewritten
	}
	if h.length > recordBytes {
		return 0
	}
	return min(h.length, left)
}

// split makes records of bytes, which begin within the data of h at a position.
func (r *segmentReader) split(at segment, h header, from sdk.Position, b []byte) []sdk.Record {
	r.records = r.records[:0]
	data := b[:min(int64(len(b)), h.length-int64(from-h.position))]
	for {
		r.records = append(r.records, sdk.Record{Position: from, Stream: h.stream, Time: h.at, Data: data})
		b = b[len(data):]
		from += sdk.Position(len(data))
		next, ok := parse(b, from)
		if !ok || from >= at.end || len(r.records) == batchRecords || from < h.position+sdk.Position(h.length) {
			return r.records
		}
		r.offset += headerBytes + h.length
		r.position = from
		h = next
		h.length = at.length(next)
		if b = b[headerBytes:]; h.length == 0 || int64(len(b)) < h.length || r.offset >= maxSegmentFile {
			return r.records // the next call reads it
		}
		data = b[:h.length]
	}
}
