//go:build linux

package garden

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// killFirst kills the first process of a container, and all others with it. The server is told nothing.
func (x *world) killFirst(t *testing.T, id sdk.ContainerID) {
	t.Helper()
	out, err := exec.Command("runc", "--root", filepath.Join(x.Dir, "garden", "engine", "runc"), "state", string(id)).Output()
	var state struct{ Pid int }
	if err := errors.Join(err, json.Unmarshal(out, &state)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(state.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// testFirstProcessDied has a container end by itself, while the server lists it on. Whoever asks next finds out: the plugin whose command was killed with it in
// a list, and one that begins anew at its first command.
func testFirstProcessDied(t *testing.T, x *world) {
	ctx := testkit.Context(t)
	spec := sdk.ContainerSpec{ID: "victim", Token: token, Labels: map[string]string{"l": "v"}, Image: sdk.Image{Volume: "image"}}
	x.container(t, spec)
	ended := sdk.ProcessSpec{ID: "ended", Token: token, Path: "/bin/sh", Args: []string{"-c", "echo done; exit 7"}}
	running := sdk.ProcessSpec{ID: "running", Token: token, Path: "/bin/sh", Args: []string{"-c", "echo ready; exec sleep 3600"}}
	for _, p := range []sdk.ProcessSpec{ended, running} {
		if err := x.StartProcess(ctx, "victim", p); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Until(t, "the first has ended", func() bool {
		all, err := x.ListProcesses(ctx, "victim")
		return err == nil && len(all) == 2 && (all[0].Exit != nil || all[1].Exit != nil)
	})
	if x.hasEnded(ctx, "victim") { // as if it had been too full for a command
		t.Fatal("it is taken for ended, and it runs")
	}
	if info := x.containers(t)["victim"]; info.State != sdk.ContainerReady || x.marked(x.suspects, "victim") {
		t.Fatalf("a container that runs is listed as %+v", info)
	}
	x.killFirst(t, "victim")
	testkit.Until(t, "the container is listed as gone", func() bool { return x.containers(t)["victim"].State == sdk.ContainerGone })
	if info := x.containers(t)["victim"]; !strings.Contains(info.Reason, "first process has died") || info.Token != token || info.Labels["l"] != "v" {
		t.Errorf("listed as %+v", info)
	}
	late := x.with(t, func(*Config) {})
	for _, by := range []*world{late, x} {
		by.checkRemains(t, ended, running)
	}
	if info := late.containers(t)["victim"]; info.State != sdk.ContainerGone {
		t.Errorf("the other plugin lists it as %+v", info)
	}
	want(t, x.CreateContainer(ctx, spec, nil), sdk.FailedPrecondition, sdk.ReasonDead, `"victim"`)
	x.drop(t, "victim")
	if _, ok := x.containers(t)["victim"]; ok {
		t.Error("it is listed although it is destroyed")
	}
}
