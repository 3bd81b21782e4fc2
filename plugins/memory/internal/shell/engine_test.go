package shell

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

func TestResolve(t *testing.T) {
	ns := newNamespace(t, map[string]string{
		"/work/script!":        "#!/bin/sh\necho script $0 $*\n",
		"/work/env!":           "#!/usr/bin/env bash\necho env\n",
		"/work/options!":       "#!/bin/sh -eu\necho $-\n",
		"/work/prog.awk!":      "#!/usr/bin/awk -f\n{print \"awk\", $1}\n",
		"/work/plain":          "echo plain\n",
		"/work/binary!":        "\x7fELF...",
		"/work/other!":         "#!/usr/bin/python3\n",
		"/work/dir/x":          "",
		"/usr/local/bin/grep!": "#!/bin/sh\necho my grep\n",
		"/bin/sed!":            "\x7fELF...",
		"/work/bin/tool!":      "#!/bin/sh\necho tool\n",
		"/work/bin/noexec":     "#!/bin/sh\n",
	})
	e := New(Options{})
	for _, c := range []struct {
		name, path, want string
		err              error
	}{
		{"sh", "", "/bin/sh", nil},
		{"/bin/sh", "", "/bin/sh", nil},
		{"bash", "", "/bin/bash", nil},
		{"/usr/bin/env", "", "/usr/bin/env", nil},
		{"/bin/cat", "", "/usr/bin/cat", nil},
		{"cat", "", "/usr/bin/cat", nil},
		{"../bin/cat", "", "/usr/bin/cat", nil},
		{"./script", "", "/work/script", nil},
		{"/work/env", "", "/work/env", nil},
		{"./prog.awk", "", "/work/prog.awk", nil},
		{"grep", "", "/usr/local/bin/grep", nil},
		{"sed", "", "/usr/bin/sed", nil},
		{"/bin/sed", "", "/usr/bin/sed", nil},
		{"tool", "/nope:/work/bin", "/work/bin/tool", nil},
		{"tool", "bin", "/work/bin/tool", nil},
		{"tool", "", "", ErrNotFound},
		{"noexec", "/work/bin", "", ErrNotExecutable},
		{"nothing", "", "", ErrNotFound},
		{"/nothing", "", "", ErrNotFound},
		{"", "", "", ErrNotFound},
		{"./plain", "", "", ErrNotExecutable},
		{"./plain/x", "", "", ErrNotFound},
		{"./binary", "", "", ErrNotExecutable},
		{"./other", "", "", ErrNotExecutable},
		{"./dir", "", "", ErrNotExecutable},
		{"/etc/cat", "", "", ErrNotFound},
	} {
		var env []string
		if c.path != "" {
			env = []string{"PATH=" + c.path}
		}
		x, err := e.Resolve(ns, c.name, "/work", env)
		if x.Path() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s on %q: %q, %v; want %q, %v", c.name, c.path, x.Path(), err, c.want, c.err)
		}
		if err != nil && !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s: the error does not name it: %v", c.name, err)
		}
	}
	for _, c := range []struct{ script, out string }{
		{"./script a b", "script ./script a b\n"},
		{"./env; ./options", "env\neu\n"},
		{"echo x y | ./prog.awk", "awk x\n"},
		{"./plain; echo $?; ./binary; echo $?; ./dir; echo $?", "126\n126\n126\n"},
		{"PATH=/work/bin; tool; sed --version >/dev/null 2>&1; echo $?", "tool\n1\n"},
		{"env grep x; find plain -exec ./script {} ';'; echo a | xargs ./script", "my grep\nscript ./script plain\nscript ./script a\n"},
	} {
		if got := sh(t, ns, c.script); got.out != c.out {
			t.Errorf("%s: %q, want %q; %s", c.script, got.out, c.out, got.err)
		}
	}
}

