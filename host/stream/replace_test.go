package stream_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/host/stream"
)

func fill(t testing.TB, content string) func(context.Context, string) error {
	return func(_ context.Context, dir string) error {
		put(t, filepath.Join(dir, "x"), content)
		return nil
	}
}

func never(t testing.TB) func(context.Context, string) error {
	return func(context.Context, string) error {
		t.Error("something was filled")
		return nil
	}
}

func wantContent(t testing.TB, dir, want string) {
	t.Helper()
	if b, err := os.ReadFile(filepath.Join(dir, "x")); err != nil || string(b) != want {
		t.Errorf("%s has %q, %v, want %q", dir, b, err, want)
	}
}

// wantOnly tells what may be in a directory: nothing of ours is left beside the target.
func wantOnly(t testing.TB, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, names) {
		t.Errorf("%s has %q, want %q", dir, got, names)
	}
}

func full(t testing.TB, dir string) string {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	put(t, filepath.Join(dir, "x"), "old")
	return dir
}

func TestReplace(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(t *testing.T, target string)
		force bool
	}{
		"nothing there":        {func(*testing.T, string) {}, false},
		"nothing there, force": {func(*testing.T, string) {}, true},
		"empty":                {func(t *testing.T, target string) { must(t, os.Mkdir(target, 0o700)) }, false},
		"full, force":          {func(t *testing.T, target string) { full(t, target) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			parent := tempDir(t)
			target := filepath.Join(parent, "out")
			c.make(t, target)
			must(t, stream.CheckTarget(target, c.force))
			wantContentBefore := snapshot(t, parent)
			must(t, stream.CheckTarget(target, c.force))
			wantSame(t, "after the check", wantContentBefore, snapshot(t, parent))
			must(t, stream.ReplaceDir(t.Context(), target, c.force, func(ctx context.Context, dir string) error {
				if filepath.Dir(filepath.Dir(dir)) != parent {
					t.Errorf("%s is not beside %s", dir, target)
				}
				if info, err := os.Stat(filepath.Dir(dir)); err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("others can look in: %v, %v", info.Mode(), err)
				}
				wantOnly(t, dir)
				return fill(t, "new")(ctx, dir)
			}))
			wantContent(t, target, "new")
			wantOnly(t, parent, "out")
			other := filepath.Join(tempDir(t), "usual")
			must(t, os.Mkdir(other, 0o777))
			want, err := os.Stat(other)
			must(t, err)
			if got, err := os.Stat(target); err != nil || got.Mode() != want.Mode() {
				t.Errorf("the mode is %v, want the usual %v", got.Mode(), want.Mode())
			}
		})
	}
}

func wantTargetError(t *testing.T, err error, target string, cause error) {
	t.Helper()
	te, ok := errors.AsType[*stream.TargetError](err)
	if !ok || te.Target != target || cause != nil && !errors.Is(err, cause) {
		t.Errorf("got %v (%T), want one that names %q and is %v", err, err, target, cause)
	}
}

func TestReplaceRefuses(t *testing.T) {
	parent := tempDir(t)
	put(t, filepath.Join(parent, "file"), "x")
	must(t, os.Symlink("nowhere", filepath.Join(parent, "dangling")))
	must(t, os.Symlink("file", filepath.Join(parent, "tofile")))
	full(t, filepath.Join(parent, "full"))
	must(t, os.MkdirAll(filepath.Join(parent, "wd/below"), 0o755))
	t.Chdir(filepath.Join(parent, "wd/below"))
	before := snapshot(t, parent)
	for name, c := range map[string]struct {
		target string
		force  bool
		cause  error
	}{
		"full":              {filepath.Join(parent, "full"), false, stream.ErrNotEmpty},
		"a file":            {filepath.Join(parent, "file"), true, stream.ErrNotDir},
		"a link to a file":  {filepath.Join(parent, "tofile"), true, stream.ErrNotDir},
		"a link to nothing": {filepath.Join(parent, "dangling"), true, fs.ErrNotExist},
		"no parent":         {filepath.Join(parent, "none/out"), true, nil},
		"below a file":      {filepath.Join(parent, "file/out"), true, nil},
		"no name":           {"", true, nil},
		"working directory": {".", true, stream.ErrInUse},
		"above it":          {"..", true, stream.ErrInUse},
		"the root":          {"/", true, nil},
		"a mount":           {"/proc", true, stream.ErrMounted},
	} {
		t.Run(name, func(t *testing.T) {
			wantTargetError(t, stream.CheckTarget(c.target, c.force), c.target, c.cause)
			wantTargetError(t, stream.ReplaceDir(t.Context(), c.target, c.force, never(t)), c.target, c.cause)
		})
	}
	wantSame(t, "afterwards", before, snapshot(t, parent))
}

func TestReplaceLinkKeepsLink(t *testing.T) {
	parent := tempDir(t)
	full(t, filepath.Join(parent, "real/dir"))
	link := filepath.Join(parent, "link")
	must(t, os.Symlink("real/dir", link))
	must(t, stream.ReplaceDir(t.Context(), link, true, fill(t, "new")))
	wantContent(t, filepath.Join(parent, "real/dir"), "new")
	wantOnly(t, filepath.Join(parent, "real"), "dir")
	wantOnly(t, parent, "link", "real")
}

// After any failure the old content is there and nothing else.
func TestReplaceFails(t *testing.T) {
	for _, old := range []bool{true, false} {
		parent := tempDir(t)
		target := filepath.Join(parent, "out")
		want := []string(nil)
		if old {
			full(t, target)
			want = []string{"out"}
		}
		err := stream.ReplaceDir(t.Context(), target, true, func(ctx context.Context, dir string) error {
			must(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
			must(t, os.Chmod(filepath.Join(dir, "a"), 0o500))
			return errBroken
		})
		if err != errBroken {
			t.Errorf("got %v, want fill's own error", err)
		}
		wantOnly(t, parent, want...)

		ctx, cancel := context.WithCancel(t.Context())
		err = stream.ReplaceDir(ctx, target, true, func(ctx context.Context, dir string) error {
			cancel()
			return fill(t, "new")(ctx, dir)
		})
		if err != context.Canceled {
			t.Errorf("got %v", err)
		}
		wantOnly(t, parent, want...)
		if old {
			wantContent(t, target, "old")
		}
	}
}

// What others make at the target while it is filled is theirs, unless force is set.
func TestReplaceMeanwhile(t *testing.T) {
	for _, exists := range []bool{true, false} {
		parent := tempDir(t)
		target := filepath.Join(parent, "out")
		if exists {
			must(t, os.Mkdir(target, 0o755))
		}
		err := stream.ReplaceDir(t.Context(), target, false, func(ctx context.Context, dir string) error {
			full(t, target)
			return fill(t, "new")(ctx, dir)
		})
		wantTargetError(t, err, target, stream.ErrNotEmpty)
		wantContent(t, target, "old")
		wantOnly(t, parent, "out")
	}
}

// Many replace one target at once: at the end it is one of theirs, whole.
func TestReplaceAtOnce(t *testing.T) {
	parent := tempDir(t)
	target := full(t, filepath.Join(parent, "out"))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if err := stream.ReplaceDir(t.Context(), target, true, fill(t, "new")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	wantContent(t, target, "new")
	wantOnly(t, parent, "out")
}
