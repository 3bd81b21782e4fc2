package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/internal/testkit"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	testkit.Main(m)
}

func mustOpen(t testing.TB, dir string, opts Options) *Spool {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if len(s.streams) > 0 {
			t.Errorf("%d streams are left", len(s.streams))
		}
	})
	return s
}

func mustWriter(t testing.TB, s *Spool, id string) *Writer {
	t.Helper()
	w, err := s.Writer(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func mustReader(t testing.TB, s *Spool, id string, from int64) *Reader {
	t.Helper()
	r, err := s.Reader(id, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func mustAppend(t testing.TB, w *Writer, recs ...Record) {
	t.Helper()
	if err := w.Append(recs); err != nil {
		t.Fatal(err)
	}
}

// must fails the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func out(pos int64, data string) Record {
	return Record{Stream: Stdout, Position: pos, Data: []byte(data)}
}

func gap(from, to int64) Record { return Record{Position: from, GapTo: to} }

// drain reads to the end, which it returns.
func drain(t testing.TB, r *Reader) (recs []Record, end error) {
	t.Helper()
	for {
		rec, err := r.Next(t.Context())
		if err != nil {
			return recs, err
		}
		recs = append(recs, rec)
	}
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := mustOpen(t, dir, Options{})
	w := mustWriter(t, s, "p1")
	now := time.Unix(1700000000, 123456789).UTC()
	big := bytes.Repeat([]byte("0123456789abcdef"), maxPayload/8)
	pos := 20 + int64(len(big))
	mustAppend(t, w,
		Record{Stream: Stdout, Position: 0, Time: now, Data: []byte("hello")},
		Record{Stream: Stderr, Position: 5, Time: now.Add(time.Second), Data: []byte("world")},
		Record{Position: 10, Time: now, GapTo: 20},
		Record{Stream: 7, Position: 20, Data: big}, // two entries in the file
		Record{Position: pos}, // nothing
	)
	mustAppend(t, w)
	if got := w.Position(); got != pos {
		t.Errorf("position %d, want %d", got, pos)
	}
	must(t, w.Finish([]byte(`{"code":3}`)))
	want := []Record{
		{Stream: Stdout, Position: 0, Time: now, Data: []byte("hello")},
		{Stream: Stderr, Position: 5, Time: now.Add(time.Second), Data: []byte("world")},
		{Position: 10, Time: now, GapTo: 20},
		{Stream: 7, Position: 20, Data: big[:maxPayload]},
		{Stream: 7, Position: 20 + maxPayload, Data: big[maxPayload:]},
	}
	check := func(s *Spool) {
		t.Helper()
		r := mustReader(t, s, "p1", 0)
		if r.Trailer() != nil {
			t.Error("a trailer before the end")
		}
		got, err := drain(t, r)
		if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); diff != "" || err != io.EOF {
			t.Error(err, diff)
		}
		if string(r.Trailer()) != `{"code":3}` {
			t.Errorf("trailer %q", r.Trailer())
		}
		if _, err := r.Next(t.Context()); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
	}
	check(s)
	check(mustOpen(t, dir, Options{ReadOnly: true}))
	must(t, w.Close())
	check(s)
	check(mustOpen(t, dir, Options{ReadOnly: true}))

	for _, from := range []int64{1, 5, 9, 10, 13, 20, 21, pos - 1, pos, pos + 5} {
		var want2 []Record
		for _, rec := range want {
			if rec.End() > from {
				want2 = append(want2, rec.cut(from))
			}
		}
		got, err := drain(t, mustReader(t, s, "p1", from))
		if diff := cmp.Diff(want2, got, cmp.Comparer(bytes.Equal)); diff != "" || err != io.EOF {
			t.Errorf("from %d: %v %s", from, err, diff)
		}
		if len(got) > 0 && got[0].Position < from {
			t.Errorf("from %d: begins at %d", from, got[0].Position)
		}
	}
}

func TestFinishedIsFinal(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	w := mustWriter(t, s, "p1")
	mustAppend(t, w, out(0, "abc"))
	if _, ok := w.Finished(); ok {
		t.Error("finished before Finish")
	}
	must(t, w.Finish([]byte("exit")))
	for range 2 {
		must(t, w.Finish([]byte("exit")))
		if err := w.Finish([]byte("other")); !errors.Is(err, ErrFinished) {
			t.Errorf("another trailer: %v", err)
		}
		mustAppend(t, w, out(0, "abc"), out(1, "b")) // delivered again
		if err := w.Append([]Record{out(0, "abcd")}); !errors.Is(err, ErrFinished) {
			t.Errorf("something new: %v", err)
		}
		if trailer, ok := w.Finished(); !ok || string(trailer) != "exit" {
			t.Errorf("finished %v with %q", ok, trailer)
		}
		if w.Position() != 3 || w.cut != 0 {
			t.Errorf("position %d, cut %d", w.Position(), w.cut)
		}
		must(t, w.Close())
		w = mustWriter(t, s, "p1")
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	if err := w.Append([]Record{out(3, "x")}); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	info, err := os.Stat(s.path("p1"))
	must(t, err)
	if info.Mode() != 0o400 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestFinishIsMarkedAfterACrash(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	w := mustWriter(t, s, "p1")
	must(t, w.Finish(nil))
	must(t, w.Close())
	must(t, os.Chmod(s.path("p1"), 0o600)) // as if it had died between the two
	w = mustWriter(t, s, "p1")
	if _, ok := w.Finished(); !ok {
		t.Error("not finished")
	}
	if info, err := os.Stat(s.path("p1")); err != nil || !finished(info) {
		t.Errorf("its file is %v, %v", info, err)
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	for _, id := range []string{"", ".", "..", "../p", "a/b", "A", "a-", "-a", "a_b", "a\x00", strings.Repeat("a", 101)} {
		_, err1 := s.Writer(id)
		_, err2 := s.Reader(id, 0)
		for _, err := range []error{err1, err2, s.Remove(id)} {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("id %q: %v", id, err)
			}
		}
	}
	if _, err := s.Reader("p1", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reader of nothing: %v", err)
	}
	w := mustWriter(t, s, "p1")
	if _, err := s.Writer("p1"); !errors.Is(err, ErrBusy) {
		t.Errorf("second writer: %v", err)
	}
	if err := s.Remove("p1"); !errors.Is(err, ErrBusy) {
		t.Errorf("remove: %v", err)
	}
	if _, err := s.Reader("p1", -1); !errors.Is(err, ErrInvalid) {
		t.Errorf("reader from -1: %v", err)
	}
	mustAppend(t, w, out(0, "abc"))
	for name, recs := range map[string][]Record{
		"negative":     {{Position: -1, Data: []byte("xx")}},
		"gap and data": {{Position: 3, Data: []byte("x"), GapTo: 9}},
		"backwards":    {{Position: 3, GapTo: 2}},
		"overflow":     {{Position: 1<<63 - 2, Data: []byte("xx")}},
	} {
		if err := w.Append(append([]Record{out(3, "never")}, recs...)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var beyond *BeyondError
	err := w.Append([]Record{out(3, "never"), out(9, "x")})
	if !errors.As(err, &beyond) || *beyond != (BeyondError{ID: "p1", Want: 8, Got: 9}) {
		t.Errorf("beyond: %v", err)
	}
	if err := w.Finish(make([]byte, maxPayload+1)); !errors.Is(err, ErrInvalid) {
		t.Errorf("big trailer: %v", err)
	}
	must(t, w.Finish(nil))
	if got, err := drain(t, mustReader(t, s, "p1", 0)); err != io.EOF || len(got) != 1 || string(got[0].Data) != "abc" {
		t.Errorf("after what was refused: %v %v", got, err)
	}
	ro := mustOpen(t, dir, Options{ReadOnly: true})
	_, err1 := ro.Writer("p2")
	for _, err := range []error{err1, ro.Remove("p1")} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("read-only: %v", err)
		}
	}
	if _, err := Open(filepath.Join(dir, "none"), Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read-only of nothing: %v", err)
	}
	closed := mustOpen(t, dir, Options{})
	must(t, closed.Close())
	if _, err := closed.Writer("p3"); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestQuotaKeepsTheBeginning(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{MaxBytes: 100})
	w := mustWriter(t, s, "p1")
	const line = "a line of 20 bytes.\n"
	lines := int64(2*gapStep/len(line)) + 10
	for i := range lines {
		mustAppend(t, w, out(i*20, line))
		if w.Position() != (i+1)*20 {
			t.Fatalf("position %d after %d lines", w.Position(), i+1)
		}
	}
	mustAppend(t, w, gap(lines*20, lines*20+5), out(lines*20+5, "more"))
	must(t, w.Close())
	w = mustWriter(t, s, "p1")
	mustAppend(t, w, out(lines*20+9, "!"))
	must(t, w.Close())

	w = mustWriter(t, s, "p1") // it knows what is used up
	end := lines*20 + 10
	if w.Position() != end {
		t.Errorf("position %d, want %d", w.Position(), end)
	}
	mustAppend(t, w, out(end, "again"))
	must(t, w.Finish(nil))
	got, err := drain(t, mustReader(t, s, "p1", 0))
	if err != io.EOF {
		t.Fatal(err)
	}
	pos, data := int64(0), ""
	for _, rec := range got {
		if rec.Position != pos {
			t.Fatalf("a record at %d follows %d", rec.Position, pos)
		}
		pos, data = rec.End(), data+string(rec.Data)
	}
	if data != strings.Repeat(line, 5) || pos != end+5 {
		t.Errorf("read to %d: %q", pos, data)
	}
	if info, err := os.Stat(s.path("p1")); err != nil || info.Size() > 600 {
		t.Errorf("its file is %v, %v", info, err)
	}

	// The quota falls into the middle of a record.
	w = mustWriter(t, s, "p2")
	mustAppend(t, w, out(0, strings.Repeat("x", 99)), Record{Stream: Stderr, Position: 99, Data: []byte("abc")})
	must(t, w.Finish(nil))
	got, _ = drain(t, mustReader(t, s, "p2", 99))
	want := []Record{{Stream: Stderr, Position: 99, Data: []byte("a")}, gap(100, 102)}
	if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); diff != "" {
		t.Error(diff)
	}
}

func TestListAndRemove(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	make := func(id string, size int, finish bool) {
		w := mustWriter(t, s, id)
		mustAppend(t, w, out(0, strings.Repeat("x", size)))
		if finish {
			must(t, w.Finish(nil))
		}
		must(t, w.Close())
	}
	make("a-ended", 1000, true)
	make("b-running", 1000, false)
	make("c-held", 1000, true)
	held := mustWriter(t, s, "c-held")
	ids := func() string {
		t.Helper()
		all, err := s.IDs()
		must(t, err)
		return strings.Join(all, " ")
	}
	if got := ids(); got != "a-ended b-running c-held" {
		t.Errorf("there are %s", got)
	}
	must(t, s.Remove("a-ended"))
	if err := s.Remove("c-held"); !errors.Is(err, ErrBusy) {
		t.Errorf("one that has a writer is removed: %v", err)
	}
	must(t, held.Close())
	must(t, s.Remove("c-held"))
	must(t, s.Remove("b-running"))
	must(t, s.Remove("b-running"))
	if got := ids(); got != "" {
		t.Errorf("left are %s", got)
	}
	entries, err := os.ReadDir(dir)
	if !slices.IsSortedFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }) || err != nil {
		t.Error(err)
	}
}

func TestRemovedUnderReaders(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	w := mustWriter(t, s, "p1")
	mustAppend(t, w, out(0, "abc"))
	r, late := mustReader(t, s, "p1", 0), mustReader(t, s, "p1", 0)
	if _, err := r.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())
	end := make(chan error)
	go func() {
		_, err := r.Next(context.Background())
		end <- err
	}()
	must(t, s.Remove("p1"))
	if err := <-end; !errors.Is(err, ErrRemoved) {
		t.Errorf("waiting reader: %v", err)
	}
	if got, err := drain(t, late); len(got) != 1 || !errors.Is(err, ErrRemoved) {
		t.Errorf("late reader: %v, %v", got, err)
	}

	w = mustWriter(t, s, "p2")
	mustAppend(t, w, out(0, "abc"))
	must(t, w.Finish(nil))
	must(t, w.Close())
	r = mustReader(t, s, "p2", 0)
	must(t, s.Remove("p2"))
	if got, err := drain(t, r); len(got) != 1 || err != io.EOF {
		t.Errorf("reader of a finished one: %v, %v", got, err)
	}
}