func TestShellArguments(t *testing.T) {
	ns := newNamespace(t, map[string]string{"/work/f.sh": "echo $0 $1 $#\n"})
	for _, c := range []struct {
		args []string
		in   string
		out  string
		code int
	}{
		{[]string{"-ec", "false; echo no"}, "", "", 1},
		{[]string{"-e", "-c", "echo a"}, "", "a\n", 0},
		{[]string{"-euo", "pipefail", "-c", "false | true; echo no"}, "", "", 1},
		{[]string{"-o", "pipefail", "-c", "false | true; echo $?"}, "", "1\n", 0},
		{[]string{"-c", "echo $0 $1 $2", "name", "a", "b"}, "", "name a b\n", 0},
		{[]string{"-c", "echo x$1", "--", "-e"}, "", "x-e\n", 0},
		{[]string{"f.sh", "x", "y"}, "", "f.sh x 2\n", 0},
		{[]string{"-x", "f.sh"}, "", "f.sh 0\n", 0},
		{nil, "echo from stdin; exit 3", "from stdin\n", 3},
		{[]string{"-s", "a"}, "echo $1", "a\n", 0},
		{[]string{"-"}, "echo dash", "dash\n", 0},
		{[]string{"--posix", "-c", "echo p"}, "", "p\n", 0},
		{[]string{"-Z"}, "", "", 2},
		{[]string{"-c"}, "", "", 2},
		{[]string{"nofile"}, "", "", 127},
		{[]string{"-n", "-c", "echo never"}, "", "", 0},
		{[]string{"-u", "-c", "echo $nope"}, "", "", 1},
	} {
		got := run(t, ns, "sh", c.args, stdin(c.in))
		if got.out != c.out || got.Code != c.code {
			t.Errorf("sh %q: %q, %d, want %q, %d; %s", c.args, got.out, got.Code, c.out, c.code, got.err)
		}
	}
	if got := sh(t, ns, "cat; echo done"); got.out != "done\n" {
		t.Errorf("without stdin: %+v", got)
	}
	if got := sh(t, ns, "cat /dev/stdin; echo e > /dev/stderr; cat < /dev/null; head -c 3 /dev/zero | wc -c; [ -c /dev/null ] && echo null", stdin("in\n")); got.out != "in\n3\nnull\n" || got.err != "e\n" {
		t.Errorf("devices: %+v", got)
	}
}

// endless yields n bytes.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n := int(min(e.n, int64(len(p))))
	for i := range n {
		p[i] = "abc\n"[i%4]
	}
	e.n -= int64(n)
	return n, nil
}

// TestStream: a stream passes whole, and one without end passes too, which could not be kept.
func TestStream(t *testing.T) {
	const size, forever = 4 << 20, 1 << 60
	feed := func(n int64) func(*Command) { return func(c *Command) { c.Stdin = &endless{n} } }
	if got := sh(t, newNamespace(t, nil), "cat | tr a-z A-Z | tee /dev/null | wc -c", feed(size)); strings.TrimSpace(got.out) != strconv.Itoa(size) {
		t.Errorf("%+v", got)
	}
	if got := sh(t, newNamespace(t, nil), "cat | tr a-z A-Z | tee /dev/null | head -c 1000000 | tail -c 4", feed(forever)); got.out != "ABC\n" {
		t.Errorf("of a stream without end: %+v", got)
	}
}

// TestStreamTakesNoMemory: a stream is not kept.
func TestStreamTakesNoMemory(t *testing.T) {
	testkit.Soak(t, "how much memory a long stream takes")
	const size = 96 << 20
	stop := make(chan struct{})
	var most uint64
	var wg sync.WaitGroup
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse+m.StackInuse)
			}
		}
	})
	got := sh(t, newNamespace(t, nil), "cat | tr a-z A-Z | tee /dev/null | wc -c", func(c *Command) { c.Stdin = &endless{size} })
	close(stop)
	wg.Wait()
	if strings.TrimSpace(got.out) != strconv.Itoa(size) {
		t.Errorf("%+v", got)
	}
	if grown := int64(most) - int64(before.HeapInuse+before.StackInuse); grown > 32<<20 {
		t.Errorf("it took %d MiB", grown>>20)
	}
}

// TestSharedEngine: processes do not know of each other.
func TestSharedEngine(t *testing.T) {
	ns := newNamespace(t, nil)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			name := fmt.Sprintf("p%d", i) // its file too: they share the name space
			got := sh(t, ns, "x="+name+"; for i in 1 2 3; do echo $x | cat; done; f() { echo $x; }; f & wait; echo $x > $x; cat $x")
			if got.out != strings.Repeat(name+"\n", 5) {
				t.Errorf("%q: %q %q", name, got.out, got.err)
			}
		})
	}
	wg.Wait()
}
