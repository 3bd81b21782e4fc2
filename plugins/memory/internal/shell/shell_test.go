package shell

import (
	"bytes"
	"io"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

func TestMain(m *testing.M) {
	if os.Getenv("SLIPWAY_TEST_CONFINED") != "" {
		confined()
		return
	}
	testkit.Main(m)
}

// newNamespace has /tmp, /work and the files given: a name that ends in "!" is executable.
func newNamespace(t testing.TB, files map[string]string) *tree.Namespace {
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
	for _, dir := range []string{"/tmp", "/work"} {
		if err := ns.MkdirAll("/", dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		perm := os.FileMode(0o644)
		if strings.HasSuffix(name, "!") {
			name, perm = strings.TrimSuffix(name, "!"), 0o755
		}
		if err := ns.MkdirAll("/", path.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := ns.Open("/", name, os.O_CREATE|os.O_WRONLY, perm)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return ns
}

// outcome is what a script did.
type outcome struct {
	Result
	out, err string
}

// sh runs a script in /work.
func sh(t testing.TB, ns *tree.Namespace, script string, more ...func(*Command)) outcome {
	t.Helper()
	return run(t, ns, "sh", []string{"-c", script}, more...)
}

func run(t testing.TB, ns *tree.Namespace, name string, args []string, more ...func(*Command)) outcome {
	t.Helper()
	ctx := testkit.Context(t)
	e := New(Options{})
	var out, errs bytes.Buffer
	cmd := Command{Args: args, Dir: "/work", Stdout: &out, Stderr: &errs}
	for _, f := range more {
		f(&cmd)
	}
	x, err := e.Resolve(ns, name, cmd.Dir, cmd.Env)
	if err != nil {
		t.Fatal(err)
	}
	r := e.Run(ctx, ns, x, cmd)
	if ctx.Err() != nil {
		t.Fatalf("%s %q did not end; stdout %q, stderr %q", name, args, out.String(), errs.String())
	}
	return outcome{r, out.String(), errs.String()}
}

func stdin(s string) func(*Command) {
	return func(c *Command) { c.Stdin = strings.NewReader(s) }
}
