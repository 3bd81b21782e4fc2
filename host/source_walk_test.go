package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// onA uploads an artifact and brings it to worker a, beside the host's own blob of it.
func onA(t *testing.T, h *Host, name string) (*Artifact, replica) {
	t.Helper()
	files := map[string]string{"rootfs/f": strings.Repeat("x", 10_000), "metadata.json": "{}", "f": name}
	a, err := h.Upload(t.Context(), Upload{Name: name}, bytes.NewReader(archiveOf(t, "", files)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.replicate(t.Context(), a, mustWorker(t, h, "a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return a, r
}

// damageBlob changes a byte in the middle of what the host keeps.
func damageBlob(t *testing.T, h *Host, a *Artifact) {
	t.Helper()
	file := filepath.Join(h.dir, "blobs", a.ID)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, []byte("xxx"))+1000] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A replica that has vanished from its worker is passed over at once, whatever it is wanted for, and on its own worker too. That the worker
// does not know it destroys neither it nor its record.
func TestVanishedSource(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "a", "b")
	cfg := testConfig("a", "b")
	cfg.Timing.MissingGrace = time.Hour
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": rt}})
	conn, err := rt.Worker("a")
	if err != nil {
		t.Fatal(err)
	}
	container := func(but string, of func(*Artifact) ContainerRequest) func(*Artifact) error {
		return func(a *Artifact) error {
			req := of(a)
			req.Exclude = map[string]string{but: "not there"}
			_, err := h.Container(t.Context(), "of/"+a.Name, req)
			return err
		}
	}
	image := func(a *Artifact) ContainerRequest { return ContainerRequest{Image: a} }
	shared := func(a *Artifact) ContainerRequest { return ContainerRequest{Shared: []Input{{a, "x"}}} }
	input := func(a *Artifact) ContainerRequest { return ContainerRequest{Inputs: []Input{{a, "x"}}} }
	for name, use := range map[string]func(*Artifact) error{
		"stream": func(a *Artifact) error {
			_, err := h.replicate(t.Context(), a, mustWorker(t, h, "b"), nil)
			return err
		},
		"download": func(a *Artifact) error { return h.Download(t.Context(), a, io.Discard) },
		"download to a directory": func(a *Artifact) error {
			return h.DownloadDir(t.Context(), a, filepath.Join(t.TempDir(), "out"), false)
		},
		"cat":          func(a *Artifact) error { return h.ReadFile(t.Context(), a, "f", io.Discard) },
		"image":        container("b", image),
		"shared":       container("b", shared),
		"input":        container("b", input),
		"image on b":   container("a", image),
		"shared on b":  container("a", shared),
		"input on b":   container("a", input),
		"shared twice": container("b", func(a *Artifact) ContainerRequest { return ContainerRequest{Shared: []Input{{a, "x"}, {a, "y"}}} }),
	} {
		t.Run(name, func(t *testing.T) {
			a, r := onA(t, h, strings.ReplaceAll(name, " ", "-"))
			if err := conn.DestroyVolume(t.Context(), r.volume); err != nil {
				t.Fatal(err)
			}
			if err := use(a); err != nil {
				t.Errorf("the host has it: %v", err)
			}
			if row, err := h.volume(t.Context(), string(r.volume)); err != nil || row.State != lifecycle.VolumeSealed || row.Artifact != a.ID {
				t.Errorf("on its worker's word alone the replica is %+v, %v", row, err)
			}
			if !h.doubts.missing(string(r.volume)) {
				t.Error("that it could not be read is not noted")
			}
		})
	}
}

// A replica that its worker does not know is looked at without being asked: one that is listed serves again; one that is not is forgotten once
// the grace has passed and another look has not found it either.
func TestDoubtedReplicaIsLookedAt(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "a", "b")
	var wrong func(worker string) error
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, id string, _ int, real func() error) error {
		if call == "stream-out" && wrong != nil {
			if err := wrong(id); err != nil {
				return err
			}
		}
		return real()
	}}
	cfg := testConfig("a", "b")
	cfg.Timing.MissingGrace = time.Nanosecond
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	a, r := onA(t, h, "there")
	said := false
	wrong = func(worker string) error {
		if worker != "a" || said {
			return nil
		}
		said = true
		return sdk.NewNotFound(sdk.KindVolume, string(r.volume))
	}
	if err := h.Download(t.Context(), a, io.Discard); err != nil || !said {
		t.Fatalf("said: %v, %v", said, err)
	}
	wrong = nil
	testkit.Until(t, "the worker is looked at, and lists it", func() bool { return !h.doubts.has(string(r.volume)) })
	if again, err := h.replicate(t.Context(), a, mustWorker(t, h, "a"), nil); err != nil || again.volume != r.volume {
		t.Errorf("on a it is %+v, %v; want the replica %s, which is there", again, err, r.volume)
	}

	gone, r := onA(t, h, "gone")
	conn, err := rt.Worker("a")
	if err != nil {
		t.Fatal(err)
	}
	listed := o.calls("list")
	if err := errors.Join(conn.DestroyVolume(t.Context(), r.volume), h.Download(t.Context(), gone, io.Discard)); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the worker is looked at", func() bool { return o.calls("list") > listed })
	again, err := h.replicate(t.Context(), gone, mustWorker(t, h, "a"), nil)
	if err != nil || again.volume == r.volume {
		t.Errorf("on a it is %+v, %v; want another replica than %s, which is not there", again, err, r.volume)
	}
	if row, err := h.volume(t.Context(), string(r.volume)); err != nil || row.State != lifecycle.VolumeSealed {
		t.Errorf("after one look it is %+v, %v", row, err)
	}
	testkit.Until(t, "it is taken for lost", func() bool {
		reapAll(t, h)
		rows := replicas(t, h, gone)
		return len(rows) == 1 && rows[0].ID == string(again.volume)
	})
	reapAll(t, h) // after which no doubt is left of what is recorded no more
	if h.doubts.has(string(r.volume)) {
		t.Error("a replica that is forgotten is in doubt still")
	}
}

