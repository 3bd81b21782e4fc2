//go:build linux

package garden

import (
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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestFaults breaks servers, connections and the plugin under what is going on.
func TestFaults(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	f := &faults{garden: gardentest.NewProxy(t, servers.Garden), baggage: gardentest.NewProxy(t, servers.Baggageclaim)}
	f.world = worldOn(t, servers, func(c *Config) { c.Garden, c.Baggageclaim = f.garden.Address(), f.baggage.Address() })
	f.statusOf(t)
	for name, test := range map[string]func(*testing.T, *faults){
		"garden is killed":           testGardenKilled,
		"connections are cut":        testCut,
		"half-open connections":      testHalfOpen,
		"a plugin restarts":          testPluginRestart,
		"destroyed under a follower": testDestroyedUnderFollower,
	} {
		t.Run(name, func(t *testing.T) {
			check := f.unchanged(t)
			t.Run("", func(t *testing.T) { test(t, f) })
			check()
		})
	}
	t.Run("baggageclaim is killed", func(t *testing.T) { testBaggageclaimKilled(t, f) }) // the last, for it changes what is mounted
}

type faults struct {
	*world
	garden, baggage *gardentest.Proxy
}

// followOn follows to the exit as a host does: what is Unavailable is asked again from the last position.
func (x *world) followOn(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, f *follower) error {
	return asHost(ctx, func() error { return x.FollowProcess(ctx, id, process, f.at, f.follow()) })
}

// asHost asks until the answer is another than Unavailable.
func asHost(ctx context.Context, call func() error) error {
	for {
		err := call()
		if !errors.Is(err, sdk.Unavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the last answer was %w", ctx.Err(), err)
		case <-time.After(50 * time.Millisecond): // a server that is away says nothing when it is back
		}
	}
}

// awaitFile waits for a process in a container to make a file on a volume.
func (x *world) awaitFile(t *testing.T, volume, name string) {
	t.Helper()
	testkit.Until(t, "there is a file "+name, func() bool {
		_, err := os.Stat(filepath.Join(x.VolumesDir(), "live", volume, "volume", name))
		return err == nil
	})
}

// lines is what `seq from to` writes.
func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// testGardenKilled kills the server under a followed process, which goes on writing while nobody is there.
func testGardenKilled(t *testing.T, x *faults) {
	ctx := testkit.Context(t)
	x.volume(t, sdk.VolumeSpec{ID: "signs"}, nil)
	x.container(t, sdk.ContainerSpec{ID: "survivor", Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "signs", Path: "/signs"}}})
	const script = "seq 1 5000; until [ -e /signs/go ]; do sleep 0.05; done; seq 5001 10000; touch /signs/done; until [ -e /signs/end ]; do sleep 0.05; done; seq 10001 10002; exit 7"
	if err := x.StartProcess(ctx, "survivor", sdk.ProcessSpec{ID: "p", Token: token, Path: "/bin/sh", Args: []string{"-c", script}}); err != nil {
		t.Fatal(err)
	}
	half := make(chan struct{})
	f := follower{seen: func(all string) {
		if strings.HasSuffix(all, "\n5000\n") {
			close(half)
		}
	}}
	done := make(chan error, 1)
	go func() { done <- x.followOn(ctx, "survivor", "p", &f) }()
	select {
	case <-half:
	case err := <-done:
		t.Fatal(err)
	}
	sign := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(x.VolumesDir(), "live/signs/volume", name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	x.KillGarden()
	sign("go")
	x.awaitFile(t, "signs", "done")
	if s := x.statusOf(t); s.Health != sdk.Degraded || !s.ContainersAway {
		t.Errorf("while garden is dead: %v, %q", s.Health, s.Reason)
	}
	want(t, x.StartProcess(ctx, "survivor", sdk.ProcessSpec{ID: "q", Token: token, Path: "/bin/true"}), sdk.Unavailable, "")
	x.StartGarden(t)
	sign("end")
	if err := <-done; err != nil || f.text.String() != lines(1, 10002) || f.exit == nil || f.exit.Code != 7 {
		t.Errorf("%v; %d bytes, want %d; exit %+v", err, f.text.Len(), len(lines(1, 10002)), f.exit)
	}
	if err := x.StartProcess(ctx, "survivor", sdk.ProcessSpec{ID: "p", Token: token, Path: "/bin/sh", Args: []string{"-c", script}}); err != nil {
		t.Errorf("the start again: %v", err)
	}
	all, err := x.ListProcesses(ctx, "survivor")
	if i := slices.IndexFunc(all, func(p sdk.ProcessInfo) bool { return p.ID == "p" }); err != nil || i < 0 || all[i].State != sdk.ProcessExited || all[i].Exit.Code != 7 {
		t.Errorf("%+v, %v", all, err)
	}
}

