package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
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

const oddBytes = 50_001 // not a number of pages, so that a write is torn

// fill writes until there is no room.
func fill(t *testing.T, j *Journal) {
	t.Helper()
	full, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		end := j.End()
		n, err := j.Write(full, sdk.Stdout+sdk.Stream(end%2), pattern(end, end+oddBytes))
		if got := j.End(); got != end+sdk.Position(n) {
			t.Fatalf("wrote %d bytes from %d to %d", n, end, got)
		}
		if errors.Is(err, context.Canceled) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the disk was never full")
}

func TestFullDiskHoldsTheWriterAndLosesNothing(t *testing.T) {
	const disk, total = 3 << 20, 20 << 20
	dir := filepath.Join(smallDisk(t, disk), "journal")
	spec := sdk.ProcessSpec{Spill: 16 << 20}
	s := NewSegments(dir, spec)
	j := New(spec, s)
	fill(t, j)
	if end := j.End(); end < disk || end > disk+tailBytes || s.tail == nil {
		t.Fatalf("full at %d", end)
	}
	go func() {
		for end := j.End(); end < total; end = j.End() {
			if _, err := j.Write(t.Context(), sdk.Stdout, pattern(end, min(end+oddBytes, total))); err != nil {
				return // the follower's end says it
			}
		}
		j.Exit(sdk.Exit{Code: 3})
	}()
	m := follow(t, j)
	if m.end != total || m.gaps != 0 {
		t.Fatalf("ended at %d with %d gaps", m.end, m.gaps)
	}
	if b, err := os.ReadDir(dir); err != nil || len(b) != 1 || b[0].Name() != segmentName(total) {
		t.Errorf("left as a tombstone: %v, %v", b, err)
	}
}

func TestFullDiskMakesRoomByDroppingTheOldest(t *testing.T) {
	const disk, total = 3 << 20, 20 << 20
	dir := filepath.Join(smallDisk(t, disk), "journal")
	spec := sdk.ProcessSpec{Spill: 16 << 20, WhenFull: sdk.DropOldest}
	j := New(spec, NewSegments(dir, spec))
	full, cancel := context.WithCancel(t.Context())
	cancel() // it must never wait
	for end := sdk.Position(0); end < total; end = j.End() {
		if _, err := j.Write(full, sdk.Stdout, pattern(end, min(end+oddBytes, total))); err != nil {
			t.Fatalf("at %d: %v", end, err)
		}
		if oldest, end := j.store.Bounds(); end > disk && end-oldest < disk-2<<20 {
			t.Fatalf("only %d to %d is kept", oldest, end)
		}
	}
	j.Exit(sdk.Exit{})
	if m := follow(t, j); m.end != total || m.gaps != 1 {
		t.Fatalf("ended at %d with %d gaps", m.end, m.gaps)
	}
}

func TestFullDiskIsUsedAgain(t *testing.T) {
	parent := smallDisk(t, 2<<20)
	other := filepath.Join(parent, "other")
	if err := os.WriteFile(other, make([]byte, 1800<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "journal")
	spec := sdk.ProcessSpec{Spill: 16 << 20}
	s := NewSegments(dir, spec)
	j := New(spec, s)
	fill(t, j)
	end := j.End()
	store, err := OpenSegments(os.DirFS(dir), end) // what a killed keeper would leave now
	if err != nil {
		t.Fatal(err)
	}
	if left := spans(t, os.DirFS(dir), end, true); len(left) != 2 || left[0].Gap || !left[1].Gap || left[1].To != end {
		t.Errorf("left is %v of %d", left, end)
	}
	if err := Ended("p", store, nil).Follow(t.Context(), end+10, sdk.Follow{}); !errors.Is(err, sdk.ReasonAbandoned) {
		t.Errorf("from what only memory had: %v", err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	j.Exit(sdk.Exit{}) // tries once more
	if s.tail != nil || s.file != nil {
		t.Fatal("there is room, and yet something is only in memory")
	}
	if left := spans(t, os.DirFS(dir), end, true); len(left) != 1 || left[0] != (span{0, end, false}) {
		t.Errorf("left is %v of %d", left, end)
	}
	if m := follow(t, j); m.end != end || m.gaps != 0 {
		t.Fatalf("ended at %d with %d gaps", m.end, m.gaps)
	}
}
