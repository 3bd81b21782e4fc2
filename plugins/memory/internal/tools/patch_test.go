package tools

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// TestCompareLines: what is not gone from a and not new in b is the same, and a short script is found where there is one.
func TestCompareLines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sequence := func(n, letters int) []int {
		list := make([]int, n)
		for i := range list {
			list[i] = r.IntN(letters)
		}
		return list
	}
	for range testkit.Times(1000, 3000) {
		letters := 1 + r.IntN(6)
		a, b := sequence(r.IntN(30), letters), sequence(r.IntN(30), letters)
		checkScript(t, a, b)
	}
	long := sequence(5000, 1000)
	other := slices.Clone(long)
	for range 50 {
		other = slices.Delete(other, 100, 101)
		other = slices.Insert(other, r.IntN(len(other)), -1)
	}
	if n := checkScript(t, long, other); n > 150 {
		t.Errorf("100 edits became %d", n)
	}
	checkScript(t, sequence(3000, 1<<30), sequence(3000, 1<<30)) // with nothing in common
}

func checkScript(t *testing.T, a, b []int) (edits int) {
	t.Helper()
	s := compareLines(a, b, func() {})
	var left, right []int
	for i, gone := range s.gone {
		if gone {
			edits++
		} else {
			left = append(left, a[i])
		}
	}
	for i, added := range s.new {
		if added {
			edits++
		} else {
			right = append(right, b[i])
		}
	}
	if !slices.Equal(left, right) {
		t.Fatalf("of %v and %v are kept %v and %v", a, b, left, right)
	}
	return edits
}

// inW runs a tool in /w.
func inW(t *testing.T, ns *tree.Namespace, in string, argv ...string) (out string, status int) {
	t.Helper()
	o, errs, status := call(t, ns, argv, in)
	return o + errs, status
}