// testCut resets all connections again and again under output and input.
func testCut(t *testing.T, x *faults) {
	ctx := testkit.Context(t)
	x.container(t, sdk.ContainerSpec{ID: "cut", Image: sdk.Image{Volume: "image"}})
	if err := x.StartProcess(ctx, "cut", sdk.ProcessSpec{ID: "out", Token: token, Path: "/bin/seq", Args: []string{"1", "200000"}}); err != nil {
		t.Fatal(err)
	}
	cuts := 0
	var f follower
	f.seen = func(all string) {
		if len(all) > (cuts+1)*300_000 {
			cuts++
			x.garden.Cut()
		}
	}
	if err := x.followOn(ctx, "cut", "out", &f); err != nil || f.text.String() != lines(1, 200000) || f.exit == nil || f.exit.Code != 0 || cuts < 3 {
		t.Errorf("%v; %d bytes, want %d; exit %+v; %d cuts", err, f.text.Len(), len(lines(1, 200000)), f.exit, cuts)
	}
	if err := x.StartProcess(ctx, "cut", sdk.ProcessSpec{ID: "in", Token: token, Path: "/bin/cat", Stdin: true}); err != nil {
		t.Fatal(err)
	}
	text := []byte(lines(1, 100000))
	var inCuts atomic.Int32
	var back follower
	// As a host does: where a cut hits a relay that is only being opened, the call ends, and the next sends what was not taken.
	for {
		in := &cutting{each: 100_000, cut: func() {
			if inCuts.Add(1) <= 3 {
				x.garden.Cut()
			}
		}}
		follow := back.follow()
		follow.Opened = func(o sdk.Opened) error { in.r = bytes.NewReader(text[o.StdinTaken:]); return nil }
		follow.Stdin = in
		err := x.FollowProcess(ctx, "cut", "in", back.at, follow)
		if errors.Is(err, sdk.Unavailable) {
			continue
		}
		if err != nil || back.text.String() != string(text) || inCuts.Load() < 3 {
			t.Errorf("%v; %d bytes came back of %d; %d cuts", err, back.text.Len(), len(text), inCuts.Load())
		}
		return
	}
}

// cutting is a reader under which connections break.
type cutting struct {
	r          io.Reader
	each, read int
	cut        func()
}

func (c *cutting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if (c.read+n)/c.each > c.read/c.each {
		c.cut()
	}
	c.read += n
	return n, err
}

