package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// fill leaves no byte on the disk of dir, and returns what frees it again.
func fill(t *testing.T, dir string) func() {
	t.Helper()
	path := filepath.Join(dir, "other")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		_, err := f.Write(block)
		if errors.Is(err, syscall.ENOSPC) {
			return func() {
				if err := os.Remove(path); err != nil {
					t.Error(err)
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFullDiskLosesNothing(t *testing.T) {
	for _, d := range []Durability{KillSafe, PowerSafe} {
		t.Run(fmt.Sprint("durability ", d), func(t *testing.T) {
			dir := smallDisk(t, 8<<20)
			s := mustOpen(t, dir)
			mustUpdate(t, s, func(tx *Tx) error { return tx.PutRun(Run{ID: "first"}) })
			free := fill(t, dir)
			put := func(i int) error {
				return s.Update(t.Context(), d, func(tx *Tx) error {
					return tx.PutRun(Run{ID: fmt.Sprintf("r%03d", i), Job: bytes.Repeat([]byte("j"), 10_000)})
				})
			}
			stored := 0
			for ; stored < 1000; stored++ {
				err := put(stored)
				if errors.Is(err, ErrFull) {
					break
				}
				if err != nil {
					t.Fatalf("update %d: %v", stored, err)
				}
			}
			if stored == 1000 {
				t.Fatal("10 MB went onto a disk of 8")
			}
			count := func(s *Store) (n int) {
				mustView(t, s, func(tx *Tx) error {
					runs, err := tx.Runs(RunFilter{})
					n = len(runs)
					return err
				})
				return n
			}
			if n := count(s); n != stored+1 {
				t.Errorf("%d rows on the full disk, want %d", n, stored+1)
			}
			free()
			for i := range 10 {
				if err := put(stored + i); err != nil {
					t.Fatalf("after there was room again: %v", err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again := mustOpen(t, dir)
			if n := count(again); n != stored+11 {
				t.Errorf("%d rows after opening again, want %d", n, stored+11)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestReserveLetsAFullDiskBeCleaned(t *testing.T) {
	dir := smallDisk(t, 24<<20)
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const rows = 2000
	mustUpdate(t, s, func(tx *Tx) error {
		for i := range rows {
			if err := tx.PutContainer(Container{ID: fmt.Sprintf("c%04d", i), State: "created", Spec: bytes.Repeat([]byte("s"), 1000)}); err != nil {
				return err
			}
		}
		return nil
	})
	free := fill(t, dir)
	put := func(i int) error {
		return s.Update(t.Context(), KillSafe, func(tx *Tx) error {
			return tx.PutRun(Run{ID: fmt.Sprint("r", i), Job: bytes.Repeat([]byte("j"), 10_000)})
		})
	}
	for i := range 1000 {
		if err = put(i); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("the disk did not become full: %v", err)
	}
	// Each destroy is two rows written, one by one, as the reaper does it.
	for i := range rows {
		id := fmt.Sprintf("c%04d", i)
		runs := 0
		err := s.Release(t.Context(), PowerSafe, func(tx *Tx) error {
			runs++
			c, err := tx.Container(id)
			if err != nil {
				return err
			}
			c.State = "destroying"
			return tx.PutContainer(c)
		})
		if err != nil || runs > 2 {
			t.Fatalf("release %d, after %d runs: %v", i, runs, err)
		}
		if err := s.Release(t.Context(), KillSafe, func(tx *Tx) error { return tx.DeleteContainer(id) }); err != nil {
			t.Fatalf("release %d: %v", i, err)
		}
		if i%100 == 0 {
			// An update may find that there is room again, but not in the reserve.
			err := put(i)
			if _, e := os.Stat(filepath.Join(dir, "reserve")); err == nil && e != nil {
				t.Fatalf("an update used the reserve: %v", e)
			}
		}
	}
	if n := len(containers(t, s)); n != 0 {
		t.Errorf("%d containers are left", n)
	}
	free()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := put(9999); err != nil {
		t.Errorf("after there was room again: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "reserve")); err != nil || info.Size() != defaultReserve {
		t.Errorf("the reserve was not filled again: %v", err)
	}
}

// A host can be opened on a full disk, to make room there, and what it knows can be looked at.
func TestOpenOnFullDisk(t *testing.T) {
	dir := smallDisk(t, 8<<20)
	open := func() *Store {
		t.Helper()
		s, err := Open(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	mustUpdate(t, s, func(tx *Tx) error {
		if err := tx.PutRun(Run{ID: "r"}); err != nil {
			return err
		}
		return tx.PutContainer(Container{ID: "c", State: "created"})
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	free := fill(t, dir)
	look, err := OpenReadOnly(t.Context(), dir)
	if err != nil {
		t.Fatalf("open to look: %v", err)
	}
	mustView(t, look, func(tx *Tx) error { _, err := tx.Run("r"); return err })
	if err := look.Close(); err != nil {
		t.Error(err)
	}
	for range 2 { // the second has no reserve
		s = open()
		mustView(t, s, func(tx *Tx) error { _, err := tx.Container("c"); return err })
		if err := s.Update(t.Context(), KillSafe, func(tx *Tx) error { return tx.PutRun(Run{ID: "new"}) }); !errors.Is(err, ErrFull) {
			t.Errorf("update on a full disk: %v", err)
		}
		if err := s.Release(t.Context(), PowerSafe, func(tx *Tx) error { return tx.PutContainer(Container{ID: "c", State: "destroying"}) }); err != nil {
			t.Errorf("release on a full disk: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	free()
	s = open()
	mustUpdate(t, s, func(tx *Tx) error { return tx.PutRun(Run{ID: "new"}) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, reserveFile)); err != nil || info.Size() != defaultReserve {
		t.Errorf("the reserve was not filled again: %v", err)
	}
}

// Where there is no reserve to give, a full disk is what is said.
func TestOpenWithoutReserve(t *testing.T) {
	dir := smallDisk(t, 8<<20)
	s, err := Open(t.Context(), dir, Options{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	free := fill(t, dir)
	if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, ErrFull) {
		t.Errorf("open: %v", err)
	}
	free()
	s = mustOpen(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := smallDisk(t, 8<<20)
	s := mustOpen(t, dir)
	mustUpdate(t, s, func(tx *Tx) error { return tx.PutRun(Run{ID: "r"}) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, syscall.EROFS) {
		t.Errorf("open: %v", err)
	}
	look, err := OpenReadOnly(t.Context(), dir)
	if err != nil {
		t.Fatalf("open to look: %v", err)
	}
	mustView(t, look, func(tx *Tx) error { _, err := tx.Run("r"); return err })
	if err := look.Close(); err != nil {
		t.Error(err)
	}
}

// The disk becomes full in the middle of a function, and SQLite ends the
// transaction that others have a part in.
func TestFullDiskInTheMiddleOfABatch(t *testing.T) {
	dir := smallDisk(t, 12<<20)
	s := mustOpen(t, dir)
	const n, huge = 7, 3
	reqs := make([]*request, n)
	for i := range reqs {
		reqs[i] = newRequest(KillSafe, false)
	}
	errs := inOneBatch(t, s, reqs, func(i int, tx *Tx) error {
		if err := tx.PutRun(Run{ID: fmt.Sprint("r", i)}); err != nil {
			return err
		}
		if i != huge {
			return nil
		}
		for k := range 2000 {
			err := tx.PutRun(Run{ID: fmt.Sprint("huge", k), Job: bytes.Repeat([]byte("j"), 10_000)})
			if err != nil {
				// Overlooked, and gone on with: nothing of it may be stored.
				if e := tx.PutRun(Run{ID: "late"}); !errors.Is(e, ErrFull) {
					t.Errorf("put after a full disk: %v", e)
				}
				return nil
			}
		}
		return errors.New("20 MB went onto a disk of 12")
	})
	if !errors.Is(errs[huge], ErrFull) {
		t.Errorf("the huge update: %v", errs[huge])
	}
	for i, err := range errs {
		if err != nil && !errors.Is(err, ErrFull) {
			t.Errorf("update %d: %v", i, err)
		}
		if i > huge && err != nil {
			t.Errorf("update %d, whose turn was after it: %v", i, err)
		}
		want := ErrNotFound
		if err == nil {
			want = nil
		}
		mustView(t, s, func(tx *Tx) error {
			if _, err := tx.Run(fmt.Sprint("r", i)); !errors.Is(err, want) {
				t.Errorf("update %d answered %v, its row %v", i, errs[i], err)
			}
			return nil
		})
	}
	mustView(t, s, func(tx *Tx) error {
		runs, err := tx.Runs(RunFilter{})
		for _, r := range runs {
			if len(r.Job) > 0 || r.ID == "late" {
				t.Fatalf("%s was stored", r.ID)
			}
		}
		return err
	})
	mustUpdate(t, s, func(tx *Tx) error { return tx.PutRun(Run{ID: "after"}) })
}

// TestSmallDisk: a disk that is not full, but too small for the reserve, is told as that.
func TestSmallDisk(t *testing.T) {
	dir := smallDisk(t, 3<<20)
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Update(t.Context(), KillSafe, func(tx *Tx) error { return tx.PutRun(Run{ID: "r"}) })
	if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), filepath.Join(dir, "reserve")) {
		t.Errorf("%v", err)
	}
}
