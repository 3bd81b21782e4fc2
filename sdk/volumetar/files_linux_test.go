package volumetar

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

func TestFiles(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "canary"), []byte("sings"), 0o644))
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(in("d/sub/deep"), 0o755))
	must(t, os.WriteFile(in("d/tool"), []byte("0123456789"), 0o644))
	must(t, os.WriteFile(in("d/sub/f"), []byte("inner"), 0o644))
	must(t, unix.Chmod(in("d/tool"), 0o4750))
	must(t, os.Chtimes(in("d/tool"), time.Time{}, time.Unix(-7, 42)))
	for link, to := range map[string]string{
		"d/link": "tool", "abs": "/d", "up": "../../../d/sub/../..", "chain": "abs/sub", "loop": "loop/x", "out": outside, "far": strings.Repeat("../", 40) + outside[1:],
		"d/back": "../abs/sub/../tool", "trailing": "d//./sub/", "d/sub/deep/abs": "/d/sub",
	} {
		must(t, os.Symlink(to, in(link)))
	}
	ways(t, func(t *testing.T, open func(string, Options) *Root) {
		r := open(dir, Options{})
		i, err := r.Stat(t.Context(), "d/tool")
		must(t, err)
		want := sdk.FileInfo{Name: "tool", Mode: 0o750 | fs.ModeSetuid, Size: 10, ModTime: i.ModTime, UID: int64(os.Geteuid()), GID: int64(os.Getegid())}
		if i != want || i.ModTime.UnixNano() != -7e9+42 {
			t.Errorf("got %+v", i)
		}
		for path, link := range map[string]string{"d/link": "tool", "abs/link": "tool", "abs": "/d", "out": outside} {
			if i, err := r.Stat(t.Context(), path); err != nil || i.LinkTarget != link || i.Mode.Type() != fs.ModeSymlink {
				t.Errorf("%s is %+v (%v)", path, i, err)
			}
		}
		for path, content := range map[string]string{
			"abs/tool": "0123456789", "up/d/tool": "0123456789", "chain/f": "inner", "d/../abs/sub/f": "inner", "trailing/f": "inner", "d/sub/deep/abs/f": "inner", "abs/sub/../tool": "0123456789",
		} {
			var b bytes.Buffer
			if err := r.ReadFile(t.Context(), path, 0, -1, &b); err != nil || b.String() != content {
				t.Errorf("%s holds %q (%v)", path, b.String(), err)
			}
		}
		for _, path := range []string{"x", "d/x", "d/tool/x", "out/canary", "far/canary", "abs/link/x"} {
			var b bytes.Buffer
			if err := r.ReadFile(t.Context(), path, 0, -1, &b); !sdk.IsNotFound(err, sdk.KindFile) || b.Len() > 0 {
				t.Errorf("reading %s: %v", path, err)
			}
			if err := r.Pack(t.Context(), path, &b); !sdk.IsNotFound(err, sdk.KindFile) || b.Len() > 0 {
				t.Errorf("packing %s: %v", path, err)
			}
			if _, err := r.Stat(t.Context(), path); !sdk.IsNotFound(err, sdk.KindFile) {
				t.Errorf("looking at %s: %v", path, err)
			}
			if err := r.List(t.Context(), path, nil); !sdk.IsNotFound(err, sdk.KindFile) {
				t.Errorf("listing %s: %v", path, err)
			}
		}
		for _, path := range []string{"d", "d/link", "abs", "out", ""} {
			var b bytes.Buffer
			wantError(t, r.ReadFile(t.Context(), path, 0, -1, &b), sdk.Invalid, sdk.ReasonPath)
		}
		for _, path := range []string{"/d", "../x", "loop/x", "d/" + strings.Repeat("n", 256), "a\x00"} {
			_, err := r.Stat(t.Context(), path)
			wantError(t, err, sdk.Invalid, sdk.ReasonPath)
		}
		if err := r.List(t.Context(), "abs", nil); !sdk.IsNotFound(err, sdk.KindFile) {
			t.Errorf("listing a link: %v", err)
		}
		wantError(t, r.ReadFile(t.Context(), "d/tool", -1, 1, nil), sdk.Invalid, sdk.ReasonSpec)
		for _, c := range []struct {
			offset, length int64
			want           string
		}{{0, -1, "0123456789"}, {0, 3, "012"}, {4, 4, "4567"}, {8, 100, "89"}, {10, -1, ""}, {100, 5, ""}, {5, 0, ""}, {9, 1<<63 - 1, "9"}} {
			var b bytes.Buffer
			must(t, r.ReadFile(t.Context(), "d/tool", c.offset, c.length, &b))
			if b.String() != c.want {
				t.Errorf("%d from %d on: %q, want %q", c.length, c.offset, b.String(), c.want)
			}
		}
		for path, want := range map[string]string{
			"": "abs chain d far loop out trailing up", ".": "abs chain d far loop out trailing up", "d": "back link sub tool", "abs/sub": "deep f", "d/sub/deep": "abs",
		} {
			var names []string
			must(t, r.List(t.Context(), path, func(i sdk.FileInfo) error { names = append(names, i.Name); return nil }))
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%q holds %q, want %q", path, got, want)
			}
		}
	})
}

func TestFeatures(t *testing.T) {
	dir := t.TempDir()
	got, err := open(t, dir, Options{}).Features()
	must(t, err)
	want := []sdk.Feature{sdk.FeatureTarDirTimes, sdk.FeatureTarSparse}
	if os.Geteuid() == 0 {
		want = append(want, sdk.FeatureTarXattrs, sdk.FeatureTarDevices)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q on this machine", got, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
	got, err = open(t, dir, Options{NoDevices: true}).Features()
	must(t, err)
	if slices.Contains(got, sdk.FeatureTarDevices) {
		t.Error("devices are named, but not taken")
	}
	if os.Geteuid() == 0 {
		must(t, unix.Mount("volumetar", dir, "ramfs", 0, "")) // which has no attributes of users
		t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
		r := open(t, dir, Options{})
		got, err := r.Features()
		must(t, err)
		f := reg("f", "x")
		f.PAXRecords = map[string]string{"SCHILY.xattr.user.x": "x"}
		kept := unpack(r, archive(t, f), "") == nil
		if kept != slices.Contains(got, sdk.FeatureTarXattrs) {
			t.Errorf("attributes are kept: %v, but the features are %q", kept, got)
		}
	}
}

func TestClosed(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, Options{})
	must(t, err)
	must(t, r.Close())
	_, err = r.Stat(t.Context(), "")
	wantError(t, err, sdk.Internal, "")
	if _, err := Open(filepath.Join(dir, "no"), Options{}); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	if _, err := Open(filepath.Join(dir, "f"), Options{}); err == nil {
		t.Error("a file was opened as a directory")
	}
}