// testHalfOpen has both servers' machine vanish from the network, without a word.
func testHalfOpen(t *testing.T, x *faults) {
	ctx := testkit.Context(t)
	x.container(t, sdk.ContainerSpec{ID: "frozen", Image: sdk.Image{Volume: "image"}})
	const script = "echo first; until [ -e /go ]; do sleep 0.05; done; echo second; exit 3"
	if err := x.StartProcess(ctx, "frozen", sdk.ProcessSpec{ID: "p", Token: token, Path: "/bin/sh", Args: []string{"-c", script}}); err != nil {
		t.Fatal(err)
	}
	first := make(chan struct{})
	f := follower{seen: func(all string) {
		if all == "first\n" {
			close(first)
		}
	}}
	done := make(chan error, 1)
	go func() { done <- x.followOn(ctx, "frozen", "p", &f) }()
	select {
	case <-first:
	case err := <-done:
		t.Fatal(err)
	}
	y := x.with(t, func(c *Config) {
		c.RequestTimeout, c.StreamTimeout = sdk.Duration(time.Second), sdk.Duration(time.Second)
	})
	y.abilities = x.abilities
	x.garden.Freeze()
	x.baggage.Freeze()
	if s := y.statusOf(t); s.Health != sdk.Away || !strings.Contains(s.Reason, x.garden.Address()) || !strings.Contains(s.Reason, x.baggage.Address()) {
		t.Errorf("%v, %q", s.Health, s.Reason)
	}
	var calls sync.WaitGroup
	for name, call := range map[string]func() error{
		"creating": func() error {
			return y.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: token, Image: sdk.Image{Volume: "image"}}, nil)
		},
		"listing": func() error { return y.ListContainers(ctx, sdk.Filter{}, nil) },
		"starting": func() error {
			return y.StartProcess(ctx, "frozen", sdk.ProcessSpec{ID: "q", Token: token, Path: "/bin/true"})
		},
		"following":  func() error { return y.FollowProcess(ctx, "frozen", "p", 0, sdk.Follow{}) },
		"a volume":   func() error { return y.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: token}) },
		"streaming":  func() error { return y.StreamOut(ctx, "image", sdk.StreamOut{}, io.Discard) },
		"destroying": func() error { return y.DestroyContainer(ctx, "other") },
	} {
		calls.Go(func() {
			if err := call(); !errors.Is(err, sdk.Unavailable) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	calls.Wait()
	x.garden.Thaw()
	x.baggage.Thaw()
	// However long they were frozen, connections may have been given up meanwhile, and a host would ask again.
	touch := sdk.ProcessSpec{ID: "go", Token: token, Path: "/bin/touch", Args: []string{"/go"}}
	if err := asHost(ctx, func() error { return x.StartProcess(ctx, "frozen", touch) }); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil || f.text.String() != "first\nsecond\n" || f.exit == nil || f.exit.Code != 3 {
		t.Errorf("%v, %q, %+v", err, f.text.String(), f.exit)
	}
	if s := x.statusOf(t); s.Health != sdk.Healthy {
		t.Errorf("%v, %q", s.Health, s.Reason)
	}
	x.drop(t, "c", "v")
}

// testPluginRestart begins anew with everything under way.
func testPluginRestart(t *testing.T, x *faults) {
	ctx := testkit.Context(t)
	first := x.with(t, func(*Config) {})
	first.volume(t, sdk.VolumeSpec{ID: "work", Labels: map[string]string{"l": "v"}}, nil)
	first.volume(t, sdk.VolumeSpec{ID: "done"}, pack(t, plain("f", "text")))
	first.seal(t, "done")
	spec := sdk.ContainerSpec{ID: "kept", Token: token, Labels: map[string]string{"l": "v"}, Image: sdk.Image{Volume: "image"}, Dir: "/work", Mounts: []sdk.Mount{{Volume: "work", Path: "/work"}, {Volume: "done", Path: "/done", ReadOnly: true}}}
	first.container(t, spec)
	idle := []sdk.ContainerID{"a-idle", "z-idle"} // on both sides of the other, whatever the order
	for _, id := range idle {
		first.container(t, sdk.ContainerSpec{ID: id, Image: spec.Image, Mounts: spec.Mounts})
	}
	const script = "seq 1 1000; until [ -e go ]; do sleep 0.05; done; seq 1001 2000; exit 5"
	if err := first.StartProcess(ctx, "kept", sdk.ProcessSpec{ID: "p", Token: token, Path: "/bin/sh", Args: []string{"-c", script}}); err != nil {
		t.Fatal(err)
	}
	half := make(chan struct{})
	f := follower{seen: func(all string) {
		if strings.HasSuffix(all, "\n1000\n") {
			close(half)
		}
	}}
	following, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- first.FollowProcess(following, "kept", "p", 0, f.follow()) }()
	select {
	case <-half:
	case err := <-done:
		t.Fatal(err)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the follower: %v", err)
	}
	if err := first.runtime.Close(); err != nil {
		t.Error(err)
	}
	second := x.with(t, func(*Config) {})
	if info := second.containers(t)["kept"]; info.State != sdk.ContainerReady || info.Token != token || info.Labels["l"] != "v" || len(info.Labels) != 1 {
		t.Errorf("listed as %+v", info)
	}
	states := make(map[sdk.VolumeID]sdk.VolumeState)
	if err := second.ListVolumes(ctx, sdk.Filter{}, func(v sdk.VolumeInfo) error { states[v.ID] = v.State; return nil }); err != nil || states["work"] != sdk.VolumeOpen || states["done"] != sdk.VolumeSealed {
		t.Errorf("volumes %v, %v", states, err)
	}
	if err := second.CreateContainer(ctx, spec, nil); err != nil {
		t.Errorf("creating it again: %v", err)
	}
	want(t, second.StreamIn(ctx, "done", sdk.StreamIn{}, bytes.NewReader(pack(t))), sdk.FailedPrecondition, sdk.ReasonSealed)
	want(t, second.SealVolume(ctx, "work"), sdk.FailedPrecondition, sdk.ReasonInUse, "kept")
	for _, id := range idle {
		if out := second.sh(t, id, "p", "echo works"); out != "works\n" {
			t.Errorf("in %s, which was not sealed either: %q", id, out)
		}
	}
	if out := second.sh(t, "kept", "go", "pwd; cat /done/f; touch go"); out != "/work\ntext" {
		t.Errorf("in the container: %q", out)
	}
	f.seen = nil
	if err := second.followOn(ctx, "kept", "p", &f); err != nil || f.text.String() != lines(1, 2000) || f.exit == nil || f.exit.Code != 5 {
		t.Errorf("%v; %d bytes; %+v", err, f.text.Len(), f.exit)
	}
	second.seal(t, "work")
	want(t, second.StartProcess(ctx, "kept", sdk.ProcessSpec{ID: "late", Token: token, Path: "/bin/true"}), sdk.FailedPrecondition, sdk.ReasonSealed)
}

func testDestroyedUnderFollower(t *testing.T, x *faults) {
	ctx := testkit.Context(t)
	x.container(t, sdk.ContainerSpec{ID: "doomed", Image: sdk.Image{Volume: "image"}})
	if err := x.StartProcess(ctx, "doomed", sdk.ProcessSpec{ID: "p", Token: token, Path: "/bin/sh", Args: []string{"-c", "echo ready; exec sleep 3600"}}); err != nil {
		t.Fatal(err)
	}
	ready, done := make(chan struct{}), make(chan error, 1)
	f := follower{seen: func(string) { close(ready) }}
	go func() { done <- x.FollowProcess(ctx, "doomed", "p", 0, f.follow()) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	x.drop(t, "doomed")
	if err := <-done; !sdk.IsNotFound(err, sdk.KindContainer) || f.exit != nil {
		t.Errorf("%v, %+v; want NotFound of the container", err, f.exit)
	}
}

// testBaggageclaimKilled kills the server under streams. What was half written can be destroyed once it is back.
func testBaggageclaimKilled(t *testing.T, x *faults) {
	ctx := testkit.Context(t)
	check := x.unchanged(t)
	x.volume(t, sdk.VolumeSpec{ID: "half"}, nil)
	random := make([]byte, 8<<20) // what is packed small would be sent before anything is killed
	rand.NewChaCha8([32]byte{}).Read(random)
	archive := pack(t, plain("big", string(random)))
	dead := make(chan struct{})
	kill := sync.OnceFunc(func() { x.KillBaggageclaim(); close(dead) })
	err := x.StreamIn(ctx, "half", sdk.StreamIn{}, &cutting{r: bytes.NewReader(archive), each: 1 << 20, cut: kill})
	<-dead // the call does not wait for its reader
	want(t, err, sdk.Unavailable, "", x.baggage.Address())
	x.StartBaggageclaim(t)
	x.drop(t, "", "half")
	x.volume(t, sdk.VolumeSpec{ID: "whole"}, archive)
	x.seal(t, "whole")
	kill = sync.OnceFunc(func() {
		x.KillBaggageclaim()
		x.baggage.Cut() // what the dead one sent is on its way, and may be all
	})
	err = x.StreamOut(ctx, "whole", sdk.StreamOut{}, writerFunc(func(p []byte) (int, error) { kill(); return len(p), nil }))
	want(t, err, sdk.Unavailable, "", x.baggage.Address())
	x.StartBaggageclaim(t)
	var out bytes.Buffer
	if err := x.StreamOut(ctx, "whole", sdk.StreamOut{}, &out); err != nil || out.Len() < len(archive)/2 {
		t.Errorf("after the restart %d bytes come, %v", out.Len(), err)
	}
	x.container(t, sdk.ContainerSpec{ID: "after", Image: sdk.Image{Volume: "image"}})
	if out := x.sh(t, "after", "p", "echo works"); out != "works\n" {
		t.Errorf("%q", out)
	}
	x.drop(t, "after", "whole")
	check()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
