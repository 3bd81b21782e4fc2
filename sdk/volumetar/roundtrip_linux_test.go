package volumetar

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func TestRoundTrip(t *testing.T) {
	from := t.TempDir()
	zoo(t, from)
	if os.Geteuid() != 0 { // what we may not read, we cannot pack
		must(t, os.Remove(filepath.Join(from, "m0400")))
	}
	want := lookAt(t, from)
	ways(t, func(t *testing.T, open func(string, Options) *Root) {
		data := pack(t, open(from, Options{}), "")
		if !bytes.Equal(data, pack(t, open(from, Options{}), ".")) {
			t.Error("the same tree gives another stream")
		}
		to := t.TempDir()
		r := open(to, options())
		must(t, unpack(r, data, ""))
		sameTree(t, lookAt(t, to), want)
		if !bytes.Equal(data, pack(t, r, "./")) {
			t.Error("the same content gives another stream")
		}
		must(t, unpack(r, data, "")) // over itself
		sameTree(t, lookAt(t, to), want)
		readers := []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader}
		if r.byHand || !r.proc { // how files are opened has nothing to do with how an archive is read
			readers = readers[:testkit.Times(0, len(readers))]
		}
		for _, slow := range readers {
			to := t.TempDir()
			must(t, open(to, options()).Unpack(t.Context(), "", slow(bytes.NewReader(data))))
			sameTree(t, lookAt(t, to), want)
		}
	})
}

// TestUmask looks at modes that the umask of a process must not change.
func TestUmask(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	dir := t.TempDir()
	f := reg("made/file", "")
	f.Mode = 0o666
	must(t, unpack(open(t, dir, options()), archive(t, f, ent{tar.Header{Typeflag: tar.TypeFifo, Name: "fifo", Mode: 0o777}, ""}), "below"))
	for name, want := range map[string]uint32{"below": 0o755, "below/made": 0o755, "below/made/file": 0o666, "below/fifo": 0o777} {
		if got := lookAt(t, dir)[name].Mode; got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

// gnuTar runs the machine's tar.
func gnuTar(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("tar", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("tar %q: %v\n%s", args, err, errs.String())
	}
	return out.Bytes()
}

func TestGNUTar(t *testing.T) {
	if v, err := exec.Command("tar", "--version").Output(); err != nil || !bytes.Contains(v, []byte("GNU tar")) {
		testkit.Lacking(t, "GNU tar (apt-get install tar): %v", err)
	}
	from := t.TempDir()
	zoo(t, from)
	if os.Geteuid() != 0 {
		must(t, os.Remove(filepath.Join(from, "m0400")))
	}
	want := lookAt(t, from)

	extract := []string{"-x", "-p", "-C"}
	to := t.TempDir()
	extract = append(extract, to, "--xattrs", "--xattrs-include=*", "--numeric-owner")
	if os.Geteuid() == 0 {
		extract = append(extract, "--same-owner")
	}
	gnuTar(t, pack(t, open(t, from, Options{}), ""), extract...)
	sameTree(t, lookAt(t, to), want)
	wantHoles(t, filepath.Join(to, "holes"), 64<<10)

	for _, format := range []string{"pax", "gnu", "oldgnu", "sparse 0.0", "sparse 0.1"} {
		t.Run(format, func(t *testing.T) {
			args := []string{"-c", "-C", from, "--numeric-owner", "--sparse"}
			switch format {
			case "gnu", "oldgnu":
				args = append(args, "-H", format)
			case "pax":
				args = append(args, "-H", format, "--xattrs", "--xattrs-include=*")
			default:
				args = append(args, "-H", "pax", "--sparse-version", strings.Fields(format)[1], "--xattrs", "--xattrs-include=*")
			}
			to := t.TempDir()
			must(t, unpack(open(t, to, options()), gnuTar(t, nil, append(args, ".")...), ""))
			got := lookAt(t, to)
			for _, all := range []map[string]look{got, want} { // it packs pipes and devices once for each name
				for _, name := range []string{"fifo", "d/fifo-too"} {
					l := all[name]
					l.Same = ""
					all[name] = l
				}
			}
			if format == "gnu" || format == "oldgnu" { // these have whole seconds and no attributes
				want := maps.Clone(want)
				for _, all := range []map[string]look{got, want} {
					for name, l := range all {
						l.MTime, l.Xattrs = l.MTime[:strings.Index(l.MTime, ".")], nil
						all[name] = l
					}
				}
				sameTree(t, got, want)
			} else {
				sameTree(t, got, want)
			}
			wantHoles(t, filepath.Join(to, "holes"), 64<<10)
		})
	}
}

func wantHoles(t *testing.T, name string, most int64) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(name, &st))
	if got := st.Blocks * 512; got > most {
		t.Errorf("%s takes %d bytes of disk for %d of content, want at most %d", name, got, st.Size, most)
	}
}

