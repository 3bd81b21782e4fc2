package volumetar

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestSwaps unpacks, packs and reads while somebody in the tree swaps directories and files for links to a canary outside.
func TestSwaps(t *testing.T) {
	ways(t, func(t *testing.T, open func(string, Options) *Root) {
		outside, dir := t.TempDir(), t.TempDir()
		must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("sings"), 0o640))
		must(t, os.Mkdir(filepath.Join(outside, "sub"), 0o751))
		must(t, os.WriteFile(filepath.Join(outside, "sub/f"), []byte("sings"), 0o604))
		before := lookAt(t, outside)

		in := func(name string) string { return filepath.Join(dir, name) }
		for _, d := range []string{"a", "b", "real"} {
			must(t, os.MkdirAll(in(d+"/sub"), 0o755))
			must(t, os.WriteFile(in(d+"/f"), []byte("in the tree"), 0o644))
		}
		var stop atomic.Bool
		var swaps atomic.Int64
		var swapping sync.WaitGroup
		defer swapping.Wait()
		defer stop.Store(true)
		isLink := func(name string) bool {
			info, err := os.Lstat(name)
			return err == nil && info.Mode().Type() == os.ModeSymlink
		}
		for _, name := range []string{"a", "b", "real/f", "real/sub"} {
			target, evil := outside, in("evil-"+strings.ReplaceAll(name, "/", "-"))
			if name == "real/f" {
				target = filepath.Join(outside, "f")
			}
			swapping.Go(func() {
				for !stop.Load() {
					if !isLink(evil) && !isLink(in(name)) { // an entry has replaced it
						os.RemoveAll(evil)
						os.Symlink(target, evil)
					}
					if unix.Renameat2(unix.AT_FDCWD, in(name), unix.AT_FDCWD, evil, unix.RENAME_EXCHANGE) == nil {
						swaps.Add(1)
					}
				}
			})
		}
		var ents []ent
		for i := range 8 {
			for _, d := range []string{"a", "b", "a/sub", "b/sub", "real", "real/sub"} {
				ents = append(ents, reg(d+"/f", "escaped"), folder(fmt.Sprintf("%s/d%d", d, i)), sym(fmt.Sprintf("%s/s%d", d, i), "x"), hard(fmt.Sprintf("%s/h%d", d, i), d+"/f"))
				ents[len(ents)-4].Mode = 0o666
				fifo := ent{tar.Header{Typeflag: tar.TypeFifo, Name: fmt.Sprintf("%s/p%d", d, i), Mode: 0o666}, ""}
				attr := reg(d+"/f", "escaped")
				attr.PAXRecords = map[string]string{"SCHILY.xattr.user.escaped": "1"}
				ents = append(ents, fifo, attr, folder(d))
			}
		}
		r := open(dir, Options{DropOwners: true})
		done, tries := 0, 0
		for tries < testkit.Times(len(ents)/2, 600) || swaps.Load() < 100 || done == 0 || done == tries { // until both ends of the race were met
			e := ents[tries%len(ents)]
			tries++
			if unpack(r, archive(t, e), "") == nil { // one at a time: most are refused
				done++
			}
			switch tries % 50 {
			case 1:
				var b bytes.Buffer
				r.Pack(t.Context(), "", &b)
				r.Pack(t.Context(), "a/f", &b)
				r.Pack(t.Context(), "real/f", &b)
				if bytes.Contains(b.Bytes(), []byte("sings")) {
					t.Fatal("a file from outside came out in an archive")
				}
			case 2:
				var b bytes.Buffer
				for _, name := range []string{"a/f", "b/sub/f", "real/f", "real/sub/f"} {
					r.ReadFile(t.Context(), name, 0, -1, &b)
				}
				if bytes.Contains(b.Bytes(), []byte("sings")) {
					t.Fatal("a file from outside was read")
				}
			}
		}
		t.Logf("%d of %d entries came in during %d swaps", done, tries, swaps.Load())
		sameTree(t, lookAt(t, outside), before)
	})
}

