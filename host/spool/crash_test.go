package spool

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The environment that makes the test program another host.
const childDir = "SLIPWAY_SPOOL_TEST_DIR"

// child appends to p1 until it is killed, and prints the position after each
// Append has returned.
func child(dir string) int {
	s, err := Open(dir, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	w, err := s.Writer("p1")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	for {
		pos := w.Position()
		to := pos + 1 + rand.Int64N(100_000)
		if err := w.Append([]Record{{Stream: Stdout, Position: pos, Data: pattern(pos, to)}}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 4
		}
		fmt.Println(to)
	}
}

func TestKillLosesNothingThatWasAppended(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	cuts := 0
	for round := range 12 {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		cmd.Stderr = os.Stderr
		stdout, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(stdout)
		var last int64
		for range rand.IntN(50) + 1 {
			if !lines.Scan() {
				t.Fatal("the child ended by itself")
			}
		}
		kill := time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		for {
			last, err = strconv.ParseInt(lines.Text(), 10, 64)
			must(t, err)
			if !lines.Scan() {
				break
			}
		}
		_ = cmd.Wait()
		kill.Stop()

		s := mustOpen(t, dir, Options{})
		w := mustWriter(t, s, "p1")
		if w.cut > 0 {
			cuts++
		}
		if w.Position() < last {
			t.Fatalf("round %d: position %d, but %d was answered", round, w.Position(), last)
		}
		r := mustReader(t, s, "p1", 0)
		for pos := int64(0); pos < w.Position(); {
			rec, err := r.Next(t.Context())
			must(t, err)
			if rec.Position != pos || !bytes.Equal(rec.Data, pattern(pos, rec.End())) {
				t.Fatalf("round %d: wrong bytes at %d", round, pos)
			}
			pos = rec.End()
		}
		must(t, errors.Join(r.Close(), w.Close()))
	}
	t.Logf("%d of 12 kills tore a record", cuts)
}

func TestTornAtEveryByte(t *testing.T) {
	recs := []Record{out(0, "hello"), {Stream: Stderr, Position: 5, Data: []byte("wide world")}, gap(15, 40), out(40, "x"), out(41, "the end")}
	s := mustOpen(t, t.TempDir(), Options{})
	w := mustWriter(t, s, "p1")
	ends, offsets := []int64{0}, []int64{int64(len(magic))} // after each record
	for _, rec := range recs {
		mustAppend(t, w, rec)
		ends, offsets = append(ends, rec.End()), append(offsets, w.at.end)
	}
	must(t, w.Finish([]byte("exit")))
	must(t, w.Close())
	whole, err := os.ReadFile(s.path("p1"))
	must(t, err)

	for size := range len(whole) {
		for name, tail := range map[string][]byte{"cut": nil, "zeros": make([]byte, len(whole)-size), "noise": bytes.Repeat([]byte{0xa5}, len(whole)-size)} {
			if size < len(magic) && tail != nil {
				continue // not a file of ours at all, see below
			}
			s := mustOpen(t, t.TempDir(), Options{})
			must(t, os.MkdirAll(s.shard("p1"), 0o700))
			content := slices.Concat(whole[:size], tail)
			must(t, os.WriteFile(s.path("p1"), content, 0o600))
			w, err := s.Writer("p1")
			if err != nil {
				t.Fatalf("%s at %d: %v", name, size, err)
			}
			kept := 0 // records; the tail may happen to complete one
			for kept+1 < len(offsets) && bytes.HasPrefix(content, whole[:offsets[kept+1]]) {
				kept++
			}
			if w.Position() != ends[kept] {
				t.Fatalf("%s at %d: position %d, want %d", name, size, w.Position(), ends[kept])
			}
			if _, ok := w.Finished(); ok {
				t.Fatalf("%s at %d: finished", name, size)
			}
			info, err := os.Stat(s.path("p1"))
			if must(t, err); info.Size() != offsets[kept] {
				t.Fatalf("%s at %d: the file has %d bytes, want %d", name, size, info.Size(), offsets[kept])
			}
			// What is delivered again completes it.
			mustAppend(t, w, recs...)
			must(t, w.Finish([]byte("exit")))
			must(t, w.Close())
			r := mustReader(t, s, "p1", 0)
			got, err := drain(t, r)
			if diff := cmp.Diff(recs, got); diff != "" || err != io.EOF || string(r.Trailer()) != "exit" {
				t.Fatalf("%s at %d: %v %s", name, size, err, diff)
			}
			must(t, r.Close())
			again, err := os.ReadFile(s.path("p1"))
			if must(t, err); !bytes.Equal(again, whole) {
				t.Fatalf("%s at %d: another file", name, size)
			}
		}
	}
}

func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	w := mustWriter(t, s, "p1")
	mustAppend(t, w, out(0, "hello"), out(5, "world"))
	must(t, w.Finish(nil))
	must(t, w.Close())
	whole, err := os.ReadFile(s.path("p1"))
	must(t, err)
	second := int64(len(magic) + headerSize + 5)
	for name, c := range map[string]struct {
		content []byte
		offset  int64
	}{
		"a bit":      {slices.Concat(whole[:second+30], []byte{whole[second+30] ^ 4}, whole[second+31:]), second},
		"cut":        {whole[:len(whole)-1], int64(len(whole) - headerSize)},
		"a hole":     {slices.Concat(whole[:len(magic)], whole[second:]), int64(len(magic))},
		"twice":      {slices.Concat(whole[:second], whole[len(magic):]), second},
		"other file": {append([]byte("#!/bin/sh"), whole...), 0},
		"empty":      {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := s.path("p1")
			must(t, os.Remove(path))
			must(t, os.WriteFile(path, c.content, 0o400))
			for _, opts := range []Options{{}, {ReadOnly: true}} {
				r := mustReader(t, mustOpen(t, dir, opts), "p1", 0)
				_, err := drain(t, r)
				var damaged *DamagedError
				if !errors.As(err, &damaged) || *damaged != (DamagedError{File: path, Offset: c.offset}) {
					t.Errorf("reader: %v", err)
				}
				must(t, r.Close())
			}
			_, err := s.Writer("p1")
			if damaged := (*DamagedError)(nil); !errors.As(err, &damaged) || damaged.Offset != c.offset {
				t.Errorf("writer: %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, c.content) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

// Whatever is delivered again, in whatever pieces, no byte is lost or doubled.
func TestOverlap(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		id := fmt.Sprint("p", n)
		w, err := s.Writer(id)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = w.Close() }()
		var pos int64
		for range rapid.IntRange(1, 20).Draw(rt, "appends") {
			var recs []Record
			at := rapid.Int64Range(0, pos).Draw(rt, "from")
			for range rapid.IntRange(0, 5).Draw(rt, "records") {
				to := at + rapid.Int64Range(0, 40).Draw(rt, "length")
				recs = append(recs, Record{Stream: uint8(1 + at%2), Position: at, Data: pattern(at, to)})
				at = rapid.Int64Range(max(0, to-20), to).Draw(rt, "back to")
			}
			want := pos
			for _, r := range recs {
				want = max(want, r.End())
			}
			if err := w.Append(recs); err != nil {
				rt.Fatal(err)
			}
			if w.Position() != want {
				rt.Fatalf("position %d, want %d", w.Position(), want)
			}
			pos = want
			switch rapid.IntRange(0, 5).Draw(rt, "then") {
			case 0:
				if err := w.Close(); err != nil {
					rt.Fatal(err)
				}
				if w, err = s.Writer(id); err != nil {
					rt.Fatal(err)
				}
			case 1:
				if err := w.Append([]Record{{Position: pos + 1, Data: []byte("x")}}); err == nil {
					rt.Fatal("a hole was accepted")
				}
			}
		}
		if err := w.Finish(nil); err != nil {
			rt.Fatal(err)
		}
		r, err := s.Reader(id, 0)
		if err != nil {
			rt.Fatal(err)
		}
		defer r.Close()
		var got []byte
		for {
			rec, err := r.Next(t.Context())
			if err == io.EOF {
				break
			}
			if err != nil || rec.Position != int64(len(got)) {
				rt.Fatalf("record at %d after %d: %v", rec.Position, len(got), err)
			}
			got = append(got, rec.Data...)
		}
		if !bytes.Equal(got, pattern(0, pos)) {
			rt.Fatal("other bytes")
		}
	})
}

func FuzzDecode(f *testing.F) {
	at := time.Unix(1700000000, 5)
	f.Add([]byte{})
	f.Add(appendEntry(nil, kindData, Stdout, 7, at, []byte("hello")))
	f.Add(appendGap(nil, 3, 9, at))
	f.Add(appendEntry(nil, kindFinish, 0, 7, time.Time{}, []byte(`{"code":0}`)))
	f.Add(appendEntry(nil, kindGap, 0, 9, at, make([]byte, 8)))
	f.Add(appendEntry(nil, 9, 0, -1, at, nil))
	f.Add(bytes.Repeat([]byte{0xff}, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Also with a checksum that is right, or all but the header would stay untested.
		for _, b := range [][]byte{b, resum(b)} {
			e, n, err := decode(b)
			switch err {
			case errShort:
				if n <= len(b) {
					t.Fatalf("short of %d with %d", n, len(b))
				}
				continue
			case errBad:
				continue
			case nil:
			default:
				t.Fatal(err)
			}
			if n < headerSize || n > len(b) || e.End() < e.Position || e.Position < 0 {
				t.Fatalf("n %d, entry %+v", n, e)
			}
			var again []byte
			switch {
			case e.finish:
				again = appendEntry(nil, kindFinish, e.Stream, e.Position, e.Time, e.trailer)
			case len(e.Data) == 0:
				again = appendEntry(nil, kindGap, e.Stream, e.Position, e.Time, b[headerSize:n])
			default:
				again = appendEntry(nil, kindData, e.Stream, e.Position, e.Time, e.Data)
			}
			e2, n2, err := decode(again)
			if err != nil || n2 != n || !cmp.Equal(e.Record, e2.Record) || e.finish != e2.finish || !bytes.Equal(e.trailer, e2.trailer) {
				t.Fatalf("%+v became %+v (%v)", e, e2, err)
			}
		}
	})
}

// resum makes the checksum of the entry that b may begin with right.
func resum(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < headerSize {
		return b
	}
	n := headerSize + int64(binary.LittleEndian.Uint32(b[4:]))
	if n <= int64(len(b)) {
		binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:n], castagnoli()))
	}
	return b
}
