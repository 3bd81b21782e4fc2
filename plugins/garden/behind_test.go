//go:build linux

package garden

import (
	"archive/tar"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func tarLink(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to, Mode: 0o644}
}

// testContainerVanished destroys a container directly, under a process that is followed. What its processes did is known still.
func testContainerVanished(t *testing.T, x *world) {
	ctx := testkit.Context(t)
	x.volume(t, sdk.VolumeSpec{ID: "work"}, nil)
	spec := sdk.ContainerSpec{ID: "victim", Token: token, Labels: map[string]string{"l": "v"}, Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "work", Path: "/work"}}}
	x.container(t, spec)
	ended := sdk.ProcessSpec{ID: "ended", Token: token, Path: "/bin/sh", Args: []string{"-c", "echo done; exit 7"}}
	running := sdk.ProcessSpec{ID: "running", Token: token, Path: "/bin/sh", Args: []string{"-c", "echo ready; exec sleep 3600"}}
	for _, p := range []sdk.ProcessSpec{ended, running} {
		if err := x.StartProcess(ctx, "victim", p); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing of this one is acknowledged, so that all is kept.
	var first follower
	once := first.follow()
	ack := make(chan sdk.Position)
	once.Acks = ack
	exited, stop := context.WithCancel(ctx)
	once.Exit = func(e sdk.Exit) error { first.exit = &e; stop(); return nil }
	if err := x.FollowProcess(exited, "victim", "ended", 0, once); !errors.Is(err, context.Canceled) || first.exit == nil {
		t.Fatalf("%v, exit %v", err, first.exit)
	}
	stop()
	ready, done := make(chan struct{}), make(chan error, 1)
	f := follower{seen: func(string) { close(ready) }}
	go func() { done <- x.FollowProcess(ctx, "victim", "running", 0, f.follow()) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	if err := x.garden.Destroy(ctx, "victim"); err != nil {
		t.Fatal(err)
	}
	err := <-done
	if errors.Is(err, sdk.Unavailable) { // cut off before Garden had let go of the container: a host follows on
		err = x.FollowProcess(ctx, "victim", "running", sdk.Position(f.text.Len()), f.follow())
	}
	want(t, err, sdk.FailedPrecondition, sdk.ReasonAbandoned)
	if f.exit != nil || f.text.String() != "ready\n" {
		t.Errorf("the follower got %q and exit %v", f.text.String(), f.exit)
	}
	info, ok := x.containers(t)["victim"]
	if !ok || info.State != sdk.ContainerGone || !strings.Contains(info.Reason, x.Garden) || info.Token != token || info.Labels["l"] != "v" || len(info.Labels) != 1 {
		t.Errorf("listed as %+v, %v", info, ok)
	}
	for _, by := range []*world{x, x.with(t, func(*Config) {})} { // the plugin that saw it, and one that begins anew
		by.checkRemains(t, ended, running)
	}
	t.Run("no room where the plugin runs", func(t *testing.T) {
		full := filepath.Join(x.Dir, "records")
		small(t, full, "4k")
		fill(t, full)
		t.Setenv("TMPDIR", full)
		_, err := x.ListProcesses(testkit.Context(t), "victim")
		want(t, err, sdk.Unavailable, "", "victim") // nothing is lost by that
	})
	want(t, x.CreateContainer(ctx, spec, nil), sdk.FailedPrecondition, sdk.ReasonDead, `"victim"`)
	other := spec
	other.Token = "other"
	want(t, x.CreateContainer(ctx, other, nil), sdk.AlreadyExists, "")
	x.seal(t, "work") // nobody writes it any more
	x.drop(t, "victim")
	if _, ok := x.containers(t)["victim"]; ok {
		t.Error("it is listed although it is destroyed")
	}
	if _, err := x.ListProcesses(ctx, "victim"); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("listing processes of what is destroyed: %v", err)
	}
}

