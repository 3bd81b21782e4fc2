package stream_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
)

func pack(t testing.TB, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, stream.PackDir(t.Context(), dir, &b))
	return b.Bytes()
}

func run(t testing.TB, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, &errs)
	}
	return out.Bytes()
}

func needTar(t testing.TB) {
	t.Helper()
	if out, err := exec.Command("tar", "--version").Output(); err != nil || !bytes.Contains(out, []byte("GNU tar")) {
		testkit.Lacking(t, "there is no GNU tar to compare with")
	}
}

// What PackDir writes, the real tar reads back as the same tree.
func TestPackForTar(t *testing.T) {
	needTar(t)
	dir, to := oddTree(t), tempDir(t)
	run(t, pack(t, dir), "tar", "-C", to, "-xpf", "-")
	wantSame(t, "unpacked by tar", snapshot(t, dir), snapshot(t, to))
	var owned bytes.Buffer // tar compares owners too
	must(t, stream.Packer{Owners: true}.Pack(t.Context(), dir, &owned))
	run(t, owned.Bytes(), "tar", "-C", dir, "--compare", "-f", "-", "--no-same-owner", "--exclude=none")
}

// What the real tar writes, in each of its formats, UnpackDir restores.
func TestUnpackFromTar(t *testing.T) {
	needTar(t)
	dir := oddTree(t)
	for _, format := range []string{"posix", "gnu", "oldgnu"} {
		for name, what := range map[string]string{"packed twice": ".", "without ./": "--transform=s,^./,,"} {
			t.Run(format+" "+name, func(t *testing.T) {
				to := tempDir(t)
				archive := run(t, nil, "tar", "-C", dir, "--format="+format, what, "-cf", "-", ".")
				must(t, stream.Unpacker{SetID: true}.Unpack(t.Context(), bytes.NewReader(archive), to))
				want := snapshot(t, dir)
				if format != "posix" { // whole seconds only
					for name, e := range want {
						e.Time = e.Time.Add(-time.Duration(e.Time.Nanosecond()))
						if e.Mode.Type() == fs.ModeSymlink {
							e.Time = time.Time{}
						}
						want[name] = e
					}
				}
				wantSame(t, "unpacked", want, snapshot(t, to))
			})
		}
	}
}

// A sparse file comes out as long as it was.
func TestUnpackSparse(t *testing.T) {
	needTar(t)
	dir, to := tempDir(t), tempDir(t)
	put(t, filepath.Join(dir, "holes"), "begin")
	must(t, os.Truncate(filepath.Join(dir, "holes"), 10<<20))
	for _, format := range []string{"posix", "gnu"} {
		archive := run(t, nil, "tar", "-C", dir, "--format="+format, "--sparse", "-cf", "-", "holes")
		must(t, stream.UnpackDir(t.Context(), bytes.NewReader(archive), to))
		if want, got := snapshot(t, dir)["holes"].Content, snapshot(t, to)["holes"].Content; got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
		must(t, os.Remove(filepath.Join(to, "holes")))
	}
}

func TestRoundTrip(t *testing.T) {
	dir, to := oddTree(t), tempDir(t)
	must(t, stream.Unpacker{SetID: true}.Unpack(t.Context(), bytes.NewReader(pack(t, dir)), to))
	wantSame(t, "round trip", snapshot(t, dir), snapshot(t, to))

	// Unless asked, setuid and setgid do not come out.
	plain := tempDir(t)
	must(t, stream.UnpackDir(t.Context(), bytes.NewReader(pack(t, dir)), plain))
	for name, e := range snapshot(t, plain) {
		if e.Mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%q came out as %v", name, e.Mode)
		}
	}
}

