//go:build linux

package claim

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// bench is one server and what a test asks of it.
type bench struct {
	*testing.T
	ctx     context.Context
	servers *gardentest.Servers
	s       *Store
}

// serve starts servers for a test and its subtests, which share them.
func serve(t *testing.T, o gardentest.Options, more ...func(*Config)) bench {
	t.Helper()
	servers := gardentest.Start(t, o)
	return bench{T: t, ctx: testkit.Context(t), servers: servers, s: storeOf(t, servers.Baggageclaim, more...)}
}

func storeOf(t testing.TB, url string, more ...func(*Config)) *Store {
	t.Helper()
	c := Config{URL: url}
	for _, m := range more {
		m(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// sub runs a subtest on the same server.
func (b bench) sub(name string, test func(bench)) {
	b.T.Run(name, func(t *testing.T) {
		b.T, b.ctx = t, testkit.Context(t)
		test(b)
		b.noLocks()
	})
}

// noLocks checks that nothing is held once all calls have returned.
func (b bench) noLocks() {
	b.Helper()
	testkit.Until(b.T, "no lock is left", func() bool { return b.s.locks.size() == 0 }) // a stream that was given up has its grace
}

func (b bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%v (%s)", err, sdk.ClassOf(err))
	}
}

// want checks class and reason of an error.
func (b bench) want(err error, class sdk.Class, reason sdk.Reason) {
	b.Helper()
	e, ok := errors.AsType[*sdk.Error](err)
	if !ok || e.Class != class || e.Reason != reason {
		b.Fatalf("got %v (%s), want %s %s", err, sdk.ClassOf(err), class, reason)
	}
	b.Log(err)
}

func (b bench) wantNotFound(err error, kind sdk.Kind) {
	b.Helper()
	if !sdk.IsNotFound(err, kind) {
		b.Fatalf("got %v (%s), want NotFound of a %s", err, sdk.ClassOf(err), kind)
	}
}

func newID() sdk.VolumeID { return sdk.VolumeID("v-" + strings.ToLower(string(sdk.NewToken()))) }

// volume makes a volume and destroys it when the test ends.
func (b bench) volume(with ...func(*sdk.VolumeSpec)) sdk.VolumeID {
	b.Helper()
	spec := sdk.VolumeSpec{ID: newID(), Token: sdk.NewToken()}
	for _, w := range with {
		w(&spec)
	}
	b.ok(b.s.CreateVolume(b.ctx, spec))
	b.destroyLater(spec.ID)
	return spec.ID
}

func (b bench) destroyLater(id sdk.VolumeID) {
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(b.T))
		defer cancel()
		if err := b.s.DestroyVolume(ctx, id); err != nil {
			b.Errorf("destroying %s: %v", id, err)
		}
	})
}

func clone(parent sdk.VolumeID) func(*sdk.VolumeSpec) {
	return func(s *sdk.VolumeSpec) { s.Clone = parent }
}

func (b bench) filled(entries ...entry) sdk.VolumeID {
	b.Helper()
	id := b.volume()
	b.ok(b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack(entries...))))
	return id
}

func (b bench) sealed(entries ...entry) sdk.VolumeID {
	b.Helper()
	id := b.filled(entries...)
	b.ok(b.s.SealVolume(b.ctx, id, nil))
	return id
}

func (b bench) info(id sdk.VolumeID) (sdk.VolumeInfo, bool) {
	b.Helper()
	var infos []sdk.VolumeInfo
	b.ok(b.s.ListVolumes(b.ctx, sdk.Filter{ID: string(id)}, func(i sdk.VolumeInfo) error {
		infos = append(infos, i)
		return nil
	}))
	if len(infos) == 0 {
		return sdk.VolumeInfo{}, false
	}
	return infos[0], true
}

// entry is one of an archive. The zero type is a file.
type entry struct {
	name, data, link string
	kind             byte
	mode             int64
	uid, gid         int
	mtime            int64
	major, minor     int64
}

