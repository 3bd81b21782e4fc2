package memory

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// newTestWorker gives a worker of a runtime that is closed, and empty, at the end of the test.
func newTestWorker(t *testing.T, opts Options) *worker {
	t.Helper()
	r := New([]string{"w"}, opts)
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		for name, w := range r.workers {
			if used := w.budget.Used(); used != 0 {
				t.Errorf("worker %q holds %d bytes after everything was destroyed", name, used)
			}
		}
	})
	w, err := r.Worker("w")
	if err != nil {
		t.Fatal(err)
	}
	return w.(*worker)
}

// asCalled gives a worker as hosts call it, who have wrong requests refused before the worker sees them.
func asCalled(t *testing.T, w sdk.Worker) sdk.Worker {
	t.Helper()
	called, err := sdk.Checked(single{w}).Worker("w")
	if err != nil {
		t.Fatal(err)
	}
	return called
}

// single is a runtime of one worker.
type single struct{ worker sdk.Worker }

func (a single) Workers(context.Context, func(sdk.WorkerEvent) error) error { return nil }
func (a single) Worker(string) (sdk.Worker, error)                          { return a.worker, nil }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError checks an error against a class and, where there is one, a reason or feature.
func wantError(t *testing.T, err error, class sdk.Class, why any) {
	t.Helper()
	e, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		t.Fatalf("got %v, want an error of class %q", err, class)
	}
	match := e.Class == class
	switch why := why.(type) {
	case sdk.Reason:
		match = match && e.Reason == why
	case sdk.Feature:
		match = match && e.Feature == why
	case sdk.Kind:
		match = match && e.Kind == why
	}
	if !match || e.Error() == "" {
		t.Fatalf("got %#v, want class %q and %v", e, class, why)
	}
}

func createVolume(t *testing.T, w sdk.Worker, id sdk.VolumeID) {
	t.Helper()
	must(t, w.CreateVolume(t.Context(), sdk.VolumeSpec{ID: id, Token: "t"}))
}

// archive makes a tar stream of files and directories (names with a slash at the end), sorted by nothing.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for name, content := range files {
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		must(t, tw.WriteHeader(h))
		_, err := tw.Write([]byte(content))
		must(t, err)
	}
	must(t, tw.Close())
	return b.Bytes()
}

func fill(t *testing.T, w sdk.Worker, id sdk.VolumeID, files map[string]string) {
	t.Helper()
	must(t, w.StreamIn(t.Context(), id, sdk.StreamIn{}, bytes.NewReader(archive(t, files))))
}

// files gives the regular files of a volume.
func files(t *testing.T, w sdk.Worker, id sdk.VolumeID) map[string]string {
	t.Helper()
	var b bytes.Buffer
	must(t, w.StreamOut(t.Context(), id, sdk.StreamOut{}, &b))
	return untar(t, &b)
}

func untar(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	got := map[string]string{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return got
		}
		must(t, err)
		if h.Typeflag == tar.TypeReg {
			content, err := io.ReadAll(tr)
			must(t, err)
			got[h.Name] = string(content)
		}
	}
}

func volumes(t *testing.T, w sdk.Worker, filter sdk.Filter) map[sdk.VolumeID]sdk.VolumeInfo {
	t.Helper()
	got := map[sdk.VolumeID]sdk.VolumeInfo{}
	must(t, w.ListVolumes(t.Context(), filter, func(v sdk.VolumeInfo) error {
		got[v.ID] = v
		return nil
	}))
	return got
}