// TestSparseLarge takes a file around that is larger than the disk should have to be.
func TestSparseLarge(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	const size = 5 << 30
	f, err := os.Create(filepath.Join(from, "large"))
	must(t, err)
	must(t, f.Truncate(size))
	_, err = f.WriteAt([]byte("in the middle"), 3<<30+12345)
	must(t, err)
	must(t, f.Close())
	var b bytes.Buffer
	must(t, open(t, from, Options{}).Pack(t.Context(), "large", &b))
	if b.Len() > 64<<10 {
		t.Errorf("the archive has %d bytes", b.Len())
	}
	must(t, unpack(open(t, to, options()), b.Bytes(), ""))
	wantHoles(t, filepath.Join(to, "large"), 64<<10)
	info, err := os.Stat(filepath.Join(to, "large"))
	must(t, err)
	if info.Size() != size {
		t.Errorf("size %d, want %d", info.Size(), size)
	}
	g, err := os.Open(filepath.Join(to, "large"))
	must(t, err)
	defer g.Close()
	got := make([]byte, 15)
	_, err = g.ReadAt(got, 3<<30+12344)
	must(t, err)
	if string(got) != "\x00in the middle\x00" {
		t.Errorf("got %q", got)
	}
	err = unpack(open(t, t.TempDir(), Options{DropOwners: true, MaxBytes: size - 1}), b.Bytes(), "")
	wantError(t, err, sdk.Invalid, sdk.ReasonTooLarge)
}

// TestPackManyParts packs a file with more parts than its map may have.
func TestPackManyParts(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	f, err := os.Create(filepath.Join(from, "comb"))
	must(t, err)
	for i := range int64(maxParts + 500) {
		_, err := f.WriteAt([]byte{1}, i*8192)
		must(t, err)
	}
	must(t, f.Truncate((maxParts+500)*8192+1<<20))
	must(t, f.Close())
	must(t, unpack(open(t, to, options()), pack(t, open(t, from, Options{}), ""), ""))
	a, err := hash(filepath.Join(from, "comb"))
	must(t, err)
	b, err := hash(filepath.Join(to, "comb"))
	must(t, err)
	if a != b {
		t.Error("the content differs")
	}
}

// TestDeep packs a tree that is deeper than directories are held open, and whose paths are longer than a kernel takes.
func TestDeep(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	const name = "directory-in-the-depth"
	depth := testkit.Times(200, 400) // the time grows with its square
	fd, err := unix.Open(from, unix.O_PATH, 0)
	must(t, err)
	for i := range depth {
		must(t, unix.Mkdirat(fd, name, 0o755))
		must(t, unix.Symlinkat(fmt.Sprint(i), fd, "z"))
		next, err := unix.Openat(fd, name, unix.O_PATH, 0)
		unix.Close(fd)
		must(t, err)
		fd = next
	}
	unix.Close(fd)
	for _, byHand := range []bool{false, true} {
		r := open(t, from, options())
		r.byHand = byHand
		data := pack(t, r, "")
		r = open(t, to, options())
		r.byHand = byHand
		must(t, unpack(r, data, ""))
		if !bytes.Equal(data, pack(t, r, "")) {
			t.Error("what came out is not what went in")
		}
		if n := tarEntries(t, data); n != 2*depth+1 {
			t.Errorf("%d entries, want %d", n, 2*depth+1)
		}
	}
}

func tarEntries(t testing.TB, data []byte) int {
	n := 0
	for tr := tar.NewReader(bytes.NewReader(data)); ; n++ {
		_, err := tr.Next()
		if err == io.EOF {
			return n
		}
		must(t, err)
	}
}

func TestPackNames(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "d/e"), 0o751))
	must(t, os.WriteFile(filepath.Join(dir, "d/e/file"), []byte("one"), 0o751))
	must(t, os.Symlink("e/file", filepath.Join(dir, "d/link")))
	must(t, os.Symlink("d", filepath.Join(dir, "l")))
	must(t, os.Symlink("/d/../../l/e", filepath.Join(dir, "m")))
	ways(t, func(t *testing.T, open func(string, Options) *Root) {
		r := open(dir, Options{})
		for path, want := range map[string]string{
			"": "./ d/ d/e/ d/e/file d/link l m", "d": "./ e/ e/file link", "d/e/": "./ file", "d/e/file": "file", "d/link": "link", "l": "l",
			"l/e": "./ file", "m/file": "file", "x/../d/e": "./ file",
		} {
			var names []string
			for tr := tar.NewReader(bytes.NewReader(pack(t, r, path))); ; {
				h, err := tr.Next()
				if err == io.EOF {
					break
				}
				must(t, err)
				names = append(names, h.Name)
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%q gives %q, want %q", path, got, want)
			}
		}
		for _, path := range []string{"x", "d/x", "d/e/file/x", "l/x", "m/e"} {
			var b bytes.Buffer
			if err := r.Pack(t.Context(), path, &b); !sdk.IsNotFound(err, sdk.KindFile) || b.Len() > 0 {
				t.Errorf("%q: %v and %d bytes", path, err, b.Len())
			}
		}
		for _, path := range []string{"..", "../d", "d/../../x", "/", "/d", "a\x00b", strings.Repeat("a/", maxName)} {
			var b bytes.Buffer
			wantError(t, r.Pack(t.Context(), path, &b), sdk.Invalid, sdk.ReasonPath)
			wantError(t, unpack(r, archive(t), path), sdk.Invalid, sdk.ReasonPath)
			if b.Len() > 0 {
				t.Errorf("%q gave %d bytes", path, b.Len())
			}
		}
	})
}