// TestSwapsWithinAnArchive is the same with many entries in one archive, whose directory is known from the entry before.
func TestSwapsWithinAnArchive(t *testing.T) {
	ways(t, func(t *testing.T, open func(string, Options) *Root) {
		outside, dir := t.TempDir(), t.TempDir()
		must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("sings"), 0o640))
		before := lookAt(t, outside)
		must(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
		must(t, os.Symlink(outside, filepath.Join(dir, "link")))
		n := 0
		swap := func() {
			n++
			must(t, unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "a"), unix.AT_FDCWD, filepath.Join(dir, "link"), unix.RENAME_EXCHANGE))
		}
		pr, pw := io.Pipe()
		go func() { // an error of Unpack ends it by the pipe
			tw := tar.NewWriter(pw)
			for i := range testkit.Times(500, 2000) {
				if i > 100 && i%2 == 0 {
					swap()
				}
				name := []string{"a/f", "a/g"}[i%2]
				if tw.WriteHeader(&tar.Header{Name: name, Mode: 0o666, Size: 7, Typeflag: tar.TypeReg}) != nil {
					break
				}
				io.WriteString(tw, "escaped")
				if tw.Flush() != nil {
					break
				}
			}
			pw.CloseWithError(tw.Close())
		}()
		r := open(dir, Options{DropOwners: true})
		err := r.Unpack(t.Context(), "", pr)
		pr.CloseWithError(io.ErrClosedPipe)
		if err != nil && sdk.ClassOf(err) != sdk.Invalid {
			t.Errorf("got %v", err)
		}
		sameTree(t, lookAt(t, outside), before)
	})
}

// TestPackWhileItChanges takes files away, and makes them longer and shorter, while they are packed.
func TestPackWhileItChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		class  sdk.Class
	}{
		"shrinks":    {func(t *testing.T, dir string) { must(t, os.Truncate(dir+"/d/a", bufSize+1)) }, sdk.FailedPrecondition},
		"grows":      {func(t *testing.T, dir string) { must(t, os.Truncate(dir+"/d/a", 5*bufSize)) }, sdk.FailedPrecondition},
		"is removed": {func(t *testing.T, dir string) { must(t, os.Remove(dir+"/d/a")) }, ""},
		"others go":  {func(t *testing.T, dir string) { must(t, os.Remove(dir+"/d/b")); must(t, os.RemoveAll(dir+"/d/e")) }, ""},
		"becomes pipe": {func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/d/b"))
			must(t, unix.Mkfifo(dir+"/d/b", 0o600))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.MkdirAll(dir+"/d/e/g", 0o755))
			must(t, os.WriteFile(dir+"/d/a", bytes.Repeat([]byte("a"), 4*bufSize), 0o644))
			must(t, os.WriteFile(dir+"/d/b", []byte("b"), 0o644))
			var b bytes.Buffer
			changed := false
			err := open(t, dir, Options{}).Pack(t.Context(), "", writerFunc(func(p []byte) (int, error) {
				if !changed {
					changed = true
					c.change(t, dir)
				}
				return b.Write(p)
			}))
			if !changed {
				t.Fatal("nothing was written while it was packed")
			}
			if c.class == "" {
				must(t, err)
				tarEntries(t, b.Bytes())
				return
			}
			wantError(t, err, c.class, sdk.ReasonInUse)
			if err := unpack(open(t, t.TempDir(), options()), b.Bytes(), ""); sdk.ClassOf(err) != sdk.Invalid {
				t.Errorf("what was written passes for whole: %v", err)
			}
		})
	}
	t.Run("is moved", func(t *testing.T) { // deep down, where directories do not stay open
		dir := t.TempDir()
		deep := dir
		for range maxHeld + 2 {
			deep += "/d"
		}
		must(t, os.MkdirAll(deep+"/x", 0o755))
		must(t, os.WriteFile(deep+"/x/a", bytes.Repeat([]byte("a"), 2*bufSize), 0o644))
		must(t, os.WriteFile(deep+"/y", nil, 0o644))
		moved := false
		err := open(t, dir, Options{}).Pack(t.Context(), "", writerFunc(func(p []byte) (int, error) {
			if !moved {
				moved = true
				must(t, os.Rename(deep, deep+"-elsewhere"))
				must(t, os.Mkdir(deep, 0o755))
			}
			return len(p), nil
		}))
		wantError(t, err, sdk.FailedPrecondition, sdk.ReasonInUse)
	})
}

// TestSpecialFiles holds that nothing blocks on a pipe nor opens a device, and that sockets are left out.
func TestSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mkfifo(dir+"/fifo", 0o600))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(fd)
	d, err := unix.Open(dir, unix.O_PATH, 0)
	must(t, err)
	defer unix.Close(d)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/socket", d)}))
	ways(t, func(t *testing.T, open func(string, Options) *Root) {
		r := open(dir, Options{})
		if n := tarEntries(t, pack(t, r, "")); n != 2 { // ./ and fifo
			t.Errorf("%d entries", n)
		}
		if n := tarEntries(t, pack(t, r, "fifo")); n != 1 {
			t.Errorf("%d entries", n)
		}
		var b bytes.Buffer
		wantError(t, r.Pack(t.Context(), "socket", &b), sdk.Invalid, sdk.ReasonPath)
		for _, name := range []string{"fifo", "socket", ""} {
			wantError(t, r.ReadFile(t.Context(), name, 0, -1, &b), sdk.Invalid, sdk.ReasonPath)
		}
		if err := r.List(t.Context(), "fifo", func(sdk.FileInfo) error { return nil }); !sdk.IsNotFound(err, sdk.KindFile) {
			t.Errorf("listing a pipe: %v", err)
		}
		if b.Len() > 0 {
			t.Errorf("%d bytes", b.Len())
		}
	})
}

