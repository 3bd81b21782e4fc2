package host

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
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// archiveOf packs a tree as somebody would who uploads it.
func archiveOf(t testing.TB, encoding string, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	pack := func(ctx context.Context, w io.Writer) error { return stream.PackDir(ctx, tree(t, files), w) }
	if err := stream.Encoded(encoding, pack)(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// blobsLeft are the files that the host keeps of artifacts.
func blobsLeft(t testing.TB, h *Host) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(h.dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func fileOf(t testing.TB, h *Host, a *Artifact, name string) string {
	t.Helper()
	var b bytes.Buffer
	if err := h.ReadFile(t.Context(), a, name, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is uploaded is there before any worker has it, in every way that it can come; on a worker it is the same; and the next host on
// the state directory has it still.
func TestUpload(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.txt": "first\n", "dir/b": strings.Repeat("second ", 50_000)}
	rt, dir := newMemory(t, "m"), t.TempDir()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	var all []*Artifact
	for _, encoding := range []string{"", "raw", "gzip", "zstd"} {
		a, err := h.Upload(t.Context(), Upload{Name: "by-" + encoding + "-", Encoding: encoding}, bytes.NewReader(archiveOf(t, encoding, files)))
		if err != nil {
			t.Fatal(encoding, err)
		}
		all = append(all, a)
	}
	byDir, err := h.UploadDir(t.Context(), Upload{Name: "by-dir"}, tree(t, files))
	if err != nil {
		t.Fatal(err)
	}
	byFiles, err := h.UploadFiles(t.Context(), Upload{Name: "by-bytes"}, stream.File{Name: "dir/b", Data: []byte(files["dir/b"])}, stream.File{Name: "a.txt", Data: []byte(files["a.txt"]), Mode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, byDir, byFiles)
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("on a worker nobody asked for: %q", left)
	}
	closeTestHost(t, h)
	h = openHost(t, rt, Options{StateDir: dir}, "m")
	for _, a := range all {
		check := func(where string) {
			t.Helper()
			target := filepath.Join(t.TempDir(), "out")
			if err := h.DownloadDir(t.Context(), a, target, false); err != nil {
				t.Fatalf("%s from %s: %v", a.Name, where, err)
			}
			for name, want := range files {
				if got, err := os.ReadFile(filepath.Join(target, name)); err != nil || string(got) != want {
					t.Errorf("%s from %s: %s is %.20q, %v", a.Name, where, name, got, err)
				}
				if got := fileOf(t, h, a, name); got != want {
					t.Errorf("%s from %s: %s alone is %.20q", a.Name, where, name, got)
				}
			}
		}
		check("the host")
		if _, err := h.replicate(t.Context(), a, mustWorker(t, h, "m"), nil); err != nil {
			t.Fatal(err)
		}
		if err := h.dropBlob(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		check("the worker")
		if err := h.RemoveArtifact(t.Context(), a); err != nil {
			t.Error(err)
		}
	}
	if left := append(onWorker(t, rt, "m"), blobsLeft(t, h)...); len(left) > 0 || h.blobs.used != 0 {
		t.Errorf("left: %q, %d bytes", left, h.blobs.used)
	}
}

// cutReader gives what it has and then fails as a connection that was cut.
type cutReader struct {
	r   io.Reader
	err error
}

func (b *cutReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

// An upload that does not come to a good end says why, and nothing of it is left.
func TestUploadRefused(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{Blobs: BlobLimits{Total: 300 << 10, One: 200 << 10}}, "m")
	small, big := archiveOf(t, "", map[string]string{"f": "x"}), archiveOf(t, "", map[string]string{"f": strings.Repeat("x", 250<<10)})
	packed := archiveOf(t, "zstd", map[string]string{"f": strings.Repeat("x", 250<<10)})
	if _, err := h.Upload(t.Context(), Upload{Name: "taken"}, bytes.NewReader(small)); err != nil {
		t.Fatal(err)
	}
	cut := errors.New("connection reset")
	cancelled, cancel := context.WithCancel(t.Context())
	defer cancel()
	outside := func(h tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := errors.Join(w.WriteHeader(&h), w.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		up   Upload
		r    io.Reader
		want error
	}{
		"the name is taken":             {Upload{Name: "taken"}, bytes.NewReader(small), sdk.AlreadyExists},
		"no name":                       {Upload{}, bytes.NewReader(small), sdk.Invalid},
		"a name of a run's":             {Upload{Name: "run/r/s/o"}, bytes.NewReader(small), sdk.Invalid},
		"a cache's name":                {Upload{Name: "cache/k"}, bytes.NewReader(small), sdk.Invalid},
		"larger than one may be":        {Upload{Name: "n"}, bytes.NewReader(big), sdk.ReasonTooLarge},
		"unpacks to more":               {Upload{Name: "n", Encoding: "zstd"}, bytes.NewReader(packed), sdk.ReasonTooLarge},
		"ends between entries":          {Upload{Name: "n"}, bytes.NewReader(small[:1024]), sdk.ReasonArchive},
		"ends in an entry":              {Upload{Name: "n"}, bytes.NewReader(big[:5000]), sdk.ReasonArchive},
		"is empty":                      {Upload{Name: "n"}, bytes.NewReader(nil), sdk.ReasonArchive},
		"is no archive":                 {Upload{Name: "n"}, strings.NewReader(strings.Repeat("no archive ", 1000)), sdk.ReasonArchive},
		"is not in its encoding":        {Upload{Name: "n", Encoding: "gzip"}, bytes.NewReader(small), sdk.ReasonArchive},
		"an encoding that nobody knows": {Upload{Name: "n", Encoding: "rar"}, bytes.NewReader(small), sdk.ReasonEncoding},
		"leads outside":                 {Upload{Name: "n"}, bytes.NewReader(outside(tar.Header{Name: "../x", Mode: 0o644})), sdk.ReasonArchive},
		"links outside": {Upload{Name: "n"}, bytes.NewReader(outside(tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"})),
			sdk.ReasonArchive},
		"the client vanishes": {Upload{Name: "n"}, &cutReader{bytes.NewReader(big[:100<<10]), cut}, cut},
		"the client gives up": {Upload{Name: "cancelled"}, &cutReader{bytes.NewReader(big[:100<<10]), nil}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if c.up.Name == "cancelled" {
				ctx = cancelled
				c.r.(*cutReader).err = readCancelled(cancel)
			}
			a, err := h.Upload(ctx, c.up, c.r)
			if a != nil || !errors.Is(err, c.want) {
				t.Errorf("%v, %v; want %v", a, err, c.want)
			}
			if left := blobsLeft(t, h); len(left) != 1 || h.blobs.used != int64(len(small)) {
				t.Errorf("left: %q, %d bytes", left, h.blobs.used)
			}
		})
	}
	list, err := h.Artifacts(t.Context(), ArtifactFilter{})
	if err != nil || len(list) != 1 || list[0].Name != "taken" {
		t.Errorf("listed: %+v, %v", list, err)
	}
}

// readCancelled is the error of a read under which its caller gives up.
func readCancelled(cancel func()) error { cancel(); return io.ErrClosedPipe }

// The quota is for all artifacts together. What a worker keeps makes room, the longest unused first; what is nowhere else, is being read,
// or lies on a worker that forgets, does not.
func TestBlobQuota(t *testing.T) {
	t.Parallel()
	f := newFar(t, &farWorker{name: "lasting"}, &farWorker{name: "volatile", volatile: true})
	cfg := testConfig("lasting", "volatile")
	one := archiveOf(t, "", map[string]string{"f": strings.Repeat("x", 100<<10)})
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": f}, Blobs: BlobLimits{Total: int64(len(one))*3 + 100}})
	put := func(name string) *Artifact {
		t.Helper()
		a, err := h.Upload(t.Context(), Upload{Name: name}, bytes.NewReader(one))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a, b, c := put("a"), put("b"), put("c")
	full := func() {
		t.Helper()
		if d, err := h.Upload(t.Context(), Upload{Name: "d"}, bytes.NewReader(one)); !errors.Is(err, sdk.Exhausted) || !errors.Is(err, sdk.ReasonStorage) {
			t.Errorf("%v, %v; want that there is no room", d, err)
		}
		if n := len(blobsLeft(t, h)); n != 3 {
			t.Errorf("%d blobs are left, want those three", n)
		}
	}
	full()
	for _, x := range []struct {
		a  *Artifact
		to string
	}{{a, "volatile"}, {b, "lasting"}, {c, "lasting"}} {
		if _, err := h.replicate(t.Context(), x.a, mustWorker(t, h, x.to), nil); err != nil {
			t.Fatal(err)
		}
	}
	readB, readC := h.using(b.ID), h.using(c.ID)
	full()
	readB()
	put("d") // in place of b
	left := blobsLeft(t, h)
	if slices.Contains(left, b.ID) || !slices.Contains(left, a.ID) || !slices.Contains(left, c.ID) {
		t.Errorf("of %s, %s and %s, %q are left", a.ID, b.ID, c.ID, left)
	}
	readC()
	put("e") // in place of c
	for _, x := range []*Artifact{a, b, c} {
		if got := fileOf(t, h, x, "f"); len(got) != 100<<10 {
			t.Errorf("%s has %d bytes", x.Name, len(got))
		}
	}
}

// A blob that has changed on the disk is not taken for what was uploaded, and no volume is left of the attempt.
func TestDamagedBlob(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	h := openHost(t, rt, Options{}, "m")
	a, err := h.Upload(t.Context(), Upload{Name: "a"}, bytes.NewReader(archiveOf(t, "", map[string]string{"f": strings.Repeat("x", 10_000)})))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(h.dir, "blobs", a.ID)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[2000] ^= 1 // within the file's content
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.replicate(t.Context(), a, mustWorker(t, h, "m"), nil); !errors.Is(err, sdk.ReasonArchive) || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("got %v", err)
	}
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// What is no file is told from what is not there, wherever the content is; so is what was never an artifact.
func TestReadFileErrors(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	dir := tree(t, map[string]string{"dir/f": "x"})
	if err := errors.Join(os.Symlink("dir/f", filepath.Join(dir, "link")), os.Link(filepath.Join(dir, "dir/f"), filepath.Join(dir, "twin"))); err != nil {
		t.Fatal(err)
	}
	blob, err := h.UploadDir(t.Context(), Upload{Name: "blob"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	placed, err := h.UploadDir(t.Context(), Upload{Name: "placed"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.replicate(t.Context(), placed, mustWorker(t, h, "m"), nil); err != nil {
		t.Fatal(err)
	}
	if err := h.dropBlob(t.Context(), placed.ID); err != nil {
		t.Fatal(err)
	}
	local, err := h.AddDir(t.Context(), "local", "", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []*Artifact{blob, placed, local} {
		for _, name := range []string{"dir/f", "/dir/f", "./dir/../dir/f", "twin"} {
			if got := fileOf(t, h, a, name); got != "x" {
				t.Errorf("%s: %s is %q", a.Name, name, got)
			}
		}
		for name, want := range map[string]error{"none": sdk.NotFound, "dir/none": sdk.NotFound, "dir": sdk.ReasonPath, "../dir/f": sdk.ReasonPath,
			"": sdk.ReasonPath} {
			if err := h.ReadFile(t.Context(), a, name, io.Discard); !errors.Is(err, want) {
				t.Errorf("%s: %q: %v, want %v", a.Name, name, err, want)
			}
		}
		if err := h.ReadFile(t.Context(), a, "dir/f", fullWriter{}); !errors.Is(err, errFarBroken) {
			t.Errorf("%s: a writer's error came back as %v", a.Name, err)
		}
	}
	if a, err := h.Artifact(t.Context(), "nobody-made-it"); a != nil || !sdk.IsNotFound(err, KindArtifact) || !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v, %v", a, err)
	}
	unknown := &Artifact{ID: "a0", Name: "gone"}
	if err := h.Download(t.Context(), unknown, io.Discard); !sdk.IsNotFound(err, KindArtifact) {
		t.Error(err)
	}
	if _, err := h.Container(t.Context(), "o", ContainerRequest{Inputs: []Input{{Artifact: unknown, Path: "in"}}}); !sdk.IsNotFound(err, KindArtifact) {
		t.Error(err)
	}
}

// TestListFiles: what is in a directory of an artifact is told alike wherever its content is.
func TestListFiles(t *testing.T) {
	t.Parallel()
	blind := &hooked{Runtime: newMemory(t, "m"), status: func(_ context.Context, _ int, s *sdk.Status) error {
		s.Features = slices.DeleteFunc(s.Features, func(f sdk.Feature) bool { return f == sdk.FeatureFileRead })
		return nil
	}}
	dir := tree(t, map[string]string{"dir/f": "some", "dir/sub/deep": "x", "dir/run": "#!"})
	if err := errors.Join(os.Chmod(filepath.Join(dir, "dir/run"), 0o755), os.Symlink("f", filepath.Join(dir, "dir/link")), os.Link(filepath.Join(dir, "dir/f"), filepath.Join(dir, "twin"))); err != nil {
		t.Fatal(err)
	}
	type place struct {
		h *Host
		a *Artifact
	}
	var places []place
	for name, rt := range map[string]sdk.Runtime{"reads": newMemory(t, "m"), "streams": blind} {
		h := openHost(t, rt, Options{}, "m")
		blob, err := h.UploadDir(t.Context(), Upload{Name: "blob"}, dir)
		if err != nil {
			t.Fatal(err)
		}
		placed, err := h.UploadDir(t.Context(), Upload{Name: name}, dir)
		if err == nil {
			_, err = h.replicate(t.Context(), placed, mustWorker(t, h, "m"), nil)
		}
		if err = errors.Join(err, h.dropBlob(t.Context(), placed.ID)); err != nil {
			t.Fatal(err)
		}
		local, err := h.AddDir(t.Context(), "local", "", dir)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, place{h, blob}, place{h, placed}, place{h, local})
	}
	for _, at := range places {
		h, a := at.h, at.a
		for name, want := range map[string]string{
			"": "drwxr-xr-x dir, -rw-r--r-- twin 4", ".": "drwxr-xr-x dir, -rw-r--r-- twin 4", "/dir/": "-rw-r--r-- f 4, Lrwxrwxrwx link -> f, -rwxr-xr-x run 2, drwxr-xr-x sub",
			"dir/sub": "-rw-r--r-- deep 1", "dir/run": "-rwxr-xr-x run 2", "twin": "-rw-r--r-- twin 4", "dir/link": "Lrwxrwxrwx link -> f",
		} {
			files, err := h.ListFiles(t.Context(), a, name)
			var got []string
			for _, f := range files {
				switch line := fmt.Sprintf("%v %s", f.Mode, f.Name); {
				case f.Mode.IsRegular():
					got = append(got, fmt.Sprintf("%s %d", line, f.Size))
				case f.LinkTarget != "":
					got = append(got, line+" -> "+f.LinkTarget)
				default:
					got = append(got, line)
				}
				if f.ModTime.IsZero() {
					t.Errorf("%s: %s: %s has no time", a.Name, name, f.Name)
				}
			}
			if err != nil || strings.Join(got, ", ") != want {
				t.Errorf("%s: %q: %q, %v, want %q", a.Name, name, got, err, want)
			}
		}
		for name, want := range map[string]error{"none": sdk.NotFound, "dir/none": sdk.NotFound, "../dir": sdk.ReasonPath} {
			if files, err := h.ListFiles(t.Context(), a, name); !errors.Is(err, want) || want == error(sdk.NotFound) && !sdk.IsNotFound(err, sdk.KindFile) {
				t.Errorf("%s: %q: %v, %v, want %v", a.Name, name, files, err, want)
			}
		}
	}
}

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errFarBroken }

// Artifacts that nobody owns go after their time, wherever they are, and not while they are read or cloned.
func TestArtifactsExpire(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	h := openHost(t, rt, Options{}, "m")
	put := func(u Upload) *Artifact {
		t.Helper()
		a, err := h.UploadFiles(t.Context(), u, stream.File{Name: "f", Data: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	short, long := put(Upload{Name: "short", TTL: time.Hour}), put(Upload{Name: "long"})
	owned, read, cloned := put(Upload{Name: "owned", Owner: "somebody"}), put(Upload{Name: "read", TTL: time.Hour}), put(Upload{Name: "cloned", TTL: time.Hour})
	if _, err := h.replicate(t.Context(), short, mustWorker(t, h, "m"), nil); err != nil {
		t.Fatal(err)
	}
	c, err := h.Container(t.Context(), "owner", ContainerRequest{Inputs: []Input{{Artifact: cloned, Path: "in"}}})
	if err != nil {
		t.Fatal(err)
	}
	done := h.using(read.ID)
	now := time.Now()
	expire := func(after time.Duration, want ...*Artifact) {
		t.Helper()
		if err := h.expireArtifacts(t.Context(), now.Add(after)); err != nil {
			t.Error(err)
		}
		list, err := h.Artifacts(t.Context(), ArtifactFilter{})
		if err != nil {
			t.Fatal(err)
		}
		var got, names []string
		for _, a := range list {
			got = append(got, a.Name)
		}
		for _, a := range want {
			names = append(names, a.Name)
		}
		if !slices.Equal(got, names) {
			t.Errorf("after %s there are %q, want %q", after, got, names)
		}
	}
	expire(time.Minute, short, long, owned, read, cloned)
	expire(2*time.Hour, long, owned, read, cloned)
	done()
	expire(2*time.Hour, long, owned, cloned)
	if err := c.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	expire(2*time.Hour, long, owned)
	expire(DefaultArtifactTTL+time.Hour, owned)
	if err := h.Disown(t.Context(), "some"); err != nil {
		t.Fatal(err)
	}
	expire(time.Hour, owned)
	expire(DefaultArtifactTTL + time.Hour)
	if left := append(onWorker(t, rt, "m"), blobsLeft(t, h)...); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A host that was killed under an upload leaves nothing that the next one does not take away.
func TestKilledUpload(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a01.new", "a02"} { // before and after the rename, both before the row
		if err := os.WriteFile(filepath.Join(dir, "blobs", name), []byte("half of it"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var h *Host
	h = openHost(t, rt, Options{StateDir: dir, fault: func(point string) {
		if point == "blob-written" { // nothing comes to the disk from here on, as after a kill
			if err := h.store.Close(); err != nil {
				t.Error(err)
			}
		}
	}}, "m")
	if left := blobsLeft(t, h); len(left) > 0 || h.blobs.used != 0 {
		t.Errorf("left: %q, %d bytes", left, h.blobs.used)
	}
	if _, err := h.UploadFiles(t.Context(), Upload{Name: "a"}, stream.File{Name: "f", Data: []byte("x")}); err == nil {
		t.Error("it was taken")
	}
	closeTestHost(t, h)
	again := openHost(t, rt, Options{StateDir: dir}, "m")
	if left := blobsLeft(t, again); len(left) > 0 || again.blobs.used != 0 {
		t.Errorf("the upload that was killed has left: %q, %d bytes", left, again.blobs.used)
	}
	if _, err := again.Artifact(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it is an artifact: %v", err)
	}
}
