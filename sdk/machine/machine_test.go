//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// author is functions that count, and fail as they are told. Containers that answer are tested in examples/chroot.
type author struct {
	mu                 sync.Mutex
	created, destroyed []Container
	create, destroy    error
}

func (a *author) functions() Functions {
	return Functions{
		Create: func(_ context.Context, c Container) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.created = append(a.created, c)
			return a.create
		},
		Exec: func(context.Context, Container, []string, io.Reader, io.Writer, io.Writer) error {
			return errors.New("there is nothing")
		},
		Destroy: func(_ context.Context, c Container) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.destroyed = append(a.destroyed, c)
			return a.destroy
		},
	}
}

func options(t *testing.T) Options {
	t.Helper()
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "roots are copied by root")
	}
	shim := filepath.Join(t.TempDir(), "shim")
	if err := os.WriteFile(shim, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Options{
		Dir: filepath.Join(t.TempDir(), "state", "deep"), Shim: shim, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Root:     func(_ context.Context, dir string) error { return os.Mkdir(filepath.Join(dir, "bin"), 0o755) },
		Features: []sdk.Feature{sdk.FeatureLimitsMemory, sdk.FeatureLimitsPIDs, sdk.FeaturePrivileged},
	}
}

func newWorker(t *testing.T, a *author, o Options) *Worker {
	t.Helper()
	w, err := Open(t.Context(), "here", a.functions(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := NewRuntime(map[string]*Worker{"here": w}).Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *Worker) all(t *testing.T) []sdk.ContainerInfo {
	t.Helper()
	var all []sdk.ContainerInfo
	if err := w.ListContainers(t.Context(), sdk.Filter{}, func(i sdk.ContainerInfo) error { all = append(all, i); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCreateFails has nothing left of a container that the author's function did not make, or that does not answer.
func TestCreateFails(t *testing.T) {
	own := errors.New("no such luck")
	for what, a := range map[string]*author{"it says so": {create: own}, "it does not answer": {}} {
		t.Run(what, func(t *testing.T) {
			w := newWorker(t, a, options(t))
			spec := sdk.ContainerSpec{ID: "c", Token: "t", Dir: "/made/here", Privileged: true, Limits: sdk.Resources{MemoryBytes: 1 << 20, PIDs: 10}}
			err := w.CreateContainer(t.Context(), spec, nil)
			want := sdk.Class(sdk.Internal)
			if a.create == nil {
				want = sdk.Unavailable
			}
			if sdk.ClassOf(err) != want || a.create != nil && !errors.Is(err, own) {
				t.Errorf("got %v, %v", sdk.ClassOf(err), err)
			}
			if len(a.created) != 1 || len(a.destroyed) != 1 {
				t.Fatalf("created %d times, destroyed %d times", len(a.created), len(a.destroyed))
			}
			c := a.created[0]
			if !c.Privileged || c.Limits.MemoryBytes != 33<<20 || c.Limits.PIDs != 74 || c.Hermetic {
				t.Errorf("what was made is %+v", c)
			}
			if _, err := os.Stat(filepath.Dir(c.Root)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its files are left: %v", err)
			}
			if all := w.all(t); len(all) != 0 {
				t.Errorf("listed are %+v", all)
			}
		})
	}
}

// TestDestroyFails keeps what the author's function could not destroy, and listed so that it is tried again.
func TestDestroyFails(t *testing.T) {
	a := &author{create: errors.New("no such luck"), destroy: errors.New("it clings")}
	w := newWorker(t, a, options(t))
	spec := sdk.ContainerSpec{ID: "c", Token: "t"}
	if err := w.CreateContainer(t.Context(), spec, nil); !errors.Is(err, a.create) {
		t.Errorf("creating says %v", err)
	}
	if all := w.all(t); len(all) != 1 || all[0].State != sdk.ContainerCreating {
		t.Fatalf("listed are %+v", all)
	}
	if err := w.CreateContainer(t.Context(), spec, nil); !errors.Is(err, a.destroy) {
		t.Errorf("creating again over what cannot be destroyed says %v", err)
	}
	if err := w.DestroyContainer(t.Context(), "c"); !errors.Is(err, a.destroy) || !errors.Is(err, sdk.Internal) {
		t.Errorf("destroying says %v", err)
	}
	if all := w.all(t); len(all) != 1 || all[0].State != sdk.ContainerGone || all[0].Reason == "" {
		t.Fatalf("then listed are %+v", all)
	}
	if err := w.CreateContainer(t.Context(), spec, nil); !errors.Is(err, sdk.ReasonDead) {
		t.Errorf("creating what is being destroyed says %v", err)
	}
	if _, err := w.ListProcesses(t.Context(), "c"); !errors.Is(err, sdk.ReasonRecordLost) { // something of it may run
		t.Errorf("its processes: %v", err)
	}
	a.mu.Lock()
	a.destroy = nil
	a.mu.Unlock()
	for range 2 {
		if err := w.DestroyContainer(t.Context(), "c"); err != nil {
			t.Error(err)
		}
	}
	if all := w.all(t); len(all) != 0 {
		t.Errorf("at the end listed are %+v", all)
	}
}

// TestBadIDs has nothing but ids reach the disk.
func TestBadIDs(t *testing.T) {
	a := &author{}
	w, ctx := newWorker(t, a, options(t)), t.Context()
	for _, id := range []sdk.ContainerID{"", ".", "..", "../volumes", "a/own", ".trash", "Probe-X"} {
		_, listErr := w.ListProcesses(ctx, id)
		for call, err := range map[string]error{
			"CreateContainer":  w.CreateContainer(ctx, sdk.ContainerSpec{ID: id, Token: "t"}, nil),
			"DestroyContainer": w.DestroyContainer(ctx, id),
			"StartProcess":     w.StartProcess(ctx, id, sdk.ProcessSpec{ID: "p", Token: "t", Path: "true"}),
			"FollowProcess":    w.FollowProcess(ctx, id, "p", 0, sdk.Follow{}),
			"SignalProcess":    w.SignalProcess(ctx, id, "p", sdk.TERM),
			"ListProcesses":    listErr,
		} {
			if id == "Probe-X" && sdk.IsNotFound(err, sdk.KindContainer) {
				continue // the machine's own may be asked for what is in them, if there are any
			}
			if !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonSpec) {
				t.Errorf("%s of %q: %v", call, id, err)
			}
		}
	}
	for _, dir := range []string{"volumes", "containers"} {
		if _, err := os.Stat(filepath.Join(w.o.Dir, dir)); err != nil {
			t.Error(err)
		}
	}
	if len(a.created)+len(a.destroyed) > 0 {
		t.Errorf("the functions were called for %v and %v", a.created, a.destroyed)
	}
}

// TestUnsupported refuses what could only be ignored.
func TestUnsupported(t *testing.T) {
	a := &author{}
	w := newWorker(t, a, options(t))
	for feature, spec := range map[sdk.Feature]sdk.ContainerSpec{
		sdk.FeatureNetworkNone: {Hermetic: true},
		sdk.FeatureLimitsCPU:   {Limits: sdk.Resources{CPUMillis: 1}},
		sdk.FeatureLimitsDisk:  {Limits: sdk.Resources{DiskBytes: 1}},
		sdk.FeatureImageRef:    {Image: sdk.Image{Ref: "x"}},
	} {
		spec.ID, spec.Token = "c", "t"
		err := w.CreateContainer(t.Context(), spec, nil)
		if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Class != sdk.Unsupported || e.Feature != feature {
			t.Errorf("%s: %v", feature, err)
		}
	}
	if len(a.created) > 0 {
		t.Errorf("created are %v", a.created)
	}
}

// TestAway has a machine where no container comes about say so, and why.
func TestAway(t *testing.T) {
	a := &author{create: errors.New("no such luck")}
	w := newWorker(t, a, options(t))
	s, err := w.Status(t.Context())
	if err != nil || s.Health != sdk.Away || s.Reason != "no container can be made on this machine: no such luck" || s.VolumeIncarnation == "" {
		t.Errorf("got %+v, %v", s, err)
	}
	if left, err := os.ReadDir(filepath.Join(w.o.Dir, "containers")); err != nil || len(left) != 1 { // the trash
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestOptions tells what is wrong with them.
func TestOptions(t *testing.T) {
	good := options(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Options){
		"no directory":         func(o *Options) { o.Dir = "" },
		"a relative directory": func(o *Options) { o.Dir = "state" },
		"a file as directory":  func(o *Options) { o.Dir = file },
		"no shim":              func(o *Options) { o.Shim = filepath.Join(t.TempDir(), "none") },
		"a shim that is none":  func(o *Options) { o.Shim = t.TempDir() },
		"a relative shim":      func(o *Options) { o.Shim = "shim" },
	} {
		o := good
		change(&o)
		if _, err := Open(t.Context(), "here", (&author{}).functions(), o); !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonConfig) {
			t.Errorf("%s: %v", what, err)
		}
	}
	good.Features = []sdk.Feature{sdk.FeatureImageRef}
	if _, err := Open(t.Context(), "here", (&author{}).functions(), good); !errors.Is(err, sdk.Internal) {
		t.Errorf("a feature of none of the functions: %v", err)
	}
}

// TestPlugin makes a runtime of settings, as rpc.Serve does.
func TestPlugin(t *testing.T) {
	o := options(t)
	type settings struct {
		State string `json:"state"`
	}
	p := Plugin("mine", "1", func(worker string, s settings) (Functions, Options, error) {
		if s.State == "" {
			return Functions{}, Options{}, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: no state", worker)
		}
		o := o
		o.Dir = s.State
		return (&author{}).functions(), o, nil
	})
	if schema, err := sdk.SchemaOf(p.Worker); err != nil || len(schema.Fields) != 1 || schema.Fields[0].Name != "state" {
		t.Errorf("the schema is %+v, %v", schema, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := p.Open(ctx, sdk.Config{Workers: []sdk.Block{{Name: "w"}}}); !errors.Is(err, sdk.ReasonConfig) {
		t.Errorf("without settings: %v", err)
	}
	rt, err := p.Open(ctx, sdk.Config{Workers: []sdk.Block{{Name: "w", Values: []byte(`{"state":"` + t.TempDir() + `"}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("seen enough")
	err = rt.Workers(ctx, func(e sdk.WorkerEvent) error {
		if e.Kind != sdk.WorkerSnapshot || len(e.Workers) != 1 || e.Workers[0].Name != "w" || e.Workers[0].Platform != "linux" {
			t.Errorf("told are %+v", e)
		}
		return stop
	})
	if err != stop {
		t.Error(err)
	}
	if _, err := rt.Worker("other"); !sdk.IsNotFound(err, sdk.KindWorker) {
		t.Errorf("another worker: %v", err)
	}
	if _, err := rt.Worker("w"); err != nil {
		t.Error(err)
	}
}

// TestCopiedProgramRuns: a program can be executed as soon as it is copied, whatever else is started at the same time.
func TestCopiedProgramRuns(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := range testkit.Times(20, 500) {
				to := filepath.Join(dir, fmt.Sprintf("%d-%d", i, n))
				if err := errors.Join(copyProgram(t.Context(), program, to), os.Chmod(to, 0o500), exec.Command(to).Run()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
