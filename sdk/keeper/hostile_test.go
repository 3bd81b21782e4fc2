package keeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/sdk"
)

// span is a piece of a journal, neighbouring ones of a kind taken together.
type span struct {
	From, To sdk.Position
	Gap      bool
}

// spans follows what is left of a journal from its oldest position and tells where there were bytes, which must be the
// pattern's if that is asked for.
func spans(t testing.TB, fsys fs.FS, end sdk.Position, patterned bool) []span {
	t.Helper()
	store, err := OpenSegments(fsys, end)
	if err != nil {
		t.Fatal(err)
	}
	from, to := store.Bounds()
	at, calls, records := from, 0, 0
	var got []span
	err = Ended("p", store, nil).Follow(t.Context(), from, sdk.Follow{Output: func(batch []sdk.Record) error {
		if calls++; len(batch) == 0 {
			t.Fatal("an empty batch")
		}
		for _, r := range batch {
			if records++; r.Position != at || r.End() <= at {
				t.Fatalf("record from %d to %d, want from %d", r.Position, r.End(), at)
			}
			if !r.IsGap() && (r.Stream != sdk.Stdout && r.Stream != sdk.Stderr || len(r.Data) > sdk.MaxRecordBytes) {
				t.Fatalf("record of %d bytes of stream %d", len(r.Data), r.Stream)
			}
			if !r.IsGap() && patterned && !bytes.Equal(r.Data, pattern(r.Position, r.End())) {
				t.Fatalf("wrong bytes from %d to %d", r.Position, r.End())
			}
			at = r.End()
			if n := len(got) - 1; n >= 0 && got[n].Gap == r.IsGap() {
				got[n].To = at
			} else {
				got = append(got, span{r.Position, at, r.IsGap()})
			}
		}
		return nil
	}})
	if !errors.Is(err, sdk.ReasonAbandoned) || at != to {
		t.Fatalf("ended at %d of %d to %d: %v", at, from, to, err)
	}
	return got
}

// leave writes a journal of some segments of 4 KiB each and gives a copy of its files.
func leave(t testing.TB, size sdk.Position) fstest.MapFS {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "journal")
	spec := sdk.ProcessSpec{Spill: 16 << 10}
	s := NewSegments(dir, spec)
	defer s.Seal()
	for at := sdk.Position(0); at < size; {
		p := pattern(at, min(at+500, size))
		n := s.Append(sdk.Stdout+sdk.Stream(at/500%2), time.Now(), p)
		if n != len(p) {
			t.Fatalf("appended %d of %d bytes", n, len(p))
		}
		at += sdk.Position(n)
	}
	files := fstest.MapFS{}
	for _, first := range s.segments {
		b, err := os.ReadFile(s.path(first))
		if err != nil {
			t.Fatal(err)
		}
		files[segmentName(first)] = &fstest.MapFile{Data: b}
	}
	return files
}