func TestVolumesAreKnownByTheirTokens(t *testing.T) {
	w := newTestWorker(t, Options{})
	spec := sdk.VolumeSpec{ID: "v", Token: "one", Labels: map[string]string{"a": "1"}, UID: 7, GID: 8}
	must(t, w.CreateVolume(t.Context(), spec))
	fill(t, w, "v", map[string]string{"f": "x"})
	spec.Labels = nil // specs are never compared
	must(t, w.CreateVolume(t.Context(), spec))
	spec.Token = "two"
	wantError(t, w.CreateVolume(t.Context(), spec), sdk.AlreadyExists, sdk.KindVolume)
	if got := volumes(t, w, sdk.Filter{ID: "v"})["v"]; got.Token != "one" || got.Labels["a"] != "1" || got.State != sdk.VolumeOpen || got.Bytes != 1 {
		t.Errorf("listed as %+v", got)
	}
	root, err := w.StatFile(t.Context(), "v", "")
	must(t, err)
	if root.UID != 7 || root.GID != 8 || !root.Mode.IsDir() {
		t.Errorf("root is %+v", root)
	}
	must(t, w.DestroyVolume(t.Context(), "v"))
	must(t, w.DestroyVolume(t.Context(), "v"))
	if got := volumes(t, w, sdk.Filter{}); len(got) != 0 {
		t.Errorf("left after destroy: %v", got)
	}
}

func TestVolumesAreListedByLabels(t *testing.T) {
	w := newTestWorker(t, Options{})
	for id, labels := range map[sdk.VolumeID]map[string]string{"a": {"x": "1"}, "b": {"x": "1", "y": "2"}, "c": nil} {
		must(t, w.CreateVolume(t.Context(), sdk.VolumeSpec{ID: id, Token: "t", Labels: labels}))
	}
	for want, filter := range map[string]sdk.Filter{
		"abc": {}, "ab": {Labels: map[string]string{"x": "1"}}, "b": {Labels: map[string]string{"x": "1", "y": "2"}},
		"a": {ID: "a", Labels: map[string]string{"x": "1"}}, "": {ID: "c", Labels: map[string]string{"x": "1"}},
	} {
		got := volumes(t, w, filter)
		for _, id := range want {
			if _, ok := got[sdk.VolumeID(id)]; !ok || len(got) != len(want) {
				t.Errorf("%+v: got %v, want %q", filter, got, want)
			}
		}
	}
	stop := errors.New("enough")
	if err := w.ListVolumes(t.Context(), sdk.Filter{}, func(sdk.VolumeInfo) error { return stop }); err != stop {
		t.Errorf("error of emit came back as %v", err)
	}
}

func TestClonesAreIsolated(t *testing.T) {
	w := newTestWorker(t, Options{})
	createVolume(t, w, "parent")
	fill(t, w, "parent", map[string]string{"f": "old"})
	must(t, w.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "child", Token: "t", Clone: "parent", UID: 9})) // of an open one
	fill(t, w, "parent", map[string]string{"f": "new", "g": "new"})
	must(t, w.SealVolume(t.Context(), "parent"))
	must(t, w.SealVolume(t.Context(), "parent"))
	if got := files(t, w, "child"); !maps.Equal(got, map[string]string{"f": "old"}) {
		t.Errorf("child has %v", got)
	}
	fill(t, w, "child", map[string]string{"h": "child"}) // a clone is open
	must(t, w.DestroyVolume(t.Context(), "parent"))
	if got := files(t, w, "child"); !maps.Equal(got, map[string]string{"f": "old", "h": "child"}) {
		t.Errorf("child has %v", got)
	}
	if got := volumes(t, w, sdk.Filter{})["child"]; got.Parent != "parent" {
		t.Errorf("listed as %+v", got)
	}
	if root, err := w.StatFile(t.Context(), "child", ""); err != nil || root.UID != 9 {
		t.Errorf("root is %+v, %v", root, err)
	}
}