func write(t *testing.T, ns *tree.Namespace, name, text string) {
	t.Helper()
	f, err := ns.Open("/w", name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, ns *tree.Namespace, name string) string {
	t.Helper()
	f, err := ns.Open("/w", name, os.O_RDONLY, 0)
	if err != nil {
		return "no " + name
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPatchUndoesDiff: what diff says of two files makes the one from the other, and back.
func TestPatchUndoesDiff(t *testing.T) {
	ns := newTree(t)
	r := rand.New(rand.NewPCG(3, 4))
	text := func() string {
		var b strings.Builder
		for range r.IntN(25) {
			fmt.Fprintf(&b, "line %d\n", r.IntN(8))
		}
		s := b.String()
		if r.IntN(3) == 0 {
			s = strings.TrimSuffix(s, "\n")
		}
		return s
	}
	for range testkit.Times(100, 300) {
		old, new := text(), text()
		write(t, ns, "a", old)
		write(t, ns, "b", new)
		patch, status := inW(t, ns, "", "diff", "-u", "a", "b")
		if (status == 0) != (old == new) {
			t.Fatalf("diff of %q and %q ends with %d", old, new, status)
		}
		if status == 0 {
			continue
		}
		if out, status := inW(t, ns, patch, "patch", "a"); status != 0 || read(t, ns, "a") != new {
			t.Fatalf("patch of %q ends with %d, %q: %q instead of %q\n%s", old, status, out, read(t, ns, "a"), new, patch)
		}
		if out, status := inW(t, ns, patch, "patch", "-R", "a"); status != 0 || read(t, ns, "a") != old {
			t.Fatalf("patch -R ends with %d, %q: %q instead of %q\n%s", status, out, read(t, ns, "a"), old, patch)
		}
	}
}

func TestPatch(t *testing.T) {
	numbers := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "%d\n", i)
		}
		return b.String()
	}
	change := "--- a/src/f\t2024-01-01\n+++ b/src/f\t2024-01-02\n@@ -9,7 +9,7 @@ some function\n 9\n 10\n 11\n-12\n+twelve\n 13\n 14\n 15\n"
	for name, c := range map[string]struct {
		file, patch string
		args        []string
		want        string
		status      int
		says        string
	}{
		"plain":    {numbers(1, 20), change, []string{"-p1"}, strings.Replace(numbers(1, 20), "12\n", "twelve\n", 1), 0, "patching file src/f"},
		"git":      {numbers(1, 20), "diff --git a/src/f b/src/f\nindex 1..2 100644\n" + change, []string{"-p1"}, strings.Replace(numbers(1, 20), "12\n", "twelve\n", 1), 0, ""},
		"offset":   {"x\ny\n" + numbers(1, 20), change, []string{"-p1"}, "x\ny\n" + strings.Replace(numbers(1, 20), "12\n", "twelve\n", 1), 0, "offset 2 lines"},
		"fuzz":     {strings.Replace(numbers(1, 20), "9\n10\n", "9\nten\n", 1), change, []string{"-p1"}, strings.NewReplacer("9\n10\n", "9\nten\n", "12\n", "twelve\n").Replace(numbers(1, 20)), 0, "fuzz"},
		"no fuzz":  {strings.Replace(numbers(1, 20), "9\n10\n", "9\nten\n", 1), change, []string{"-p1", "-F0"}, strings.Replace(numbers(1, 20), "9\n10\n", "9\nten\n", 1), 1, "FAILED"},
		"fails":    {"other\n", change, []string{"-p1"}, "other\n", 1, "1 out of 1 hunk FAILED"},
		"dry run":  {numbers(1, 20), change, []string{"-p1", "--dry-run"}, numbers(1, 20), 0, "checking file"},
		"no strip": {numbers(1, 20), change, []string{"-p0"}, numbers(1, 20), 1, "can't find file"},
		"garbage":  {"x\n", "nothing of use\n", nil, "x\n", 2, "garbage"},
		"cut":      {numbers(1, 20), change[:len(change)-6], []string{"-p1"}, numbers(1, 20), 2, "unexpected end"},
		"escape":   {"x\n", strings.NewReplacer("a/src/f", "../../etc/x", "b/src/f", "../../etc/x").Replace(change), []string{"-p0"}, "x\n", 1, "dangerous"},
	} {
		ns := newTree(t)
		if err := ns.MkdirAll("/w", "src", 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, ns, "src/f", c.file)
		out, status := inW(t, ns, c.patch, append([]string{"patch"}, c.args...)...)
		if got := read(t, ns, "src/f"); got != c.want || status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("%s: %q, %d, says %q; want %q, %d, %q", name, got, status, out, c.want, c.status, c.says)
		}
	}
	ns := newTree(t)
	if _, status := inW(t, ns, "--- /dev/null\n+++ b/new/dir/f\n@@ -0,0 +1,2 @@\n+one\n+two\n", "patch", "-p1"); status != 0 || read(t, ns, "new/dir/f") != "one\ntwo\n" {
		t.Errorf("a new file: %d, %q", status, read(t, ns, "new/dir/f"))
	}
	if _, status := inW(t, ns, "--- a/new/dir/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n", "patch", "-p1"); status != 0 || read(t, ns, "new/dir/f") != "no new/dir/f" {
		t.Errorf("a file that goes: %d, %q", status, read(t, ns, "new/dir/f"))
	}
}

// A tool that compares without end ends with its context.
func TestDiffIsCancelled(t *testing.T) {
	ns := newTree(t)
	r := rand.New(rand.NewPCG(5, 6))
	for _, name := range []string{"a", "b"} {
		var b strings.Builder
		for range 20000 {
			fmt.Fprintf(&b, "%d\n", r.Uint64())
		}
		write(t, ns, name, b.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Table()["diff"](ctx, &Call{Name: "diff", Args: []string{"a", "b"}, Dir: "/w", FS: ns, Stdout: io.Discard, Stderr: io.Discard})
}
