//go:build linux

package store

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
)

func itoa(n int) string { return strconv.Itoa(n) }

// TestVolumes goes through a volume's life, at an address and through a command in the store's task.
func TestVolumes(t *testing.T) {
	for name, args := range map[string][]string{
		"direct":  nil,
		"command": {"--advertise", "127.0.0.1:1"}, // where nobody is
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, t.TempDir(), args...)
			s, ctx := p.client(), testkit.Context(t)
			big := strings.Repeat("0123456789abcdef", 64<<10)
			create(t, s, "v", big)
			seal(t, s, "v")
			if err := s.CreateVolume(ctx, sdk.VolumeSpec{ID: "clone", Token: "t", Clone: "v"}); err != nil {
				t.Fatal(err)
			}
			if content(t, s, "clone") != big {
				t.Error("the clone's file is another")
			}
			all := volumes(t, s)
			if len(all) != 2 || all["v"].State != sdk.VolumeSealed || all["clone"].State != sdk.VolumeOpen || all["clone"].Parent != "v" || all["v"].Labels["of"] == "" {
				t.Errorf("listed are %+v", all)
			}
			var out bytes.Buffer
			if err := s.StreamOut(ctx, "v", sdk.StreamOut{Path: "file"}, &out); err != nil {
				t.Fatal(err)
			}
			r := tar.NewReader(&out)
			h, err := r.Next()
			if err != nil || h.Name != "file" || h.Mode&0o777 != 0o640 || h.ModTime.Unix() != 1_000_000_000 {
				t.Fatalf("the archive begins with %+v, %v", h, err)
			}
			if got, err := io.ReadAll(r); string(got) != big || err != nil {
				t.Errorf("the file in the archive is another, %v", err)
			}
			status, err := s.Status(ctx)
			if err != nil || status.VolumeIncarnation != p.hello().Incarnation || !status.Has(sdk.FeaturePeerStream) || !status.Has(sdk.FeatureFileRead) ||
				status.Zone != "here" || status.Used.Volumes != 2 || status.Capacity.DiskBytes == 0 {
				t.Errorf("the status is %+v, %v", status, err)
			}
			for _, id := range []sdk.VolumeID{"clone", "v", "v"} {
				if err := s.DestroyVolume(ctx, id); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.StatFile(ctx, "v", "file"); !sdk.IsNotFound(err, sdk.KindVolume) {
				t.Errorf("a file of what was destroyed: %v", err)
			}
		})
	}
}

