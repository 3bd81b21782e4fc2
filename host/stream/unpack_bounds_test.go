package stream_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestUnpackTooMuch: what an archive asks for beyond the bounds is refused before it is there.
func TestUnpackTooMuch(t *testing.T) {
	few := archive(t, dir("a"), file("a/x", "xxx"), file("a/y", "yyy"))
	for name, c := range map[string]struct {
		u       stream.Unpacker
		archive []byte
		fits    bool
	}{
		"all the entries":          {stream.Unpacker{MaxEntries: 3}, few, true},
		"an entry more":            {stream.Unpacker{MaxEntries: 2}, few, false},
		"all the bytes":            {stream.Unpacker{MaxBytes: 6}, few, true},
		"a byte more":              {stream.Unpacker{MaxBytes: 5}, few, false},
		"8 TiB of nothing":         {stream.Unpacker{}, testkit.SparseBomb("bomb", 8<<40), false},
		"nearly all that is there": {stream.Unpacker{}, testkit.SparseBomb("bomb", 1<<63-1), false},
		"a hole that fits":         {stream.Unpacker{MaxBytes: 64 << 20}, testkit.SparseBomb("bomb", 64<<20), true},
	} {
		t.Run(name, func(t *testing.T) {
			into, unchanged := guarded(t)
			err := c.u.Unpack(t.Context(), bytes.NewReader(c.archive), into)
			if c.fits != (err == nil) || err != nil && !errors.Is(err, sdk.ReasonTooLarge) {
				t.Errorf("unpacking it: %v", err)
			}
			unchanged()
		})
	}
}

// TestUnpackHoles: zeros take no place on the disk, and what is between them and after them is where it belongs.
func TestUnpackHoles(t *testing.T) {
	into, _ := guarded(t)
	const size = 16 << 20
	content := make([]byte, size)
	copy(content[5<<20+7:], "in the middle")
	must(t, stream.UnpackDir(t.Context(), bytes.NewReader(archive(t, file("f", string(content)), file("end", string(content[:1<<20])))), into))
	got, err := os.ReadFile(filepath.Join(into, "f"))
	must(t, err)
	if !bytes.Equal(got, content) {
		t.Error("the content is another")
	}
	for name, want := range map[string]int64{"f": size, "end": 1 << 20} {
		info, err := os.Stat(filepath.Join(into, name))
		must(t, err)
		if used := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() != want || used > want/4 {
			t.Errorf("%s has %d bytes on %d of the disk", name, info.Size(), used)
		}
	}
}

// TestUnpackHoleIsInterrupted: a hole that would take minutes to go through ends with its context.
func TestUnpackHoleIsInterrupted(t *testing.T) {
	into, _ := guarded(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(50*time.Millisecond, cancel).Stop()
	err := stream.Unpacker{MaxBytes: 1 << 60}.Unpack(ctx, bytes.NewReader(testkit.SparseBomb("bomb", 1<<60)), into)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("unpacking it: %v", err)
	}
}

// TestUnpackDeep: directories in directories take neither memory nor time without end, and as deep as paths can be they are unpacked.
func TestUnpackDeep(t *testing.T) {
	archive := func(depth int) io.Reader {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		must(t, w.WriteHeader(&tar.Header{Name: strings.Repeat("d/", depth) + "file", Typeflag: tar.TypeReg, Mode: 0o644}))
		must(t, w.Close())
		return &b
	}
	into, _ := guarded(t)
	must(t, stream.UnpackDir(t.Context(), archive(500), into))
	if _, err := os.Stat(filepath.Join(into, strings.Repeat("d/", 500), "file")); err != nil {
		t.Error(err)
	}
	deep, _ := guarded(t)
	if err := stream.UnpackDir(t.Context(), archive(100_000), deep); !errors.Is(err, sdk.ReasonArchive) {
		t.Errorf("a hundred thousand directories in each other: %v", err)
	}
	if left, err := os.ReadDir(deep); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other, _ := guarded(t)
	if err := stream.UnpackDir(ctx, archive(500), other); !errors.Is(err, context.Canceled) {
		t.Errorf("of a caller that has gone: %v", err)
	}
}