func TestFullDisk(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	must(t, unix.Mount("volumetar", dir, "tmpfs", 0, "size=1m,nr_inodes=200"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	r := open(t, dir, Options{})
	err := unpack(r, archive(t, reg("small", "x"), reg("big", strings.Repeat("x", 2<<20))), "")
	wantError(t, err, sdk.Exhausted, sdk.ReasonStorage)
	all := lookAt(t, dir)
	if _, ok := all["big"]; ok || all["small"].Size != 1 {
		t.Errorf("left is %+v", all)
	}
	var many []ent
	for i := range 300 {
		many = append(many, folder(fmt.Sprint(i)))
	}
	wantError(t, unpack(r, archive(t, many...), ""), sdk.Exhausted, sdk.ReasonStorage)
	wantError(t, unpack(r, archive(t), "one/more"), sdk.Exhausted, sdk.ReasonStorage)
}

// TestOpenWithoutOpenat2 has the kernel refuse openat2, as filters in containers do.
func TestOpenWithoutOpenat2(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		t.Run(errno.Error(), func(t *testing.T) {
			out, err := runAgain(t, "TestRefused", nil, fmt.Sprintf("VOLUMETAR_REFUSE=%d", errno))
			if err != nil || !bytes.Contains(out, []byte("--- PASS: TestRefused")) {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// TestRefused is run by TestOpenWithoutOpenat2, in a process of its own.
func TestRefused(t *testing.T) {
	var errno uint32
	if fmt.Sscan(os.Getenv("VOLUMETAR_REFUSE"), &errno); errno == 0 {
		return
	}
	refuse(t, unix.SYS_OPENAT2, errno)
	dir := t.TempDir()
	r := open(t, dir, Options{DropOwners: true})
	if !r.byHand {
		t.Error("openat2 is believed to work")
	}
	must(t, unpack(r, archive(t, reg("d/f", "x"), sym("l", "/d")), ""))
	if _, err := r.Stat(t.Context(), "l/f"); err != nil {
		t.Error(err)
	}
}

// TestAsOrdinaryUser runs this package's tests again as a user who may do little.
func TestAsOrdinaryUser(t *testing.T) {
	needRoot(t)
	testkit.Soak(t, "runs the other tests once more")
	out, err := runAgain(t, "^(TestRoundTrip|TestUmask|TestGNUTar|TestPackNames|TestUnpack.*|TestLimits|TestDropOwners|TestReadOnlyDirectories|TestDefaultACL|TestSpecialFiles|TestFeatures|TestFiles|TestUnreadable)$",
		&syscall.Credential{Uid: 65534, Gid: 65534})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"TestRoundTrip", "TestUnreadable", "TestFeatures", "TestDropOwners"} {
		if !bytes.Contains(out, []byte("--- PASS: "+name+" ")) {
			t.Errorf("%s did not run:\n%s", name, out)
		}
	}
}

// TestUnreadable packs what this process may not read.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		return // TestAsOrdinaryUser runs it: root reads everything
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o000))
	wantError(t, open(t, dir, Options{}).Pack(context.Background(), "", io.Discard), sdk.Internal, "")
	f := reg("f", "")
	f.Uid = 1
	wantError(t, unpack(open(t, dir, Options{}), archive(t, f), ""), sdk.Internal, "")
	null := ent{tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, ""}
	wantError(t, unpack(open(t, dir, Options{DropOwners: true}), archive(t, null), ""), sdk.Unsupported, "")
}

// runAgain runs tests of this binary in a process of its own, as another user if there is one.
func runAgain(t *testing.T, tests string, as *syscall.Credential, env ...string) ([]byte, error) {
	t.Helper()
	dir := t.TempDir()
	temp := filepath.Join(dir, "tmp")
	must(t, os.Mkdir(temp, 0o777))
	for d := dir; as != nil && d != os.TempDir() && d != "/"; d = filepath.Dir(d) { // our own, closed to others
		must(t, os.Chmod(d, 0o755))
	}
	must(t, os.Chmod(temp, 0o777))
	binary, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	exe := filepath.Join(dir, "volumetar.test")
	must(t, os.WriteFile(exe, binary, 0o755))
	must(t, os.Chmod(exe, 0o755))
	cmd := exec.CommandContext(t.Context(), exe, "-test.v", "-test.run", tests)
	cmd.Env = append(os.Environ(), append(env, "TMPDIR="+temp)...)
	cmd.Dir = temp
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	return cmd.CombinedOutput()
}
