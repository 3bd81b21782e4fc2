//go:build unix

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRemoveIfUnlocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	remove := func(want bool) {
		t.Helper()
		removed, err := RemoveIfUnlocked(dir)
		if removed != want || err != nil {
			t.Errorf("removed %v (%v), want %v", removed, err, want)
		}
	}
	remove(false) // there is none
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(dir, 0o700))
	remove(false) // about to be opened, for all one knows
	s := mustOpen(t, dir)
	remove(false)
	mustUpdate(t, s, func(tx *Tx) error { return tx.PutRun(Run{ID: "r"}) })
	must(s.Close())
	remove(true)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// Who opened the lock file before it was removed must not believe to hold the
// directory that was made in its place.
func TestLockOfARemovedFileIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := openLocked(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := current(f, path); !errors.Is(err, errHeld) {
		t.Errorf("a lock on a removed file: %v", err)
	}
	other, err := openLocked(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
}

func TestWorkerRows(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	want := Worker{ID: "linux-1", ContainerIncarnation: "c1", VolumeIncarnation: "v1", Orders: "cordoned", Reason: "a new disk", OrderedAt: time.Unix(7, 0).UTC()}
	mustUpdate(t, s, func(tx *Tx) error {
		return errors.Join(tx.PutWorker(Worker{ID: "linux-1"}), tx.PutWorker(want))
	})
	mustView(t, s, func(tx *Tx) error {
		if _, err := tx.Worker("linux-2"); !errors.Is(err, ErrNotFound) {
			t.Errorf("no such worker: %v", err)
		}
		got, err := tx.Worker("linux-1")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		all, lerr := tx.Workers()
		if diff := cmp.Diff([]Worker{want}, all); diff != "" {
			t.Error(diff)
		}
		return errors.Join(err, lerr)
	})
	mustUpdate(t, s, func(tx *Tx) error { return tx.DeleteWorker("linux-1") })
	mustView(t, s, func(tx *Tx) error {
		if all, err := tx.Workers(); len(all) > 0 || err != nil {
			t.Errorf("left: %+v, %v", all, err)
		}
		return nil
	})
}
