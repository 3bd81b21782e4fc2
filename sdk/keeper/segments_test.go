package keeper

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// met is what a follower met.
type met struct {
	end  sdk.Position
	gaps int
	exit *sdk.Exit
}

// follow follows from the oldest position kept, or 0 for a gap, to the exit, and checks all bytes.
func follow(t *testing.T, j *Journal) met {
	t.Helper()
	var m met
	err := j.Follow(t.Context(), 0, sdk.Follow{
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				if r.Position != m.end || r.End() <= m.end || !r.IsGap() && !bytes.Equal(r.Data, pattern(r.Position, r.End())) {
					t.Fatalf("record from %d to %d, want from %d", r.Position, r.End(), m.end)
				}
				if r.IsGap() {
					m.gaps++
				}
				m.end = r.End()
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { m.exit = &e; return nil },
	})
	if err != nil || m.exit == nil {
		t.Fatalf("followed to %d without an exit: %v", m.end, err)
	}
	return m
}

func writePattern(t *testing.T, j *Journal, size int) {
	t.Helper()
	end := j.End()
	if _, err := j.Write(t.Context(), sdk.Stdout, pattern(end, end+sdk.Position(size))); err != nil {
		t.Fatal(err)
	}
}

// A disk that takes nothing at first has it all once it is well again.
func TestSegmentsWithoutADirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := filepath.Join(t.TempDir(), "parent")
		spec := sdk.ProcessSpec{}
		s := NewSegments(filepath.Join(parent, "journal"), spec)
		j := New(spec, s)
		writePattern(t, j, 1000)
		if err := os.Mkdir(parent, 0o700); err != nil {
			t.Fatal(err)
		}
		writePattern(t, j, 1000)
		if s.tail == nil {
			t.Error("a disk that failed a moment ago was tried again")
		}
		time.Sleep(retryAfter)
		writePattern(t, j, 1000)
		if left := spans(t, s.fsys, 0, true); len(left) != 1 || left[0] != (span{0, 3000, false}) {
			t.Errorf("left is %v", left)
		}
		j.Exit(sdk.Exit{})
		if m := follow(t, j); m.end != 3000 || m.gaps != 0 {
			t.Errorf("followed %+v", m)
		}
	})
}

// A disk that takes nothing any more keeps no writer waiting who may drop what is oldest.
func TestSegmentsDropTheOldestFromMemory(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "parent")
	if err := os.Mkdir(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	spec := sdk.ProcessSpec{WhenFull: sdk.DropOldest}
	s := NewSegments(filepath.Join(parent, "journal"), spec)
	j := New(spec, s)
	writePattern(t, j, 1000)
	_ = s.file.Close()
	if err := os.Rename(parent, parent+"2"); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		writePattern(t, j, 100_000)
	}
	if oldest, end := j.store.Bounds(); end != 4_001_000 || end-oldest > tailBytes || end-oldest < tailBytes/2 || len(s.segments) > 0 {
		t.Errorf("from %d to %d is kept", oldest, end)
	}
	j.Exit(sdk.Exit{})
	if m := follow(t, j); m.end != 4_001_000 || m.gaps != 1 {
		t.Errorf("followed %+v", m)
	}
}

// What comes from memory to a disk that is well again is not what makes room.
func TestSegmentsEvictOnlyTheOldest(t *testing.T) {
	s := NewSegments(filepath.Join(t.TempDir(), "journal"), sdk.ProcessSpec{})
	defer s.Seal()
	now := time.Now()
	if n := s.Append(sdk.Stdout, now, pattern(0, 100)); n != 100 {
		t.Fatalf("appended %d", n)
	}
	_ = s.file.Close()
	if n := s.Append(sdk.Stderr, now, pattern(100, 200)); n != 100 || s.tail == nil {
		t.Fatalf("appended %d", n)
	}
	if !s.Evict() {
		t.Fatal("nothing made room")
	}
	if left := spans(t, s.fsys, 0, true); len(left) != 1 || left[0] != (span{100, 200, false}) || s.tail != nil {
		t.Errorf("left is %v", left)
	}
}

// Dropping what was read frees its room at once: a file takes room as long as it is open.
func TestSegmentsAreOpenOnlyWhileRead(t *testing.T) {
	s := NewSegments(filepath.Join(t.TempDir(), "journal"), sdk.ProcessSpec{Spill: 1})
	defer s.Seal()
	for at := sdk.Position(0); at < 8000; at += 4000 {
		if n := s.Append(sdk.Stdout, time.Now().Add(time.Duration(at)*time.Second), pattern(at, at+4000)); n != 4000 {
			t.Fatalf("appended %d", n)
		}
	}
	s.Append(sdk.Stderr, time.Now(), pattern(8000, 8001))
	r := s.Reader().(*segmentReader)
	defer r.Close()
	for at := sdk.Position(0); at < 8001; {
		records, err := r.Read(at)
		if err != nil {
			t.Fatal(err)
		}
		at = records[len(records)-1].End()
		if newest := at > s.segments[len(s.segments)-1]; newest == (r.at == nil) {
			t.Errorf("at %d of segments from %v: open is %v", at, s.segments, r.at != nil)
		}
	}
}

