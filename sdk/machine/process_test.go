//go:build linux

package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// TestProcess finds a process again, and tells it from others of its number.
func TestProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "first")
	p := ProcessIn(file)
	if _, runs, err := p.PID(); runs || err != nil {
		t.Errorf("before anything is noted: %v, %v", runs, err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Errorf("killing nothing: %v", err)
	}
	child := exec.Command("sleep", "3600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Process.Release()
	if err := p.Note(child.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if pid, runs, err := ProcessIn(file).PID(); pid != child.Process.Pid || !runs || err != nil {
		t.Errorf("got %d, %v, %v", pid, runs, err)
	}
	noted, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(noted))
	for i, what := range []string{"", "another start", "another start of the machine"} {
		if i == 0 {
			continue
		}
		other := append([]string(nil), fields...)
		other[i] = "1"
		if err := os.WriteFile(file, []byte(strings.Join(other, " ")), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, runs, err := p.PID(); runs || err != nil {
			t.Errorf("%s: %v, %v", what, runs, err)
		}
		if err := p.Kill(t.Context()); err != nil {
			t.Errorf("%s: killing: %v", what, err)
		}
	}
	if err := os.WriteFile(file, noted, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, runs, _ := p.PID(); !runs {
		t.Fatal("a process was killed that is not the one that was noted")
	}
	for range 2 {
		if err := p.Kill(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", child.Process.Pid)); !os.IsNotExist(err) {
		t.Errorf("what was killed is left, maybe as a zombie: %v", err)
	}
}

// TestProcessThatEnded is none that runs, whether or not somebody has waited for it.
func TestProcessThatEnded(t *testing.T) {
	p := ProcessIn(filepath.Join(t.TempDir(), "first"))
	child := exec.Command("sh", "-c", "read x")
	in, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err == nil {
		err = p.Note(child.Process.Pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := child.Wait(); err == nil {
		t.Error("it should have failed to read")
	}
	if _, runs, err := p.PID(); runs || err != nil {
		t.Errorf("it runs: %v, %v", runs, err)
	}
	if err := p.Note(child.Process.Pid); err != nil {
		t.Error(err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestToldOnce: a follower that goes on in what its container has left is told neither the opening nor the exit again, and begins where it was.
func TestToldOnce(t *testing.T) {
	var opened, exits int
	at := sdk.Position(3)
	first, rest := told(sdk.Follow{
		Opened: func(sdk.Opened) error { opened++; return nil },
		Output: func([]sdk.Record) error { return nil },
		Exit:   func(sdk.Exit) error { exits++; return nil },
	}, &at)
	if rest.Opened == nil || rest.Exit == nil || rest.Output == nil {
		t.Fatalf("before anything is told: %+v", rest)
	}
	err := errors.Join(first.Opened(sdk.Opened{}), first.Output([]sdk.Record{{Position: 3, Data: []byte("four")}}), first.Exit(sdk.Exit{}))
	if err != nil || opened != 1 || exits != 1 || at != 7 || rest.Opened != nil || rest.Exit != nil || rest.Output == nil {
		t.Errorf("%v; opened %d times, %d exits, at %d, then %+v", err, opened, exits, at, rest)
	}
}
