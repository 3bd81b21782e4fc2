package volumetar

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// TestUnpackIntoWhatIsThere holds what an archive may replace, and what it may not do. Beside the tree there is a canary, which no
// case may touch.
func TestUnpackIntoWhatIsThere(t *testing.T) {
	const archiveFault = sdk.ReasonArchive
	deeper := strings.Repeat("../", 40)
	for _, c := range []struct {
		name string
		ents []ent
		path string
		want sdk.Reason        // of an Invalid; empty: it works
		see  map[string]string // path → content, or -> target; CANARY is the canary's directory
	}{
		{name: "parents are made", ents: []ent{reg("x/y/z", "1")}, path: "p/q", see: map[string]string{"p/q/x/y/z": "1"}},
		{name: "nothing but an end", path: "p/q", see: map[string]string{"f": "old"}},
		{name: "file replaces file", ents: []ent{reg("f", "new")}, see: map[string]string{"f": "new", "g": "old"}},
		{name: "file replaces symlink", ents: []ent{reg("tof", "new")}, see: map[string]string{"tof": "new", "f": "old"}},
		{name: "file replaces fifo", ents: []ent{reg("fifo", "new")}, see: map[string]string{"fifo": "new"}},
		{name: "fifo replaces file", ents: []ent{{Header: tar.Header{Typeflag: tar.TypeFifo, Name: "f"}}}, see: map[string]string{"g": "old"}},
		{name: "symlink replaces file", ents: []ent{sym("f", "g")}, see: map[string]string{"f": "-> g"}},
		{name: "dir replaces symlink", ents: []ent{folder("tod"), reg("tod/n", "n")}, see: map[string]string{"tod/n": "n", "d/x": "x"}},
		{name: "dir is merged", ents: []ent{folder("d"), reg("d/n", "n")}, see: map[string]string{"d/n": "n", "d/x": "x"}},
		{name: "hard link replaces", ents: []ent{reg("n", "n"), hard("f", "n")}, see: map[string]string{"f": "n", "g": "old"}},
		{name: "hard link to itself", ents: []ent{hard("g", "f"), hard("f", "f")}, see: map[string]string{"f": "old", "g": "old"}},
		{name: "hard link below a path", ents: []ent{reg("n", "n"), hard("m", "/n")}, path: "p", see: map[string]string{"p/m": "n"}},
		{name: "hard link to a symlink is one to it", ents: []ent{sym("s", "CANARY/canary"), hard("h", "s"), reg("h", "new")},
			see: map[string]string{"h": "new", "s": "-> CANARY/canary"}},
		{name: "absolute names", ents: []ent{reg("/etc/x", "1")}, path: "p", see: map[string]string{"p/etc/x": "1"}},
		{name: "absolute name of the canary", ents: []ent{reg("CANARY/canary", "1")}, see: map[string]string{"CANARY/canary": "1"}},
		{name: "dots inside", ents: []ent{reg("./a/../b/./c", "1")}, see: map[string]string{"b/c": "1"}},
		{name: "into the root of a path", ents: []ent{folder("./"), reg("./n", "1")}, path: "d", see: map[string]string{"d/n": "1", "d/x": "x"}},
		{name: "dir over a symlink to outside, and a file", ents: []ent{sym("s", "CANARY"), folder("s"), reg("s/canary", "1")}, see: map[string]string{"s/canary": "1"}},
		{name: "file over a symlink to outside", ents: []ent{sym("s", "CANARY/canary"), reg("s", "1")}, see: map[string]string{"s": "1"}},
		{name: "mode over a symlink to outside", ents: []ent{sym("s", "CANARY"), {Header: tar.Header{Typeflag: tar.TypeDir, Name: "s", Mode: 0o777}}}},

		{name: "file over dir", ents: []ent{reg("d", "x")}, want: archiveFault},
		{name: "symlink over dir", ents: []ent{sym("d", "f")}, want: archiveFault},
		{name: "hard link over dir", ents: []ent{hard("d", "f")}, want: archiveFault},
		{name: "fifo over dir", ents: []ent{{Header: tar.Header{Typeflag: tar.TypeFifo, Name: "d"}}}, want: archiveFault},
		{name: "file over the root", ents: []ent{reg(".", "x")}, want: archiveFault},
		{name: "dir over file", ents: []ent{folder("f")}, want: archiveFault},
		{name: "dir over fifo", ents: []ent{folder("fifo")}, want: archiveFault},
		{name: "below a file", ents: []ent{reg("f/x", "x")}, want: archiveFault},
		{name: "out by dots", ents: []ent{reg("../x", "x")}, want: archiveFault},
		{name: "out by dots in the middle", ents: []ent{reg("a/../../x", "x")}, want: archiveFault},
		{name: "out by dots from a path", ents: []ent{reg("../f", "x")}, path: "d", want: archiveFault},
		{name: "out to the canary", ents: []ent{reg(deeper+"CANARY/canary", "x")}, want: archiveFault},
		{name: "the root above", ents: []ent{folder("..")}, want: archiveFault},
		{name: "through a symlink that is there", ents: []ent{reg("tod/y", "x")}, want: archiveFault},
		{name: "through a symlink it brings", ents: []ent{sym("s", "CANARY"), reg("s/canary", "x")}, want: archiveFault},
		{name: "through a relative symlink", ents: []ent{sym("s", deeper+"CANARY"), reg("s/escaped", "x")}, want: archiveFault},
		{name: "through a symlink to a symlink", ents: []ent{sym("s", "CANARY"), sym("m", "s"), reg("m/escaped", "x")}, want: archiveFault},
		{name: "through a symlink to inside", ents: []ent{sym("s", "d"), reg("s/x", "x")}, want: archiveFault},
		{name: "far through a symlink", ents: []ent{sym("s", "CANARY"), reg("s/sub/canary", "x")}, want: archiveFault},
		{name: "far through a relative symlink", ents: []ent{sym("s", deeper+"CANARY"), folder("s/sub/escaped")}, want: archiveFault},
		{name: "hard link far through a symlink", ents: []ent{sym("s", "CANARY"), hard("h", "s/sub/canary")}, want: archiveFault},
		{name: "dir through a symlink", ents: []ent{sym("s", "CANARY"), folder("s/escaped")}, want: archiveFault},
		{name: "symlink through a symlink", ents: []ent{sym("s", "CANARY"), sym("s/escaped", "x")}, want: archiveFault},
		{name: "fifo through a symlink", ents: []ent{sym("s", "CANARY"), {Header: tar.Header{Typeflag: tar.TypeFifo, Name: "s/escaped"}}}, want: archiveFault},
		{name: "hard link below a symlink", ents: []ent{sym("s", "CANARY"), hard("s/escaped", "f")}, want: archiveFault},
		{name: "after a directory that became known", ents: []ent{folder("e"), reg("e/x", "1"), sym("e", "CANARY")}, want: archiveFault},
		{name: "hard link out", ents: []ent{hard("h", deeper+"CANARY/canary"), reg("h", "x")}, want: archiveFault},
		{name: "hard link to an absolute path", ents: []ent{hard("h", "CANARY/canary"), reg("h", "x")}, want: archiveFault},
		{name: "hard link through a symlink", ents: []ent{sym("s", "CANARY"), hard("h", "s/canary")}, want: archiveFault},
		{name: "hard link to nothing", ents: []ent{hard("h", "no/such")}, want: archiveFault},
		{name: "hard link to a dir", ents: []ent{hard("h", "d")}, want: archiveFault},
		{name: "hard link to the root", ents: []ent{hard("h", ".")}, want: archiveFault},
		{name: "name too long", ents: []ent{reg(strings.Repeat("n", 256), "x")}, want: archiveFault},
		{name: "path too long", ents: []ent{reg(strings.Repeat("n/", 9000)+"n", "x")}, want: archiveFault},
		{name: "target too long", ents: []ent{sym("s", strings.Repeat("n", 4096))}, want: archiveFault},
		{name: "no target", ents: []ent{sym("s", "")}, want: archiveFault},
		{name: "other type", ents: []ent{{Header: tar.Header{Typeflag: 'Z', Name: "z"}}}, want: archiveFault},
		{name: "no such device", ents: []ent{{Header: tar.Header{Typeflag: tar.TypeChar, Name: "z", Devmajor: 1 << 12}}}, want: archiveFault},
		{name: "owner out of range", ents: []ent{{Header: tar.Header{Typeflag: tar.TypeReg, Name: "z", Uid: -1, Format: tar.FormatGNU}}}, want: archiveFault},
		{name: "owner that means none", ents: []ent{{Header: tar.Header{Typeflag: tar.TypeReg, Name: "z", Gid: 1<<32 - 1}}}, want: archiveFault},

		{name: "path to outside", ents: []ent{reg("x", "x")}, path: "out", want: sdk.ReasonPath},
		{name: "path through outside", ents: []ent{reg("x", "x")}, path: "out/sub", want: sdk.ReasonPath},
		{name: "path through a symlink", ents: []ent{reg("x", "x")}, path: "tod", want: sdk.ReasonPath},
		{name: "path is a file", ents: []ent{reg("x", "x")}, path: "f", want: sdk.ReasonPath},
		{name: "path below a file", ents: []ent{reg("x", "x")}, path: "f/x", want: sdk.ReasonPath},
		{name: "path with a long name", ents: []ent{reg("x", "x")}, path: strings.Repeat("n", 256), want: sdk.ReasonPath},
	} {
		t.Run(c.name, func(t *testing.T) {
			ways(t, func(t *testing.T, open func(string, Options) *Root) {
				outside := t.TempDir()
				must(t, os.WriteFile(filepath.Join(outside, "canary"), []byte("sings"), 0o640))
				must(t, os.Mkdir(filepath.Join(outside, "sub"), 0o750))
				must(t, os.WriteFile(filepath.Join(outside, "sub/canary"), []byte("sings too"), 0o640))
				must(t, os.Chmod(outside, 0o750))
				before := lookAt(t, outside)
				dir := t.TempDir()
				in := func(name string) string { return filepath.Join(dir, strings.ReplaceAll(name, "CANARY", outside)) }
				must(t, os.WriteFile(in("f"), []byte("old"), 0o644))
				must(t, os.Link(in("f"), in("g")))
				must(t, os.Symlink("f", in("tof")))
				must(t, os.Symlink("d", in("tod")))
				must(t, os.Symlink(outside, in("out")))
				must(t, os.Mkdir(in("d"), 0o700))
				must(t, os.WriteFile(in("d/x"), []byte("x"), 0o644))
				must(t, unix.Mkfifo(in("fifo"), 0o600))
				ents := slices.Clone(c.ents)
				for i := range ents {
					ents[i].Name = strings.ReplaceAll(ents[i].Name, "CANARY", outside)
					ents[i].Linkname = strings.ReplaceAll(ents[i].Linkname, "CANARY", outside)
				}
				err := unpack(open(dir, Options{DropOwners: true}), archive(t, ents...), c.path)
				sameTree(t, lookAt(t, outside), before)
				if c.want == "" {
					must(t, err)
				} else {
					wantError(t, err, sdk.Invalid, c.want)
					if got, err := os.ReadFile(in("g")); err != nil || string(got) != "old" {
						t.Errorf("the other name of f holds %q (%v)", got, err)
					}
				}
				for name, want := range c.see {
					if target, ok := strings.CutPrefix(want, "-> "); ok {
						got, err := os.Readlink(in(name))
						if err != nil || got != strings.ReplaceAll(target, "CANARY", outside) {
							t.Errorf("%q is a link to %q (%v), want %q", name, got, err, target)
						}
						continue
					}
					info, err := os.Lstat(in(name))
					must(t, err)
					got, err := os.ReadFile(in(name))
					if err != nil || string(got) != want || !info.Mode().IsRegular() {
						t.Errorf("%q holds %q (%v), want %q", name, got, err, want)
					}
				}
			})
		})
	}
}