// checkRemains looks at a container that is gone, with one process that had ended, with code 7, and one that had not.
func (x *world) checkRemains(t *testing.T, ended, running sdk.ProcessSpec) {
	t.Helper()
	ctx := testkit.Context(t)
	all, err := x.ListProcesses(ctx, "victim")
	if err != nil || len(all) != 2 {
		t.Fatalf("processes: %+v, %v", all, err)
	}
	for _, p := range all {
		switch {
		case p.ID == "ended" && p.State == sdk.ProcessExited && p.Exit.Code == 7 && p.Token == token:
		case p.ID == "running" && p.State == sdk.ProcessAbandoned && p.Token == token:
		default:
			t.Errorf("a process %+v", p)
		}
	}
	var f follower
	if err := x.FollowProcess(ctx, "victim", "ended", 0, f.follow()); err != nil || f.text.String() != "done\n" || f.exit == nil || f.exit.Code != 7 {
		t.Errorf("following what had ended: %q, %+v, %v", f.text.String(), f.exit, err)
	}
	want(t, x.FollowProcess(ctx, "victim", "never", 0, sdk.Follow{}), sdk.FailedPrecondition, sdk.ReasonDead)
	if err := x.SignalProcess(ctx, "victim", "ended", sdk.TERM); err != nil { // after its exit
		t.Error(err)
	}
	for _, id := range []sdk.ProcessID{"running", "never"} {
		want(t, x.SignalProcess(ctx, "victim", id, sdk.KILL), sdk.FailedPrecondition, sdk.ReasonDead)
		want(t, x.ResizeProcess(ctx, "victim", id, sdk.TTY{}), sdk.FailedPrecondition, sdk.ReasonDead)
	}
	// What ran is not run again, and says so; what did not run cannot.
	for _, p := range []sdk.ProcessSpec{ended, running} {
		if err := x.StartProcess(ctx, "victim", p); err != nil {
			t.Errorf("starting %s again: %v", p.ID, err)
		}
	}
	want(t, x.StartProcess(ctx, "victim", sdk.ProcessSpec{ID: "never", Token: token, Path: "/bin/true"}), sdk.FailedPrecondition, sdk.ReasonDead, `"victim"`)
	want(t, x.StartProcess(ctx, "victim", sdk.ProcessSpec{ID: "ended", Token: "other", Path: "/bin/true"}), sdk.AlreadyExists, "")
}

// testOtherToken: an id belongs to its first token.
func testOtherToken(t *testing.T, x *world) {
	ctx := testkit.Context(t)
	x.volume(t, sdk.VolumeSpec{ID: "v"}, nil)
	x.container(t, sdk.ContainerSpec{ID: "c", Image: sdk.Image{Volume: "image"}})
	check := x.unchanged(t)
	want(t, x.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: "other"}), sdk.AlreadyExists, "", `"v"`)
	want(t, x.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: "other", Image: sdk.Image{Volume: "image"}}, nil), sdk.AlreadyExists, "", `"c"`)
	check()
	if out := x.sh(t, "c", "p", "echo alive"); out != "alive\n" {
		t.Errorf("the first one's: %q", out)
	}
}

// testTwoInstallations has two plugins on one pair of servers. Each host sees all that hosts made, tells its own by their labels, and neither harms
// the other's.
func testTwoInstallations(t *testing.T, x *world) {
	other := x.with(t, func(*Config) {})
	mine, theirs := map[string]string{sdk.LabelInstallation: "one"}, map[string]string{sdk.LabelInstallation: "two"}
	x.volume(t, sdk.VolumeSpec{ID: "mine", Labels: mine}, nil)
	x.container(t, sdk.ContainerSpec{ID: "mine", Labels: mine, Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "mine", Path: "/m"}}})
	other.volume(t, sdk.VolumeSpec{ID: "theirs", Labels: theirs}, nil)
	other.container(t, sdk.ContainerSpec{ID: "theirs", Labels: theirs, Mounts: []sdk.Mount{{Volume: "theirs", Path: "/m"}}})
	for name, by := range map[string]struct {
		w      *world
		labels map[string]string
		id     string
	}{"one": {x, mine, "mine"}, "two": {other, theirs, "theirs"}} {
		var containers, volumes []string
		filter := sdk.Filter{Labels: by.labels}
		err := errors.Join(
			by.w.ListContainers(testkit.Context(t), filter, func(c sdk.ContainerInfo) error { containers = append(containers, string(c.ID)); return nil }),
			by.w.ListVolumes(testkit.Context(t), filter, func(v sdk.VolumeInfo) error { volumes = append(volumes, string(v.ID)); return nil }),
		)
		if err != nil || strings.Join(containers, " ") != by.id || strings.Join(volumes, " ") != by.id {
			t.Errorf("installation %s: containers %q, volumes %q, %v", name, containers, volumes, err)
		}
	}
	want(t, other.CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "mine", Token: "other", Labels: theirs}, nil), sdk.AlreadyExists, "")
	want(t, other.CreateVolume(testkit.Context(t), sdk.VolumeSpec{ID: "mine", Token: "other", Labels: theirs}), sdk.AlreadyExists, "")
	other.drop(t, "theirs", "theirs")
	if out := x.sh(t, "mine", "p", "echo x >/m/x && cat /m/x"); out != "x\n" {
		t.Errorf("one's container, after the other's is gone: %q", out)
	}
}

