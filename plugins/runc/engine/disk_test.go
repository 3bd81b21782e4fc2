//go:build linux

package engine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestDisk: what is written to the root is bounded and does not reach the rootfs; what is written to mounts is neither. Deleting leaves
// nothing mounted, also of a container that was half made.
func TestDisk(t *testing.T) {
	w := newWorld(t)
	volume := filepath.Join(w.dir, "volume")
	if err := os.Mkdir(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	w.create("disk", func(s *Spec) {
		s.DiskBytes = 4 << 20
		s.Mounts = []Mount{{Source: volume, Path: "/v"}}
	})
	got := w.output("disk", `
		full() { dd if=/dev/zero of=$1 bs=65536 count=$2 2>/dev/null || { echo "$1 is full"; : >$1; }; }
		full /a 32; full /b 128; full /v/c 128; full /d 16
		stat -c %a:%u:%g /; ls /bin/cat`)
	if want := "/b is full\n755:0:0\n/bin/cat\n"; got != want {
		t.Errorf("2, then 8 MiB of 4, 8 in a volume, and then 1: got %q, want %q", got, want)
	}
	if _, err := os.Lstat(filepath.Join(w.dir, "disk", "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the rootfs has what was written: %v", err)
	}
	if info, err := os.Stat(filepath.Join(volume, "c")); err != nil || info.Size() != 8<<20 {
		t.Errorf("in the volume: %v, %v; want 8 MiB", info, err)
	}
	w.delete(t.Context(), "disk")

	if err := os.Mkdir(w.bundle("half"), 0o711); err != nil {
		t.Fatal(err)
	}
	if _, err := w.limitDisk(Spec{ID: "half", Rootfs: w.rootfs("half"), DiskBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	w.delete(t.Context(), "half")
}