func TestUnpackDamaged(t *testing.T) {
	whole := archive(t, folder("d"), reg("d/f", strings.Repeat("x", 3*bufSize+5)), reg("g", strings.Repeat("\x00", 1024)))
	end := len(whole) - 1024
	flip := slices.Clone(whole)
	flip[512+100]++ // in the second header
	liar := archive(t, reg("g", "x"))
	copy(liar[124:136], "77777777777\x00")
	short := archive(t, reg("f", "1"))
	pax := ent{tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("p", 200), Format: tar.FormatPAX}, "x"}
	evil := archive(t, pax)
	evil = bytes.Replace(evil, bytes.Repeat([]byte("p"), 200), append([]byte("../"), bytes.Repeat([]byte("p"), 197)...), 1)
	for name, data := range map[string][]byte{
		"before the marker, after padding": short[:1024], "empty": nil, "one byte": {1}, "in a header": whole[:700], "in a file": whole[:100000],
		"before the marker": whole[:end], "after a file of zeros": whole[:end-512], "garbage": bytes.Repeat([]byte("garbage!"), 200), "header flipped": flip,
		"size lies": liar, "gzip": append([]byte{0x1f, 0x8b}, make([]byte, 2000)...), "PAX path leaves": evil,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			wantError(t, unpack(open(t, dir, Options{DropOwners: true}), data, "p"), sdk.Invalid, sdk.ReasonArchive)
			all := lookAt(t, dir)
			delete(all, "p/g") // was whole
			for name, l := range all {
				if l.Type == unix.S_IFREG && l.Size != 3*bufSize+5 && name != "p/f" {
					t.Errorf("half a file is left at %q: %+v", name, l)
				}
			}
		})
	}
	for name, data := range map[string][]byte{
		"as it is": whole, "more zeros": append(slices.Clone(whole), make([]byte, 9<<10)...), "one zero block": whole[:end+512],
		"garbage behind": append(slices.Clone(whole), "garbage"...), "marker only": make([]byte, 1024),
	} {
		t.Run(name, func(t *testing.T) {
			r := bytes.NewReader(data)
			must(t, open(t, t.TempDir(), Options{DropOwners: true}).Unpack(t.Context(), "", r))
			if r.Len() != 0 {
				t.Errorf("%d bytes were not read", r.Len())
			}
		})
	}
}

