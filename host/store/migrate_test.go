package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// script runs SQL on the database in dir, beside the Store.
func script(t *testing.T, dir string, texts ...string) {
	t.Helper()
	file := filepath.Join(dir, databaseFile)
	if f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn(file, readWrite))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range texts {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFixtureOfVersion1(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, read(t, "migrations/0001.sql"), "PRAGMA user_version = 1", read(t, "testdata/v1.sql"))
	s := mustOpen(t, dir)
	if s.Installation() != "2v6l3kd4jpyq7zs5a0c9e8r1mn" {
		t.Errorf("installation %q", s.Installation())
	}
	at := func(n int64) time.Time { return time.Unix(1700000000, n).UTC() }
	mustView(t, s, func(tx *Tx) error {
		c, err1 := tx.ContainerByOwner("run/01j0r/build")
		p, err2 := tx.Process("01j0p")
		v, err3 := tx.Volume("01j0v")
		a, err4 := tx.ArtifactByName("run/01j0r/out")
		r, err5 := tx.Run("01j0r")
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			return err
		}
		want := []any{
			Container{ID: "01j0c", Worker: "linux-1", Owner: "run/01j0r/build", Team: "main", Token: "t0", State: "created", Spec: []byte(`{"dir":"/w"}`), CreatedAt: at(1), UpdatedAt: at(2)},
			Process{ID: "01j0p", Container: "01j0c", Token: "t1", State: "exited", Spec: []byte(`{"path":"sh"}`), Exit: []byte(`{"code":3}`), Reason: "exited", StartedAt: at(3), EndedAt: at(4)},
			Volume{ID: "01j0v", Worker: "linux-1", Token: "t2", State: "sealed", Container: "01j0c", Artifact: "01j0a", Parent: "01j0u", Path: "/w/out", Role: "output", Bytes: 77, CreatedAt: at(5)},
			Artifact{ID: "01j0a", Name: "run/01j0r/out", Owner: "run/01j0r", CreatedAt: at(6), ExpiresAt: at(6).Add(12 * time.Hour)},
			Run{ID: "01j0r", Job: []byte(`{"steps":[]}`), State: "running", CreatedAt: at(7)},
		}
		if diff := cmp.Diff(want, []any{c, p, v, a, r}); diff != "" {
			t.Error(diff)
		}
		return nil
	})
}

// newest is the version that this program knows.
func newest(t *testing.T) int {
	t.Helper()
	steps, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	return len(steps)
}

func TestNewerVersion(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	script(t, dir, "PRAGMA user_version = 42")
	file := filepath.Join(dir, databaseFile)
	before := read(t, file)
	_, err := Open(t.Context(), dir, Options{})
	var version *VersionError
	if !errors.As(err, &version) || version.Has != 42 || version.Own != newest(t) || version.File != file {
		t.Errorf("open: %v", err)
	}
	_, err = OpenReadOnly(t.Context(), dir)
	if !errors.As(err, &version) || version.Has != 42 || version.Own != newest(t) {
		t.Errorf("open read-only: %v", err)
	}
	if !bytes.Equal([]byte(before), []byte(read(t, file))) {
		t.Error("the file was changed")
	}
}

// The steps are run as they would be by later versions of this program.
func TestMigrationSteps(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, databaseFile)
	script(t, dir) // an empty file
	ctx := context.Background()
	db, err := sql.Open("sqlite", dsn(file, readWrite))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := newSession(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()

	steps, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	own := len(steps)
	steps = append(steps, "CREATE TABLE extra (n INTEGER); INSERT INTO extra VALUES (1);")
	bad := append(steps, "INSERT INTO extra VALUES (2); INSERT INTO missing VALUES (1);")
	version := func() (n int) {
		if err := s.conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, before := range []int{0, own} {
		if err := migrate(ctx, s, file, steps[:before]); err != nil {
			t.Fatal(err)
		}
		if err := migrate(ctx, s, file, bad); err == nil {
			t.Fatal("a broken step passed")
		}
		var extra int
		if err := s.conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master WHERE name = 'extra'").Scan(&extra); err != nil {
			t.Fatal(err)
		}
		if version() != before || extra != 0 {
			t.Errorf("after a broken step the version is %d, and was %d; %d of the tables of the step before it", version(), before, extra)
		}
	}
	good := append(steps, "INSERT INTO extra VALUES (4)")
	for range 2 {
		if err := migrate(ctx, s, file, good); err != nil {
			t.Fatal(err)
		}
		var sum int
		if err := s.conn.QueryRowContext(ctx, "SELECT SUM(n) FROM extra").Scan(&sum); err != nil {
			t.Fatal(err)
		}
		if version() != own+2 || sum != 5 {
			t.Errorf("after good steps: version %d, sum %d", version(), sum)
		}
	}
}