// TestCallersErrors come back as they are, even those that look like the store's.
func TestCallersErrors(t *testing.T) {
	s := serve(t, t.TempDir()).client()
	create(t, s, "v", "content")
	ctx := testkit.Context(t)
	for _, own := range []error{errors.New("own"), &sdk.Error{Class: sdk.Unavailable, Reason: sdk.ReasonPluginGone, Message: "another plugin"}} {
		if err := s.StreamIn(ctx, "v", sdk.StreamIn{}, io.MultiReader(bytes.NewReader(make([]byte, 512)), failing{own})); err != own {
			t.Errorf("reading: %v", err)
		}
		if err := s.StreamOut(ctx, "v", sdk.StreamOut{}, failing{own}); err != own {
			t.Errorf("writing: %v", err)
		}
		if err := s.ReadFile(ctx, "v", "file", 0, -1, failing{own}); err != own {
			t.Errorf("writing a file: %v", err)
		}
		if err := s.ListVolumes(ctx, sdk.Filter{}, func(sdk.VolumeInfo) error { return own }); err != own {
			t.Errorf("listing: %v", err)
		}
		if err := s.ListFiles(ctx, "v", "", func(sdk.FileInfo) error { return own }); err != own {
			t.Errorf("listing files: %v", err)
		}
		if err := s.SealVolume(ctx, "v", func(context.Context) error { return own }); err != own {
			t.Errorf("sealing: %v", err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestKilled kills a store under a stream, and starts another on its volumes: the plugin's side finds it by itself.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	p := serve(t, dir)
	s := p.client()
	create(t, s, "kept", "content")
	seal(t, s, "kept")
	if err := s.CreateVolume(testkit.Context(t), sdk.VolumeSpec{ID: "cut", Token: "t"}); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	streamed := make(chan error, 1)
	go func() {
		err := s.StreamIn(t.Context(), "cut", sdk.StreamIn{}, r)
		r.CloseWithError(err) // so that nobody writes to it in vain
		streamed <- err
	}()
	text := archive(t, strings.Repeat("x", 1<<20)).Bytes()
	if _, err := w.Write(text[:len(text)/2]); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the file has begun", func() bool {
		_, err := os.Stat(p.volumeFile("cut", "data/file"))
		return err == nil
	})
	first := p.hello()
	p.end(syscall.SIGKILL)
	err := <-streamed
	if !errors.Is(err, sdk.Unavailable) || errors.Is(err, sdk.ReasonPluginGone) || !strings.Contains(err.Error(), "node n1") {
		t.Errorf("the stream ends with %v", err)
	}
	w.Close()

	_, err = s.Status(testkit.Context(t))
	if !errors.Is(err, sdk.Unavailable) || errors.Is(err, sdk.ReasonPluginGone) || !strings.Contains(err.Error(), first.Addresses[0]) {
		t.Errorf("without a store: %v", err)
	}

	p = serveIn(t, dir, p.run)
	if h := p.hello(); h.Incarnation != first.Incarnation || h.Fingerprint == first.Fingerprint || h.Secret == first.Secret {
		t.Errorf("the next store says %+v, the first said %+v", h, first)
	}
	testkit.Until(t, "the next store answers", func() bool {
		_, err := s.Status(testkit.Context(t))
		return err == nil
	})
	if all := volumes(t, s); len(all) != 2 || all["kept"].State != sdk.VolumeSealed || all["cut"].State != sdk.VolumeOpen {
		t.Errorf("listed are %+v", all)
	}
	if content(t, s, "kept") != "content" {
		t.Error("the file is another")
	}
	if err := s.DestroyVolume(testkit.Context(t), "cut"); err != nil {
		t.Error(err)
	}
}

// TestAskedOnce: however many call at first, the store is asked once who it is, and each kind of call makes one connection.
func TestAskedOnce(t *testing.T) {
	p := serve(t, t.TempDir())
	var asked atomic.Int32
	s := p.clientWith(storenet.Options{Exec: func(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
		asked.Add(1)
		return p.exec(ctx, argv, stdin, stdout, stderr)
	}})
	var own sync.WaitGroup
	for range 20 {
		own.Go(func() {
			if _, err := s.Status(testkit.Context(t)); err != nil {
				t.Error(err)
			}
			if err := s.ReadFile(testkit.Context(t), "missing", "", 0, -1, io.Discard); !sdk.IsNotFound(err, sdk.KindVolume) {
				t.Error(err)
			}
			if err := s.SealVolume(testkit.Context(t), "missing", quiet); !sdk.IsNotFound(err, sdk.KindVolume) {
				t.Error(err)
			}
		})
	}
	own.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("%d commands were run", n)
	}
}

// TestHung: a store that is stopped holds up nobody longer than they want to wait.
func TestHung(t *testing.T) {
	p := serve(t, t.TempDir())
	s := p.client()
	create(t, s, "v", "content")
	lease, err := s.Share(testkit.Context(t), "v")
	if err != nil {
		t.Fatal(err)
	}
	p.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Status(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("asking a store that is stopped: %v", err)
	}
	if _, err := s.Share(ctx, "v"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sharing there: %v", err)
	}
	p.signal(syscall.SIGCONT)
	if err := lease.Release(); err != nil {
		t.Error("a lease of before: ", err)
	}
	seal(t, s, "v")
}

// TestFull fills a disk.
func TestFull(t *testing.T) {
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "root, to mount a small disk")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	p, ctx := serve(t, dir), testkit.Context(t)
	s := p.client()
	create(t, s, "v", "small")
	if err := s.CreateVolume(ctx, sdk.VolumeSpec{ID: "big", Token: "t"}); err != nil {
		t.Fatal(err)
	}
	err := s.StreamIn(ctx, "big", sdk.StreamIn{}, archive(t, strings.Repeat("x", 3<<20)))
	if !errors.Is(err, sdk.Exhausted) || !errors.Is(err, sdk.ReasonStorage) {
		t.Errorf("too much: %v", err)
	}
	if err := s.DestroyVolume(ctx, "big"); err != nil {
		t.Fatal(err)
	}
	create(t, s, "w", strings.Repeat("x", 1<<20))
	t.Run("a store that is started again", func(t *testing.T) { testStartedFull(t, p, s) })
}

