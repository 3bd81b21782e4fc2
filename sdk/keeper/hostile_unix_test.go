//go:build unix

package keeper

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// A named pipe put in a segment's place while it is read must hold up nobody, nor a directory that cannot be listed pass for empty.
func TestOpenSegmentsBesideSomebodyWhoChangesThem(t *testing.T) {
	dir := t.TempDir()
	for n, f := range leave(t, 12_000) {
		if err := os.WriteFile(filepath.Join(dir, n), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store, err := OpenSegments(os.DirFS(dir), 0)
	if err != nil {
		t.Fatal(err)
	}
	middle, last := filepath.Join(dir, segmentName(4000)), filepath.Join(dir, segmentName(8000))
	if err := errors.Join(os.Remove(middle), syscall.Mkfifo(middle, 0o600), os.Truncate(last, 100)); err != nil {
		t.Fatal(err)
	}
	var got []sdk.Position
	err = Ended("p", store, &sdk.Exit{}).Follow(t.Context(), 0, sdk.Follow{Output: func(records []sdk.Record) error {
		for _, r := range records {
			if r.IsGap() {
				got = append(got, r.Position, r.GapTo)
			}
		}
		return nil
	}})
	if want := []sdk.Position{4000, 8000, 8076, 12_000}; err != nil || !slices.Equal(got, want) {
		t.Errorf("gaps %v, want %v: %v", got, want, err)
	}
	if _, err := OpenSegments(os.DirFS(last), 0); err == nil {
		t.Error("a file was listed as a directory")
	}
}