// TestReadFileOfHoles: a file of an archive that is larger than can be is refused, and one that is large ends with its context.
func TestReadFileOfHoles(t *testing.T) {
	bomb := func(size int64) func(context.Context, io.Writer) error {
		return func(_ context.Context, w io.Writer) error {
			_, err := w.Write(testkit.SparseBomb("bomb", size))
			return err
		}
	}
	if err := stream.ReadFile(t.Context(), bomb(8<<40), "bomb", io.Discard); !errors.Is(err, sdk.ReasonTooLarge) {
		t.Errorf("reading 8 TiB: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(50*time.Millisecond, cancel).Stop()
	if err := stream.ReadFile(ctx, bomb(stream.DefaultMaxBytes), "bomb", io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("reading it: %v", err)
	}
}

// TestUnpackDirectoriesInAnyOrder: a directory has its mode and time in the end, wherever in the archive its content is, and however often it is come back to.
func TestUnpackDirectoriesInAnyOrder(t *testing.T) {
	at := func(h tar.Header, seconds int64) tar.Header {
		h.ModTime = time.Unix(seconds, 0)
		return h
	}
	for name, entries := range map[string][]tar.Header{
		"in depth":            {at(dirMode("a", 0o555), 100), file("a/x", "x"), at(dirMode("a/b", 0o500), 200), file("a/b/y", "y"), at(dirMode("c", 0o711), 300), file("c/z", "z")},
		"in breadth":          {at(dirMode("a", 0o555), 100), at(dirMode("c", 0o711), 300), at(dirMode("a/b", 0o500), 200), file("a/x", "x"), file("c/z", "z"), file("a/b/y", "y")},
		"to and fro":          {at(dirMode("a", 0o555), 100), at(dirMode("a/b", 0o500), 200), file("a/b/y", "y"), at(dirMode("c", 0o711), 300), file("a/x", "x"), file("c/z", "z")},
		"directories at last": {file("a/b/y", "y"), file("a/x", "x"), file("c/z", "z"), at(dirMode("c", 0o711), 300), at(dirMode("a/b", 0o500), 200), at(dirMode("a", 0o555), 100)},
		"told twice":          {at(dirMode("a", 0o700), 1), file("a/x", "x"), at(dirMode("c", 0o711), 300), file("c/z", "z"), at(dirMode("a", 0o555), 100), file("a/b/y", "y"), at(dirMode("a/b", 0o500), 200)},
		"through a link":      {at(dirMode("a", 0o555), 100), at(dirMode("a/b", 0o500), 200), link("l", "a"), file("l/x", "x"), file("l/b/y", "y"), at(dirMode("c", 0o711), 300), file("c/z", "z")},
	} {
		t.Run(name, func(t *testing.T) {
			into, unchanged := guarded(t)
			must(t, stream.UnpackDir(t.Context(), bytes.NewReader(archive(t, entries...)), into))
			for name, want := range map[string]struct {
				mode    fs.FileMode
				seconds int64
			}{"a": {0o555, 100}, "a/b": {0o500, 200}, "c": {0o711, 300}} {
				info, err := os.Stat(filepath.Join(into, name))
				must(t, err)
				if info.Mode().Perm() != want.mode || info.ModTime().Unix() != want.seconds {
					t.Errorf("%s has mode %v and time %d", name, info.Mode(), info.ModTime().Unix())
				}
			}
			for name, want := range map[string]string{"a/x": "x", "a/b/y": "y", "c/z": "z"} {
				if got, err := os.ReadFile(filepath.Join(into, name)); err != nil || string(got) != want {
					t.Errorf("%s is %q, %v", name, got, err)
				}
			}
			unchanged()
		})
	}
}
