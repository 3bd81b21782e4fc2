package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo lists the packages that it is asked for, but none that is called "none" or "empty", and notes each test that it is to run. That of the package in
// the file "fails" fails.
const fakeGo = `#!/bin/sh
case $1-$2 in
list-none) echo "none: directory not found" >&2; exit 1 ;;
list-empty) exit 0 ;;
list-*) shift; for p; do echo "$p"; done; exit 0 ;;
esac
for package; do :; done
echo "$CGO_ENABLED $package" >>../ran
[ "$package" != "$(cat ../fails)" ] || { echo "FAIL $package"; exit 1; }
echo "ok $package"
`

// TestSoak: a soak of packages that are not there fails; what has passed is kept until all has, and then the same soak begins anew.
func TestSoak(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("soak.sh")
	if err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	repository := filepath.Join(top, "repository")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(top, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	soak := func(packages ...string) (ran string, passed bool) {
		t.Helper()
		write("ran", "", 0o600)
		c := exec.CommandContext(t.Context(), script, append([]string{filepath.Join(top, "go"), "1", ""}, packages...)...)
		c.Dir = repository
		out, err := c.CombinedOutput()
		t.Logf("%q: %v\n%s", packages, err, out)
		text, readErr := os.ReadFile(filepath.Join(top, "ran"))
		if readErr != nil {
			t.Fatal(readErr)
		}
		return strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"), ", "), err == nil
	}
	if err := os.Mkdir(repository, 0o700); err != nil {
		t.Fatal(err)
	}
	write("go", fakeGo, 0o700)
	write("fails", "", 0o600)
	write("repository/.gitignore", "/bin/\n", 0o600)
	if _, passed := soak("a"); passed {
		t.Error("it passes where nothing tells one state of the files from another")
	}
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", repository).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, nothing := range []string{"none", "empty"} {
		if ran, passed := soak(nothing); passed || ran != "" {
			t.Errorf("a soak of %s passes: %t; it ran %q", nothing, passed, ran)
		}
	}
	for _, step := range []struct{ what, fails, file, ran string }{
		{"the first", "a", "", "1 a, 0 a, 1 b, 0 b"},
		{"what has passed is kept", "", "", "1 a, 0 a"},
		{"all has passed: anew", "b", "", "1 a, 0 a, 1 b, 0 b"},
		{"a file has changed", "", "changed", "1 a, 0 a, 1 b, 0 b"},
	} {
		write("fails", step.fails, 0o600)
		if step.file != "" {
			write("repository/"+step.file, "", 0o600)
		}
		if ran, passed := soak("a", "b"); ran != step.ran || passed != (step.fails == "") {
			t.Errorf("%s: it passes: %t; it ran %q, want %q", step.what, passed, ran, step.ran)
		}
	}
}
