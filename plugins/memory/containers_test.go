package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keeper"
)

func containers(t *testing.T, w sdk.Worker, filter sdk.Filter) map[sdk.ContainerID]sdk.ContainerInfo {
	t.Helper()
	got := map[sdk.ContainerID]sdk.ContainerInfo{}
	must(t, w.ListContainers(t.Context(), filter, func(c sdk.ContainerInfo) error {
		got[c.ID] = c
		return nil
	}))
	return got
}

// create makes a container and takes it down at the end of the test.
func create(t *testing.T, w sdk.Worker, spec sdk.ContainerSpec) {
	t.Helper()
	if spec.ID == "" {
		spec.ID = "c"
	}
	spec.Token = "t"
	must(t, w.CreateContainer(t.Context(), spec, nil))
	t.Cleanup(func() { must(t, w.DestroyContainer(context.Background(), spec.ID)) })
}

func TestContainersAreKnownByTheirTokens(t *testing.T) {
	w := newTestWorker(t, Options{})
	spec := sdk.ContainerSpec{ID: "c", Token: "one", Labels: map[string]string{"a": "1"}}
	must(t, w.CreateContainer(t.Context(), spec, nil))
	spec.Dir, spec.Labels = "/other", nil // specs are never compared
	must(t, w.CreateContainer(t.Context(), spec, nil))
	spec.Token = "two"
	wantError(t, w.CreateContainer(t.Context(), spec, nil), sdk.AlreadyExists, sdk.KindContainer)
	if got := containers(t, w, sdk.Filter{Labels: map[string]string{"a": "1"}})["c"]; got.Token != "one" || got.State != sdk.ContainerReady {
		t.Errorf("listed as %+v", got)
	}
	if got := containers(t, w, sdk.Filter{Labels: map[string]string{"a": "2"}}); len(got) != 0 {
		t.Errorf("filter let pass %v", got)
	}
	stop := errors.New("enough")
	if err := w.ListContainers(t.Context(), sdk.Filter{}, func(sdk.ContainerInfo) error { return stop }); err != stop {
		t.Errorf("error of emit came back as %v", err)
	}
	must(t, w.DestroyContainer(t.Context(), "c"))
	must(t, w.DestroyContainer(t.Context(), "c"))
	if got := containers(t, w, sdk.Filter{}); len(got) != 0 {
		t.Errorf("left after destroy: %v", got)
	}
}

func TestContainerSpecErrors(t *testing.T) {
	w := newTestWorker(t, Options{})
	createVolume(t, w, "open")
	fill(t, w, "open", map[string]string{"file": "x"})
	createVolume(t, w, "sealed")
	must(t, w.SealVolume(t.Context(), "sealed"))
	for name, c := range map[string]struct {
		spec  sdk.ContainerSpec
		class sdk.Class
		why   any
	}{
		"id":         {sdk.ContainerSpec{ID: "a/b"}, sdk.Invalid, sdk.ReasonSpec},
		"image ref":  {sdk.ContainerSpec{Image: sdk.Image{Ref: "busybox"}}, sdk.Unsupported, sdk.FeatureImageRef},
		"privileged": {sdk.ContainerSpec{Privileged: true}, sdk.Unsupported, sdk.FeaturePrivileged},
		"cpu":        {sdk.ContainerSpec{Limits: sdk.Resources{CPUMillis: 1}}, sdk.Unsupported, sdk.FeatureLimitsCPU},
		"memory":     {sdk.ContainerSpec{Limits: sdk.Resources{MemoryBytes: 1}}, sdk.Unsupported, sdk.FeatureLimitsMemory},
		"disk":       {sdk.ContainerSpec{Limits: sdk.Resources{DiskBytes: 1}}, sdk.Unsupported, sdk.FeatureLimitsDisk},
		"pids":       {sdk.ContainerSpec{Limits: sdk.Resources{PIDs: 1}}, sdk.Unsupported, sdk.FeatureLimitsPIDs},
		"containers": {sdk.ContainerSpec{Limits: sdk.Resources{Containers: 1}}, sdk.Invalid, sdk.ReasonSpec},
		"no image":   {sdk.ContainerSpec{Image: sdk.Image{Volume: "sealed"}}, sdk.Invalid, sdk.ReasonImage},
		"open image": {sdk.ContainerSpec{Image: sdk.Image{Volume: "open"}}, sdk.FailedPrecondition, sdk.ReasonNotSealed},
		"lost image": {sdk.ContainerSpec{Image: sdk.Image{Volume: "missing"}}, sdk.NotFound, sdk.KindVolume},
		"lost mount": {sdk.ContainerSpec{Mounts: []sdk.Mount{{Volume: "missing", Path: "/m"}}}, sdk.NotFound, sdk.KindVolume},
		"rw sealed":  {sdk.ContainerSpec{Mounts: []sdk.Mount{{Volume: "sealed", Path: "/m"}}}, sdk.FailedPrecondition, sdk.ReasonSealed},
		"mount twice": {sdk.ContainerSpec{Mounts: []sdk.Mount{{Volume: "open", Path: "/m"}, {Volume: "open", Path: "/m"}}},
			sdk.Invalid, sdk.ReasonPath},
		"mount on a file": {sdk.ContainerSpec{Mounts: []sdk.Mount{{Volume: "open", Path: "/m"}, {Volume: "open", Path: "/m/file"}}},
			sdk.Invalid, sdk.ReasonPath},
		"dir is a file": {sdk.ContainerSpec{Dir: "/m/file", Mounts: []sdk.Mount{{Volume: "open", Path: "/m"}}},
			sdk.Invalid, sdk.ReasonPath},
	} {
		t.Run(name, func(t *testing.T) {
			if c.spec.ID == "" {
				c.spec.ID = "c"
			}
			c.spec.Token = "t"
			wantError(t, asCalled(t, w).CreateContainer(t.Context(), c.spec, nil), c.class, c.why)
			if got := containers(t, w, sdk.Filter{}); len(got) != 0 {
				t.Errorf("left behind: %v", got)
			}
		})
	}
	for id := range volumes(t, w, sdk.Filter{}) { // nothing holds on to them: newTestWorker checks the budget
		must(t, w.DestroyVolume(t.Context(), id))
	}
}