func TestOpenSegmentsTrustsNothing(t *testing.T) {
	whole := leave(t, 12_000) // segments from 0, 4000 and 8000
	names := []string{segmentName(0), segmentName(4000), segmentName(8000)}
	for _, n := range names {
		if whole[n] == nil || len(whole) != 3 {
			t.Fatalf("segments are %v", whole)
		}
	}
	const record = headerBytes + 500
	for name, c := range map[string]struct {
		change func(fstest.MapFS)
		end    sdk.Position
		want   []span
	}{
		"nothing":           {want: []span{{0, 12_000, false}}},
		"no files":          {change: func(f fstest.MapFS) { clear(f) }},
		"no files, an end":  {change: func(f fstest.MapFS) { clear(f) }, end: 70, want: []span{{0, 70, true}}},
		"no first":          {change: func(f fstest.MapFS) { delete(f, names[0]) }, want: []span{{4000, 12_000, false}}},
		"no middle":         {change: func(f fstest.MapFS) { delete(f, names[1]) }, want: []span{{0, 4000, false}, {4000, 8000, true}, {8000, 12_000, false}}},
		"no last":           {change: func(f fstest.MapFS) { delete(f, names[2]) }, want: []span{{0, 8000, false}}},
		"no last, an end":   {change: func(f fstest.MapFS) { delete(f, names[2]) }, end: 12_000, want: []span{{0, 8000, false}, {8000, 12_000, true}}},
		"an end before":     {end: 1, want: []span{{0, 12_000, false}}},
		"torn data":         {change: cut(names[2], 2*record+headerBytes+7), want: []span{{0, 9007, false}}},
		"torn header":       {change: cut(names[2], 2*record+headerBytes-1), want: []span{{0, 9000, false}}},
		"header only":       {change: cut(names[2], 2*record+headerBytes), want: []span{{0, 9000, false}}},
		"cut in the middle": {change: cut(names[1], record+headerBytes+7), want: []span{{0, 4507, false}, {4507, 8000, true}, {8000, 12_000, false}}},
		"empty middle":      {change: cut(names[1], 0), want: []span{{0, 4000, false}, {4000, 8000, true}, {8000, 12_000, false}}},
		"empty last":        {change: cut(names[2], 0), want: []span{{0, 8000, false}}},
		"long length":       {change: put(names[1], record, 0xffffffff), want: []span{{0, 4500, false}, {4500, 8000, true}, {8000, 12_000, false}}},
		"longer length":     {change: put(names[1], record, 70_000), want: []span{{0, 4500, false}, {4500, 8000, true}, {8000, 12_000, false}}},
		"no length":         {change: put(names[1], record, 0), want: []span{{0, 4500, false}, {4500, 8000, true}, {8000, 12_000, false}}},
		"third stream":      {change: put(names[1], record+4, 3), want: []span{{0, 4500, false}, {4500, 8000, true}, {8000, 12_000, false}}},
		"wrong position":    {change: put(names[1], record+8, 4499), want: []span{{0, 4500, false}, {4500, 8000, true}, {8000, 12_000, false}}},
		"garbage": {change: func(f fstest.MapFS) {
			f[names[0]] = &fstest.MapFile{Data: bytes.Repeat([]byte{0xa5}, 5000)}
		}, want: []span{{0, 4000, true}, {4000, 12_000, false}}},
		"overlap": {change: func(f fstest.MapFS) {
			b := slices.Clone(f[names[0]].Data)
			at := sdk.Position(4000)
			for at < 7000 { // the first goes on into the second
				b = append(header{position: at, stream: sdk.Stdout, at: time.Now(), length: 500}.append(b), make([]byte, 500)...)
				at += 500
			}
			f[names[0]] = &fstest.MapFile{Data: b}
		}, want: []span{{0, 12_000, false}}},
		"a record too long": {change: func(f fstest.MapFS) {
			b := f[names[0]].Data[:7*record] // the last one goes on into the second
			b = header{position: 3500, stream: sdk.Stderr, at: time.Now(), length: 700}.append(slices.Clone(b))
			b = append(append(b, pattern(3500, 4000)...), make([]byte, 200)...)
			f[names[0]] = &fstest.MapFile{Data: b}
		}, want: []span{{0, 12_000, false}}},
		"names": {change: func(f fstest.MapFS) {
			for _, n := range []string{"x.seg", "0.seg", "00000000000003E8.seg", "ffffffffffffffff.seg", "-000000000000001.seg", "00000000000003e8", "7fffffffffffffff.seg"} {
				f[n] = &fstest.MapFile{Data: f[names[1]].Data}
			}
		}, want: []span{{0, 12_000, false}}},
		"not files": {change: func(f fstest.MapFS) {
			f[segmentName(1000)] = &fstest.MapFile{Mode: fs.ModeDir}
			f[segmentName(2000)] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte(names[1])}
			f[segmentName(3000)] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
		}, want: []span{{0, 12_000, false}}},
		"far": {change: func(f fstest.MapFS) {
			f[segmentName(maxPosition)] = &fstest.MapFile{}
		}, want: []span{{0, 12_000, false}, {12_000, maxPosition, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{}
			for n, f := range whole {
				files[n] = &fstest.MapFile{Data: slices.Clone(f.Data)}
			}
			if c.change != nil {
				c.change(files)
			}
			for kind, fsys := range map[string]fs.FS{"with ReadAt": files, "without": streamed{files}} {
				if diff := cmp.Diff(c.want, spans(t, fsys, c.end, true)); diff != "" {
					t.Errorf("%s: %s", kind, diff)
				}
			}
		})
	}
}

