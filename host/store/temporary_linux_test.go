package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoTemporaryFiles: a large statement makes none, which a kill at the wrong moment would leave behind.
func TestNoTemporaryFiles(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Update(t.Context(), KillSafe, func(tx *Tx) error {
		for i := range 1000 {
			if err := tx.PutRun(Run{ID: fmt.Sprintf("r%d", i), State: "ended", Job: make([]byte, 3000)}); err != nil {
				return err
			}
		}
		if _, err := tx.session.exec("UPDATE runs SET id = 's' || id"); err != nil {
			return err
		}
		// SQLite takes the name of such a file away at once, and keeps it open until the transaction ends.
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return err
		}
		for _, fd := range files {
			name, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
			if err == nil && strings.Contains(name, "etilqs") {
				t.Error("a temporary file:", name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