func TestCloseWakesReaders(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	mustWriter(t, s, "p1")
	end := make(chan error)
	for range 3 {
		r := mustReader(t, s, "p1", 0)
		go func() {
			_, err := r.Next(context.Background())
			end <- err
		}()
	}
	must(t, s.Close())
	for range 3 {
		if err := <-end; !errors.Is(err, ErrClosed) {
			t.Errorf("reader: %v", err)
		}
	}
}

func TestManySmallRecords(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	w := mustWriter(t, s, "p1")
	const n = 100_000
	batch := make([]Record, 0, 100)
	for i := range int64(n) {
		batch = append(batch, Record{Stream: uint8(1 + i%2), Position: i * 6, Data: fmt.Appendf(nil, "%06d", i)})
		if len(batch) == cap(batch) {
			mustAppend(t, w, batch...)
			batch = batch[:0]
		}
	}
	must(t, w.Finish(nil))
	got, err := drain(t, mustReader(t, s, "p1", 0))
	if len(got) != n || err != io.EOF {
		t.Fatalf("%d records, %v", len(got), err)
	}
	for i, rec := range got {
		if want := fmt.Sprintf("%06d", i); string(rec.Data) != want || rec.Stream != uint8(1+i%2) {
			t.Fatalf("record %d: %+v", i, rec)
		}
	}
}