func TestStreamsInEveryEncoding(t *testing.T) {
	w := newTestWorker(t, Options{})
	status, err := w.Status(t.Context())
	must(t, err)
	want := map[string]string{"dir/f": strings.Repeat("content ", 100_000)}
	pack := map[string]func(io.Writer) io.WriteCloser{
		sdk.EncodingRaw: func(w io.Writer) io.WriteCloser { return rawEncoder{w} },
		"gzip":          func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"zstd":          func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
	}
	unpack := map[string]func(io.Reader) io.Reader{
		sdk.EncodingRaw: func(r io.Reader) io.Reader { return r },
		"gzip":          func(r io.Reader) io.Reader { z, _ := gzip.NewReader(r); return z },
		"zstd":          func(r io.Reader) io.Reader { z, _ := zstd.NewReader(r, zstd.WithDecoderConcurrency(1)); return z },
	}
	for _, encoding := range status.Encodings {
		id := sdk.VolumeID("v-" + encoding)
		createVolume(t, w, id)
		var in, out bytes.Buffer
		enc := pack[encoding](&in)
		_, err := enc.Write(archive(t, want))
		must(t, err)
		must(t, enc.Close())
		must(t, w.StreamIn(t.Context(), id, sdk.StreamIn{Path: "a/b", Encoding: encoding}, &in))
		must(t, w.StreamOut(t.Context(), id, sdk.StreamOut{Path: "a/b", Encoding: encoding}, &out))
		if encoding != sdk.EncodingRaw && out.Len() > 100_000 {
			t.Errorf("%s: %d bytes are not compressed", encoding, out.Len())
		}
		if got := untar(t, unpack[encoding](&out)); !maps.Equal(got, want) {
			t.Errorf("%s: came back changed", encoding)
		}
	}
	createVolume(t, w, "v")
	wantError(t, w.StreamIn(t.Context(), "v", sdk.StreamIn{Encoding: "lz77"}, strings.NewReader("")), sdk.Invalid, sdk.ReasonEncoding)
	wantError(t, w.StreamOut(t.Context(), "v", sdk.StreamOut{Encoding: "lz77"}, io.Discard), sdk.Invalid, sdk.ReasonEncoding)
}

func TestOneFileIsOneEntry(t *testing.T) {
	w := newTestWorker(t, Options{})
	createVolume(t, w, "v")
	fill(t, w, "v", map[string]string{"dir/f": "0123456789"})
	status, err := w.Status(t.Context())
	must(t, err)
	for _, features := range [][]sdk.Feature{status.Features, nil} { // by files.read, and out of a tar stream
		var b bytes.Buffer
		must(t, sdk.ReadFile(t.Context(), w, sdk.Status{Features: features}, "v", "dir/f", &b))
		if b.String() != "0123456789" {
			t.Errorf("with %v: %q", features, &b)
		}
	}
	for want, part := range map[string][2]int64{"0123456789": {0, -1}, "34": {3, 2}, "89": {8, 100}, "": {50, -1}} {
		var b bytes.Buffer
		must(t, w.ReadFile(t.Context(), "v", "dir/f", part[0], part[1], &b))
		if b.String() != want {
			t.Errorf("%v: %q, want %q", part, &b, want)
		}
	}
	var names []string
	must(t, w.ListFiles(t.Context(), "v", "", func(f sdk.FileInfo) error { names = append(names, f.Name); return nil }))
	if len(names) != 1 || names[0] != "dir" {
		t.Errorf("root has %v", names)
	}
	called := asCalled(t, w).(sdk.FileReader)
	_, err = called.StatFile(t.Context(), "v", "/dir")
	wantError(t, err, sdk.Invalid, sdk.ReasonPath)
	_, err = w.StatFile(t.Context(), "v", "dir/missing")
	wantError(t, err, sdk.NotFound, sdk.KindFile)
	must(t, w.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "c", Token: "t", Mounts: []sdk.Mount{{Volume: "v", Path: "/v"}}}, nil))
	run(t, w, "c", "ln -s dir/f /v/link")
	if link, err := w.StatFile(t.Context(), "v", "link"); err != nil || link.LinkTarget != "dir/f" {
		t.Errorf("link is %+v, %v", link, err)
	}
	for _, features := range [][]sdk.Feature{status.Features, nil} {
		wantError(t, sdk.ReadFile(t.Context(), w, sdk.Status{Features: features}, "v", "link", io.Discard), sdk.Invalid, sdk.ReasonPath)
	}
	wantError(t, w.ReadFile(t.Context(), "v", "dir", 0, -1, io.Discard), sdk.Invalid, sdk.ReasonPath)
	wantError(t, called.ReadFile(t.Context(), "v", "../f", 0, -1, io.Discard), sdk.Invalid, sdk.ReasonPath)
	wantError(t, called.ReadFile(t.Context(), "v", "dir/f", -1, -1, io.Discard), sdk.Invalid, sdk.ReasonSpec)
}