// TestDialects reads what other programs write: V7, ustar, GNU with long names, PAX with a global header.
func TestDialects(t *testing.T) {
	long := strings.Repeat("directory/", 20) + strings.Repeat("f", 120)
	for _, f := range []tar.Format{tar.FormatUSTAR, tar.FormatPAX, tar.FormatGNU} {
		t.Run(f.String(), func(t *testing.T) {
			ents := []ent{reg("dir/file", "text"), sym("link", "dir/file")}
			if f != tar.FormatUSTAR {
				ents = append(ents, reg(long, "long"), sym("long", long))
			}
			for i := range ents {
				ents[i].Format = f
			}
			if f == tar.FormatPAX {
				ents = append([]ent{{Header: tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}}}, ents...)
			}
			dir := t.TempDir()
			must(t, unpack(open(t, dir, Options{DropOwners: true}), archive(t, ents...), ""))
			for name, want := range map[string]string{"link": "text", "long": "long"} {
				if got, err := os.ReadFile(filepath.Join(dir, name)); (err != nil || string(got) != want) && (name == "link" || f != tar.FormatUSTAR) {
					t.Errorf("%s holds %q (%v)", name, got, err)
				}
			}
		})
	}
	t.Run("v7", func(t *testing.T) {
		dir := t.TempDir()
		b := block(0, "d/f", 0o755, 4)
		copy(b[148:], "        ")
		for i := range 8 { // no magic
			b[257+i] = 0
		}
		sum := 0
		for _, c := range b {
			sum += int(c)
		}
		copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
		b = append(append(b, "text"...), make([]byte, 508+1024)...)
		must(t, unpack(open(t, dir, Options{DropOwners: true}), b, ""))
		if got, err := os.ReadFile(filepath.Join(dir, "d/f")); err != nil || string(got) != "text" {
			t.Errorf("got %q (%v)", got, err)
		}
	})
}

