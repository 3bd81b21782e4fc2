//go:build linux

package volumedir

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
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// bench is a store and short ways to use it.
type bench struct {
	*Store
	t *testing.T
}

func newBench(t *testing.T, o Options) bench {
	t.Helper()
	o.Archives.DropOwners = os.Geteuid() != 0
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "volumes"), o)
	if err != nil {
		t.Fatal(err)
	}
	return bench{s, t}
}

// again opens the same store as a plugin's next start does.
func (b bench) again() bench {
	b.t.Helper()
	s, err := Open(b.t.Context(), b.shelf.Dir(), b.o)
	if err != nil {
		b.t.Fatal(err)
	}
	return bench{s, b.t}
}

func (b bench) create(id sdk.VolumeID, clone sdk.VolumeID) sdk.VolumeSpec {
	b.t.Helper()
	spec := sdk.VolumeSpec{ID: id, Token: sdk.NewToken(), Clone: clone, Labels: map[string]string{"of": string(id)}}
	if err := b.CreateVolume(b.t.Context(), spec); err != nil {
		b.t.Fatal(err)
	}
	return spec
}

// write puts a file into a volume.
func (b bench) write(id sdk.VolumeID, name, text string) error {
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = io.WriteString(tw, text)
	}
	if err = errors.Join(err, tw.Close()); err != nil {
		b.t.Fatal(err)
	}
	return b.StreamIn(b.t.Context(), id, sdk.StreamIn{}, &archive)
}

func (b bench) read(id sdk.VolumeID, name string) string {
	b.t.Helper()
	var text bytes.Buffer
	if err := b.ReadFile(b.t.Context(), id, name, 0, -1, &text); err != nil {
		b.t.Error(err)
	}
	return text.String()
}

func (b bench) list() map[sdk.VolumeID]sdk.VolumeInfo {
	b.t.Helper()
	all := make(map[sdk.VolumeID]sdk.VolumeInfo)
	if err := b.ListVolumes(b.t.Context(), sdk.Filter{}, func(i sdk.VolumeInfo) error { all[i.ID] = i; return nil }); err != nil {
		b.t.Error(err)
	}
	return all
}

// TestLife takes volumes from their creation to their end, through a restart.
func TestLife(t *testing.T) {
	b := newBench(t, Options{})
	spec := b.create("parent", "")
	if err := b.write("parent", "file", "content"); err != nil {
		t.Fatal(err)
	}
	err := b.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "early", Token: sdk.NewToken(), Clone: "parent"})
	if !errors.Is(err, sdk.ReasonNotSealed) {
		t.Errorf("cloning an open volume: %v", err)
	}
	for range 2 {
		if err := b.SealVolume(t.Context(), "parent"); err != nil {
			t.Error(err)
		}
	}
	if err := b.write("parent", "file", "changed"); !errors.Is(err, sdk.ReasonSealed) {
		t.Errorf("writing a sealed volume: %v", err)
	}
	b.create("clone", "parent")
	if err := b.write("clone", "file", "its own"); err != nil {
		t.Error(err)
	}
	first := b.Incarnation()
	b = b.again()
	if b.Incarnation() != first || first == "" {
		t.Errorf("the incarnation was %q and is %q", first, b.Incarnation())
	}
	if err := b.CreateVolume(t.Context(), spec); err != nil {
		t.Errorf("creating it again: %v", err)
	}
	if parent, clone := b.read("parent", "file"), b.read("clone", "file"); parent != "content" || clone != "its own" {
		t.Errorf("the parent has %q, the clone %q", parent, clone)
	}
	all := b.list()
	if p, c := all["parent"], all["clone"]; len(all) != 2 || p.State != sdk.VolumeSealed || p.Token != spec.Token || p.Labels["of"] != "parent" ||
		c.State != sdk.VolumeOpen || c.Parent != "parent" {
		t.Errorf("listed are %+v", all)
	}
	for range 2 {
		if err := b.DestroyVolume(t.Context(), "parent"); err != nil {
			t.Error(err)
		}
	}
	if n, err := b.Count(); n != 1 || err != nil {
		t.Errorf("%d volumes are left, %v", n, err)
	}
	if err := b.SealVolume(t.Context(), "parent"); !sdk.IsNotFound(err, sdk.KindVolume) {
		t.Errorf("sealing what is gone: %v", err)
	}
}

// TestBadIDs has every call refuse what is no id. The empty one is the directory of all volumes.
func TestBadIDs(t *testing.T) {
	b, ctx := newBench(t, Options{}), t.Context()
	b.create("stays", "")
	for _, id := range []sdk.VolumeID{"", ".", "..", "../volumes/stays", "stays/data", ".trash", "Stays"} {
		_, _, shareErr := b.Share(ctx, id)
		_, statErr := b.StatFile(ctx, id, "")
		for call, err := range map[string]error{
			"CreateVolume":  b.CreateVolume(ctx, sdk.VolumeSpec{ID: id, Token: "t"}),
			"SealVolume":    b.SealVolume(ctx, id),
			"DestroyVolume": b.DestroyVolume(ctx, id),
			"StreamIn":      b.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(nil)),
			"StreamOut":     b.StreamOut(ctx, id, sdk.StreamOut{}, io.Discard),
			"ListFiles":     b.ListFiles(ctx, id, "", func(sdk.FileInfo) error { return nil }),
			"ReadFile":      b.ReadFile(ctx, id, "", 0, -1, io.Discard),
			"StatFile":      statErr,
			"Share":         shareErr,
		} {
			if !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonSpec) {
				t.Errorf("%s of %q: %v", call, id, err)
			}
		}
	}
	if all := b.list(); len(all) != 1 || all["stays"].State != sdk.VolumeOpen {
		t.Errorf("listed are %+v", all)
	}
}