func TestStreamErrors(t *testing.T) {
	w := newTestWorker(t, Options{Memory: 1 << 20})
	for _, id := range []sdk.VolumeID{"open", "sealed", "other"} {
		createVolume(t, w, id)
	}
	must(t, w.SealVolume(t.Context(), "sealed"))
	in := func(id sdk.VolumeID, in sdk.StreamIn, b []byte) error {
		return asCalled(t, w).StreamIn(t.Context(), id, in, bytes.NewReader(b))
	}
	good := archive(t, map[string]string{"f": "x"})
	device := func() []byte {
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		must(t, tw.WriteHeader(&tar.Header{Name: "null", Typeflag: tar.TypeChar, Mode: 0o666}))
		must(t, tw.Close())
		return b.Bytes()
	}
	wantError(t, in("missing", sdk.StreamIn{}, good), sdk.NotFound, sdk.KindVolume)
	wantError(t, in("sealed", sdk.StreamIn{}, good), sdk.FailedPrecondition, sdk.ReasonSealed)
	wantError(t, in("open", sdk.StreamIn{Path: "../x"}, good), sdk.Invalid, sdk.ReasonPath)
	wantError(t, in("open", sdk.StreamIn{Path: "/x"}, good), sdk.Invalid, sdk.ReasonPath)
	wantError(t, in("open", sdk.StreamIn{}, good[:700]), sdk.Invalid, sdk.ReasonArchive)
	wantError(t, in("open", sdk.StreamIn{}, nil), sdk.Invalid, sdk.ReasonArchive)
	wantError(t, in("open", sdk.StreamIn{Encoding: "gzip"}, good), sdk.Invalid, sdk.ReasonArchive)
	wantError(t, in("open", sdk.StreamIn{Encoding: "zstd"}, good), sdk.Invalid, sdk.ReasonArchive)
	wantError(t, in("open", sdk.StreamIn{}, archive(t, map[string]string{"../f": "x"})), sdk.Invalid, sdk.ReasonArchive)
	wantError(t, in("open", sdk.StreamIn{}, device()), sdk.Unsupported, sdk.FeatureTarDevices)
	wantError(t, w.StreamOut(t.Context(), "missing", sdk.StreamOut{}, io.Discard), sdk.NotFound, sdk.KindVolume)

	var nothing bytes.Buffer
	for _, encoding := range encodings() {
		wantError(t, w.StreamOut(t.Context(), "open", sdk.StreamOut{Path: "missing", Encoding: encoding}, &nothing), sdk.NotFound, sdk.KindFile)
	}
	wantError(t, asCalled(t, w).StreamOut(t.Context(), "open", sdk.StreamOut{Path: "../x"}, &nothing), sdk.Invalid, sdk.ReasonPath)
	wantError(t, asCalled(t, w).StreamOut(t.Context(), "open", sdk.StreamOut{Path: "/"}, &nothing), sdk.Invalid, sdk.ReasonPath)
	if nothing.Len() > 0 {
		t.Errorf("%d bytes were written before the error", nothing.Len())
	}

	// What is longer than all there is can never fit; what is not, may fit later.
	tooLarge := in("open", sdk.StreamIn{}, archive(t, map[string]string{"f": strings.Repeat("x", 1<<20)}))
	wantError(t, tooLarge, sdk.Invalid, sdk.ReasonTooLarge)
	half := archive(t, map[string]string{"f": strings.Repeat("x", 600<<10)})
	must(t, in("other", sdk.StreamIn{}, half))
	noRoom := in("open", sdk.StreamIn{}, half)
	wantError(t, noRoom, sdk.Exhausted, sdk.ReasonStorage)
	for _, err := range []error{tooLarge, noRoom} {
		if text := err.Error(); !strings.Contains(text, `config { memory = "4GiB" } in the plugin block`) || !strings.Contains(text, "world's --memory") {
			t.Errorf("%v does not say where the limit is set", err)
		}
	}
	must(t, w.DestroyVolume(t.Context(), "other"))
	must(t, in("open", sdk.StreamIn{Path: "again"}, half))

	fail := errors.New("of the caller")
	createVolume(t, w, "caller")
	for _, encoding := range encodings() {
		var b bytes.Buffer
		enc, err := encode(encoding, &b)
		must(t, err)
		_, err = enc.Write(good)
		must(t, err)
		must(t, enc.Close())
		broken := io.MultiReader(bytes.NewReader(b.Bytes()[:b.Len()/2]), iotest.ErrReader(fail))
		if err := w.StreamIn(t.Context(), "caller", sdk.StreamIn{Encoding: encoding}, broken); err != fail {
			t.Errorf("%s: the reader's error came back as %v", encoding, err)
		}
		if err := w.StreamOut(t.Context(), "caller", sdk.StreamOut{Encoding: encoding}, failingWriter{fail}); err != fail {
			t.Errorf("%s: the writer's error came back as %v", encoding, err)
		}
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestVolumeSpecErrors(t *testing.T) {
	w := newTestWorker(t, Options{})
	create := func(change func(*sdk.VolumeSpec)) error {
		spec := sdk.VolumeSpec{ID: "v", Token: "t"}
		change(&spec)
		return asCalled(t, w).CreateVolume(t.Context(), spec)
	}
	wantError(t, create(func(s *sdk.VolumeSpec) { s.ID = "A" }), sdk.Invalid, sdk.ReasonSpec)
	wantError(t, create(func(s *sdk.VolumeSpec) { s.Import = "/etc" }), sdk.Unsupported, sdk.FeatureVolumeImport)
	wantError(t, create(func(s *sdk.VolumeSpec) { s.Privileged = true }), sdk.Unsupported, sdk.FeaturePrivileged)
	wantError(t, create(func(s *sdk.VolumeSpec) { s.UID = 1 << 40 }), sdk.Invalid, sdk.ReasonSpec)
	wantError(t, create(func(s *sdk.VolumeSpec) { s.Clone = "missing" }), sdk.NotFound, sdk.KindVolume)
	wantError(t, w.SealVolume(t.Context(), "missing"), sdk.NotFound, sdk.KindVolume)
	if got := volumes(t, w, sdk.Filter{}); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := asCalled(t, w).CreateVolume(cancelled, sdk.VolumeSpec{ID: "v", Token: "t"}); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

func TestVolumeDestroyedUnderAStream(t *testing.T) {
	w := newTestWorker(t, Options{})
	createVolume(t, w, "v")
	pr, pw := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- w.StreamIn(t.Context(), "v", sdk.StreamIn{}, pr) }()
	b := archive(t, map[string]string{"f": "x"})
	_, err := pw.Write(b[:512])
	must(t, err)
	must(t, w.DestroyVolume(t.Context(), "v"))
	_, err = pw.Write(b[512:])
	must(t, err)
	must(t, pw.Close())
	wantError(t, <-ended, sdk.NotFound, sdk.KindVolume)
}

func TestCancelledStreamDoesNotWaitForItsReader(t *testing.T) {
	w := newTestWorker(t, Options{})
	createVolume(t, w, "v")
	pr, pw := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.StreamIn(ctx, "v", sdk.StreamIn{}, pr) }()
	_, err := pw.Write(make([]byte, 10)) // it reads, and gets no more
	must(t, err)
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	must(t, w.DestroyVolume(t.Context(), "v"))
	must(t, pw.Close())
	testkit.Until(t, "the goroutine that was left behind gives the volume back", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.budget.Used() == 0
	})
}