func TestErrorsOfOthersComeBack(t *testing.T) {
	mine := errors.New("mine")
	from := t.TempDir()
	must(t, os.WriteFile(filepath.Join(from, "f"), bytes.Repeat([]byte("x"), 3*bufSize), 0o644))
	from2 := open(t, from, Options{})
	data := pack(t, from2, "")
	r := open(t, t.TempDir(), options())
	for _, n := range []int{0, 100, 512, 700, 50000, len(data) - 600, len(data)} {
		src := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(mine))
		if err := r.Unpack(t.Context(), "", src); err != mine {
			t.Errorf("reader fails after %d bytes: %v", n, err)
		}
		if err := from2.Pack(t.Context(), "", &failing{n, mine}); n < len(data) && err != mine {
			t.Errorf("writer fails after %d bytes: %v", n, err)
		}
		if err := from2.ReadFile(t.Context(), "f", 0, -1, &failing{n, mine}); n < 3*bufSize && err != mine {
			t.Errorf("writer of a file fails after %d bytes: %v", n, err)
		}
	}
	if err := from2.List(t.Context(), "", func(sdk.FileInfo) error { return mine }); err != mine {
		t.Errorf("emit fails: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, statErr := r.Stat(ctx, "f")
	for what, err := range map[string]error{
		"unpack": r.Unpack(ctx, "", bytes.NewReader(data)), "pack": from2.Pack(ctx, "", io.Discard), "read": from2.ReadFile(ctx, "f", 0, -1, io.Discard),
		"list": from2.List(ctx, "", func(sdk.FileInfo) error { return nil }), "stat": statErr,
	} {
		if err != context.Canceled {
			t.Errorf("%s with a context that has ended: %v", what, err)
		}
	}
	for _, n := range []int{0, 1, 600, 200000} { // the reader hangs when it is cancelled
		ctx, cancel := context.WithCancel(t.Context())
		pr, pw := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- r.Unpack(ctx, "", pr) }()
		_, err := pw.Write(data[:n]) // returns once it was read
		must(t, err)
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("cancelled after %d bytes: %v", n, err)
		}
		pw.Close()
	}
	ctx, cancel = context.WithCancel(t.Context())
	err := from2.Pack(ctx, "", writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }))
	if err != context.Canceled {
		t.Errorf("pack cancelled by its writer: %v", err)
	}
}

