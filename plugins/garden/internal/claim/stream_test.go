//go:build linux

package claim

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing/iotest"

	"github.com/slipway-run/slipway/sdk"
)

var errOwn = errors.New("the caller's own")

// random is data that nothing compresses.
func random(n int) string {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return string(b)
}

func testStreams(b bench) {
	content := []entry{
		dir("d"), file("d/f", random(300_000)), file("empty", ""), dir("none"), symlink("away", "../../../etc/passwd"), symlink("abs", "/etc"), symlink("todir", "d"),
		hardlink("again", "d/f"), file("mode", "m").with(0o6751).owned(70000, 80000), file(strings.Repeat("n", 200), "long name"), file("-rf", "dash"), file("a\nb", "newline"),
		{name: "pipe", kind: tar.TypeFifo},
	}
	var trees []map[string]entry
	for _, encoding := range []string{"", "raw", "gzip", "zstd"} {
		id := b.volume()
		b.ok(b.s.StreamIn(b.ctx, id, sdk.StreamIn{Encoding: encoding}, bytes.NewReader(encode(b.T, encoding, pack(content...)))))
		var out bytes.Buffer
		b.ok(b.s.StreamOut(b.ctx, id, sdk.StreamOut{Encoding: encoding}, &out))
		got := b.unpack(bytes.NewReader(decode(b.T, encoding, out.Bytes())))
		// Which name of a file is the link is the server's choice.
		if got["again"].kind != tar.TypeLink {
			got["again"], got["d/f"] = entry{name: "again", kind: tar.TypeLink, link: "d/f"}, below("d", entry{name: "f", data: got["again"].data})
		}
		b.wantTree(got, content...)
		if m := got["mode"]; m.mode != 0o6751 || m.uid != 70000 || m.gid != 80000 || m.mtime != someTime {
			b.Errorf("as %q a file came out as %+v", encoding, m)
		}
		trees = append(trees, got)
	}
	if len(trees) != 4 {
		b.Fatal("not all encodings were tried")
	}

	for _, encoding := range []string{"raw", "gzip", "zstd"} {
		archive := encode(b.T, encoding, pack(file("slow", "by bytes")))
		id := b.volume()
		b.ok(b.s.StreamIn(b.ctx, id, sdk.StreamIn{Encoding: encoding}, iotest.OneByteReader(bytes.NewReader(archive))))
		b.wantTree(b.tree(id, ""), file("slow", "by bytes"))
		// What comes after the archive's end is read and means nothing.
		r := bytes.NewReader(encode(b.T, encoding, append(pack(file("first", "1")), make([]byte, 300_000)...)))
		b.ok(b.s.StreamIn(b.ctx, id, sdk.StreamIn{Encoding: encoding}, r))
		if r.Len() > 0 {
			b.Errorf("as %s %d bytes were not read", encoding, r.Len())
		}
	}
	id := b.volume()
	b.want(b.s.StreamIn(b.ctx, id, sdk.StreamIn{Encoding: "s2"}, bytes.NewReader(pack())), sdk.Invalid, sdk.ReasonEncoding)
	b.want(b.s.StreamOut(b.ctx, id, sdk.StreamOut{Encoding: "s2"}, new(bytes.Buffer)), sdk.Invalid, sdk.ReasonEncoding)
	b.ok(b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack())))
	b.wantTree(b.tree(id, ""))

	// Errors of the caller's come back as they are.
	archive := pack(file("a", random(300_000)))
	for _, encoding := range []string{"raw", "gzip", "zstd"} {
		encoded := encode(b.T, encoding, archive)
		for _, n := range []int{0, 100, 200_000} {
			r := io.MultiReader(bytes.NewReader(encoded[:n]), iotest.ErrReader(errOwn))
			if err := b.s.StreamIn(b.ctx, b.volume(), sdk.StreamIn{Encoding: encoding}, r); err != errOwn {
				b.Errorf("a reader's error after %d bytes of %s came back as %v", n, encoding, err)
			}
		}
	}
	id = b.filled(file("a", random(300_000)))
	for _, encoding := range []string{"raw", "gzip", "zstd"} {
		for _, n := range []int{0, 100, 200_000} {
			if err := b.s.StreamOut(b.ctx, id, sdk.StreamOut{Encoding: encoding}, &fullWriter{n}); err != errOwn {
				b.Errorf("a writer's error after %d bytes of %s came back as %v", n, encoding, err)
			}
		}
	}
	// A context that ends does not wait for a reader that hangs.
	for _, n := range []int{0, 1000, 200_000} {
		id := b.volume()
		pr, pw := io.Pipe()
		ctx, cancel := context.WithCancel(b.ctx)
		ended := make(chan error)
		go func() { ended <- streamIn(ctx, b.s, id, pr) }()
		pw.Write(archive[:n])
		cancel()
		if err := <-ended; err != context.Canceled {
			b.Errorf("cancelled after %d bytes: %v", n, err)
		}
		pw.CloseWithError(io.EOF)
		b.ok(b.s.DestroyVolume(b.ctx, id))
	}
	// Destroying ends a stream.
	doomed := b.volume()
	pr, pw := io.Pipe()
	ended := make(chan error)
	go func() { ended <- streamIn(b.ctx, b.s, doomed, pr) }()
	pw.Write(archive[:1000])
	b.ok(b.s.DestroyVolume(b.ctx, doomed))
	b.wantNotFound(<-ended, sdk.KindVolume)
	pw.Close()
	// Sealing waits for one.
	busy := b.volume()
	pr, pw = io.Pipe()
	go func() { ended <- streamIn(b.ctx, b.s, busy, pr) }()
	pw.Write(archive[:1000])
	sealed := make(chan error)
	go func() { sealed <- b.s.SealVolume(b.ctx, busy, nil) }()
	pw.Write(archive[1000:])
	pw.Close()
	b.ok(<-ended)
	b.ok(<-sealed)
	b.wantTree(b.tree(busy, ""), file("a", random(300_000)))
}

