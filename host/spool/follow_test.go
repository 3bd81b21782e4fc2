package spool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pattern is what the test's process writes at a position.
func pattern(from, to int64) []byte {
	b := make([]byte, 0, to-from)
	for i := from; i < to; i++ {
		b = append(b, byte(i)^byte(i>>8)^byte(i>>16))
	}
	return b
}

func TestFollowersAtTheirOwnPace(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	w := mustWriter(t, s, "p1")
	const total = 4 << 20
	follow := func(r *Reader, each func()) error {
		var pos int64
		for {
			rec, err := r.Next(context.Background())
			if err == io.EOF {
				if pos != total {
					return errors.New("ended early")
				}
				return nil
			}
			if err != nil {
				return err
			}
			if rec.Position != pos || !bytes.Equal(rec.Data, pattern(rec.Position, rec.End())) {
				return errors.New("a byte lost, doubled or changed")
			}
			pos = rec.End()
			each()
		}
	}
	written := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 6 {
		r := mustReader(t, s, "p1", 0)
		each := func() {}
		if i == 0 { // as slow as can be: it reads nothing until all is written
			each = func() { <-written }
		}
		wg.Go(func() {
			if err := follow(r, each); err != nil {
				t.Errorf("reader %d: %v", i, err)
			}
		})
	}
	for pos := int64(0); pos < total; {
		to := min(total, pos+1+rand.Int64N(40_000))
		mustAppend(t, w, Record{Stream: Stdout, Position: pos, Data: pattern(pos, to)})
		pos = to
	}
	must(t, w.Finish(nil))
	close(written) // the writer never waited for the slow one
	wg.Wait()
}

func TestNextWaitsForTheWriterAndItsContext(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	w := mustWriter(t, s, "p1")
	r := mustReader(t, s, "p1", 4) // from a position that is not there yet
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("next: %v", err)
	}
	got := make(chan Record, 1)
	next := func() {
		rec, err := r.Next(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- rec
	}
	go next()
	mustAppend(t, w, out(0, "abcdef"))
	if rec := <-got; rec.Position != 4 || string(rec.Data) != "ef" {
		t.Errorf("got %+v", rec)
	}
	// The writer goes and another comes; the reader does not notice.
	go next()
	must(t, w.Close())
	w = mustWriter(t, s, "p1")
	mustAppend(t, w, out(0, "abcdefgh"))
	if rec := <-got; string(rec.Data) != "gh" {
		t.Errorf("got %+v", rec)
	}
}

func TestReaderBeforeTheWriterAfterACrash(t *testing.T) {
	dir := t.TempDir()
	old := mustOpen(t, dir, Options{})
	w := mustWriter(t, old, "p1")
	mustAppend(t, w, out(0, "first"), out(5, "second"))
	must(t, w.Close())
	path := old.path("p1")
	info, err := os.Stat(path)
	must(t, err)
	must(t, os.Truncate(path, info.Size()-2)) // torn

	s := mustOpen(t, dir, Options{})
	r := mustReader(t, s, "p1", 0)
	if rec, err := r.Next(t.Context()); err != nil || string(rec.Data) != "first" {
		t.Fatalf("%+v, %v", rec, err)
	}
	rest := make(chan []Record)
	go func() {
		recs, err := drain(t, r)
		if err != io.EOF {
			t.Error(err)
		}
		rest <- recs
	}()
	w = mustWriter(t, s, "p1")
	if w.Position() != 5 || w.cut != headerSize+4 {
		t.Errorf("position %d, cut %d", w.Position(), w.cut)
	}
	mustAppend(t, w, out(0, "firstSEC"), out(8, "OND"))
	must(t, w.Finish(nil))
	if diff := cmp.Diff([]Record{out(5, "SEC"), out(8, "OND")}, <-rest); diff != "" {
		t.Error(diff)
	}
}

func TestReadOnlyBesideTheWriter(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	ro := mustOpen(t, dir, Options{ReadOnly: true})
	w := mustWriter(t, s, "p1")
	r := mustReader(t, ro, "p1", 0)
	if got, err := drain(t, r); !errors.Is(err, ErrNoMore) || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	mustAppend(t, w, out(0, "abc"))
	if got, err := drain(t, r); !errors.Is(err, ErrNoMore) || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	mustAppend(t, w, out(3, "def"))
	must(t, w.Finish([]byte("exit")))
	if got, err := drain(t, r); err != io.EOF || len(got) != 1 || string(r.Trailer()) != "exit" {
		t.Errorf("%v, %v, %q", got, err, r.Trailer())
	}
}

// What happens between a Reader's look at the file and its wait is not missed.
func TestReaderDoesNotMissWhatCameMeanwhile(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	w := mustWriter(t, s, "p1")

	st := newStream()
	_, _, version := st.limit()
	st.publish(8)
	changed, err := st.wait(version)
	must(t, err)
	select {
	case <-changed:
	default:
		t.Error("a change before the wait was missed")
	}

	// A file that was finished meanwhile is not a damaged one.
	r := mustReader(t, mustOpen(t, dir, Options{ReadOnly: true}), "p1", 0)
	limit, _, version := r.stream.limit()
	if _, err = r.scan.next(limit); err != errShort {
		t.Fatalf("scan: %v", err)
	}
	mustAppend(t, w, out(0, "abc"))
	must(t, w.Finish(nil))
	must(t, r.stuck(t.Context(), err, version))
	if got, err := drain(t, r); len(got) != 1 || err != io.EOF {
		t.Errorf("%v, %v", got, err)
	}
}
