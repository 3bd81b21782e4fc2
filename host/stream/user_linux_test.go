package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/stream"
)

// asUser runs f with the rights of an ordinary user on files, whoever runs the tests. base is a directory of that user's.
func asUser(t *testing.T, f func(base string)) {
	t.Helper()
	base, err := os.MkdirTemp("", "stream")
	must(t, err)
	defer os.RemoveAll(base)
	if os.Geteuid() != 0 {
		f(base)
		return
	}
	const nobody = 65534
	must(t, os.Chown(base, nobody, nobody))
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked, so that the thread ends here with its rights
		if err := syscall.Setfsgid(nobody); err != nil {
			t.Error(err)
			return
		}
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Error(err)
			return
		}
		f(base)
	}()
	<-done
}

func TestPackUnreadable(t *testing.T) {
	asUser(t, func(base string) {
		secret := filepath.Join(base, "secret")
		put(t, secret, "x")
		must(t, os.Chmod(secret, 0))
		wantPackError(t, stream.PackDir(context.Background(), base, io.Discard), secret, fs.ErrPermission)
		must(t, os.Remove(secret))

		must(t, os.Mkdir(secret, 0))
		wantPackError(t, stream.PackDir(context.Background(), base, io.Discard), secret, fs.ErrPermission)
	})
}

// A user can unpack directories that do not let him write, and files that do not let him read.
func TestUnpackAsUser(t *testing.T) {
	asUser(t, func(base string) {
		whole := archive(t, dirMode("d", 0o555), file("d/x", "x"), dirMode("d/e", 0), dirMode("d/e/f", 0o500), fileMode("n", 0))
		must(t, stream.UnpackDir(context.Background(), bytes.NewReader(whole), base))
		for name, want := range map[string]fs.FileMode{"d": fs.ModeDir | 0o555, "d/e": fs.ModeDir, "n": 0} {
			info, err := os.Lstat(filepath.Join(base, name))
			if err != nil || info.Mode() != want || !info.ModTime().Equal(time.Unix(1e9, 0)) {
				t.Errorf("%s is %v, %v, want %v", name, info, err, want)
			}
		}
	})
}

func TestReplaceAsUser(t *testing.T) {
	asUser(t, func(base string) {
		locked := filepath.Join(base, "locked")
		must(t, os.Mkdir(locked, 0o555))
		target := filepath.Join(locked, "out")
		wantTargetError(t, stream.CheckTarget(target, true), target, fs.ErrPermission)
		wantTargetError(t, stream.ReplaceDir(context.Background(), target, true, never(t)), target, fs.ErrPermission)

		// Directories without a write bit, new and old, at the top and below.
		target = filepath.Join(base, "out")
		for round := range 3 {
			must(t, stream.ReplaceDir(context.Background(), target, round > 0, func(_ context.Context, dir string) error {
				must(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
				put(t, filepath.Join(dir, "a/b/x"), "x")
				return errors.Join(os.Chmod(filepath.Join(dir, "a/b"), 0o555), os.Chmod(filepath.Join(dir, "a"), 0), os.Chmod(dir, 0o555))
			}))
			wantOnly(t, base, "locked", "out")
			if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o555 {
				t.Errorf("the target is %v, %v", info, err)
			}
		}
		err := stream.ReplaceDir(context.Background(), target, true, func(_ context.Context, dir string) error {
			must(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
			must(t, os.Chmod(filepath.Join(dir, "a"), 0))
			return errBroken
		})
		if err != errBroken {
			t.Errorf("got %v", err)
		}
		wantOnly(t, base, "locked", "out")
	})
}