// fullWriter takes some bytes and then no more.
type fullWriter struct{ left int }

func (w *fullWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return w.left, errOwn
	}
	w.left -= len(p)
	return len(p), nil
}

func testPaths(b bench) {
	id := b.filled(file("above", "above"), dir("d"), file("d/file", "f").with(0o751), symlink("d/link", "file"), symlink("d/none", "nowhere"), symlink("d/up", ".."), symlink("d/abs", "/d"))
	in := func(p string, entries ...entry) error {
		return b.s.StreamIn(b.ctx, id, sdk.StreamIn{Path: p}, bytes.NewReader(pack(entries...)))
	}
	b.ok(in("new/path", dir("x"), file("x/y", "y"), file("z", "z")))
	b.wantTree(b.tree(id, "new/path"), dir("x"), file("x/y", "y"), file("z", "z"))
	b.wantTree(b.tree(id, "new/path/x"), file("y", "y"))
	b.wantTree(b.tree(id, "d/file"), file("file", "f"))
	if e := b.tree(id, "d/file")["file"]; e.mode != 0o751 {
		b.Errorf("one file came out as %+v", e)
	}
	b.wantTree(b.tree(id, "d/link"), symlink("link", "file"))
	b.wantTree(b.tree(id, "d/none"), symlink("none", "nowhere"))
	b.wantTree(b.tree(id, "d/up"), symlink("up", ".."))
	b.wantTree(b.tree(id, "d/up/above"), file("above", "above")) // links on the way stay inside
	b.wantTree(b.tree(id, "d/abs/file"), file("file", "f"))
	for _, p := range []string{"..", "../x", "a/../../x", "/", "/etc", "a\x00b"} {
		b.want(in(p, file("x", "x")), sdk.Invalid, sdk.ReasonPath)
		var out bytes.Buffer
		b.want(b.s.StreamOut(b.ctx, id, sdk.StreamOut{Path: p}, &out), sdk.Invalid, sdk.ReasonPath)
		if out.Len() > 0 {
			b.Errorf("path %q wrote %d bytes", p, out.Len())
		}
	}
	for _, p := range []string{"x", "d/x", "d/file/x", "d/file/x/y", "d/none/x", "above/x"} {
		var out bytes.Buffer
		b.wantNotFound(b.s.StreamOut(b.ctx, id, sdk.StreamOut{Path: p}, &out), sdk.KindFile)
		if out.Len() > 0 {
			b.Errorf("path %q wrote %d bytes", p, out.Len())
		}
	}
	b.want(in("d/file", file("x", "x")), sdk.Invalid, sdk.ReasonPath)
	b.want(in("d/file/x", file("x", "x")), sdk.Invalid, sdk.ReasonPath)
	for _, encoding := range []string{"zstd", "gzip"} {
		var out bytes.Buffer
		b.ok(b.s.StreamOut(b.ctx, id, sdk.StreamOut{Path: "d/up", Encoding: encoding}, &out))
		b.wantTree(b.unpack(bytes.NewReader(decode(b.T, encoding, out.Bytes()))), symlink("up", ".."))
	}
	for p, want := range map[string]bool{"": true, "d": true, "d/file": false, "d/up": false, "d/up/d": true, "none": false, "d/file/x": false} {
		got, err := b.s.IsDir(b.ctx, string(id), p)
		if err != nil || got != want {
			b.Errorf("IsDir(%q) is %v (%v)", p, got, err)
		}
	}
}

