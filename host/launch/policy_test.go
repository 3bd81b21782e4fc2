package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	fresh := func() *breaker {
		return &breaker{min: 250 * time.Millisecond, max: 30 * time.Second, after: 5, window: 2 * time.Minute, openOf: time.Minute}
	}
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	within := func(t *testing.T, got, low, high time.Duration) {
		t.Helper()
		if got < low || got > high {
			t.Errorf("waits %v, want %v to %v", got, low, high)
		}
	}
	t.Run("doubles, then opens at the fifth exit", func(t *testing.T) {
		b := fresh()
		for i := range 4 {
			wait, open := b.exit(start.Add(time.Duration(i)*time.Second), false)
			low := 250 * time.Millisecond << i
			within(t, wait, low, low+low/2)
			if open {
				t.Errorf("open at exit %d", i+1)
			}
		}
		if wait, open := b.exit(start.Add(4*time.Second), false); !open || wait != time.Minute {
			t.Errorf("fifth exit: open %v, waits %v", open, wait)
		}
		if _, open := b.exit(start.Add(time.Hour), false); !open {
			t.Error("a failed probe closed the circuit")
		}
		b.reset()
		if wait, open := b.exit(start.Add(2*time.Hour), false); open || wait > 375*time.Millisecond {
			t.Errorf("after a reset: open %v, waits %v", open, wait)
		}
	})
	t.Run("exits far apart do not open it, and the wait has a limit", func(t *testing.T) {
		b := fresh()
		for i := range 100 {
			wait, open := b.exit(start.Add(time.Duration(i)*31*time.Second), false)
			within(t, wait, 250*time.Millisecond, 30*time.Second)
			if open {
				t.Fatalf("open at exit %d", i+1)
			}
		}
		wait, _ := b.exit(start.Add(2*time.Hour), false)
		within(t, wait, 30*time.Second, 30*time.Second)
	})
	t.Run("final failures open it at once", func(t *testing.T) {
		if wait, open := fresh().exit(start, true); !open || wait != time.Minute {
			t.Errorf("open %v, waits %v", open, wait)
		}
	})
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tool := write("bin/slipway-test-tool", 0o700)
	plain := write("plain/slipway-test-tool", 0o600)
	t.Setenv("PATH", strings.Join([]string{"", "relative", filepath.Dir(plain), filepath.Dir(tool)}, string(os.PathListSeparator)))

	for command, want := range map[string]string{"slipway-test-tool": tool, "./bin/slipway-test-tool": tool, tool: tool} {
		if got, err := Resolve(command, dir); err != nil || got != want {
			t.Errorf("Resolve(%q): %q, %v", command, got, err)
		}
	}
	for command, c := range map[string]struct {
		reason Reason
		says   []string
	}{
		"":                           {ReasonNotFound, []string{"no command"}},
		"slipway-test-other":         {ReasonNotFound, []string{filepath.Join(filepath.Dir(tool), "slipway-test-other") + " (not there)", filepath.Dir(os.Args[0])}},
		"bin/slipway-test-other":     {ReasonNotFound, []string{filepath.Join(dir, "bin/slipway-test-other")}},
		"./plain/slipway-test-tool":  {ReasonNotExecutable, []string{"chmod +x"}},
		"./bin/../bin":               {ReasonNotExecutable, []string{"not a regular file"}},
		"bin/slipway-test-tool/deep": {ReasonNotExecutable, []string{"not a directory"}},
	} {
		_, err := Resolve(command, dir)
		if !errors.Is(err, c.reason) {
			t.Errorf("Resolve(%q): %v, want %s", command, err, c.reason)
			continue
		}
		for _, text := range c.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("Resolve(%q) does not say %q: %v", command, text, err)
			}
		}
	}
}

func TestLinesAreCutAndWhole(t *testing.T) {
	type line struct {
		text string
		cut  int
	}
	long := strings.Repeat("x", maxLine)
	for input, want := range map[string][]line{
		"":                         nil,
		"a":                        {{"a", 0}},
		"a\n\nb":                   {{"a", 0}, {"", 0}, {"b", 0}},
		long + "\nb\n":             {{long, 0}, {"b", 0}},
		long + "yz\nb\n":           {{long, 2}, {"b", 0}},
		long + long + long + "\nb": {{long, 2 * maxLine}, {"b", 0}},
		long + "y":                 {{long, 1}},
	} {
		var got []line
		eachLine(strings.NewReader(input), func(l []byte, cut int) { got = append(got, line{string(l), cut}) })
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d bytes gave %d lines, want %d", len(input), len(got), len(want))
		}
	}
}

func TestRingKeepsTheEnd(t *testing.T) {
	var r ring
	var all []byte
	for i := range 1000 {
		b := fmt.Appendf(nil, "%d%s\n", i, strings.Repeat("-", i))
		all = append(all, b...)
		r.Write(b)
		if got := r.bytes(); string(got) != string(all[max(0, len(all)-tailSize):]) {
			t.Fatalf("after %d writes the ring has %d other bytes", i+1, len(got))
		}
	}
	r.Write(all)
	if string(r.bytes()) != string(all[len(all)-tailSize:]) {
		t.Error("one large write is not kept")
	}
}

func TestBucket(t *testing.T) {
	b := newBucket()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range logLinesBurst {
		if ok, report := b.take(now); !ok || report {
			t.Fatalf("line %d: admitted %v, report %v", i, ok, report)
		}
	}
	if ok, report := b.take(now); ok || report {
		t.Errorf("beyond the burst: admitted %v, report %v", ok, report)
	}
	if ok, report := b.take(now.Add(time.Second)); !ok || !report {
		t.Errorf("a second later: admitted %v, report %v", ok, report)
	}
	if n := b.forget(); n != 1 {
		t.Errorf("%d dropped", n)
	}
	if b.tokens != logLinesPerSecond-1 {
		t.Errorf("%v tokens after a second", b.tokens)
	}
}

func TestExcerptTellsMost(t *testing.T) {
	many := strings.Repeat("line\n", 20)
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"a\n\nb\n", "a\nb"},
		{many, strings.TrimSuffix(strings.Repeat("line\n", 10), "\n")},
		{"why\nSIGQUIT: quit\ngoroutine 1\n", "why"},
		{"SIGQUIT: quit\ngoroutine 1\n", ""},
		{many + "panic: x\n\ngoroutine 1\n", "panic: x\n\ngoroutine 1"},
		{"fatal error: y\n" + many, "fatal error: y\n" + strings.TrimSuffix(strings.Repeat("line\n", 9), "\n")},
		{"no panic: here", "no panic: here"},
		{"long\n" + strings.Repeat("x", 3000), "long\n" + strings.Repeat("x", 300) + "..."},
		{`{"@level":"error","@message":"cannot","why":"z"}` + "\n" + `{"@level":"debug","@message":"noise"}`, "ERROR cannot why=z"},
	} {
		if got := excerpt(c.in); got != c.want {
			t.Errorf("excerpt(%.40q): %q, want %q", c.in, got, c.want)
		}
	}
}
