//go:build linux

package shelf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
)

// holder has this program hold a lock until it is killed, instead of running tests.
const holder = "SHELF_TEST_HOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holder); dir != "" {
		s, err := Open[thing](dir)
		if err == nil {
			_, err = s.Make(context.Background(), "t")
		}
		fmt.Println("locked:", err)
		select {}
	}
	testkit.Main(m)
}

type thing struct{ Text string }

func open(t *testing.T) *Shelf[thing] {
	t.Helper()
	s, err := Open[thing](filepath.Join(t.TempDir(), "a shelf"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put makes a thing.
func put(t *testing.T, s *Shelf[thing], name, text string) {
	t.Helper()
	unlock, err := s.Make(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := s.Write(name, thing{text}); err != nil {
		t.Fatal(err)
	}
}

func (s *Shelf[R]) all(t *testing.T) []string {
	t.Helper()
	var names []string
	if err := s.Each(func(name string, _ R) error { names = append(names, name); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestRecords(t *testing.T) {
	s := open(t)
	if _, err := s.Read("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading what is not there: %v", err)
	}
	put(t, s, "a", "first")
	put(t, s, "b", "other")
	put(t, s, "a", "second")
	again, err := Open[thing](s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := again.Read("a"); err != nil || r.Text != "second" {
		t.Errorf("read %+v, %v", r, err)
	}
	if got := again.all(t); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("listed are %q", got)
	}
	if err := os.WriteFile(s.Path("a", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Discard("a"); err != nil {
		t.Error(err)
	}
	if got := again.all(t); !slices.Equal(got, []string{"b"}) {
		t.Errorf("then listed are %q", got)
	}
	if left, err := os.ReadDir(filepath.Join(s.dir, trash)); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	own := errors.New("own")
	if err := s.Each(func(string, thing) error { return own }); err != own {
		t.Errorf("an error of the caller comes back as %v", err)
	}
}

// TestNames has nothing but good names reach the disk: the empty one would be the shelf itself, which Discard would take away.
func TestNames(t *testing.T) {
	s := open(t)
	put(t, s, "a", "stays")
	for _, name := range []string{"", ".", "..", ".trash", "a/record.json", "../a shelf/a", "a\x00"} {
		_, readErr := s.Read(name)
		_, makeErr := s.Make(t.Context(), name)
		_, lockErr := s.Lock(t.Context(), name, Shared)
		_, tryErr := s.TryLock(name)
		for call, err := range map[string]error{
			"Read": readErr, "Make": makeErr, "Lock": lockErr, "TryLock": tryErr, "Write": s.Write(name, thing{}), "Discard": s.Discard(name),
		} {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s(%q): %v", call, name, err)
			}
		}
	}
	if r, err := s.Read("a"); err != nil || r.Text != "stays" {
		t.Errorf("read %+v, %v", r, err)
	}
}

func TestLocks(t *testing.T) {
	s := open(t)
	if _, err := s.Lock(t.Context(), "a", Shared); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("locking what is not there: %v", err)
	}
	put(t, s, "a", "")
	first, err1 := s.Lock(t.Context(), "a", Shared)
	second, err2 := s.Lock(t.Context(), "a", Shared)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Lock(ctx, "a", Exclusive); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("locking what is shared: %v", err)
	}
	if unlock, err := s.TryLock("a"); unlock != nil || err != nil {
		t.Errorf("trying that: %v", err)
	}
	got := make(chan error)
	go func() {
		unlock, err := s.Make(t.Context(), "a")
		if err == nil {
			unlock()
		}
		got <- err
	}()
	first()
	first() // once is enough
	second()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestLockOfWhatGoes awaits a lock while its thing is taken away: a waiter that comes by it then holds nothing, and must know.
func TestLockOfWhatGoes(t *testing.T) {
	s := open(t)
	for range 200 {
		put(t, s, "a", "")
		unlock, err := s.Lock(t.Context(), "a", Exclusive)
		if err != nil {
			t.Fatal(err)
		}
		locked, made := make(chan error), make(chan error)
		go func() {
			unlock, err := s.Lock(t.Context(), "a", Shared)
			if err == nil {
				unlock()
			}
			locked <- err
		}()
		go func() {
			unlock, err := s.Make(t.Context(), "a") // another thing of that name
			if err == nil {
				err = s.Write("a", thing{"new"})
				unlock()
			}
			made <- err
		}()
		if err := s.Discard("a"); err != nil {
			t.Error(err)
		}
		unlock()
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		if err := <-locked; err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if r, err := s.Read("a"); err != nil || r.Text != "new" {
			t.Fatalf("read %+v, %v", r, err)
		}
	}
}

// TestLocksOfOthers has another process hold a lock, and kills it.
func TestLocksOfOthers(t *testing.T) {
	s := open(t)
	other := exec.CommandContext(t.Context(), os.Args[0])
	other.Env = append(os.Environ(), holder+"="+s.dir)
	out, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked: <nil>\n" {
		t.Fatalf("the other says %q, %v", line, err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Path("t")); err != nil {
		t.Errorf("what another is making was swept away: %v", err)
	}
	got := make(chan error)
	go func() {
		unlock, err := s.Lock(t.Context(), "t", Shared)
		if err == nil {
			unlock()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Errorf("locked what another has: %v", err)
	default:
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // killed
	if err := <-got; err != nil {
		t.Error(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Path("t")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was never made is left: %v", err)
	}
}

// TestUnlockWithAChild gives a lock back while a child shares its open file, as one that is being forked does for a moment.
func TestUnlockWithAChild(t *testing.T) {
	s := open(t)
	put(t, s, "a", "")
	unlock, err := s.Lock(t.Context(), "a", Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "sleep", "3600")
	for _, fd := range fds {
		if len(child.ExtraFiles) > 0 {
			break
		}
		if at, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && at == s.Path("a", lockFile) {
			n, err := strconv.Atoi(fd.Name())
			if err == nil {
				n, err = unix.Dup(n)
			}
			if err != nil {
				t.Fatal(err)
			}
			f := os.NewFile(uintptr(n), at)
			defer f.Close()
			child.ExtraFiles = append(child.ExtraFiles, f)
		}
	}
	if len(child.ExtraFiles) == 0 {
		t.Fatal("the open file of the lock is not found")
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	unlock()
	again, err := s.TryLock("a")
	if again == nil {
		t.Fatalf("it is still locked: %v", err)
	}
	again()
}

func TestSweep(t *testing.T) {
	s := open(t)
	put(t, s, "whole", "")
	for _, dir := range []string{s.Path("half"), filepath.Join(s.dir, trash, "grave", "deep")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	making, err := s.Make(t.Context(), "making")
	if err != nil {
		t.Fatal(err)
	}
	defer making()
	if err := os.WriteFile(s.Path("whole", recordFile), []byte("{"), 0o600); err != nil { // not ours to judge
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	for name, there := range map[string]bool{"whole": true, "half": false, "making": true, trash: true, trash + "/grave": false} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDiscardOfMounts must not reach what is mounted below a thing.
func TestDiscardOfMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "mounting needs root")
	}
	s, precious := open(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(precious, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "")
	at := s.Path("a", "mounted here")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(precious, at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(at, unix.MNT_DETACH)
	err := s.Discard("a")
	if m, ok := errors.AsType[*MountedError](err); !ok || m.Path != at {
		t.Errorf("discarding: %v", err)
	}
	if _, err := os.Stat(filepath.Join(precious, "file")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read("a"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Discard("a"); err != nil {
		t.Error(err)
	}
}
