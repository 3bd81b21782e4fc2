//go:build linux

package store

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
)

// held tells whether sealing has to wait.
func held(t *testing.T, s *storenet.Store, id sdk.VolumeID) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := s.SealVolume(ctx, id, func(context.Context) error { return errStay })
	if !errors.Is(err, context.DeadlineExceeded) && err != errStay {
		t.Fatal(err)
	}
	return err != errStay
}

// free waits until sealing need not.
func free(t *testing.T, s *storenet.Store, id sdk.VolumeID) {
	t.Helper()
	if err := s.SealVolume(testkit.Context(t), id, func(context.Context) error { return errStay }); err != errStay {
		t.Fatal(err)
	}
}

var errStay = errors.New("it is to stay open")

// TestShare holds volumes for one plugin while another wants to seal them.
func TestShare(t *testing.T) {
	p := serve(t, t.TempDir())
	a, b := p.client(), p.client()
	create(t, a, "v", "content")
	create(t, a, "w", "content")
	seal(t, a, "w")
	lease, err := a.Share(testkit.Context(t), "w", "v", "w")
	if err != nil {
		t.Fatal(err)
	}
	if len(lease.Volumes) != 2 || lease.Volumes["v"].State != sdk.VolumeOpen || lease.Volumes["w"].State != sdk.VolumeSealed {
		t.Errorf("it holds %+v", lease.Volumes)
	}
	if text, err := os.ReadFile(filepath.Join(p.dir, lease.Volumes["v"].Path, "file")); string(text) != "content" || err != nil {
		t.Errorf("where the volume is said to be there is %q, %v", text, err)
	}
	second, err := b.Share(testkit.Context(t), "v")
	if err != nil {
		t.Fatal(err)
	}
	if !held(t, b, "v") {
		t.Error("the volume could be sealed under two leases")
	}
	if err := errors.Join(lease.Release(), lease.Release()); err != nil {
		t.Error(err)
	}
	if !held(t, b, "v") {
		t.Error("the volume could be sealed under the second lease")
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
	seal(t, b, "v")
	if _, err := a.Share(testkit.Context(t), "v", "missing"); !sdk.IsNotFound(err, sdk.KindVolume) {
		t.Errorf("sharing what is not there: %v", err)
	}
	if _, err := a.Share(testkit.Context(t), "../v"); !errors.Is(err, sdk.Invalid) {
		t.Errorf("sharing what has no name: %v", err)
	}
	if err := b.DestroyVolume(testkit.Context(t), "v"); err != nil {
		t.Error(err)
	}
	none, err := a.Share(testkit.Context(t))
	if err := errors.Join(err, none.Release()); err != nil {
		t.Error(err)
	}
}

// TestLeaseEnds with the connection of either side.
func TestLeaseEnds(t *testing.T) {
	p := serve(t, t.TempDir())
	a := p.client()
	create(t, a, "v", "content")
	dying, err := storenet.New(storenet.Options{Node: "n1", Exec: p.exec, Program: "slipway-store", Run: p.run})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := dying.Share(testkit.Context(t), "v")
	if err != nil {
		t.Fatal(err)
	}
	if !held(t, a, "v") {
		t.Error("the volume could be sealed under a lease")
	}
	lease.Abandon()
	if err := dying.Close(); err != nil {
		t.Error(err)
	}
	free(t, a, "v") // the lease of one who is gone has ended

	if lease, err = a.Share(testkit.Context(t), "v"); err != nil {
		t.Fatal(err)
	}
	p.end(syscall.SIGKILL)
	if err := lease.Release(); !errors.Is(err, sdk.Unavailable) {
		t.Errorf("giving back what a killed store has held: %v", err)
	}
}

// TestStreamEnds with the plugin that sent it: sealing waits for no archive of somebody who is gone.
func TestStreamEnds(t *testing.T) {
	p := serve(t, t.TempDir())
	a := p.client()
	create(t, a, "v", "content")
	dying, err := storenet.New(storenet.Options{Node: "n1", Exec: p.exec, Program: "slipway-store", Run: p.run})
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	defer w.Close()
	streamed := make(chan error, 1)
	go func() {
		err := dying.StreamIn(t.Context(), "v", sdk.StreamIn{Path: "below"}, r)
		r.CloseWithError(err) // so that nobody writes to it in vain
		streamed <- err
	}()
	if _, err := w.Write(archive(t, "content").Bytes()[:1000]); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the file has begun", func() bool {
		_, err := os.Stat(p.volumeFile("v", "data/below/file"))
		return err == nil
	})
	if !held(t, a, "v") {
		t.Error("the volume could be sealed under an archive")
	}
	if err := dying.Close(); err != nil {
		t.Error(err)
	}
	if err := <-streamed; !errors.Is(err, sdk.Unavailable) {
		t.Errorf("the stream ends with %v", err)
	}
	seal(t, a, "v")
}

// TestSeal asks the plugin to quiet containers while nobody else can share the volume.
func TestSeal(t *testing.T) {
	p := serve(t, t.TempDir())
	a, b := p.client(), p.client()
	create(t, a, "v", "content")
	inUse := sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, "v", "a process lives")
	asked := 0
	for _, answer := range []error{inUse, errStay, nil, errStay} {
		err := a.SealVolume(testkit.Context(t), "v", func(ctx context.Context) error {
			asked++
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			if _, err := b.Share(short, "v"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("sharing meanwhile: %v", err)
			}
			return answer
		})
		if sealed := volumes(t, b)["v"].State == sdk.VolumeSealed; asked < 3 && (err != answer || sealed) || asked == 3 && (err != nil || !sealed) {
			t.Errorf("asked %d times, with %v answered: %v, sealed: %v", asked, answer, err, sealed)
		}
	}
	if asked != 3 {
		t.Errorf("containers were quieted %d times; a sealed volume needs none of it", asked)
	}
	if err := a.SealVolume(testkit.Context(t), "missing", quiet); !sdk.IsNotFound(err, sdk.KindVolume) {
		t.Errorf("sealing what is not there: %v", err)
	}

	create(t, a, "w", "content")
	ctx, cancel := context.WithCancel(t.Context())
	err := a.SealVolume(ctx, "w", func(context.Context) error { cancel(); return nil }) // as if the plugin ended here
	if !errors.Is(err, context.Canceled) {
		t.Errorf("sealing for one who has gone: %v", err)
	}
	free(t, b, "w")
	if state := volumes(t, b)["w"].State; state != sdk.VolumeOpen {
		t.Errorf("what nobody wants sealed any more is %v", state)
	}
}
