package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/internal/testkit"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(child(mode, os.Getenv(childDir)))
	}
	testkit.Main(m)
}

// mustOpen opens dir, and closes it at the end of the test.
func mustOpen(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func mustUpdate(t testing.TB, s *Store, fn func(*Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), KillSafe, fn); err != nil {
		t.Fatal(err)
	}
}

func mustView(t testing.TB, s *Store, fn func(*Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func containers(t testing.TB, s *Store) (ids []string) {
	t.Helper()
	mustView(t, s, func(tx *Tx) error {
		rows, err := tx.Containers(ContainerFilter{})
		for _, c := range rows {
			ids = append(ids, c.ID)
		}
		return err
	})
	return ids
}

func TestOpenMakesAPrivateDirectoryWithALastingID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "odd ?name#with%41 & more")
	s := mustOpen(t, dir)
	id := s.Installation()
	if !regexp.MustCompile(`^[a-z0-9]{26}$`).MatchString(id) {
		t.Errorf("installation id %q", id)
	}
	mustUpdate(t, s, func(tx *Tx) error { return tx.PutContainer(Container{ID: "c1"}) })
	for name, want := range map[string]fs.FileMode{".": 0o700 | fs.ModeDir, "slipway.db": 0o600, "slipway.db-wal": 0o600, "lock": 0o600, "installation": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "windows" && info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir)
	if s.Installation() != id {
		t.Errorf("the id became %q, was %q", s.Installation(), id)
	}
	if diff := cmp.Diff([]string{"c1"}, containers(t, s)); diff != "" {
		t.Error(diff)
	}
	other := mustOpen(t, t.TempDir())
	if other.Installation() == id {
		t.Error("two directories have one id")
	}
}

func TestSecondOpenerIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	_, err := Open(t.Context(), dir, Options{})
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("second open: %v", err)
	}
	if locked.PID != os.Getpid() || locked.Dir != dir || time.Since(locked.Since) > time.Minute {
		t.Errorf("locked by %+v", locked)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir)
}

func TestClosed(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	never := func(*Tx) error { t.Error("ran on a closed store"); return nil }
	if err := s.Update(t.Context(), KillSafe, never); !errors.Is(err, ErrClosed) {
		t.Errorf("update: %v", err)
	}
	if err := s.View(t.Context(), never); !errors.Is(err, ErrClosed) {
		t.Errorf("view: %v", err)
	}
}

func TestCloseStoresWhatWaits(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	// The first update holds the writer until all others are in the queue.
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	errs := make(chan error, 21)
	wg.Go(func() {
		errs <- s.Update(context.Background(), KillSafe, func(*Tx) error { close(entered); <-leave; return nil })
	})
	<-entered
	for i := range 20 {
		r := newRequest(KillSafe, false)
		if err := s.queue.add(r); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			r.call(<-r.turn, func(tx *Tx) error { return tx.PutContainer(Container{ID: fmt.Sprintf("c%02d", i)}) })
			errs <- <-r.done
		})
	}
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	close(leave)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if n := len(containers(t, mustOpen(t, dir))); n != 20 {
		t.Errorf("%d rows", n)
	}
}

func TestReadOnlyBesideTheHost(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenReadOnly(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it made the directory: %v", err)
	}
	host := mustOpen(t, dir)
	mustUpdate(t, host, func(tx *Tx) error { return tx.PutContainer(Container{ID: "c1"}) })

	look, err := OpenReadOnly(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if look.Installation() != host.Installation() {
		t.Errorf("id %q", look.Installation())
	}
	mustUpdate(t, host, func(tx *Tx) error { return tx.PutContainer(Container{ID: "c2"}) })
	if diff := cmp.Diff([]string{"c1", "c2"}, containers(t, look)); diff != "" {
		t.Error(diff)
	}
	if err := look.Update(t.Context(), KillSafe, func(*Tx) error { return nil }); !errors.Is(err, ErrReadOnly) {
		t.Errorf("update: %v", err)
	}
	err = look.View(t.Context(), func(tx *Tx) error { return tx.DeleteContainer("c1") })
	if !errors.Is(err, ErrReadOnly) {
		t.Errorf("delete in a view: %v", err)
	}
	if err := errors.Join(look.Close(), host.Close()); err != nil {
		t.Fatal(err)
	}

	// And with no host, which has taken the log away.
	look, err = OpenReadOnly(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close()
	if n := len(containers(t, look)); n != 2 {
		t.Errorf("%d rows", n)
	}
}

func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustUpdate(t, s, func(tx *Tx) error {
		for i := range 2000 {
			if err := tx.PutContainer(Container{ID: fmt.Sprintf("c%04d", i), Owner: fmt.Sprint("o", i), Spec: bytes.Repeat([]byte("x"), 200)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, databaseFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(from, n int) []byte {
		b := bytes.Clone(whole)
		for i := from; i < from+n; i++ {
			b[i] ^= 0xff
		}
		return b
	}
	middle := len(whole) / 2 / 4096 * 4096
	for name, content := range map[string][]byte{
		"middle":    flip(middle, 3*4096),
		"one page":  flip(middle, 16),
		"header":    flip(0, 100),
		"cut":       whole[:middle],
		"emptied":   {},
		"not a db":  bytes.Repeat([]byte("hello "), 2000),
		"zero page": append(append(bytes.Clone(whole[:middle]), make([]byte, 4096)...), whole[middle+4096:]...),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), dir, Options{})
			var damaged *DamagedError
			if !errors.As(err, &damaged) || damaged.File != file {
				t.Fatalf("open: %v", err)
			}
			if name == "emptied" || name == "not a db" || name == "cut" { // what else is broken may be never read
				if _, err := OpenReadOnly(t.Context(), dir); !errors.As(err, &damaged) || damaged.File != file {
					t.Errorf("open read-only: %v", err)
				}
			}
			after, err := os.ReadFile(file)
			if err != nil || !bytes.Equal(after, content) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), dir, Options{})
		if damaged := (*DamagedError)(nil); !errors.As(err, &damaged) {
			t.Fatalf("open: %v", err)
		}
	})
	t.Run("restored", func(t *testing.T) {
		if err := os.WriteFile(file, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if n := len(containers(t, mustOpen(t, dir))); n != 2000 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestViewThatMeetsClose: a View that has begun before Close, and comes to wait for a connection after it, is told so at once. It would have waited for ever.
func TestViewThatMeetsClose(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 * cap(s.readers) { // as in read, after its first look
		select {
		case r := <-s.readers:
			s.readers <- r
		default:
			t.Fatal("there is nothing to wait for")
		}
	}
	var views sync.WaitGroup
	s = mustOpen(t, t.TempDir())
	for range 16 {
		views.Go(func() {
			for {
				err := s.View(context.Background(), func(*Tx) error { return nil })
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	views.Wait()
}
