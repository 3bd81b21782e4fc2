package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestShrink: the file of a database that has had many rows is about as small, once they are gone, as that of one that never had them, and what is in it is as it was.
func TestShrink(t *testing.T) {
	t.Parallel()
	size := func(dir string) int64 {
		t.Helper()
		fi, err := os.Stat(filepath.Join(dir, "slipway.db"))
		if err != nil {
			t.Fatal(err)
		}
		return fi.Size()
	}
	fill := func(s *Store, n int, change func(*Tx, Run) error) {
		t.Helper()
		err := s.Update(t.Context(), KillSafe, func(tx *Tx) error {
			for i := range n {
				if err := change(tx, Run{ID: fmt.Sprintf("r%d", i), State: "ended", Job: make([]byte, 3000)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sizes := make(map[int]int64)
	for _, n := range []int{100, 10_000} {
		dir := t.TempDir()
		s, err := Open(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		fill(s, n, (*Tx).PutRun)
		fill(s, n, func(tx *Tx, r Run) error {
			if r.ID == "r7" {
				return nil
			}
			return tx.DeleteRun(r.ID)
		})
		if err := s.Shrink(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Shrink(ended); err == nil {
			t.Error("it goes on without its context")
		}
		err = s.View(t.Context(), func(tx *Tx) error {
			r, err := tx.Run("r7")
			if err == nil && len(r.Job) != 3000 {
				t.Errorf("the row that stayed has %d bytes", len(r.Job))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		sizes[n] = size(dir)
	}
	if few, many := sizes[100], sizes[10_000]; many > few+512<<10 {
		t.Errorf("100 rows leave %d bytes, 10,000 leave %d", few, many)
	}
	t.Log(sizes)
}
