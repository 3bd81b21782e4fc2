package volumetar

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"

	"github.com/slipway-run/slipway/internal/testkit"
)

// The tests' own way to look at a tree and to make one: nothing of it is the package's.

// look is a tree as lstat, xattrs and content tell it.
type look struct {
	Type, Mode uint32
	UID, GID   uint32
	Size       int64
	MTime      string
	Link       string
	Same       string // the first path of a file with several
	Device     uint64
	Hash       string
	Xattrs     map[string]string
}

func lookAt(t testing.TB, dir string) map[string]look {
	t.Helper()
	all, first := make(map[string]look), make(map[uint64]string)
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		l := look{
			Type: st.Mode & unix.S_IFMT, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, Device: st.Rdev,
			MTime: fmt.Sprintf("%d.%09d", st.Mtim.Sec, st.Mtim.Nsec), Xattrs: attrsOf(t, p),
		}
		if st.Nlink > 1 && !e.IsDir() {
			if first[st.Ino] == "" {
				first[st.Ino] = rel
			}
			l.Same = first[st.Ino]
		}
		switch l.Type {
		case unix.S_IFLNK:
			l.Link, err = os.Readlink(p)
		case unix.S_IFREG:
			l.Size = st.Size
			if st.Size <= 64<<20 { // larger ones are for tests of their own
				l.Hash, err = hash(p)
			}
		}
		all[rel] = l
		return err
	})
	must(t, err)
	return all
}

func hash(p string) (string, error) {
	f, err := os.Open(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%.6x", h.Sum(nil)), err
}

func attrsOf(t testing.TB, p string) map[string]string {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(p, buf)
	if errors.Is(err, unix.EOPNOTSUPP) || n == 0 {
		return nil
	}
	must(t, err)
	attrs := make(map[string]string)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(p, name, value)
		must(t, err)
		attrs[name] = string(value[:n])
	}
	return attrs
}

func sameTree(t testing.TB, got, want map[string]look) {
	t.Helper()
	failed := false
	for name := range union(got, want) {
		if d := cmp.Diff(want[name], got[name]); d != "" {
			t.Errorf("%.80q: (-) in, (+) out:\n%s", name, d)
			failed = true
		}
	}
	if failed {
		t.FailNow()
	}
}

func union(a, b map[string]look) map[string]look {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// needRoot skips a test that an ordinary user cannot do.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "root: owners, devices, mounts or other users")
	}
}

// ways are the ways in which a Root finds its paths and works without /proc.
func ways(t *testing.T, test func(t *testing.T, open func(dir string, o Options) *Root)) {
	for name, set := range map[string]func(r *Root){
		"openat2": func(*Root) {}, "by hand": func(r *Root) { r.byHand = true },
		"without proc": func(r *Root) { r.proc = false }, "by hand without proc": func(r *Root) { r.byHand, r.proc = true, false },
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(dir string, o Options) *Root {
				r := open(t, dir, o)
				if name == "openat2" && r.byHand {
					t.Fatal("this kernel has no openat2, which the tests need")
				}
				set(r)
				return r
			})
		})
	}
}

func open(t testing.TB, dir string, o Options) *Root {
	t.Helper()
	r, err := Open(dir, o)
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

// options are strict for root; others can give nothing away.
func options() Options { return Options{DropOwners: os.Geteuid() != 0} }

func pack(t testing.TB, r *Root, path string) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, r.Pack(context.Background(), path, &b))
	return b.Bytes()
}

func unpack(r *Root, archive []byte, path string) error {
	return r.Unpack(context.Background(), path, bytes.NewReader(archive))
}

func wantError(t testing.TB, err error, class sdk.Class, reason sdk.Reason) {
	t.Helper()
	if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Class != class || e.Reason != reason {
		t.Fatalf("got %v (%T), want %s (%s)", err, err, class, reason)
	}
}

// ent is an entry of an archive that a test writes; the content of a file is its text.
type ent struct {
	tar.Header
	text string
}

func reg(name, text string) ent { return ent{tar.Header{Typeflag: tar.TypeReg, Name: name}, text} }
func folder(name string) ent {
	return ent{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
}
func sym(name, to string) ent {
	return ent{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}, ""}
}
func hard(name, to string) ent {
	return ent{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}, ""}
}