func testDamaged(b bench) {
	whole := pack(file("first", random(3000)), file("second", random(3000)))
	const second = 512 + 3072
	if string(whole[second:second+6]) != "second" {
		b.Fatal("the second header is somewhere else")
	}
	flipped := slices.Clone(whole)
	flipped[second] ^= 0x55
	for what, archive := range map[string][]byte{
		"empty":             nil,
		"cut in a header":   whole[:second+100],
		"cut in a file":     whole[:second+512+1000],
		"cut in padding":    whole[:512+3010],
		"cut between":       whole[:second],
		"without its end":   whole[:len(whole)-1024],
		"with a bad header": flipped,
		"no archive":        []byte(strings.Repeat("this is no archive; ", 200)),
	} {
		for _, encoding := range []string{"raw", "gzip", "zstd"} {
			err := b.s.StreamIn(b.ctx, b.volume(), sdk.StreamIn{Encoding: encoding}, bytes.NewReader(encode(b.T, encoding, archive)))
			if !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonArchive) {
				b.Errorf("an archive %s, as %s: %v (%s)", what, encoding, err, sdk.ClassOf(err))
			}
		}
	}
	for _, encoding := range []string{"gzip", "zstd"} {
		good := encode(b.T, encoding, whole)
		bad := slices.Clone(good)
		bad[len(bad)-2] ^= 0x55 // its checksum
		for what, data := range map[string][]byte{
			"empty": nil, "cut by half": good[:len(good)/2], "without the last byte": good[:len(good)-1], "followed by text": append(slices.Clone(good), "more text"...),
			"damaged": bad, "not encoded": whole,
		} {
			err := b.s.StreamIn(b.ctx, b.volume(), sdk.StreamIn{Encoding: encoding}, bytes.NewReader(data))
			if !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonArchive) {
				b.Errorf("%s %s: %v (%s)", encoding, what, err, sdk.ClassOf(err))
			}
		}
	}
	// What this package finds good and the server does not.
	id := b.filled(dir("d"), file("d/f", "f"))
	b.want(b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack(file("d", "a file in place of a directory")))), sdk.Invalid, sdk.ReasonArchive)
	b.want(b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack(file(strings.Repeat("n", 300), "a name that no file has")))), sdk.Invalid, sdk.ReasonArchive)
}