func TestStatusOfAWorker(t *testing.T) {
	r := New([]string{"a", "b", "c"}, Options{Memory: 1 << 20, Workers: map[string]WorkerOptions{"c": {Memory: 2 << 20}}})
	defer r.Close(context.Background())
	status := func(name string) sdk.Status {
		w, err := r.Worker(name)
		must(t, err)
		s, err := w.Status(t.Context())
		must(t, err)
		must(t, w.Close())
		return s
	}
	a, _ := r.Worker("a")
	createVolume(t, a, "v")
	create(t, a, sdk.ContainerSpec{})
	got := status("a")
	if got.Health != sdk.Healthy || got.Capacity.DiskBytes != 1<<20 || got.Used.DiskBytes == 0 || got.Used.Volumes != 1 || got.Used.Containers != 1 {
		t.Errorf("a: %+v", got)
	}
	if kept := sdk.StripFeatures(a, got); !slices.Equal(kept.Features, got.Features) {
		t.Errorf("features without an interface: %v", got.Features)
	}
	if b := status("b"); b.Used.DiskBytes != got.Used.DiskBytes || b.Used.Volumes != 0 {
		t.Errorf("b shares a's limit and nothing else: %+v", b)
	}
	if c := status("c"); c.Used.DiskBytes != 0 || c.Capacity.DiskBytes != 2<<20 {
		t.Errorf("c has its own limit: %+v", c)
	}
	again := New([]string{"a"}, Options{})
	w, _ := again.Worker("a")
	if s, _ := w.Status(t.Context()); s.ContainerIncarnation == got.ContainerIncarnation || s.VolumeIncarnation == got.VolumeIncarnation ||
		got.ContainerIncarnation == "" || got.VolumeIncarnation == "" {
		t.Errorf("incarnations %+v and %+v", got, s)
	}
	_, err := r.Worker("d")
	wantError(t, err, sdk.NotFound, sdk.KindWorker)
	must(t, a.DestroyVolume(t.Context(), "v"))
}

