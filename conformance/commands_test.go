//go:build unix

package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// onThisMachine gives both kinds of commands, and how to start one here.
func onThisMachine(t *testing.T) map[string]Commands {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		testkit.Lacking(t, "sh: %v", err)
	}
	return map[string]Commands{"shell": Shell{}, "probe": Probe{}}
}

// program is where a command's program is on this machine.
func program(cmd Cmd, probe string) string {
	if cmd.Path == probeDir+"/"+probeName {
		return probe
	}
	return cmd.Path
}

// probeHere builds the probe for this machine.
func probeHere(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		testkit.Lacking(t, "Linux: the probe is for it and for WASI")
	}
	file, err := BuildProbe(t.Context(), t.TempDir(), "linux/"+runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCommandsOnThisMachine runs the commands with a real sh, and the probe: what a runtime with real containers runs.
func TestCommandsOnThisMachine(t *testing.T) {
	probe := probeHere(t)
	for name, commands := range onThisMachine(t) {
		t.Run(name, func(t *testing.T) { tryCommands(t, commands, probe) })
	}
}

func tryCommands(t *testing.T, shell Commands, probe string) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("in the file"), 0o644); err != nil {
		t.Fatal(err)
	}
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
		"gate at end":   {cmd: shell.Gate("b", "", 0), stdout: "b"},
	} {
		cmd := exec.CommandContext(t.Context(), program(tt.cmd, probe), tt.cmd.Args...)
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

func TestTrapAndOrphanOnThisMachine(t *testing.T) {
	probe := probeHere(t)
	for name, commands := range onThisMachine(t) {
		t.Run(name, func(t *testing.T) { tryTrapAndOrphan(t, commands, probe) })
	}
}

func tryTrapAndOrphan(t *testing.T, shell Commands, probe string) {
	for _, tt := range []struct {
		cmd  Cmd
		want string
	}{{shell.Trap(sdk.USR1, 9), "caught\n"}, {shell.Orphan(), ""}} {
		cmd := exec.Command(program(tt.cmd, probe), tt.cmd.Args...)
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

// TestProbeBuilds: for WASI too, and nothing else is taken for a probe.
func TestProbeBuilds(t *testing.T) {
	dir := t.TempDir()
	file, err := BuildProbe(t.Context(), dir, "wasip1/wasm")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := LoadProbe(file); err != nil || !p.wasm || len(p.program) < 1<<20 {
		t.Errorf("the probe for WASI has %d bytes and is one: %v (%v)", len(p.program), p.wasm, err)
	}
	if p, err := LoadProbe(probeHere(t)); err != nil || p.wasm {
		t.Errorf("the probe for this machine is one for WASI: %v (%v)", p.wasm, err)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadProbe(script); err == nil {
		t.Error("a script was taken for a probe")
	}
	if _, err := BuildProbe(t.Context(), dir, "plan9/mips"); err == nil {
		t.Error("a probe for plan9 was built")
	}
	t.Setenv("PATH", dir)
	if _, err := BuildProbe(t.Context(), dir, "linux/amd64"); err == nil || !strings.Contains(err.Error(), "install Go") {
		t.Errorf("without a go command: %v", err)
	}
}