func TestSegmentsAreReadBackwardsToo(t *testing.T) {
	s := NewSegments(filepath.Join(t.TempDir(), "journal"), sdk.ProcessSpec{})
	defer s.Seal()
	for at := sdk.Position(0); at < 1000; at += 100 {
		s.Append(sdk.Stdout+sdk.Stream(at/100%2), time.Now(), pattern(at, at+100))
	}
	r := s.Reader()
	defer r.Close()
	for _, at := range []sdk.Position{950, 250, 0} {
		records, err := r.Read(at)
		if err != nil || records[0].Position != at || !bytes.Equal(records[0].Data, pattern(at, at-at%100+100)) {
			t.Errorf("from %d: %+v, %v", at, records, err)
		}
	}
}

// busy is a file system that lacks something for a moment.
type busy struct {
	fs.FS
	times int
}

func (b *busy) Open(name string) (fs.File, error) {
	if b.times--; b.times >= 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	return b.FS.Open(name)
}

func TestSegmentsThatCannotBeReadAtTheMoment(t *testing.T) {
	spec := sdk.ProcessSpec{}
	s := NewSegments(filepath.Join(t.TempDir(), "journal"), spec)
	j := New(spec, s)
	writePattern(t, j, 1000)
	j.Exit(sdk.Exit{})
	s.fsys = &busy{s.fsys, 1}
	if err := j.Follow(t.Context(), 0, sdk.Follow{}); !errors.Is(err, sdk.Unavailable) || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("at first: %v", err)
	}
	if m := follow(t, j); m.end != 1000 || m.gaps != 0 {
		t.Errorf("later: %+v", m)
	}
}

// Tiny writes of one stream do not take many times their bytes, however slowly they come.
func TestSegmentsJoinWhenCrowded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	spec := sdk.ProcessSpec{Spill: 256 << 10}
	s := NewSegments(dir, spec)
	defer s.Seal()
	at := time.Now()
	for n := range 200_000 {
		at = at.Add(2 * joinWithin)
		p := sdk.Position(n)
		if got := s.Append(sdk.Stdout, at, pattern(p, p+1)); got != 1 {
			t.Fatalf("no room at %d", n)
		}
	}
	size := int64(0)
	for _, first := range s.segments {
		info, err := os.Stat(s.path(first))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 2*200_000 {
		t.Errorf("200000 bytes take %d", size)
	}
	if left := spans(t, s.fsys, 0, true); len(left) != 1 || left[0] != (span{0, 200_000, false}) {
		t.Errorf("left is %v", left)
	}
}

// A file is open only while something is written to it or read from it.
func TestSegmentsHoldNothingInTheEnd(t *testing.T) {
	spec := sdk.ProcessSpec{Spill: 16 << 20}
	s := NewSegments(filepath.Join(t.TempDir(), "journal"), spec)
	j := New(spec, s)
	writePattern(t, j, 3<<20)
	if len(s.segments) != 3 {
		t.Fatalf("segments from %v", s.segments)
	}
	if err := followUntil(t, j, 2<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.path(0)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of what was acknowledged: %v", err)
	}
	j.Exit(sdk.Exit{Code: 1})
	if s.file != nil {
		t.Error("a file is open after the exit")
	}
	if err := followUntil(t, j, 3<<20); err != nil {
		t.Fatal(err)
	}
	if s.segments != nil || s.counts != nil || s.tail != nil {
		t.Errorf("a tombstone holds %+v", s)
	}
	store, err := OpenSegments(s.fsys, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := Ended("p", store, &sdk.Exit{Code: 1})
	var e *sdk.Error
	if err := found.Follow(t.Context(), 5, sdk.Follow{}); !errors.As(err, &e) || e.Reason != sdk.ReasonOutputGap || e.Position != 3<<20 {
		t.Errorf("from below a tombstone: %v", err)
	}
	if err := found.Follow(t.Context(), 3<<20, sdk.Follow{}); err != nil {
		t.Errorf("from a tombstone: %v", err)
	}
}

func TestSegmentsAreRemovedWithTheContainer(t *testing.T) {
	spec := sdk.ProcessSpec{}
	dir := filepath.Join(t.TempDir(), "journal")
	j := New(spec, NewSegments(dir, spec))
	writePattern(t, j, 2<<20)
	j.Abort(sdk.NewNotFound(sdk.KindContainer, "c"))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestEnded(t *testing.T) {
	exited := Ended("p", nil, &sdk.Exit{Code: 9})
	if state, exit := exited.Status(); state != sdk.ProcessExited || exit == nil || exit.Code != 9 {
		t.Errorf("%v, %v", state, exit)
	}
	for _, from := range []sdk.Position{0, 100} { // the second was delivered from memory that is no more
		exits := 0
		err := exited.Follow(t.Context(), from, sdk.Follow{Exit: func(e sdk.Exit) error { exits += e.Code; return nil }})
		if err != nil || exits != 9 {
			t.Errorf("exited, from %d: %v, %d", from, err, exits)
		}
	}
	abandoned := Ended("p", nil, nil)
	if state, exit := abandoned.Status(); state != sdk.ProcessAbandoned || exit != nil {
		t.Errorf("%v, %v", state, exit)
	}
	state := sdk.ProcessState(0)
	err := abandoned.Follow(t.Context(), 0, sdk.Follow{Opened: func(o sdk.Opened) error { state = o.State; return nil }})
	if state != sdk.ProcessAbandoned || !errors.Is(err, sdk.ReasonAbandoned) || !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("%v, %v", state, err)
	}
	if n, err := abandoned.Write(t.Context(), sdk.Stdout, []byte("late")); n != 4 || err != nil || abandoned.End() != 0 {
		t.Errorf("a left-over writer: %d, %v", n, err)
	}
}
