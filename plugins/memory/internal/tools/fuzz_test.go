package tools

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// fuzzTool runs a tool on files that it may ruin, and wants no more than an end.
func fuzzTool(t *testing.T, name string, args []string) {
	ns := newTree(t)
	if err := put(ns, "/w/f", "one two\nthree\n\nfour"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var out limited
	done := make(chan struct{})
	go func() {
		defer close(done)
		Table()[name](ctx, &Call{Name: name, Args: args, Dir: "/w", FS: ns, Stdout: &out, Stderr: &out, Stdin: strings.NewReader("one two\nthree\n\nfour")})
	}()
	hang := testkit.Bound(t)
	if _, ok := t.Deadline(); !ok { // fuzzing has none, and is to find what hangs
		hang = 2 * time.Minute
	}
	select {
	case <-done:
	case <-time.After(hang):
		t.Fatalf("%s %q does not end with its context", name, args)
	}
}

// limited takes a little and then fails as a pipe that nobody reads.
type limited struct{ b bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.b.Len() > 1<<20 {
		return 0, context.Canceled
	}
	return l.b.Write(p)
}

func FuzzSed(f *testing.F) {
	for line := range strings.SplitSeq(sedCases, "\n") {
		argv, _ := split(line)
		f.Add(strings.Join(argv[1:], "\x00"))
	}
	f.Fuzz(func(t *testing.T, args string) { fuzzTool(t, "sed", strings.Split(args, "\x00")) })
}

func FuzzPrintf(f *testing.F) {
	for _, s := range []string{"%s\x00a", "%5.3d|%-+08.2f\x001\x002", "%b%q%c\x00\\x\x00y", "%*.*s\x001\x002\x00abc", "\\x\\u\\U0001F600%%", "%x%X%o%e%g%a\x001\x002"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) { fuzzTool(t, "printf", strings.Split(args, "\x00")) })
}

func FuzzRegexp(f *testing.F) {
	for _, s := range []string{`a\(b\)*`, `[[:alpha:]]\{2,3\}`, `^x\|y$`, `a**`, `\<w\>`, `[]a]`, `(a|b)+?`, `x{,3}`} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, pattern string, extended bool) {
		re, err := compile(pattern, syntaxOf{extended: extended, escapes: true})
		if err == nil {
			re.MatchString("some text [with] {things} ^ in $ it\n")
		}
	})
}

func FuzzFind(f *testing.F) {
	for _, s := range []string{"-name\x00*", "(\x00-type\x00f\x00-o\x00-prune\x00)", "!\x00-size\x00+1k", "-printf\x00%p\\n", "-exec\x00echo\x00{}\x00+"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		fuzzTool(t, "find", append([]string{"."}, strings.Split(args, "\x00")...))
	})
}

func FuzzTestAndExpr(f *testing.F) {
	for _, s := range []string{"1\x00-lt\x002", "!\x00-f\x00x", "(\x00a\x00)", "1\x00+\x002", "abc\x00:\x00\\(.\\)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		fuzzTool(t, "test", strings.Split(args, "\x00"))
		fuzzTool(t, "expr", strings.Split(args, "\x00"))
	})
}
