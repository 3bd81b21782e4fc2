package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// build builds the probe for this machine.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "probe")
	if err := testkit.Build(path, "."); err != nil {
		t.Fatal(err)
	}
	return path
}

type said struct {
	stdout, stderr string
	code           int
}

func ask(t *testing.T, probe, stdin string, args ...string) said {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), probe, args...)
	cmd.Dir = filepath.Dir(probe)
	cmd.Env = []string{"SET=a $b\n", "EMPTY=", "PWD=/not/here"}
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return said{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// TestWords holds each verb that any system can do to what it says.
func TestWords(t *testing.T) {
	probe := build(t)
	dir := filepath.Dir(probe)
	file := filepath.Join(dir, "file")
	for _, tt := range []struct {
		args  []string
		stdin string
		want  said
	}{
		{[]string{"exit", "0"}, "", said{}},
		{[]string{"exit", "255"}, "", said{code: 255}},
		{[]string{"print", "o%s\\n", "e\x01"}, "", said{"o%s\\n", "e\x01", 0}},
		{[]string{"args", "", "a b", "$x\n", "-n", "\xff"}, "", said{stdout: "[]\n[a b]\n[$x\n]\n[-n]\n[\xff]\n"}},
		{[]string{"args"}, "", said{}},
		{[]string{"env", "SET"}, "", said{stdout: "[a $b\n]\n"}},
		{[]string{"env", "EMPTY"}, "", said{stdout: "[]\n"}},
		{[]string{"env", "NONE"}, "", said{stdout: "unset\n"}},
		{[]string{"dir"}, "", said{stdout: dir + "\n"}},
		{[]string{"lines", "3"}, "", said{stdout: "1\n2\n3\n"}},
		{[]string{"pattern", "1", "10", "3"}, "", said{stdout: "\x3c\x07\x20\xb1\x76\x48\x8f\xef\xa9\x5f"}},
		{[]string{"pattern", "1", "3", "10", "stderr"}, "", said{stderr: "\x3c\x07\x20"}},
		{[]string{"cat"}, "a\x00b", said{stdout: "a\x00b"}},
		{[]string{"hash"}, "abc", said{stdout: "3 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"}},
		{[]string{"gate", "b\n", "a\n", "7"}, "go\n", said{"b\na\n", "", 7}},
		{[]string{"gate", "b", "", "0"}, "", said{stdout: "b"}},
		{[]string{"talk"}, "o one\ne two\no three\nx 4\no no\n", said{"one\nthree\n", "two\n", 4}},
		{[]string{"append", file, "%x\n"}, "", said{stdout: "%x\n"}},
		{[]string{"seq", "append", file, "y", ";", "cat-file", file}, "", said{stdout: "y%x\ny"}},
		{[]string{"cat-file", file + "x"}, "", said{code: 1}},
		{[]string{"seq", "print", "a", ";", "exit", "3", ";", "print", "b"}, "", said{stdout: "a", code: 3}},
		{[]string{"seq", "mkdir", dir + "/d/e", ";", "mv", file, dir + "/d/f", ";", "rm", dir + "/d/e", ";", "write", dir + "/d/g", "g", ";", "symlink", "g", dir + "/d/l",
			";", "link", dir + "/d/g", dir + "/d/h", ";", "truncate", "2", dir + "/d/f", ";", "chmod", "400", dir + "/d/f", ";", "cat-file", dir + "/d/l", ";", "cat-file", dir + "/d/f"}, "", said{stdout: "g%x"}},
		{[]string{"alloc", "1000000"}, "", said{stdout: "held\n"}},
	} {
		if got := ask(t, probe, tt.stdin, tt.args...); got != tt.want {
			t.Errorf("%q: %+v, want %+v", tt.args, got, tt.want)
		}
	}
	for _, tt := range []struct {
		args []string
		code int
	}{
		{nil, codeUsage}, {[]string{"fly"}, codeUsage}, {[]string{"seq", "fly", ";", "exit", "0"}, codeUsage}, {[]string{"exit"}, codeUsage},
		{[]string{"rm", file + "x"}, codeFailed}, {[]string{"append", "/no/such/file", "x"}, codeFailed},
	} {
		if got := ask(t, probe, "", tt.args...); got.code != tt.code || !strings.Contains(got.stderr, "probe: ") || got.stdout != "" {
			t.Errorf("%q: %+v, want code %d and a reason", tt.args, got, tt.code)
		}
	}
	want := `{"path":"f","mode":256,"size":2,"uid":` // and what differs between machines
	if got := ask(t, probe, "", "tree", dir+"/d"); !strings.Contains(got.stdout, want) || strings.Count(got.stdout, "\n") != 5 ||
		!strings.Contains(got.stdout, `"link":"g"`) || !strings.Contains(got.stdout, `"links":2`) {
		t.Errorf("tree: %+v", got)
	}
}
