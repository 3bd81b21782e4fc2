package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// smallDisk mounts a file system of size bytes; only root can.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	if os.Getuid() != 0 {
		testkit.Lacking(t, "needs root to mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, 1<<20)
	other := filepath.Join(dir, "other")
	must(t, os.WriteFile(other, make([]byte, 600<<10), 0o600))
	s := mustOpen(t, filepath.Join(dir, "spool"), Options{})
	w := mustWriter(t, s, "p1")
	r := mustReader(t, s, "p1", 0)
	const size = 50_000 // not a number of pages, so that a write is torn
	at := func(i int64) []Record {
		return []Record{
			{Stream: Stdout, Position: i * 2 * size, Data: pattern(i*2*size, i*2*size+size)},
			{Stream: Stderr, Position: i*2*size + size, Data: pattern(i*2*size+size, (i+1)*2*size)},
		}
	}
	n := int64(0)
	for ; n < 100; n++ {
		err := w.Append(at(n))
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		must(t, err)
	}
	if n == 0 || n == 100 {
		t.Fatalf("the disk was full after %d appends", n)
	}
	for range 3 {
		if err := w.Append(at(n)); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("append again: %v", err)
		}
	}
	if w.Position() != n*2*size {
		t.Errorf("position %d, want %d", w.Position(), n*2*size)
	}
	// The file ends with a whole record: another host finds nothing to cut.
	must(t, w.Close())
	w = mustWriter(t, s, "p1")
	if w.cut != 0 || w.Position() != n*2*size {
		t.Errorf("position %d, cut %d", w.Position(), w.cut)
	}
	if err := w.Append(at(n)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("append again: %v", err)
	}
	must(t, os.Remove(other))
	mustAppend(t, w, at(n)...)
	must(t, w.Finish(nil))
	got, err := drain(t, r)
	if err != io.EOF || int64(len(got)) != 2*(n+1) {
		t.Fatalf("%d records, %v", len(got), err)
	}
	for _, rec := range got {
		if !bytes.Equal(rec.Data, pattern(rec.Position, rec.End())) {
			t.Fatalf("other bytes at %d", rec.Position)
		}
	}
}

func TestFullDiskWhileMakingAFile(t *testing.T) {
	dir := smallDisk(t, 1<<20)
	s := mustOpen(t, filepath.Join(dir, "spool"), Options{})
	w := mustWriter(t, s, "p0") // so that there is a shard
	must(t, w.Close())
	f, err := os.Create(filepath.Join(dir, "other"))
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	must(t, f.Close())
	must(t, mustWriter(t, s, "p0").Close()) // it was made before
	if _, err := s.Writer("p1"); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("writer: %v", err)
	}
	must(t, os.Remove(f.Name()))
	w = mustWriter(t, s, "p1")
	mustAppend(t, w, out(0, "abc"))
}