const someTime = 1_000_000_000

func file(name, data string) entry    { return entry{name: name, data: data} }
func dir(name string) entry           { return entry{name: name, kind: tar.TypeDir} }
func symlink(name, to string) entry   { return entry{name: name, kind: tar.TypeSymlink, link: to} }
func hardlink(name, to string) entry  { return entry{name: name, kind: tar.TypeLink, link: to} }
func (e entry) with(mode int64) entry { e.mode = mode; return e }
func (e entry) owned(u, g int) entry  { e.uid, e.gid = u, g; return e }
func below(d string, e entry) entry   { e.name = path.Join(d, e.name); return e }
func (e entry) header() *tar.Header {
	h := &tar.Header{Typeflag: e.kind, Name: e.name, Linkname: e.link, Mode: e.mode, Uid: e.uid, Gid: e.gid, Devmajor: e.major, Devminor: e.minor, ModTime: time.Unix(someTime, 0), Format: tar.FormatPAX}
	switch e.kind {
	case 0:
		h.Typeflag, h.Size = tar.TypeReg, int64(len(e.data))
	case tar.TypeDir:
		h.Name += "/"
	}
	if h.Mode == 0 {
		h.Mode = 0o644
		if e.kind == tar.TypeDir {
			h.Mode = 0o755
		}
	}
	return h
}

func pack(entries ...entry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(e.header()); err != nil {
			panic(fmt.Sprintf("packing %q: %v", e.name, err))
		}
		io.WriteString(w, e.data)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// tree is what comes out of a volume, by name; the root directory is ".".
func (b bench) tree(id sdk.VolumeID, p string) map[string]entry {
	b.Helper()
	var out bytes.Buffer
	b.ok(b.s.StreamOut(b.ctx, id, sdk.StreamOut{Path: p}, &out))
	return b.unpack(&out)
}

func (b bench) unpack(r io.Reader) map[string]entry {
	b.Helper()
	t := tar.NewReader(r)
	got := make(map[string]entry)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return got
		}
		b.ok(err)
		data, err := io.ReadAll(t)
		b.ok(err)
		e := entry{name: path.Clean(h.Name), data: string(data), link: h.Linkname, kind: h.Typeflag, mode: h.Mode, uid: h.Uid, gid: h.Gid, mtime: h.ModTime.Unix()}
		if e.kind == tar.TypeReg {
			e.kind = 0
		}
		if e.kind == tar.TypeLink {
			e.link = path.Clean(e.link)
		}
		got[e.name] = e
	}
}

// wantTree checks names, kinds and content of what comes out.
func (b bench) wantTree(got map[string]entry, want ...entry) {
	b.Helper()
	show := func(m map[string]entry) []string {
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if e := m[name]; name != "." {
				lines = append(lines, fmt.Sprintf("%s %q %q %q", name, rune(e.kind), e.link, e.data))
			}
		}
		return lines
	}
	wanted := make(map[string]entry)
	for _, e := range want {
		wanted[e.name] = e
	}
	if d := cmp.Diff(show(wanted), show(got)); d != "" {
		b.Fatalf("another tree than wanted (-) came (+):\n%s", d)
	}
}

func encode(t testing.TB, encoding string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case encodingZstd:
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	case encodingGzip:
		w = gzip.NewWriter(&b)
	default:
		return data
	}
	_, err := w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(t testing.TB, encoding string, data []byte) []byte {
	t.Helper()
	r := io.Reader(bytes.NewReader(data))
	switch encoding {
	case encodingZstd:
		z, err := zstd.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	case encodingGzip:
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = z
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// size is how many names are in use.
func (l *locks) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.names)
}

// streamIn fills a volume from a pipe, and closes the pipe once that has ended: who writes to it waits for nobody then.
func streamIn(ctx context.Context, s *Store, id sdk.VolumeID, r *io.PipeReader) error {
	err := s.StreamIn(ctx, id, sdk.StreamIn{}, r)
	r.CloseWithError(err)
	return err
}