func cut(name string, size int) func(fstest.MapFS) {
	return func(f fstest.MapFS) { f[name].Data = f[name].Data[:size] }
}

func put(name string, at int, v uint32) func(fstest.MapFS) {
	return func(f fstest.MapFS) { binary.LittleEndian.PutUint32(f[name].Data[at:], v) }
}

// streamed has files that can be read from their start only.
type streamed struct{ fs.FS }

func (s streamed) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	if _, dir := f.(fs.ReadDirFile); err != nil || dir {
		return f, err
	}
	return struct{ fs.File }{f}, nil
}

// Files that a runtime loses under its living process become gaps, and the journal goes on.
func TestSegmentsThatSomebodyRemoves(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		spec := sdk.ProcessSpec{Spill: 16 << 10}
		s := NewSegments(filepath.Join(dir, "journal"), spec)
		j := New(spec, s)
		end := rapid.Custom(func(t *rapid.T) sdk.Position { return sdk.Position(rapid.IntRange(1, 12_000).Draw(t, "end")) }).Draw(rt, "end")
		for at := sdk.Position(0); at < end; at = min(at+500, end) {
			if _, err := j.Write(t.Context(), sdk.Stdout+sdk.Stream(at/500%2), pattern(at, min(at+500, end))); err != nil {
				rt.Fatal(err)
			}
		}
		for _, first := range slices.Clone(s.segments) {
			switch rapid.IntRange(0, 3).Draw(rt, "damage") {
			case 0:
				_ = os.Remove(s.path(first))
			case 1:
				_ = os.Truncate(s.path(first), int64(rapid.IntRange(0, 5000).Draw(rt, "size")))
			}
		}
		at := sdk.Position(0)
		check := func(records []sdk.Record) error {
			for _, r := range records {
				// What truncating has lengthened are zeros.
				if r.Position != at || r.End() <= at || !r.IsGap() && !bytes.Equal(r.Data, pattern(at, r.End())) && bytes.Count(r.Data, []byte{0}) == 0 {
					rt.Fatalf("record from %d to %d, want from %d", r.Position, r.End(), at)
				}
				at = r.End()
			}
			if at == end {
				_, err := j.Write(t.Context(), sdk.Stdout, pattern(end, end+100))
				end += 100
				j.Exit(sdk.Exit{})
				return err
			}
			return nil
		}
		if err := j.Follow(t.Context(), 0, sdk.Follow{Output: check}); err != nil {
			rt.Fatal(err)
		}
	})
}

func FuzzOpenSegments(f *testing.F) {
	for _, size := range []sdk.Position{100, 5000} {
		var seeds [][]byte
		for _, file := range leave(f, size) {
			seeds = append(seeds, file.Data)
		}
		seeds = append(seeds, nil, nil)
		f.Add(seeds[0], seeds[1], int64(0), int64(4000), int64(0))
		f.Add(seeds[0][:len(seeds[0])-3], seeds[0], int64(0), int64(60), int64(9000))
	}
	f.Add([]byte{}, []byte{1}, int64(maxPosition), int64(maxPosition-1), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, one, two []byte, first, second, end int64) {
		files := fstest.MapFS{}
		for at, b := range map[int64][]byte{first: one, second: two} {
			if at >= 0 {
				files[segmentName(sdk.Position(at))] = &fstest.MapFile{Data: b}
			}
			// Also with positions that are right, or all but the first header would stay untested.
			if at >= 0 && len(b) >= headerBytes {
				b = bytes.Clone(b)
				binary.LittleEndian.PutUint64(b[8:], uint64(at))
				b[4], b[5], b[6], b[7] = 1+b[4]%2, 0, 0, 0
				files[segmentName(sdk.Position(at))] = &fstest.MapFile{Data: b}
			}
		}
		bytesLeft := len(one) + len(two)
		for _, s := range spans(t, files, sdk.Position(max(0, end)), false) {
			if !s.Gap {
				bytesLeft -= int(s.To - s.From)
			}
		}
		if bytesLeft < 0 {
			t.Fatal("more bytes than there are in the files")
		}
	})
}
