package wasi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
	"github.com/slipway-run/slipway/plugins/memory/internal/wasi/wasitest"
)

func newFS(t testing.TB, files map[string][]byte) *tree.Namespace {
	t.Helper()
	root, err := tree.New(tree.NewBudget(256<<20), tree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Release)
	ns, err := tree.NewNamespace(root, nil, tree.NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := ns.MkdirAll("/", path.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := ns.Open("/", name, os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(content); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return ns
}

func newEngine(t testing.TB, opts Options) *Engine {
	t.Helper()
	e := New(opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return e
}

// ran is what a program was seen to do.
type ran struct {
	Result
	out, err string
}

func run(t testing.TB, e *Engine, ns *tree.Namespace, args ...string) ran {
	t.Helper()
	return runWith(t, t.Context(), e, Command{Path: "/probe", Args: append([]string{"probe"}, args...), FS: ns, Umask: 0o022})
}

func runWith(t testing.TB, ctx context.Context, e *Engine, cmd Command) ran {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, testkit.Bound(t), fmt.Errorf("%q hangs", cmd.Args))
	defer cancel()
	var out, errs bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &errs
	r := e.Run(ctx, cmd)
	if ctx.Err() == context.DeadlineExceeded {
		t.Fatal(context.Cause(ctx))
	}
	return ran{r, out.String(), errs.String()}
}

func TestPrograms(t *testing.T) {
	probe := wasitest.Build(t)
	t.Run("compiled", func(t *testing.T) { testPrograms(t, probe, false) })
	t.Run("interpreted", func(t *testing.T) {
		testkit.Soak(t, "the same by the interpreter; the gate has it run programs as processes")
		testPrograms(t, probe, true)
	})
}

// testPrograms runs the probe by one engine, so that it is translated once.
func testPrograms(t *testing.T, probe []byte, interpret bool) {
	memory := NewMemory("the test", int64(testkit.Times(48, 128))<<20, nil)
	compiled := precompiled(t, probe)
	e := newEngine(t, Options{Memory: memory, Interpret: interpret})
	e.compiled = compiled
	ns := newFS(t, map[string][]byte{"/probe": probe, "/work/in": []byte("content\n"), "/etc/passwd": []byte("mine\n")})

	t.Run("words", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			out  string
			code int
		}{
			{[]string{"args", "a b", ""}, "4\nprobe|args|a b|\n", 0},
			{[]string{"exit", "7"}, "", 7},
			{[]string{"exit", "0"}, "", 0},
			{[]string{"exit", "256"}, "", 255}, // never 0
			{[]string{"exit", "-1"}, "", 255},
			{[]string{"cat", "/work/in"}, "content\n", 0},
			{[]string{"cat"}, "", 0}, // stdin is at its end
			{[]string{"nap"}, "awake\n", 0},
			{[]string{"nonsense"}, "", 1},
		} {
			if got := run(t, e, ns, c.args...); got.out != c.out || got.Code != c.code || got.OutOfMemory || got.Message != "" {
				t.Errorf("%q: %+v, want %q and %d", c.args, got, c.out, c.code)
			}
		}
		if got := run(t, e, ns, "err", "to stderr"); got.err != "to stderr" || got.out != "" || got.PeakMemory < 1<<20 {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("environment", func(t *testing.T) {
		t.Setenv("SECRET_OF_THE_MACHINE", "1")
		got := runWith(t, t.Context(), e, Command{Path: "/probe", Args: []string{"probe", "env"}, Env: []string{"A=1", "B=x=y", "A=2"}, FS: ns})
		if got.out != "A=2\nB=x=y\n" {
			t.Errorf("got %q", got.out)
		}
		got = runWith(t, t.Context(), e, Command{Path: "/probe", Args: []string{"probe", "cwd"}, Env: []string{"PWD=/work"}, FS: ns})
		if got.out != "/work\n" {
			t.Errorf("in %q", got.out)
		}
		got = runWith(t, t.Context(), e, Command{Path: "/probe", Args: []string{"probe", "cat", "in", "../work/./in"}, Env: []string{"PWD=/work"}, FS: ns})
		if got.out != "content\ncontent\n" {
			t.Errorf("read %q, %s", got.out, got.err)
		}
	})

	t.Run("stdin", func(t *testing.T) {
		got := runWith(t, t.Context(), e, Command{Path: "/probe", Args: []string{"probe", "cat"}, FS: ns, Stdin: strings.NewReader("fed\n")})
		if got.out != "fed\n" || got.Code != 0 {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("files", func(t *testing.T) {
		got := run(t, e, ns, "files", "/work")
		if want := "world\n5\n1234567890\nf\nJello\n"; got.out != want || got.Code != 0 {
			t.Errorf("%q, want %q; %s", got.out, want, got.err)
		}
		if info, err := ns.Stat("/", "/work/a/f"); err != nil || info.Mode().Perm() != 0o644 || info.Size() != 5 {
			t.Errorf("left %v, %v", info, err)
		}
		if got := run(t, e, ns, "list", "/work/d"); got.out != "---------- moved\n" {
			t.Errorf("listed %q, %s", got.out, got.err)
		}
		if got := run(t, e, ns, "list", "/"); !strings.Contains(got.out, "d--------- work\n") || !strings.Contains(got.out, "---------- probe\n") {
			t.Errorf("listed %q, %s", got.out, got.err)
		}
		if got := run(t, e, ns, "open"); got.out != "stopped\ntrue\n" {
			t.Errorf("got %+v", got)
		}
	})

	// Nothing of the machine is there, however one asks.
	t.Run("escape", func(t *testing.T) {
		for name, target := range map[string]string{"/abs": "/etc/passwd", "/up": "../../../../etc/passwd", "/work/up": "../etc/passwd"} {
			if err := ns.Symlink("/", target, name); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"/etc/passwd", "/../../etc/passwd", "/abs", "/up", "/work/up", "/work/../etc/passwd", "/work/../../../etc/passwd"} {
			if got := run(t, e, ns, "cat", name); got.out != "mine\n" && got.out != "" {
				t.Errorf("%s: read %q", name, got.out)
			}
		}
		for _, name := range []string{"/etc/hosts", "/proc/self/environ", "/proc/1/root/etc/passwd", "/dev/tty", "/root/.profile", "/usr/bin/env"} {
			if got := run(t, e, ns, "readable", name); got.out != "No such file or directory\n" && got.out != "file does not exist\n" {
				t.Errorf("%s: %q", name, got.out)
			}
		}
	})

	t.Run("ended", func(t *testing.T) {
		for _, what := range []string{"spin", "sleep", "cat"} {
			ctx, cancel := context.WithCancel(t.Context())
			pr, pw, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			if what == "cat" { // waits for stdin
				pw.WriteString("seen\n")
			}
			out := &trigger{do: cancel}
			got := runWith(t, ctx, e, Command{Path: "/probe", Args: []string{"probe", what}, FS: ns, Stdin: pr, Stdout: out})
			if ctx.Err() == nil {
				t.Errorf("%s: ended by itself: %+v", what, got)
			}
			cancel()
			pr.Close()
			pw.Close()
		}
	})

	t.Run("broken pipe", func(t *testing.T) {
		pr, pw := io.Pipe()
		go func() {
			io.CopyN(io.Discard, pr, 100)
			pr.Close()
		}()
		if got := runWith(t, t.Context(), e, Command{Path: "/probe", Args: []string{"probe", "flood"}, FS: ns, Stdout: pw}); got.Code != 141 {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("memory", func(t *testing.T) {
		limited := func(mib, limit int64) ran {
			return runWith(t, t.Context(), e, Command{
				Path: "/probe", Args: []string{"probe", "alloc", fmt.Sprint(mib)}, FS: ns, Memory: NewMemory("container c", limit, memory),
			})
		}
		if got := limited(8, 64<<20); got.Code != 0 || got.out != "has\n8\n" || got.PeakMemory < 8<<20 || got.PeakMemory > 64<<20 {
			t.Errorf("within the limit: %+v", got)
		}
		if got := limited(20, 16<<20); !got.OutOfMemory || got.Code != 137 || !strings.Contains(got.Message, "container c") || got.PeakMemory > 16<<20 {
			t.Errorf("beyond the limit: %+v", got)
		}
		if got := limited(1, 1<<10); !got.OutOfMemory || got.Code != 137 { // not even to begin
			t.Errorf("with no memory at all: %+v", got)
		}
		if got := limited(int64(testkit.Times(60, 200)), 1<<30); !got.OutOfMemory || !strings.Contains(got.Message, "the test") {
			t.Errorf("beyond what all may have: %+v", got)
		}
		if used := memory.Used(); used != 0 {
			t.Errorf("%d bytes are not given back", used)
		}
	})

	t.Run("many", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range testkit.Times(4, 20) {
			all.Go(func() {
				name := fmt.Sprint("/work/many", i)
				if got := run(t, e, ns, "write", name, name); got.Code != 0 {
					t.Errorf("got %+v", got)
				}
				if got := run(t, e, ns, "cat", name); got.out != name {
					t.Errorf("got %+v", got)
				}
			})
		}
		all.Wait()
	})

	t.Run("full", func(t *testing.T) {
		small, err := tree.New(tree.NewBudget(64<<10), tree.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer small.Release()
		root, err := tree.New(tree.NewBudget(256<<20), tree.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer root.Release()
		mounted, err := tree.NewNamespace(root, []tree.Mount{{Path: "/small", Tree: small}, {Path: "/ro", Tree: small, ReadOnly: true}}, tree.NamespaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		copyFile(t, ns, mounted, "/probe")
		if got := run(t, e, mounted, "write", "/small/f", strings.Repeat("x", 80<<10)); got.Code != 1 || !strings.Contains(got.err, "I/O error") {
			t.Errorf("a full volume: %+v", got)
		}
		if got := run(t, e, mounted, "writable", "/ro/g"); got.out != "Read-only file system\n" {
			t.Errorf("a read-only volume: %+v", got)
		}
	})

	if cached := e.cache.bytes; cached == 0 || len(e.cache.programs) != 1 {
		t.Errorf("%d programs of %d bytes are compiled", len(e.cache.programs), cached)
	}
}

func copyFile(t *testing.T, from, to *tree.Namespace, name string) {
	t.Helper()
	src, err := from.Open("/", name, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := to.Open("/", name, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
}

// trigger does something when it is written to.
type trigger struct{ do func() }

func (w *trigger) Write(p []byte) (int, error) {
	w.do()
	return len(p), nil
}

// module puts a WebAssembly module together.
func module(sections ...[]byte) []byte {
	return append([]byte(magic+version), bytes.Join(sections, nil)...)
}

func section(id byte, content ...byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(content))), content...)
}

// code is a module whose _start has this body.
func code(body ...byte) []byte {
	body = append(append([]byte{0}, body...), 0x0b)
	return module(
		section(1, 1, 0x60, 0, 0), section(3, 1, 0), section(7, append([]byte{1, 6}, "_start\x00\x00"...)...),
		section(10, append(binary.AppendUvarint([]byte{1}, uint64(len(body))), body...)...),
	)
}

func TestWhatIsNoProgram(t *testing.T) {
	e := newEngine(t, Options{MaxProgramBytes: 4 << 10})
	imports := append([]byte{1, 3}, "env\x04spam\x00\x00"...)
	good := code()
	for name, c := range map[string]struct {
		content []byte
		code    int
		says    string
	}{
		"good":         {good, 0, ""},
		"trap":         {code(0x00), 134, "unreachable"},
		"recursion":    {code(0x10, 0), 134, "stack overflow"},
		"no header":    {[]byte(magic), 126, "not WebAssembly"},
		"component":    {[]byte(magic + "\x0d\x00\x01\x00"), 126, "component"},
		"version":      {[]byte(magic + "\x02\x00\x00\x00"), 126, "version 2"},
		"cut":          {good[:len(good)-1], 126, "damaged"},
		"garbage":      {module([]byte{99, 0}), 126, "damaged"},
		"invalid code": {code(0x6a), 126, "damaged"},
		"library":      {module(), 126, "_start"},
		"import":       {module(section(1, 1, 0x60, 0, 0), section(2, imports...)), 126, `"env"`},
		"long":         {module(section(0, make([]byte, 5<<10)...)), 126, "longer than"},
		"tables":       {module(section(4, 1, 0x70, 0, 0x80, 0x80, 0x80, 0x20)), 126, "entries"},
		"many tables":  {module(section(4, 0xff, 0x01)), 126, "255 tables"},
		"table":        {module(section(4, 1, 0x70)), 126, "tables cannot be read"},
	} {
		ns := newFS(t, map[string][]byte{"/probe": c.content})
		got := run(t, e, ns)
		if got.Code != c.code || c.says == "" && got.Message != "" || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v; want %d, %q", name, got.Result, c.code, c.says)
		}
	}
	if got := run(t, e, newFS(t, nil)); got.Code != 126 {
		t.Errorf("no file: %+v", got)
	}
}

// A program cannot grow its tables without end, which no limit of linear memory would notice.
func TestTablesAreBounded(t *testing.T) {
	for _, interpret := range []bool{false, true} {
		e := newEngine(t, Options{Interpret: interpret})
		grow := code(
			0xd0, 0x70, 0x41, 0x80, 0x80, 0x80, 0x08, 0xfc, 0x0f, 0, // table.grow of 16 Mi entries
			0x41, 0x7f, 0x46, 0x04, 0x40, 0x00, 0x0b, // if it is -1, then unreachable
		)
		at := bytes.Index(grow, []byte{7})
		withTable := append(append(bytes.Clone(grow[:at]), section(4, 1, 0x70, 0, 0)...), grow[at:]...)
		if got := run(t, e, newFS(t, map[string][]byte{"/probe": withTable})); got.Code != 134 {
			t.Errorf("interpreted %v: a table grew by 16 Mi entries: %+v", interpret, got.Result)
		}
	}
}

func TestCacheIsBoundedAndShared(t *testing.T) {
	program := func(n byte) []byte { return append(code(), section(0, 1, 'x', n, 0)...) }
	size := int64(len(program(0)))
	e := newEngine(t, Options{CacheBytes: 2 * size})
	for i := range byte(5) {
		ns := newFS(t, map[string][]byte{"/probe": program(i)})
		for range 2 {
			if got := run(t, e, ns); got.Code != 0 {
				t.Fatalf("got %+v", got)
			}
		}
	}
	if e.cache.bytes != 2*size || len(e.cache.programs) != 2 {
		t.Errorf("%d programs with %d bytes are kept", len(e.cache.programs), e.cache.bytes)
	}
	// Two who come at once wait for one compilation.
	var compiled sync.Map
	compile := e.cache.compile
	e.cache.compile = func(b []byte) (_ wazero.CompiledModule, err error) {
		if _, again := compiled.LoadOrStore(string(b), true); again {
			t.Error("the same content is compiled twice")
		}
		runtime.Gosched()
		return compile(b)
	}
	ns := newFS(t, map[string][]byte{"/probe": program(100)})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := run(t, e, ns); got.Code != 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
	all.Wait()
}

func TestEngineClosed(t *testing.T) {
	e := New(Options{})
	ns := newFS(t, map[string][]byte{"/probe": code()})
	if got := run(t, e, ns); got.Code != 0 {
		t.Errorf("got %+v", got)
	}
	for range 2 {
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := run(t, e, ns); got.Code != 126 {
		t.Errorf("a closed engine: %+v", got)
	}
	if err := New(Options{}).Close(t.Context()); err != nil {
		t.Error(err)
	}
}