// TestRoundTripOfAnything takes random trees around.
func TestRoundTripOfAnything(t *testing.T) {
	root := os.Geteuid() == 0
	rapid.Check(t, func(rt *rapid.T) {
		from, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		to, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		defer os.RemoveAll(from)
		defer os.RemoveAll(to)
		dirs, files := []string{from}, []string(nil)
		for i := range rapid.IntRange(0, 25).Draw(rt, "entries") {
			name := filepath.Join(rapid.SampledFrom(dirs).Draw(rt, "in"), fmt.Sprint(i, rapid.StringMatching(`[a-z\xff é=%\n.-]{0,60}`).Draw(rt, "name")))
			switch kind := rapid.IntRange(0, 5).Draw(rt, "kind"); kind {
			case 0:
				must(t, os.Mkdir(name, 0o700))
				dirs = append(dirs, name)
			case 1:
				must(t, os.Symlink(rapid.StringMatching(`[a-z./]{1,200}`).Draw(rt, "target"), name))
				files = append(files, name)
			case 2:
				must(t, unix.Mkfifo(name, 0o600))
				files = append(files, name)
			case 3:
				if len(files) > 0 {
					must(t, os.Link(rapid.SampledFrom(files).Draw(rt, "of"), name))
				}
			default:
				f, err := os.Create(name)
				must(t, err)
				for range rapid.IntRange(0, 4).Draw(rt, "pieces") {
					_, err = f.WriteAt(rapid.SliceOfN(rapid.Byte(), 1, 3000).Draw(rt, "data"), rapid.Int64Range(0, 300_000).Draw(rt, "at"))
					must(t, err)
				}
				must(t, f.Close())
				files = append(files, name)
			}
		}
		for _, name := range append(files, dirs...) {
			info, err := os.Lstat(name)
			must(t, err)
			if root {
				must(t, os.Lchown(name, rapid.IntRange(0, 1<<32-2).Draw(rt, "uid"), rapid.IntRange(0, 1<<32-2).Draw(rt, "gid")))
			}
			if info.Mode().Type() != os.ModeSymlink {
				must(t, unix.Chmod(name, rapid.Uint32Range(0, 0o7777).Draw(rt, "mode")|0o700))
			}
			at := unix.Timespec{Sec: rapid.Int64Range(-1<<31, 1<<33).Draw(rt, "sec"), Nsec: rapid.Int64Range(0, 999999999).Draw(rt, "nsec")}
			must(t, unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
		}
		want := lookAt(t, from)
		r := open(t, to, options())
		r.byHand = rapid.Bool().Draw(rt, "by hand")
		must(t, unpack(r, pack(t, open(t, from, Options{}), ""), ""))
		sameTree(t, lookAt(t, to), want)
	})
}

// TestMemoryOfManyFiles packs many files and looks at what stays in memory.
func TestMemoryOfManyFiles(t *testing.T) {
	r := open(t, t.TempDir(), options())
	files := testkit.Times(600, 3000)
	var ents []ent
	for i := range files {
		f := reg(fmt.Sprintf("d/%04d", i), fmt.Sprint(i))
		f.ModTime = time.Unix(1e9, int64(i))
		ents = append(ents, f)
		if i%2 == 0 {
			ents = append(ents, hard(fmt.Sprintf("d/%04d-too", i), f.Name))
		}
	}
	must(t, unpack(r, archive(t, ents...), ""))
	var out bytes.Buffer
	p := &packing{ctx: context.Background(), tar: tar.NewWriter(&out), links: make(map[inode]linked), buf: make([]byte, bufSize)}
	h, err := r.hold()
	must(t, err)
	defer h.close()
	p.top = *h
	must(t, p.dir(h.fd, "", 0))
	must(t, p.tar.Close())
	if len(p.links) != 0 {
		t.Errorf("%d files are remembered after all of their names were packed", len(p.links))
	}
	if n := tarEntries(t, out.Bytes()); n != files+files/2+2 {
		t.Errorf("%d entries", n)
	}
}