type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left < len(p) {
		return f.left, f.err
	}
	f.left -= len(p)
	return len(p), nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestLimits(t *testing.T) {
	data := archive(t, reg("a", "12345"), reg("b", "12345"))
	must(t, unpack(open(t, t.TempDir(), Options{DropOwners: true, MaxBytes: 10, MaxEntries: 2}), data, ""))
	wantError(t, unpack(open(t, t.TempDir(), Options{DropOwners: true, MaxBytes: 9}), data, ""), sdk.Invalid, sdk.ReasonTooLarge)
	wantError(t, unpack(open(t, t.TempDir(), Options{DropOwners: true, MaxEntries: 1}), data, ""), sdk.Invalid, sdk.ReasonTooLarge)

	fifo := ent{tar.Header{Typeflag: tar.TypeFifo, Name: "fifo"}, ""}
	null := ent{tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, ""}
	r := open(t, t.TempDir(), Options{DropOwners: true, NoDevices: true})
	must(t, unpack(r, archive(t, fifo), ""))
	err := unpack(r, archive(t, null), "")
	if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Class != sdk.Unsupported || e.Feature != sdk.FeatureTarDevices {
		t.Errorf("got %v", err)
	}
	attr := reg("f", "x")
	attr.PAXRecords = map[string]string{"SCHILY.xattr.user.x": strings.Repeat("x", 1<<17)} // more than a kernel takes
	err = unpack(r, archive(t, attr), "")
	if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Class != sdk.Unsupported || e.Feature != sdk.FeatureTarXattrs {
		t.Errorf("got %v", err)
	}
	attr.PAXRecords = map[string]string{"SCHILY.xattr.user.x": strings.Repeat("x", 1<<16)} // more than ext4 has room for
	if err = unpack(r, archive(t, attr), ""); err != nil && sdk.ClassOf(err) != sdk.Unsupported {
		t.Errorf("got %v", err)
	}
	attr.PAXRecords = map[string]string{"SCHILY.xattr.security.selinux": "label", "SCHILY.xattr.user.overlay.redirect": "/", "SCHILY.xattr.user.kept": "v"}
	dir := t.TempDir()
	must(t, unpack(open(t, dir, Options{DropOwners: true}), archive(t, attr), ""))
	if got := lookAt(t, dir)["f"].Xattrs; len(got) != 1 || got["user.kept"] != "v" {
		t.Errorf("the attributes are %q", got)
	}
}