// canary is a directory on the server's machine that nothing may change.
func (b bench) canary() (dir string, check func(what string)) {
	dir = b.TempDir()
	// The servers' tar is another user there: let it write, if it comes so far.
	b.ok(os.Chmod(dir, 0o777))
	b.ok(os.Chmod(filepath.Dir(dir), 0o777))
	b.ok(os.WriteFile(filepath.Join(dir, "canary"), []byte("sings"), 0o666))
	b.ok(os.Chmod(filepath.Join(dir, "canary"), 0o666))
	return dir, func(what string) {
		b.Helper()
		names, err := os.ReadDir(dir)
		data, err2 := os.ReadFile(filepath.Join(dir, "canary"))
		info, err3 := os.Stat(filepath.Join(dir, "canary"))
		if err := errors.Join(err, err2, err3); err != nil {
			b.Fatalf("%s: %v", what, err)
		}
		if len(names) != 1 || string(data) != "sings" || info.Mode().Perm() != 0o666 {
			b.Fatalf("%s: outside the volume there is now %v, %q, %v", what, names, data, info.Mode())
		}
	}
}

func testHostile(b bench) {
	// Without this package the server does follow links: if it did not any more, the attacks below would prove nothing.
	reached, _ := b.canary()
	naked := b.volume()
	b.ok(b.s.put(b.ctx, string(naked), "", pack(symlink("l", reached))))
	b.ok(b.s.put(b.ctx, string(naked), "", pack(file("l/escaped", "x"))))
	_ = b.s.put(b.ctx, string(naked), "l/sub", pack()) // makes the directory, whatever comes of it
	for _, name := range []string{"escaped", "sub"} {
		if _, err := os.Stat(filepath.Join(reached, name)); err != nil {
			b.Errorf("this server does not follow links: %v", err)
		}
	}

	outside, check := b.canary()
	far := strings.Repeat("../", 40) + strings.TrimPrefix(outside, "/")
	type attack struct {
		what    string
		before  []entry // in an archive of their own; no defence of tar's knows of them
		entries []entry
		refused bool // else it may also be harmless
	}
	attacks := []attack{
		{"a name with dots", nil, []entry{file("../escaped", "x")}, true},
		{"a name with dots inside", nil, []entry{dir("a"), file("a/../../escaped", "x")}, true},
		{"a name far out", nil, []entry{file(far+"/canary", "x")}, true},
		{"just dots", nil, []entry{dir("..")}, true},
		{"an absolute name", nil, []entry{file(outside+"/canary", "x")}, false},
		{"a hard link out", nil, []entry{hardlink("h", far+"/canary"), file("h", "x")}, true},
		{"a hard link to an absolute name", nil, []entry{hardlink("h", outside+"/canary"), file("h", "x")}, false},
	}
	for _, target := range []string{outside, far} {
		attacks = append(attacks,
			attack{"a file below a link", nil, []entry{symlink("l", target), file("l/escaped", "x"), file("l/canary", "x")}, true},
			attack{"a directory below a link", nil, []entry{symlink("l", target), dir("l/escaped")}, true},
			attack{"a file over a link", nil, []entry{symlink("l", target+"/canary"), file("l", "x")}, false},
			attack{"a link in a link", nil, []entry{symlink("l", target), symlink("m", "l"), file("m/escaped", "x")}, true},
			attack{"a directory over a link", nil, []entry{symlink("l", target), dir("l"), file("l/escaped", "x")}, false},
			attack{"a hard link below a link", nil, []entry{file("f", "x"), symlink("l", target), hardlink("l/escaped", "f")}, true},
			attack{"a hard link to a link", nil, []entry{symlink("l", target+"/canary"), hardlink("m", "l"), file("m", "x")}, false},
			attack{"below a hard link to a link", nil, []entry{symlink("l", target), hardlink("m", "l"), file("m/escaped", "x")}, true},
			attack{"a mode for what a link leads to", nil, []entry{symlink("l", target+"/canary"), dir("l").with(0o700)}, false},
		)
		for _, old := range [][]entry{{symlink("l", target)}, {dir("d"), symlink("d/l", target)}} {
			at := old[len(old)-1].name
			attacks = append(attacks,
				attack{"a file below an old link", old, []entry{file(at+"/escaped", "x")}, true},
				attack{"a file below an old link, by a name with dots", old, []entry{file("./"+at+"/./escaped", "x")}, true},
				attack{"a file below an old link, by an absolute name", old, []entry{file("/"+at+"/escaped", "x")}, true},
				attack{"a hard link through an old link", old, []entry{hardlink("h", at+"/canary"), file("h", "x")}, true},
				attack{"a hard link to an old link", old, []entry{hardlink("h", at), file("h/escaped", "x")}, true},
				attack{"a link to an old link", old, []entry{symlink("k", at), file("k/escaped", "x")}, true},
				attack{"a directory over an old link", old, []entry{dir(at), file(at+"/escaped", "x")}, true},
				attack{"a mode for an old link", old, []entry{dir(at).with(0o700)}, false},
			)
		}
	}
	for _, a := range attacks {
		for _, encoding := range []string{"raw", "gzip", "zstd"} {
			what := fmt.Sprintf("%s, as %s", a.what, encoding)
			id := b.volume()
			if len(a.before) > 0 {
				b.ok(b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack(a.before...))))
			}
			err := b.s.StreamIn(b.ctx, id, sdk.StreamIn{Encoding: encoding}, bytes.NewReader(encode(b.T, encoding, pack(a.entries...))))
			check(what)
			if err != nil && (!errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonArchive)) || err == nil && a.refused {
				b.Errorf("%s: %v (%s)", what, err, sdk.ClassOf(err))
			}
			b.ok(b.s.DestroyVolume(b.ctx, id))
		}
	}
	// What a container has made, this package learns by looking.
	id := b.volume()
	volumes, release, err := b.s.Share(b.ctx, id)
	b.ok(err)
	release()
	b.ok(os.Symlink(outside, filepath.Join(volumes[id].Path, "l")))
	b.want(b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack(file("l/escaped", "x")))), sdk.Invalid, sdk.ReasonArchive)
	for _, p := range []string{"l", "l/sub"} {
		b.want(b.s.StreamIn(b.ctx, id, sdk.StreamIn{Path: p}, bytes.NewReader(pack(file("escaped", "x")))), sdk.Invalid, sdk.ReasonPath)
	}
	b.want(b.s.Put(b.ctx, string(id), "l", bytes.NewReader(pack(file("escaped", "x")))), sdk.Invalid, sdk.ReasonPath)
	for _, p := range []string{"l", "l/canary"} {
		var out bytes.Buffer
		err := b.s.StreamOut(b.ctx, id, sdk.StreamOut{Path: p}, &out)
		if bytes.Contains(out.Bytes(), []byte("sings")) {
			b.Errorf("streaming %s out gave what is outside", p)
		}
		if err != nil {
			b.wantNotFound(err, sdk.KindFile)
		}
	}
	check("streams through a container's link")
	c := b.volume()
	_, release, err = b.s.Share(b.ctx, c)
	b.ok(err)
	release()
	b.ok(b.s.SealVolume(b.ctx, id, nil))
	cloned := b.volume(clone(id))
	b.want(b.s.StreamIn(b.ctx, cloned, sdk.StreamIn{}, bytes.NewReader(pack(file("l/escaped", "x")))), sdk.Invalid, sdk.ReasonArchive)
	check("a stream into a clone")
	b.ok(b.s.StreamIn(b.ctx, cloned, sdk.StreamIn{}, bytes.NewReader(pack(file("l", "no link now")))))
	b.wantTree(b.tree(cloned, ""), file("l", "no link now"))
}