func archive(t testing.TB, ents ...ent) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range ents {
		if e.Size == 0 {
			e.Size = int64(len(e.text))
		}
		if e.Mode == 0 && e.Typeflag != tar.TypeXGlobalHeader {
			e.Mode = 0o644
		}
		if e.ModTime.IsZero() && e.Typeflag != tar.TypeXGlobalHeader {
			e.ModTime = time.Unix(1e9, 0)
		}
		must(t, w.WriteHeader(&e.Header))
		_, err := io.WriteString(w, e.text)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// zoo fills a directory with one of everything that this user can make there.
func zoo(t testing.TB, dir string) {
	t.Helper()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string, mode uint32) {
		t.Helper()
		must(t, os.WriteFile(in(name), []byte(text), 0o600))
		must(t, unix.Chmod(in(name), mode))
	}
	for _, d := range []string{"d", "d/sub", "d/sub/deep", "empty", "empty/er", "odd"} {
		must(t, os.Mkdir(in(d), 0o755))
	}
	write("none", "", 0o644)
	write("d/file", "text", 0o640)
	write("big", strings.Repeat("0123456789abcdef", bufSize/8)+"x", 0o644)
	for _, mode := range []uint32{0o400, 0o444, 0o600, 0o751, 0o777, 0o4755, 0o2755, 0o6711, 0o1644, 0o7777} {
		write(fmt.Sprintf("m%04o", mode), "mode", mode)
	}
	must(t, unix.Chmod(in("empty"), 0o1777))
	must(t, unix.Chmod(in("d/sub"), 0o2775))
	for link, to := range map[string]string{
		"abs": "/etc/hostname", "rel": "d/file", "up": "../../../..", "dangling": "no/such", "loop": "loop", "to-dir": "d", "dot": ".",
		"d/far": strings.Repeat("long/", 60) + "x", "d/strange": " a\nb'\"\xff",
	} {
		must(t, os.Symlink(to, in(link)))
	}
	must(t, os.Link(in("d/file"), in("d/sub/same")))
	must(t, os.Link(in("d/file"), in("another")))
	must(t, os.Link(in("dangling"), in("d/dangling-too")))
	must(t, unix.Mkfifo(in("fifo"), 0o600))
	must(t, unix.Chmod(in("fifo"), 0o622))
	must(t, os.Link(in("fifo"), in("d/fifo-too")))
	for _, name := range []string{
		"\xff\xfe", "a\nb", "tab\t", "-rf", " lead", "~", "dot.", "end ", `back\slash`, "é", "e\u0301", "Case", "case", "...", "a=b", "PaxHeaders.0",
		strings.Repeat("n", 99), strings.Repeat("n", 100), strings.Repeat("n", 101), strings.Repeat("n", 255),
	} {
		write("odd/"+name, name, 0o644)
	}
	far := in("far")
	for range 30 {
		far = filepath.Join(far, "directory-with-a-name")
	}
	must(t, os.MkdirAll(far, 0o755))
	must(t, os.WriteFile(filepath.Join(far, "deep"), []byte("deep"), 0o644))

	f, err := os.Create(in("holes"))
	must(t, err)
	must(t, f.Truncate(10<<20))
	for _, at := range []int64{1 << 20, 5<<20 - 3, 7 << 20} {
		_, err = f.WriteAt([]byte("data"), at)
		must(t, err)
	}
	must(t, f.Close())
	must(t, os.WriteFile(in("hole"), nil, 0o644))
	must(t, os.Truncate(in("hole"), 3<<20+1))

	must(t, unix.Lsetxattr(in("d/file"), "user.one", []byte("1\x00\n="), 0))
	must(t, unix.Lsetxattr(in("d/file"), "user.od=d%3D", []byte("2"), 0))
	must(t, unix.Lsetxattr(in("holes"), "user.large", bytes.Repeat([]byte("l"), 1500), 0))
	must(t, unix.Lsetxattr(in("d"), "user.dir", []byte("3"), 0))
	if os.Geteuid() == 0 {
		must(t, unix.Lsetxattr(in("d/file"), xattrCapability, []byte("\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0))
		must(t, unix.Lsetxattr(in("d"), "trusted.dir", []byte("4"), 0))
		must(t, unix.Mknod(in("null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		must(t, unix.Mknod(in("disk"), unix.S_IFBLK|0o640, int(unix.Mkdev(259, 300))))
		must(t, unix.Mknod(in("whiteout"), unix.S_IFCHR, 0))
		for i, id := range []int{1, 1000, 65534, 1<<21 + 1, 1<<31 - 2, 1<<32 - 2} {
			name := in(fmt.Sprint("owned", i))
			must(t, os.WriteFile(name, nil, 0o600))
			must(t, os.Lchown(name, id, id/2))
			must(t, unix.Chmod(name, 0o6755))
		}
		must(t, os.Lchown(in("abs"), 1234, 4321))
		must(t, os.Lchown(in("fifo"), 12, 34))
		must(t, os.Lchown(in("empty"), 56, 78))
	}
	for name, at := range map[string]unix.Timespec{
		"none": {Sec: -1000, Nsec: 5}, "big": {Sec: 1 << 33, Nsec: 123456789}, "d/file": {Sec: -1, Nsec: 999999999}, "abs": {Sec: 1e9, Nsec: 7},
		"holes": {Sec: -2, Nsec: 5e8}, "hole": {Sec: 4102444800, Nsec: 1}, "fifo": {Sec: 0}, "d/sub/deep": {Sec: 2147483648, Nsec: 1},
		"d/sub": {Sec: -1e9}, "d": {Sec: 2e9, Nsec: 7}, "empty/er": {Sec: 1}, "empty": {Sec: 951782400, Nsec: 999}, "far": {Sec: 5}, "": {Sec: 1234567890, Nsec: 42},
	} {
		must(t, unix.UtimesNanoAt(unix.AT_FDCWD, in(name), []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
	}
}
