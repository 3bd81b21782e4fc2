//go:build linux

package nomad

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// testAnew puts another keeper in the place of a container's, with nothing of its records: so does Nomad with a container whose start its agent had not told of when it
// lost its own. What had been started there does not start again, and whoever asks for its record hears that it is lost, not that it never ran.
func testAnew(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	_, n := open(t, a, config(a), nil)
	const id = "anew"
	if err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: id, Token: "t"}, nil); err != nil {
		t.Fatal(err)
	}
	runs := filepath.Join(t.TempDir(), "runs")
	p := sdk.ProcessSpec{ID: "p", Token: "t", Path: "/bin/sh", Args: []string{"-c", "echo run >>" + runs}}
	if err := n.StartProcess(ctx, id, p); err != nil {
		t.Fatal(err)
	}
	if err := n.FollowProcess(ctx, id, p.ID, 0, sdk.Follow{}); err != nil {
		t.Fatal(err)
	}
	n.Rest(ctx, id)
	var task bytes.Buffer
	err := n.exec(ctx, id, []string{"/bin/sh", "-ec", "mv local/slipway local/first; pwd"}, strings.NewReader(""), &task, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	scratch := filepath.Join(strings.TrimSpace(task.String()), "local/slipway")
	second := exec.CommandContext(serving, program(shimProgram), "serve", scratch)
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stop(); _ = second.Wait() }()
	testkit.Until(t, "the second keeper listens", func() bool { _, err := os.Stat(filepath.Join(scratch, "sock")); return err == nil })
	if _, err := n.ListProcesses(ctx, id); !errors.Is(err, sdk.ReasonRecordLost) {
		t.Errorf("its processes: %v, want them to be lost", err)
	}
	if err := n.StartProcess(ctx, id, p); !errors.Is(err, sdk.ReasonDead) {
		t.Errorf("starting it again: %v, want the container to be dead", err)
	}
	if err := n.FollowProcess(ctx, id, p.ID, 0, sdk.Follow{}); !errors.Is(err, sdk.ReasonRecordLost) {
		t.Errorf("following it: %v, want it to be lost", err)
	}
	if ran, err := os.ReadFile(runs); err != nil || string(ran) != "run\n" {
		t.Errorf("what ran: %q, %v", ran, err)
	}
	var state sdk.ContainerState
	if err := n.ListContainers(ctx, sdk.Filter{}, func(c sdk.ContainerInfo) error { state = c.State; return nil }); err != nil || state != sdk.ContainerGone {
		t.Errorf("it is listed as %v, %v; want it to be gone", state, err)
	}
	if err := n.DestroyContainer(ctx, id); err != nil {
		t.Error(err)
	}
}