// testManyCreations has twenty callers ask for one container at once.
func testManyCreations(t *testing.T, x *world) {
	ctx := testkit.Context(t)
	x.volume(t, sdk.VolumeSpec{ID: "shared"}, nil)
	spec := sdk.ContainerSpec{ID: "many", Token: token, Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "shared", Path: "/s"}}}
	t.Cleanup(func() { x.drop(t, "many") })
	other := spec
	other.Token = "other"
	before := len(x.Containers(t))
	var mu sync.Mutex
	made := make(map[sdk.Token]int)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			s := spec
			if i%4 == 3 {
				s = other
			}
			err := x.CreateContainer(ctx, s, nil)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made[s.Token]++
			case !errors.Is(err, sdk.AlreadyExists):
				t.Errorf("%s: %v", s.Token, err)
			}
		})
	}
	all.Wait()
	if !(made[token] == 15 && made["other"] == 0 || made[token] == 0 && made["other"] == 5) {
		t.Errorf("%v: all of one token must succeed, and none of the other", made)
	}
	if now := len(x.Containers(t)); now != before+1 {
		t.Errorf("%d containers, want one more than %d: %v", now, before, x.Containers(t))
	}
	if out := x.sh(t, "many", "p", "echo one"); out != "one\n" {
		t.Errorf("in it: %q", out)
	}
}

// testPrivileged mounts volumes of one kind in containers of the other.
func testPrivileged(t *testing.T, x *world) {
	ctx := testkit.Context(t)
	if !x.statusOf(t).Has(sdk.FeaturePrivileged) {
		want(t, x.CreateVolume(ctx, sdk.VolumeSpec{ID: "p", Token: token, Privileged: true}), sdk.Unsupported, "")
		return // this machine's runc makes none
	}
	x.volume(t, sdk.VolumeSpec{ID: "root-own", Privileged: true}, pack(t, plain("f", "text")))
	x.volume(t, sdk.VolumeSpec{ID: "mapped"}, pack(t, plain("f", "text")))
	for name, spec := range map[string]sdk.ContainerSpec{
		"a privileged one in an ordinary container": {Mounts: []sdk.Mount{{Volume: "root-own", Path: "/v"}}},
		"an ordinary one in a privileged container": {Mounts: []sdk.Mount{{Volume: "mapped", Path: "/v"}}, Privileged: true},
	} {
		t.Run(name, func(t *testing.T) {
			spec.ID, spec.Token, spec.Image = "c", token, sdk.Image{Volume: "image"}
			check := x.unchanged(t)
			want(t, x.CreateContainer(ctx, spec, nil), sdk.Invalid, sdk.ReasonSpec, "privileged", "/v")
			check()
			spec.Mounts[0].ReadOnly = true
			want(t, x.CreateContainer(ctx, spec, nil), sdk.FailedPrecondition, sdk.ReasonNotSealed, "privileged", "/v")
			check()
			x.seal(t, spec.Mounts[0].Volume)
			if err := x.CreateContainer(ctx, spec, nil); err != nil {
				t.Fatal(err)
			}
			if out := x.sh(t, "c", "p", "cat /v/f; stat -c ' %u' /v/f; touch /v/x 2>/dev/null || echo read-only"); out != "text 0\nread-only\n" {
				t.Errorf("in the container: %q", out)
			}
			x.drop(t, "c")
			check()
		})
	}
}

func testPrivilegedDenied(t *testing.T, x *world) {
	deny := x.with(t, func(c *Config) { c.Privileged = "deny" })
	if deny.statusOf(t).Has(sdk.FeaturePrivileged) {
		t.Error("privileged is named although it is denied")
	}
	want(t, deny.CreateVolume(testkit.Context(t), sdk.VolumeSpec{ID: "v", Token: token, Privileged: true}), sdk.Unsupported, "", "privileged")
	want(t, deny.CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "c", Token: token, Privileged: true}, nil), sdk.Unsupported, "", "privileged")
	unable := x.with(t, func(*Config) {})
	unable.abilities = &abilities{} // of servers that make none
	want(t, unable.CreateVolume(testkit.Context(t), sdk.VolumeSpec{ID: "v", Token: token, Privileged: true}), sdk.Unsupported, "", "privileged")
}