// TestUnsupported refuses what could only be ignored.
func TestUnsupported(t *testing.T) {
	b := newBench(t, Options{})
	for feature, spec := range map[sdk.Feature]sdk.VolumeSpec{sdk.FeatureVolumeImport: {Import: "/"}, sdk.FeaturePrivileged: {Privileged: true}} {
		spec.ID, spec.Token = "v", "t"
		err := b.CreateVolume(t.Context(), spec)
		if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Class != sdk.Unsupported || e.Feature != feature {
			t.Errorf("%s: %v", feature, err)
		}
	}
	b.create("v", "")
	err := errors.Join(b.StreamIn(t.Context(), "v", sdk.StreamIn{Encoding: "gzip"}, bytes.NewReader(nil)))
	if !errors.Is(err, sdk.ReasonEncoding) {
		t.Errorf("another encoding: %v", err)
	}
	features, err := b.Features()
	if err != nil || !slices.Contains(features, sdk.FeatureFileRead) {
		t.Errorf("features %q, %v", features, err)
	}
	if len(b.list()) != 1 {
		t.Errorf("listed are %+v", b.list())
	}
}

// TestSealUnderArchive seals a volume into which an archive is still coming.
func TestSealUnderArchive(t *testing.T) {
	b := newBench(t, Options{})
	b.create("v", "")
	archive := make([]byte, 1024) // an empty one
	r, w := io.Pipe()
	streamed := make(chan error, 1)
	go func() { streamed <- b.StreamIn(t.Context(), "v", sdk.StreamIn{}, r) }()
	if _, err := w.Write(archive[:1]); err != nil { // it has begun
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.SealVolume(ctx, "v"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sealing meanwhile: %v", err)
	}
	if _, err := w.Write(archive[1:]); err != nil {
		t.Error(err)
	}
	w.Close()
	if err := <-streamed; err != nil {
		t.Errorf("the archive: %v", err)
	}
	if err := b.SealVolume(t.Context(), "v"); err != nil {
		t.Errorf("sealing afterwards: %v", err)
	}
}

// TestDestroyUnderArchive does not wait for whoever sends.
func TestDestroyUnderArchive(t *testing.T) {
	b := newBench(t, Options{})
	b.create("v", "")
	r, w := io.Pipe()
	streamed := make(chan error, 1)
	go func() { streamed <- b.StreamIn(t.Context(), "v", sdk.StreamIn{}, r) }()
	if _, err := w.Write(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := b.DestroyVolume(t.Context(), "v"); err != nil {
		t.Error(err)
	}
	w.CloseWithError(errors.New("no more"))
	if err := <-streamed; !sdk.IsNotFound(err, sdk.KindVolume) {
		t.Errorf("the archive: %v", err)
	}
}

// TestDestroyUnderReader destroys a volume of which an archive, or a list, is on its way: a part of it is never taken for the whole.
func TestDestroyUnderReader(t *testing.T) {
	for name, read := range map[string]func(b bench, destroy func()) error{
		"stream": func(b bench, destroy func()) error {
			return b.StreamOut(t.Context(), "v", sdk.StreamOut{}, writes(func(p []byte) (int, error) { destroy(); return len(p), nil }))
		},
		"list": func(b bench, destroy func()) error {
			return b.ListFiles(t.Context(), "v", "", func(sdk.FileInfo) error { destroy(); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.create("v", "")
			for i := range 300 {
				if err := os.WriteFile(filepath.Join(b.Dir("v"), fmt.Sprint(i)), make([]byte, 1<<10), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := read(b, sync.OnceFunc(func() {
				if err := b.DestroyVolume(t.Context(), "v"); err != nil {
					t.Error(err)
				}
			}))
			if !sdk.IsNotFound(err, sdk.KindVolume) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// writes is a writer that is a function.
type writes func([]byte) (int, error)

func (f writes) Write(p []byte) (int, error) { return f(p) }

// TestQuiesce seals only what the containers let go.
func TestQuiesce(t *testing.T) {
	inUse := sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, "v", "a process lives")
	var answer error
	b := newBench(t, Options{Quiesce: func(_ context.Context, id sdk.VolumeID) error {
		if id != "v" {
			t.Errorf("asked about %q", id)
		}
		return answer
	}})
	b.create("v", "")
	for _, answer = range []error{inUse, context.Canceled, errors.New("broken")} {
		if err := b.SealVolume(t.Context(), "v"); err == nil || errors.Is(answer, sdk.ReasonInUse) != errors.Is(err, sdk.ReasonInUse) {
			t.Errorf("the containers say %v, sealing says %v", answer, err)
		}
		if got := b.list()["v"].State; got != sdk.VolumeOpen {
			t.Errorf("it is %v", got)
		}
	}
	answer = nil
	if err := b.SealVolume(t.Context(), "v"); err != nil {
		t.Error(err)
	}
}

// TestShare holds sealing and destroying back, and another's share not.
func TestShare(t *testing.T) {
	b := newBench(t, Options{})
	b.create("a", "")
	b.create("b", "")
	volumes, unlock, err := b.Share(t.Context(), "b", "a", "b")
	if err != nil || len(volumes) != 2 || volumes["a"].State != sdk.VolumeOpen || volumes["a"].Dir != b.Dir("a") {
		t.Fatalf("got %+v, %v", volumes, err)
	}
	if _, _, err := b.Share(t.Context(), "a", "missing"); !sdk.IsNotFound(err, sdk.KindVolume) {
		t.Errorf("sharing what is not there: %v", err)
	}
	var own sync.WaitGroup
	done := make(chan string, 2)
	for what, call := range map[string]func(context.Context, sdk.VolumeID) error{"a": b.SealVolume, "b": b.DestroyVolume} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := call(ctx, sdk.VolumeID(what)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q while it is shared: %v", what, err)
		}
		cancel()
		own.Go(func() {
			if err := call(t.Context(), sdk.VolumeID(what)); err != nil {
				t.Error(err)
			}
			done <- what
		})
	}
	unlock()
	own.Wait()
	if all := b.list(); len(all) != 1 || all["a"].State != sdk.VolumeSealed {
		t.Errorf("listed are %+v", all)
	}
}

// TestClonesOfEachOther must not wait for each other for ever.
func TestClonesOfEachOther(t *testing.T) {
	b := newBench(t, Options{})
	err := b.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "own", Token: "t", Clone: "own"})
	if !sdk.IsNotFound(err, sdk.KindVolume) {
		t.Errorf("a clone of itself: %v", err)
	}
	var own sync.WaitGroup
	for range 50 {
		for _, spec := range []sdk.VolumeSpec{{ID: "x", Token: "t", Clone: "y"}, {ID: "y", Token: "t", Clone: "x"}} {
			own.Go(func() {
				err := b.CreateVolume(t.Context(), spec)
				if !sdk.IsNotFound(err, sdk.KindVolume) && !errors.Is(err, sdk.ReasonNotSealed) {
					t.Errorf("%q of %q: %v", spec.ID, spec.Clone, err)
				}
			})
		}
	}
	own.Wait()
	if all := b.list(); len(all) != 0 {
		t.Errorf("listed are %+v", all)
	}
}

// TestCutOff completes a clone that a killed plugin has left in parts.
func TestCutOff(t *testing.T) {
	b := newBench(t, Options{})
	b.create("parent", "")
	if err := errors.Join(b.write("parent", "file", "content"), b.SealVolume(t.Context(), "parent")); err != nil {
		t.Fatal(err)
	}
	spec := b.create("clone", "parent")
	rec, err := b.shelf.Read("clone")
	if err != nil {
		t.Fatal(err)
	}
	rec.State = sdk.VolumeCreating
	err = errors.Join(b.shelf.Write("clone", rec), os.Remove(filepath.Join(b.Dir("clone"), "file")), os.WriteFile(filepath.Join(b.Dir("clone"), "stray"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	b = b.again()
	if got := b.list()["clone"].State; got != sdk.VolumeCreating {
		t.Errorf("it is listed as %v", got)
	}
	if err := b.write("clone", "x", ""); !errors.Is(err, sdk.ReasonCreating) {
		t.Errorf("writing what is half made: %v", err)
	}
	other := spec
	other.Token = "other"
	if err := b.CreateVolume(t.Context(), other); !errors.Is(err, sdk.AlreadyExists) {
		t.Errorf("another token: %v", err)
	}
	if err := b.CreateVolume(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if got := b.read("clone", "file"); got != "content" {
		t.Errorf("the clone has %q", got)
	}
	if _, err := b.StatFile(t.Context(), "clone", "stray"); !sdk.IsNotFound(err, sdk.KindFile) {
		t.Errorf("what the first attempt left: %v", err)
	}
}

// TestDestroyOfMounted must not reach what an operator has mounted in a volume.
func TestDestroyOfMounted(t *testing.T) {
	needsRoot(t)
	b, precious := newBench(t, Options{}), t.TempDir()
	b.create("v", "")
	file := filepath.Join(precious, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), unix.Mount(precious, b.Dir("v"), "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(b.Dir("v"), unix.MNT_DETACH)
	if err := b.DestroyVolume(t.Context(), "v"); !errors.Is(err, sdk.Internal) {
		t.Errorf("destroying it: %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	testkit.Lacking(t, "owners, devices and mounts need root")
}
