//go:build linux

package onrunc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
)

// onTmpfs gives a box a scratch volume of its own size.
func onTmpfs(t *testing.T, options string) *box {
	t.Helper()
	needs(t)
	dir := t.TempDir()
	if err := unix.Mount("scratch", dir, "tmpfs", 0, "mode=0700,"+options); err != nil {
		t.Fatal(err)
	}
	return onMount(t, dir)
}

// onMount gives a box a scratch volume, and unmounts it afterwards.
func onMount(t *testing.T, dir string) *box {
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	b := newBox(t, setting{initMode: true, spec: func(s *engine.Spec) {
		for i := range s.Mounts {
			if s.Mounts[i].Path == scratchPath {
				s.Mounts[i].Source = dir
			}
		}
	}})
	b.scratch = dir
	return b
}

// fill leaves no room on the scratch volume.
func (b *box) fill() {
	b.t.Helper()
	f, err := os.Create(filepath.Join(b.scratch, "ballast"))
	b.check(err)
	defer f.Close()
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else {
			b.check(err)
		}
	}
}

func (b *box) empty() {
	b.t.Helper()
	b.check(os.Remove(filepath.Join(b.scratch, "ballast")))
}

// records are the names of the processes' records.
func (b *box) records() []string {
	b.t.Helper()
	entries, err := os.ReadDir(filepath.Join(b.scratch, "p"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// noRoomFor wants a start to be refused for want of room, and to have left nothing.
func (b *box) noRoomFor(id sdk.ProcessID) {
	b.t.Helper()
	err := b.StartProcess(b.t.Context(), b.id, counted(id, "exit 0"))
	if !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, sdk.ReasonStorage) {
		b.t.Errorf("starting %q: %v", id, err)
	}
	for _, name := range b.records() {
		if name == string(id) {
			b.t.Errorf("%q has a record", id)
		}
	}
	if _, err := b.listed(b.t.Context(), id); !sdk.IsNotFound(err, sdk.KindProcess) {
		b.t.Errorf("%q: %v", id, err)
	}
}

func numbers(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintln(&text, i+1)
	}
	return text.String()
}

func TestCrashFullBeforeTheStart(t *testing.T) {
	for name, options := range map[string]string{"bytes": "size=1m", "inodes": "size=64m,nr_inodes=40"} {
		t.Run(name, func(t *testing.T) {
			b := onTmpfs(t, options)
			b.check(b.StartProcess(t.Context(), b.id, counted("first", "cat; exit 2")))
			if name == "bytes" {
				b.fill()
			} else {
				for i := 0; ; i++ {
					if err := os.Mkdir(filepath.Join(b.scratch, fmt.Sprint("d", i)), 0o700); errors.Is(err, unix.ENOSPC) {
						break
					} else {
						b.check(err)
					}
				}
			}
			b.noRoomFor("second")
			b.check(b.ends(t.Context(), "first", "", "", 2))
			if name == "bytes" {
				b.empty()
			} else {
				for i := range 4 {
					b.check(os.Remove(filepath.Join(b.scratch, fmt.Sprint("d", i))))
				}
			}
			b.check(b.StartProcess(t.Context(), b.id, counted("second", "echo on; exit 3")))
			b.check(b.ends(t.Context(), "second", "on\n", "", 3))
			b.ranOnce(2)
		})
	}
}

// TestCrashFullMeanwhile fills the volume while a process writes, and at its end.
func TestCrashFullMeanwhile(t *testing.T) {
	const n = 400_000 // 2.6 MiB
	want := numbers(n)
	for name, free := range map[string]bool{"room returns": true, "only acknowledging": false} {
		t.Run(name, func(t *testing.T) {
			b := onTmpfs(t, "size=2m")
			spec := counted("writer", fmt.Sprintf("echo go; read x; seq 1 %d; exit 7", n))
			spec.Stdin = true
			b.check(b.StartProcess(t.Context(), b.id, spec))
			s := newStory(0)
			in := make(chan string)
			s.hooks.Stdin = texts(in)
			first := true
			s.hooks.Output = func([]sdk.Record) error {
				if first {
					first = false
					b.fill()
					go func() { in <- "now\n"; close(in) }() // ends with the process's read
				}
				return nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			acks := make(chan sdk.Position)
			s.hooks.Acks = acks // none, so far
			followed := make(chan error, 1)
			go func() { followed <- b.FollowProcess(ctx, b.id, "writer", 0, s.follow()) }()
			// It is held when the volume and what the keeper keeps in its stead are full.
			testkit.Until(t, "there is output", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.next > 512<<10 })
			if free {
				b.empty()
			}
			if !free {
				b.noRoomFor("other")
			}
			for i := 0; ; i++ {
				s.mu.Lock()
				at := s.next
				s.mu.Unlock()
				select {
				case acks <- at:
					continue
				case err := <-followed:
					if err != nil {
						t.Fatal(err)
					}
				}
				break
			}
			if err := s.is("go\n"+want, "", 7); err != nil {
				t.Error(err)
			}
			b.check(unix.Kill(b.keeper(), unix.SIGKILL))
			r := b.throughRecords(t.Context())
			if all, err := r.list(); err != nil || len(all) != 1 || all[0].Exit == nil || all[0].Exit.Code != 7 {
				t.Errorf("the records tell of %+v, %v", all, err)
			}
			b.ranOnce(1)
		})
	}
}

// TestCrashFullDropsTheOldest has a process that must not be held write on a full volume.
func TestCrashFullDropsTheOldest(t *testing.T) {
	const n = 400_000
	b := onTmpfs(t, "size=1m")
	spec := counted("writer", fmt.Sprintf("read x </tmp/go; seq 1 %d; exit 7", n))
	spec.WhenFull = sdk.DropOldest
	b.check(unix.Mkfifo(filepath.Join(b.root, "tmp", "go"), 0o600))
	b.check(b.StartProcess(t.Context(), b.id, spec))
	b.fill()
	b.check(os.WriteFile(filepath.Join(b.root, "tmp", "go"), []byte("go\n"), 0))
	testkit.Until(t, "it has ended", func() bool {
		p, err := b.listed(t.Context(), "writer")
		return err == nil && p.State == sdk.ProcessExited
	})
	s := newStory(0)
	b.check(b.FollowProcess(t.Context(), b.id, "writer", 0, s.follow()))
	want := numbers(n)
	if s.wrong != nil || s.exit.Code != 7 || s.gaps == 0 || len(s.stdout()) < 64<<10 || int(s.next) != len(want) || !strings.HasSuffix(want, s.stdout()) {
		t.Errorf("%v, %+v, %d bytes lost, %d kept, the end at %d of %d", s.wrong, s.exit, s.gaps, len(s.stdout()), s.next, len(want))
	}
}

// TestCrashFullOfProcesses fills the volume while fifty run and end.
func TestCrashFullOfProcesses(t *testing.T) {
	b := onTmpfs(t, "size=4m")
	each(t, 50, 8, func(i int) error {
		return b.StartProcess(t.Context(), b.id, counted(newID("many", i), "while ! [ -e /tmp/go ]; do sleep 0.05; done; echo some; echo other >&2; exit 3"))
	})
	b.fill()
	b.check(os.WriteFile(filepath.Join(b.root, "tmp", "go"), nil, 0o644))
	each(t, 50, 8, func(i int) error {
		return b.ends(t.Context(), newID("many", i), "some\n", "other\n", 3)
	})
	b.check(unix.Kill(b.keeper(), unix.SIGKILL))
	all, err := b.throughRecords(t.Context()).list()
	b.check(err)
	for _, p := range all {
		if p.Exit == nil {
			t.Errorf("%q: its exit is not on the volume", p.ID)
		}
	}
	if len(all) != 50 {
		t.Errorf("%d are listed", len(all))
	}
}

// TestCrashReadOnly has the file system of the volume fail and become read-only while a process runs.
func TestCrashReadOnly(t *testing.T) {
	needs(t)
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	for _, args := range [][]string{
		{"truncate", "-s", "16M", image}, {"mkfs.ext4", "-q", image}, {"mount", "-o", "loop,errors=remount-ro", image, dir}, {"chmod", "700", dir},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			testkit.Lacking(t, "mounts of images: %v: %v %s", args, err, out)
		}
	}
	b := onMount(t, dir)
	spec := counted("writer", "echo before; read x; seq 1 1000; exit 7")
	spec.Stdin = true
	b.check(b.StartProcess(t.Context(), b.id, spec))
	s := newStory(0)
	in := make(chan string)
	s.hooks.Stdin = texts(in)
	s.hooks.Acks = make(chan sdk.Position)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	followed := make(chan error, 1)
	go func() { followed <- b.FollowProcess(ctx, b.id, "writer", 0, s.follow()) }()
	testkit.Until(t, "there is output", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.next > 0 })

	var mounted unix.Stat_t
	b.check(unix.Stat(dir, &mounted))
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(mounted.Dev), unix.Minor(mounted.Dev)))
	b.check(err)
	b.check(os.WriteFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "trigger_fs_error"), []byte("a test"), 0))
	if err := os.WriteFile(filepath.Join(dir, "more"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Fatalf("the volume is not read-only: %v", err)
	}
	in <- "go\n"
	close(in)
	b.noRoomFor("other")
	testkit.Until(t, "it has ended", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.exit != nil })
	if err := s.is("before\n"+numbers(1000), "", 7); err != nil {
		t.Error(err)
	}
	cancel()
	<-followed
	b.check(unix.Kill(b.keeper(), unix.SIGKILL))
	testkit.Until(t, "its relay is gone", func() bool { return len(b.find("daemon")) == 0 })
	r := b.throughRecords(t.Context())
	all, err := r.list()
	if err != nil || len(all) != 1 || all[0].State != sdk.ProcessAbandoned {
		t.Errorf("the records tell of %+v, %v", all, err)
	}
	kept := newStory(0)
	if err := r.follow("writer", kept); !errors.Is(err, sdk.ReasonAbandoned) || kept.exit != nil || !strings.HasPrefix(s.stdout(), kept.stdout()) || kept.stdout() == "" {
		t.Errorf("%v, %q, %+v", err, kept.stdout(), kept.exit)
	}
}