// TestDropOwners looks at what becomes of owners and of bits that lend rights.
func TestDropOwners(t *testing.T) {
	uid, gid := os.Geteuid(), os.Getegid()
	mine, other := reg("mine", ""), reg("other", "")
	mine.Mode, mine.Uid, mine.Gid = 0o6755, uid, gid
	other.Mode, other.Uid, other.Gid = 0o7755, uid+1, gid+1
	d := folder("d")
	d.Uid = uid + 1
	dir := t.TempDir()
	must(t, unpack(open(t, dir, Options{DropOwners: true}), archive(t, d, mine, other), ""))
	all := lookAt(t, dir)
	for name, mode := range map[string]uint32{"mine": 0o6755, "other": 0o1755, "d": 0o755} {
		if l := all[name]; int(l.UID) != uid || int(l.GID) != gid || l.Mode != mode {
			t.Errorf("%s is %d:%d %o, want %d:%d %o", name, l.UID, l.GID, l.Mode, uid, gid, mode)
		}
	}
	err := unpack(open(t, dir, Options{}), archive(t, other), "")
	if uid != 0 {
		wantError(t, err, sdk.Internal, "")
		return
	}
	must(t, err)
	if l := lookAt(t, dir)["other"]; l.UID != 1 || l.GID != 1 || l.Mode != 0o7755 {
		t.Errorf("kept, it is %d:%d %o", l.UID, l.GID, l.Mode)
	}
}

// TestReadOnlyDirectories unpacks into directories that nobody may write to once they are done.
func TestReadOnlyDirectories(t *testing.T) {
	d, e := folder("d"), folder("d/e")
	d.Mode, e.Mode = 0o555, 0o500
	d.ModTime, e.ModTime = time.Unix(1e9, 5), time.Unix(2e9, 6)
	dir := t.TempDir()
	r := open(t, dir, Options{DropOwners: true})
	for range 2 {
		must(t, unpack(r, archive(t, d, e, reg("d/e/f", "x"), reg("d/late", "x")), ""))
		all := lookAt(t, dir)
		if all["d"].Mode != 0o555 || all["d/e"].Mode != 0o500 || all["d"].MTime != "1000000000.000000000" || all["d/e"].MTime != "2000000000.000000000" {
			t.Errorf("got %+v and %+v", all["d"], all["d/e"])
		}
	}
	must(t, os.Chmod(filepath.Join(dir, "d"), 0o700)) // so that it can be removed
	must(t, os.Chmod(filepath.Join(dir, "d/e"), 0o700))
}

func TestDefaultACL(t *testing.T) {
	// user::rwx, user:1234:rwx, group::r-x, mask::rwx, other::r-x
	const acl = "\x02\x00\x00\x00\x01\x00\x07\x00\xff\xff\xff\xff\x02\x00\x07\x00\xd2\x04\x00\x00\x04\x00\x05\x00\xff\xff\xff\xff\x10\x00\x07\x00\xff\xff\xff\xff\x20\x00\x05\x00\xff\xff\xff\xff"
	from, to := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(from, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(from, "d/plain"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(from, "d/with"), nil, 0o644))
	must(t, unix.Lsetxattr(filepath.Join(from, "d"), xattrDefaultACL, []byte(acl), 0))
	must(t, unix.Lsetxattr(filepath.Join(from, "d/with"), "system.posix_acl_access", []byte(acl), 0))
	must(t, unpack(open(t, to, options()), pack(t, open(t, from, Options{}), ""), ""))
	sameTree(t, lookAt(t, to), lookAt(t, from))
}
