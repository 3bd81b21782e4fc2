//go:build unix

package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// TestShellOnThisMachine runs the scripts with a real sh: what a runtime with real containers runs.
func TestShellOnThisMachine(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI must have a shell")
		}
		t.Skip("there is no sh here")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("in the file"), 0o644); err != nil {
		t.Fatal(err)
	}
	var shell Shell
	for what, tt := range map[string]struct {
		cmd            Cmd
		stdin          string
		stdout, stderr string
		code           int
	}{
		"exit 0":        {cmd: shell.Exit(0)},
		"exit 255":      {cmd: shell.Exit(255), code: 255},
		"print":         {cmd: shell.Print("o%s\\n", "e\x01"), stdout: "o%s\\n", stderr: "e\x01"},
		"print nothing": {cmd: shell.Print("", "")},
		"args":          {cmd: shell.Args("", "a b", "$x\n", "-n"), stdout: "[]\n[a b]\n[$x\n]\n[-n]\n"},
		"no args":       {cmd: shell.Args()},
		"env":           {cmd: shell.Env("CF_SET"), stdout: "[a $b\n]\n"},
		"env empty":     {cmd: shell.Env("CF_EMPTY"), stdout: "[]\n"},
		"env unset":     {cmd: shell.Env("CF_UNSET"), stdout: "unset\n"},
		"dir":           {cmd: shell.Dir(), stdout: dir + "\n"},
		"cat":           {cmd: shell.Cat(), stdin: "a\x00b", stdout: "a\x00b"},
		"cat file":      {cmd: shell.CatFile(file), stdout: "in the file"},
		"cat no file":   {cmd: shell.CatFile(file + "x"), code: 1},
		"append":        {cmd: shell.Append(filepath.Join(dir, "new"), "%x\n"), stdout: "%x\n"},
		"lines":         {cmd: shell.Lines(3), stdout: "1\n2\n3\n"},
		"gate":          {cmd: shell.Gate("b\n", "a\n", 7), stdin: "go\n", stdout: "b\na\n", code: 7},
		"script":        {cmd: shell.Script(`cat; echo "$1" >&2; exit 6`, "a b"), stdin: "in", stdout: "in", stderr: "a b\n", code: 6},
		"gate at end":   {cmd: shell.Gate("b", "", 0), stdout: "b"},
	} {
		cmd := exec.CommandContext(t.Context(), tt.cmd.Path, tt.cmd.Args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CF_SET=a $b\n", "CF_EMPTY=", "PWD="+dir)
		cmd.Stdin = strings.NewReader(tt.stdin)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); stdout.String() != tt.stdout || stderr.String() != tt.stderr || code != tt.code {
			t.Errorf("%s: %q, %q, code %d; want %q, %q, code %d", what, stdout.String(), stderr.String(), code, tt.stdout, tt.stderr, tt.code)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "new")); err != nil || string(b) != "%x\n" {
		t.Errorf("append wrote %q (%v)", b, err)
	}
}

func TestShellTrapAndOrphanOnThisMachine(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI must have a shell")
		}
		t.Skip("there is no sh here")
	}
	var shell Shell
	for _, tt := range []struct {
		cmd  Cmd
		want string
	}{{shell.Trap(sdk.USR1, 9), "caught\n"}, {shell.Orphan(), ""}} {
		cmd := exec.Command(tt.cmd.Path, tt.cmd.Args...)
		inOwnGroup(cmd)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { killGroup(cmd) })
		out := bufio.NewReader(stdout)
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if tt.want == "" { // the leader ends, the pipe stays open
			if state, err := cmd.Process.Wait(); err != nil || state.ExitCode() != 0 || line != "early\n" {
				t.Errorf("the leader said %q and ended with %v (%v)", line, state, err)
			}
			continue
		}
		signalUSR1(t, cmd)
		rest, err := out.ReadString('\n')
		if line != "ready\n" || rest != tt.want || err != nil {
			t.Errorf("it said %q and %q (%v)", line, rest, err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
			t.Errorf("it ended with %v", err)
		}
	}
}
