package conformance

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// begun starts a process of this machine with a mark, and awaits that it runs.
func begun(t *testing.T, m mark) *exec.Cmd {
	t.Helper()
	var spec sdk.ProcessSpec
	m.on(&spec)
	cmd := exec.Command("sh", "-c", "echo ready; read -r line")
	cmd.Env = append(os.Environ(), spec.Env...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // it stays open
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() }) // whose error says how it ended
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestAwaitNone: a process that goes on is seen and, once it has gone on for too long, killed; one without the mark is nobody's.
func TestAwaitNone(t *testing.T) {
	m := newMark()
	left, other := begun(t, m), begun(t, newMark())
	if got := m.processes(); !slices.Equal(got, []int{left.Process.Pid}) {
		t.Fatalf("processes with the mark: %v, want %d alone", got, left.Process.Pid)
	}
	ctx, cancel := context.WithCancel(testkit.Context(t))
	cancel()
	c := &C{suite: &suite{opts: Options{}.withDefaults()}}
	if c.awaitNone(ctx, m) {
		t.Error("what goes on was not seen")
	}
	left.Wait()
	if !c.awaitNone(testkit.Context(t), m) {
		t.Errorf("what had gone on still does: %v", m.processes())
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process without the mark was ended: %v", err)
	}
	if _, ok := firstBeside(other.Process.Pid); ok {
		t.Error("a process of this machine has a first process of its own")
	}
}

func TestHolds(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "nothing", "b/c": "a secret in it", "b/d": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if file, err := holds(dir, "secret"); err != nil || file != filepath.Join(dir, "b/c") {
		t.Errorf("found in %q, %v", file, err)
	}
	for _, in := range []string{dir, filepath.Join(dir, "none")} {
		if file, err := holds(in, "no such thing"); err != nil || file != "" {
			t.Errorf("below %s: found in %q, %v", in, file, err)
		}
	}
}