// Any tree comes back as it was, and packs to the same bytes again.
func TestRoundTripAnyTree(t *testing.T) {
	base := tempDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "in-*")
		must(t, err)
		to, err := os.MkdirTemp(base, "out-*")
		must(t, err)
		defer os.RemoveAll(dir)
		defer os.RemoveAll(to)
		dirs, files := []string{dir}, []string(nil)
		name := rapid.StringOfN(rapid.RuneFrom([]rune("ab.-_ \n\u00e9\\*\u65e5")), 1, 60, 200)
		for range rapid.IntRange(0, 15).Draw(rt, "things") {
			path := filepath.Join(rapid.SampledFrom(dirs).Draw(rt, "in"), name.Draw(rt, "name"))
			if _, err := os.Lstat(path); err == nil || len(path) > 3000 {
				continue
			}
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				must(t, os.Mkdir(path, 0o755))
				dirs = append(dirs, path)
			case 1:
				put(t, path, strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 511, 512, 513, 128 << 10, 128<<10 + 1, 300_000}).Draw(rt, "size")))
				files = append(files, path)
			case 2:
				must(t, os.Symlink(name.Draw(rt, "to"), path))
				files = append(files, path)
			case 3:
				if len(files) > 0 {
					must(t, os.Link(rapid.SampledFrom(files).Draw(rt, "twin"), path))
				}
			}
		}
		for _, path := range append(slices.Clone(files), dirs[1:]...) {
			if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSymlink {
				must(t, os.Chmod(path, fs.FileMode(rapid.IntRange(0, 0o777).Draw(rt, "mode"))|0o500))
				must(t, os.Chtimes(path, time.Time{}, time.Unix(0, rapid.Int64Range(0, 2e18).Draw(rt, "time"))))
			}
		}
		archive := pack(t, dir)
		must(t, stream.UnpackDir(t.Context(), bytes.NewReader(archive), to))
		wantSame(t, "round trip", snapshot(t, dir), snapshot(t, to))
		if !slices.Equal(names(t, archive), names(t, pack(t, to))) {
			t.Error("the copy packs in another order")
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}

func names(t testing.TB, archive []byte) []string {
	t.Helper()
	var all []string
	for _, h := range headers(t, archive) {
		all = append(all, h.Name)
	}
	return all
}

func headers(t testing.TB, archive []byte) []*tar.Header {
	t.Helper()
	var all []*tar.Header
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		all = append(all, h)
	}
}

func TestPackOneFile(t *testing.T) {
	dir := tempDir(t)
	put(t, filepath.Join(dir, "file.txt"), "content")
	must(t, os.Symlink("file.txt", filepath.Join(dir, "link")))
	for _, name := range []string{"file.txt", "link"} {
		got := headers(t, pack(t, filepath.Join(dir, name)))
		if len(got) != 1 || got[0].Name != name || got[0].Typeflag != tar.TypeReg || got[0].Size != 7 {
			t.Errorf("%s packs as %+v", name, got)
		}
	}
}

func TestPackThroughLinkToDir(t *testing.T) {
	dir := tempDir(t)
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	put(t, filepath.Join(dir, "real/x"), "")
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	if got := names(t, pack(t, filepath.Join(dir, "link"))); !slices.Equal(got, []string{"x"}) {
		t.Errorf("packs %q", got)
	}
}

func TestPackOwners(t *testing.T) {
	dir := tempDir(t)
	put(t, filepath.Join(dir, "x"), "")
	if os.Geteuid() == 0 {
		must(t, os.Chown(filepath.Join(dir, "x"), 1234, 5678))
	}
	info, err := os.Stat(filepath.Join(dir, "x"))
	must(t, err)
	st := info.Sys().(*syscall.Stat_t)
	if h := headers(t, pack(t, dir))[0]; h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
		t.Errorf("by default %d:%d %q", h.Uid, h.Gid, h.Uname)
	}
	var b bytes.Buffer
	must(t, stream.Packer{Owners: true}.Pack(t.Context(), dir, &b))
	if h := headers(t, b.Bytes())[0]; h.Uid != int(st.Uid) || h.Gid != int(st.Gid) {
		t.Errorf("if asked %d:%d", h.Uid, h.Gid)
	}
	if os.Geteuid() != 0 {
		return
	}
	for owners, want := range map[bool]uint32{true: 1234, false: 0} {
		to := tempDir(t)
		must(t, stream.Unpacker{Owners: owners}.Unpack(t.Context(), bytes.NewReader(b.Bytes()), to))
		info, err := os.Stat(filepath.Join(to, "x"))
		must(t, err)
		if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("owners %t: unpacked as %d, want %d", owners, got, want)
		}
	}
}