// Whatever is wrong with one source, another serves, and the blob that a replica in doubt could replace stays.
func TestSourcesInTurn(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]error{
		"a defect":          sdk.NewInternal(nil, "the disk is damaged"),
		"no class":          errors.New("read: input/output error"),
		"a damaged archive": sdk.NewInvalid(sdk.ReasonArchive, "unexpected EOF"),
		"not there":         nil, // made below
	} {
		t.Run(name, func(t *testing.T) {
			var id string
			o := &hooked{Runtime: newMemory(t, "a", "b")}
			h := openHost(t, o, Options{}, "a", "b")
			a, r := onA(t, h, "data")
			id = string(r.volume)
			if wrong == nil {
				wrong = sdk.NewNotFound(sdk.KindVolume, id)
			}
			o.hook = func(_ context.Context, call, worker string, _ int, real func() error) error {
				if call == "stream-out" && worker == "a" {
					return wrong
				}
				return real()
			}
			if err := h.Download(t.Context(), a, io.Discard); err != nil {
				t.Errorf("download: %v", err)
			}
			if !h.doubts.has(id) && !errors.Is(wrong, sdk.NotFound) { // of which a look may have found by now that it is there
				t.Error("it is not noted")
			}
			if err := h.DownloadDir(t.Context(), a, filepath.Join(t.TempDir(), "out"), false); err != nil {
				t.Errorf("download to a directory: %v", err)
			}
			h.doubts.note("a", id, false) // whatever a look has found
			if h.evictBlobs(t.Context(), 1<<30); len(blobsLeft(t, h)) != 1 {
				t.Error("the blob went though its only other copy is in doubt")
			}
			if _, err := h.replicate(t.Context(), a, mustWorker(t, h, "b"), nil); err != nil {
				t.Errorf("replicate: %v", err)
			}
		})
	}
}

// A damaged blob does no harm beside a replica that is away and comes back.
func TestDamagedBlobBesideAReplica(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(h *Host, a *Artifact, to string) error{
		"stream": func(h *Host, a *Artifact, _ string) error {
			_, err := h.replicate(t.Context(), a, mustWorker(t, h, "b"), nil)
			return err
		},
		"download": func(h *Host, a *Artifact, to string) error { return h.DownloadDir(t.Context(), a, to, false) },
	} {
		t.Run(name, func(t *testing.T) {
			away := 2
			o := &hooked{Runtime: newMemory(t, "a", "b"), on: map[string]func(int, func() error) error{"stream-out": func(n int, real func() error) error {
				if n <= away {
					return errAway
				}
				return real()
			}}}
			h := openHost(t, o, Options{}, "a", "b")
			a, _ := onA(t, h, "data")
			damageBlob(t, h, a)
			if err := use(h, a, filepath.Join(t.TempDir(), "out")); err != nil {
				t.Errorf("the replica was away for two calls only: %v", err)
			}
		})
	}
}

// Where no source is left the error names each, and why; what a destination refuses is asked of no other source.
func TestNoSourceIsLeft(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool // a source that was given up may still look
	o := &hooked{Runtime: newMemory(t, "a", "b", "c")}
	h := openHost(t, o, Options{}, "a", "b", "c")
	a, r := onA(t, h, "data")
	if _, err := h.replicate(t.Context(), a, mustWorker(t, h, "c"), nil); err != nil {
		t.Fatal(err)
	}
	o.hook = func(_ context.Context, call, worker string, _ int, real func() error) error {
		switch {
		case call == "stream-in" && refuse.Load():
			return sdk.NewInternal(nil, "its disk is full of holes")
		case call == "stream-out" && worker == "a" && !refuse.Load():
			return sdk.NewNotFound(sdk.KindVolume, string(r.volume))
		case call == "stream-out" && worker == "c" && !refuse.Load():
			return sdk.NewInternal(nil, "the disk is damaged")
		}
		return real()
	}
	refuse.Store(true)
	before := o.calls("stream-in")
	_, err := h.replicate(t.Context(), a, mustWorker(t, h, "b"), nil)
	if side, ok := errors.AsType[*stream.SideError](err); !ok || side.Side != stream.Destination || o.calls("stream-in") != before+1 {
		t.Errorf("after %d streams: %v", o.calls("stream-in")-before, err)
	}
	refuse.Store(false)
	damageBlob(t, h, a)
	_, err = h.replicate(t.Context(), a, mustWorker(t, h, "b"), nil)
	derr := h.DownloadDir(t.Context(), a, filepath.Join(t.TempDir(), "out"), false)
	for what, err := range map[string]error{"replicate": err, "download": derr} {
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		for _, want := range []string{"from a", "not found", "from c", "the disk is damaged", "from host", "checksum"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v: it does not say %q", what, err, want)
			}
		}
		if hopeless(errors.Join(err)) { // as a run has it
			t.Errorf("%s: a worker may find it still, and nobody tries again: %v", what, err)
		}
	}
}
