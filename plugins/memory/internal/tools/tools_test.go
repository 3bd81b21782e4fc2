package tools

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// fixture are the files that every case begins with, in a tree and on disk.
// A name that ends in "/" is a directory, a text that begins with "->" a link.
func fixture() [][2]string {
	numbers := ""
	for _, n := range []string{"10", "9", "2", "33", "1", "2", "-5", "3.14", "007", "x"} {
		numbers += n + "\n"
	}
	return [][2]string{
		{"abc", "alpha beta gamma\nbeta\n\ngamma delta\nAlpha 12 x\nthe end\n"},
		{"noend", "one\ntwo\nthree"},
		{"empty", ""},
		{"numbers", numbers},
		{"csv", "b,2,x\na,10,y\nc,1,x\na,3,z\n"},
		{"words", "the quick brown fox\njumps over\nthe lazy dog\n"},
		{"utf8", "héllo wörld\nñandú\n"},
		{"tabs", "a\tb\tc\n  lead\ttrail  \n"},
		{"dup", "a\na\nb\nc\nc\nc\na\n"},
		{"sorted1", "a\nb\nd\n"},
		{"sorted2", "b\nc\nd\ne\n"},
		{"dir/", ""},
		{"dir/one.txt", "1\n"},
		{"dir/two.go", "package two\n"},
		{"dir/sub/", ""},
		{"dir/sub/three.txt", "3\n3\n"},
		{"dir/sub/emptydir/", ""},
		{"link", "->abc"},
		{"dirlink", "->dir"},
	}
}

func newTree(t testing.TB) *tree.Namespace {
	t.Helper()
	root, err := tree.New(tree.NewBudget(1<<30), tree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Release)
	ns, err := tree.NewNamespace(root, nil, tree.NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.MkdirAll("/", "/w", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := ns.MkdirAll("/", "/tmp", 0o755); err != nil {
		t.Fatal(err)
	}
	return ns
}

func fill(t testing.TB, ns *tree.Namespace) {
	t.Helper()
	for _, f := range fixture() {
		name, text := path.Join("/w", f[0]), f[1]
		var err error
		switch target, link := strings.CutPrefix(text, "->"); {
		case strings.HasSuffix(f[0], "/"):
			err = ns.Mkdir("/", name, 0o755)
		case link:
			err = ns.Symlink("/", target, name)
		default:
			err = put(ns, name, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func put(ns *tree.Namespace, name, text string) error {
	f, err := ns.Open("/", name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(f, text); err != nil {
		return err
	}
	return f.Close()
}

func fillDisk(t testing.TB, dir string) {
	t.Helper()
	for _, f := range fixture() {
		name, text := filepath.Join(dir, f[0]), f[1]
		var err error
		switch target, link := strings.CutPrefix(text, "->"); {
		case strings.HasSuffix(f[0], "/"):
			err = os.Mkdir(name, 0o755)
		case link:
			err = os.Symlink(target, name)
		default:
			err = os.WriteFile(name, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// call runs a tool in /w.
func call(t testing.TB, ns *tree.Namespace, argv []string, in string, vars ...string) (out, errs string, status int) {
	t.Helper()
	ctx := testkit.Context(t)
	var o, e bytes.Buffer
	table := Table()
	var run func(ctx context.Context, c Command) int
	run = func(ctx context.Context, c Command) int {
		f := table[c.Argv[0]]
		if f == nil {
			io.WriteString(c.Stderr, c.Argv[0]+": no such program\n")
			return 127
		}
		list := c.Env
		if list == nil {
			list = vars
		}
		env := Env{List: func() []string { return list }, Lookup: func(name string) (string, bool) {
			for _, kv := range list {
				if v, ok := strings.CutPrefix(kv, name+"="); ok {
					return v, true
				}
			}
			return "", false
		}}
		return f(ctx, &Call{Name: c.Argv[0], Args: c.Argv[1:], Dir: c.Dir, FS: ns, Umask: 0o022, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, Env: env, Run: run})
	}
	status = run(ctx, Command{Argv: argv, Dir: "/w", Stdin: strings.NewReader(in), Stdout: &o, Stderr: &e})
	if ctx.Err() != nil {
		t.Fatalf("%q did not end", argv)
	}
	return o.String(), e.String(), status
}

// machine runs the machine's own tool in dir.
func machine(t testing.TB, dir string, argv []string, in string) (out, errs string, status int) {
	t.Helper()
	p, err := exec.LookPath(argv[0])
	if err != nil {
		testkit.Lacking(t, "%s, to compare with", argv[0])
	}
	cmd := exec.Command(p, argv[1:]...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(in)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC0", "V=value"}
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil {
		if exit := (*exec.ExitError)(nil); !asExit(err, &exit) {
			t.Fatal(err)
		}
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}

// snapshot is every file below a directory with its content, by the machine's
// or the tree's view.
func snapshot(t testing.TB, list func(dir string) ([]os.DirEntry, error), read func(name string) (string, error), dir string) string {
	t.Helper()
	var b strings.Builder
	var walk func(rel string)
	walk = func(rel string) {
		entries, err := list(path.Join(dir, rel))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			p := path.Join(rel, e.Name())
			b.WriteString(p)
			switch {
			case e.IsDir():
				b.WriteString("/\n")
				walk(p)
			default:
				text, err := read(path.Join(dir, p))
				if err != nil {
					t.Fatal(err)
				}
				b.WriteString(" = " + text + "\n")
			}
		}
	}
	walk("")
	return b.String()
}