func wantPackError(t *testing.T, err error, path string, cause error) {
	t.Helper()
	pe, ok := errors.AsType[*stream.PackError](err)
	if !ok || pe.Path != path || !errors.Is(err, cause) {
		t.Errorf("got %v (%T), want one that names %q and is %v", err, err, path, cause)
	}
}

func TestPackRefuses(t *testing.T) {
	dir := tempDir(t)
	gone := filepath.Join(dir, "gone")
	wantPackError(t, stream.PackDir(t.Context(), gone, io.Discard), gone, fs.ErrNotExist)

	pipes := tempDir(t)
	fifo := filepath.Join(pipes, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o644))
	wantPackError(t, stream.PackDir(t.Context(), pipes, io.Discard), fifo, stream.ErrSpecialFile)
	wantPackError(t, stream.PackDir(t.Context(), fifo, io.Discard), fifo, stream.ErrSpecialFile)

	sockets, err := os.MkdirTemp("", "s")
	must(t, err)
	defer os.RemoveAll(sockets)
	l, err := net.Listen("unix", filepath.Join(sockets, "socket"))
	must(t, err)
	defer l.Close()
	wantPackError(t, stream.PackDir(t.Context(), sockets, io.Discard), filepath.Join(sockets, "socket"), stream.ErrSpecialFile)
}

// onWrite calls back before each write.
type onWrite struct {
	bytes.Buffer
	before func() error
}

func (w *onWrite) Write(b []byte) (int, error) {
	if err := w.before(); err != nil {
		return 0, err
	}
	return w.Buffer.Write(b)
}

// A file that is not as long as it was is an error, and the archive cannot be taken for whole.
func TestPackChangingFile(t *testing.T) {
	for name, size := range map[string]int64{"shrinks": 1000, "grows": 5 << 20, "by one less": 1<<20 - 1, "by one more": 1<<20 + 1} {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			file := filepath.Join(dir, "file")
			put(t, file, strings.Repeat("x", 1<<20))
			w := &onWrite{before: func() error { return os.Truncate(file, size) }}
			wantPackError(t, stream.PackDir(t.Context(), dir, w), file, stream.ErrChanged)
			if err := stream.UnpackDir(t.Context(), &w.Buffer, tempDir(t)); err == nil {
				t.Error("what was written passes for whole")
			}
		})
	}
	t.Run("goes away", func(t *testing.T) {
		dir := tempDir(t)
		put(t, filepath.Join(dir, "a"), "a")
		last := filepath.Join(dir, "b")
		put(t, last, "b")
		w := &onWrite{before: func() error { os.Remove(last); return nil }}
		// Its name was read already, so that it is missed.
		wantPackError(t, stream.PackDir(t.Context(), dir, w), last, fs.ErrNotExist)
	})
}

func TestPackWriterFails(t *testing.T) {
	for n := range 6 {
		dir := tempDir(t)
		put(t, filepath.Join(dir, "file"), strings.Repeat("x", 300<<10))
		err := stream.PackDir(t.Context(), dir, &onWrite{before: func() error {
			if n--; n < 0 {
				return errBroken
			}
			return nil
		}})
		if err != errBroken {
			t.Errorf("after %d writes: %v, want the writer's own error", n, err)
		}
	}
}

func TestPackCancel(t *testing.T) {
	dir := tempDir(t)
	put(t, filepath.Join(dir, "file"), strings.Repeat("x", 1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	err := stream.PackDir(ctx, dir, &onWrite{before: func() error { cancel(); return nil }})
	if err != context.Canceled {
		t.Errorf("got %v", err)
	}
}