// testStartedFull starts a store on a disk without a byte of room: what it destroys makes room.
func testStartedFull(t *testing.T, p *process, s *storenet.Store) {
	ctx := testkit.Context(t)
	before, err := s.Status(ctx)
	if err != nil || !before.Has(sdk.FeatureTarSparse) {
		t.Fatalf("%+v, %v", before, err)
	}
	rest, err := os.Create(filepath.Join(p.dir, "rest"))
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = rest.Write(make([]byte, size))
		}
	}
	if !errors.Is(errors.Join(err, rest.Close()), syscall.ENOSPC) {
		t.Fatal(err)
	}
	p.end(syscall.SIGTERM)
	again := serve(t, p.dir).client()
	full, err := again.Status(ctx)
	if err != nil || full.VolumeIncarnation != before.VolumeIncarnation || full.Has(sdk.FeatureTarSparse) || !full.Has(sdk.FeatureFileRead) {
		t.Errorf("%+v, %v", full, err)
	}
	if content(t, again, "v") != "small" {
		t.Error("a volume's file is another")
	}
	if err := again.DestroyVolume(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	if now, err := again.Status(ctx); err != nil || !slices.Equal(now.Features, before.Features) {
		t.Errorf("with room it names %q, %v; before it named %q", now.Features, err, before.Features)
	}
	create(t, again, "x", "there is room")
}

// TestTwoOnOne has two stores on one directory, as when an allocation is replaced before it has ended, and a plugin on each.
func TestTwoOnOne(t *testing.T) {
	dir := t.TempDir()
	a := serve(t, dir).client()
	b := serve(t, dir).client()
	create(t, a, "v", "content")
	lease, err := b.Share(testkit.Context(t), "v")
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := a.SealVolume(short, "v", quiet); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sealing what the other store holds: %v", err)
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	seal(t, a, "v")
	if got := volumes(t, b)["v"].State; got != sdk.VolumeSealed {
		t.Errorf("for the other store the volume is %v", got)
	}
	made := make(chan error, 2)
	for _, s := range []*storenet.Store{a, b} { // of one volume, once
		go func() {
			made <- s.CreateVolume(testkit.Context(t), sdk.VolumeSpec{ID: "clone", Token: "t", Clone: "v"})
		}()
	}
	if err := errors.Join(<-made, <-made); err != nil {
		t.Error(err)
	}
	if content(t, a, "clone") != "content" {
		t.Error("the clone's file is another")
	}
}

// TestCommandLine is what people see.
func TestCommandLine(t *testing.T) {
	for args, code := range map[string]int{"": 2, "help": 2, "serve": 2, "serve --dir /x": 2, "hello extra": 2, "hello --bad": 2, "version": 0, "hello --run /nowhere": 1, "tunnel --run /nowhere": 1} {
		cmd := program(t.Context(), strings.Fields(args)...)
		cmd.Env = append(cmd.Env, runEnv+"="+t.TempDir())
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code || len(out) == 0 {
			t.Errorf("%q ends with %d: %s", args, got, out)
		}
	}
}

// TestSecrets keeps them to those who may have them.
func TestSecrets(t *testing.T) {
	p := serve(t, t.TempDir())
	s := p.client()
	create(t, s, "v", "content")
	ticket, err := s.PeerTicket(testkit.Context(t), "v", sdk.StreamIn{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(p.run, storenet.HelloFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of secrets has mode %v, %v", info.Mode(), err)
	}
	p.end(syscall.SIGTERM)
	secret := string(p.hello().Secret)
	if len(secret) < 20 || strings.Contains(p.said(), secret) || strings.Contains(p.said(), string(ticket.Data)) {
		t.Errorf("the secret is %q; the store said:\n%s", secret, p.said())
	}
}