func TestRuntimeTellsItsWorkers(t *testing.T) {
	r := New([]string{"b", "a"}, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var names []string
	err := r.Workers(ctx, func(e sdk.WorkerEvent) error {
		for _, w := range e.Workers {
			names = append(names, w.Name+"/"+w.Platform)
		}
		cancel()
		return nil
	})
	if err != context.Canceled || !slices.Equal(names, []string{"a/memory", "b/memory"}) {
		t.Errorf("%v, %v", names, err)
	}
	stop := errors.New("enough")
	if err := r.Workers(t.Context(), func(sdk.WorkerEvent) error { return stop }); err != stop {
		t.Errorf("error of emit came back as %v", err)
	}
}

func TestVolumeDestroyedWhileMounted(t *testing.T) {
	w := newTestWorker(t, Options{})
	createVolume(t, w, "v")
	fill(t, w, "v", map[string]string{"f": "x"})
	create(t, w, sdk.ContainerSpec{Mounts: []sdk.Mount{{Volume: "v", Path: "/m"}}})
	must(t, w.DestroyVolume(t.Context(), "v"))
	if got := volumes(t, w, sdk.Filter{}); len(got) != 0 {
		t.Errorf("listed: %v", got)
	}
	if got := run(t, w, "c", "cat /m/f").stdout; got != "x" {
		t.Errorf("the container reads %q", got)
	}
}

func TestMountsComeInAnyOrder(t *testing.T) {
	w := newTestWorker(t, Options{})
	for _, id := range []sdk.VolumeID{"outer", "inner", "ro"} {
		createVolume(t, w, id)
		fill(t, w, id, map[string]string{"f": string(id)})
	}
	must(t, w.SealVolume(t.Context(), "ro"))
	mounts := []sdk.Mount{{Volume: "inner", Path: "/a/b/c"}, {Volume: "outer", Path: "/a"}, {Volume: "ro", Path: "/a/ro", ReadOnly: true}}
	create(t, w, sdk.ContainerSpec{ID: "c1", Mounts: mounts, Dir: "/a/b/c/new"})
	slices.Reverse(mounts)
	create(t, w, sdk.ContainerSpec{ID: "c2", Mounts: mounts})
	for _, c := range []sdk.ContainerID{"c1", "c2"} {
		if got := run(t, w, c, "cat /a/f /a/b/c/f /a/ro/f").stdout; got != "outerinnerro" {
			t.Errorf("%s reads %q", c, got)
		}
	}
	if got := run(t, w, "c1", "pwd; echo x > g; echo y > /a/ro/g || echo refused"); got.stdout != "/a/b/c/new\nrefused\n" {
		t.Errorf("got %+v", got)
	}
	if got := files(t, w, "inner"); !maps.Equal(got, map[string]string{"f": "inner", "new/g": "x\n"}) {
		t.Errorf("inner has %v", got)
	}
}

func TestImageIsTheRoot(t *testing.T) {
	w := newTestWorker(t, Options{})
	createVolume(t, w, "image")
	fill(t, w, "image", map[string]string{
		"metadata.json": "{}", "rootfs/bin/hello": "#!/bin/sh\necho hello from $0\n", "rootfs/rootfs/f": "nested", "rootfs/tmp/": "",
	})
	must(t, w.SealVolume(t.Context(), "image"))
	for _, id := range []sdk.ContainerID{"c1", "c2"} { // each has its own copy
		create(t, w, sdk.ContainerSpec{ID: id, Image: sdk.Image{Volume: "image"}})
		got := run(t, w, id, "hello; cat /rootfs/f; test ! -e /metadata.json && test ! -e /mine && echo mine > /mine")
		if got.stdout != "hello from /bin/hello\nnested" || got.exit.Code != 0 {
			t.Errorf("%s: %+v", id, got)
		}
	}
	if got := files(t, w, "image"); len(got) != 3 {
		t.Errorf("the image has %v", got)
	}
}

// A process that does not end when it is killed keeps its container from going, and nothing else.
func TestContainerThatCannotGoYet(t *testing.T) {
	w := newTestWorker(t, Options{})
	spec := sdk.ContainerSpec{ID: "c", Token: "t"}
	must(t, w.CreateContainer(t.Context(), spec, nil))
	ctx, cancel := context.WithCancel(t.Context())
	stubborn := &process{id: "p", token: "t", journal: keeper.New(sdk.ProcessSpec{ID: "p"}, nil), kill: cancel, ended: make(chan struct{})}
	w.containers["c"].processes["p"] = stubborn
	if err := w.DestroyContainer(ctx, "c"); err != context.Canceled {
		t.Fatalf("destroy: %v", err)
	}
	if got := containers(t, w, sdk.Filter{})["c"]; got.State != sdk.ContainerGone || got.Reason == "" {
		t.Errorf("listed as %+v", got)
	}
	wantError(t, w.CreateContainer(t.Context(), spec, nil), sdk.FailedPrecondition, sdk.ReasonDead)
	wantError(t, w.StartProcess(t.Context(), "c", script("q", "true")), sdk.FailedPrecondition, sdk.ReasonDead)
	another := spec
	another.Token = "u"
	wantError(t, w.CreateContainer(t.Context(), another, nil), sdk.AlreadyExists, sdk.KindContainer)
	wantError(t, w.FollowProcess(t.Context(), "c", "p", 0, sdk.Follow{}), sdk.NotFound, sdk.KindContainer)
	wantError(t, w.SignalProcess(t.Context(), "c", "p", sdk.TERM), sdk.NotFound, sdk.KindContainer)
	if infos, err := w.ListProcesses(t.Context(), "c"); err != nil || len(infos) != 1 {
		t.Errorf("its record tells %v, %v", infos, err)
	}
	close(stubborn.ended)
	must(t, w.DestroyContainer(t.Context(), "c"))
	if got := containers(t, w, sdk.Filter{}); len(got) != 0 {
		t.Errorf("left after destroy: %v", got)
	}
}
