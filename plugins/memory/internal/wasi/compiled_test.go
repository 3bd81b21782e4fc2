package wasi

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/slipway-run/slipway/internal/testkit"
)

// compiledIn names the directory of what another process has compiled or, in that process, is to compile.
const compiledIn = "WASI_TEST_COMPILED_IN"

// precompiled has a process without the race detector compile a program: under it the compiler, which is not ours, takes many times as
// long. In the soak it is nil, and the engine compiles.
func precompiled(t *testing.T, program []byte) wazero.CompilationCache {
	t.Helper()
	if testkit.Times(1, 0) == 0 {
		return nil
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "program"), program, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(testkit.Context(t), "go", "test", "-vet=off", "-count=1", "-run=^TestPrecompile$", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", compiledIn+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile a program: %v\n%s", err, out)
	}
	return compilations(t, dir)
}

// TestPrecompile is run by precompiled.
func TestPrecompile(t *testing.T) {
	dir := os.Getenv(compiledIn)
	if dir == "" {
		return
	}
	program, err := os.ReadFile(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, Options{})
	e.compiled = compilations(t, dir)
	if got := runWith(t, t.Context(), e, Command{Path: "/probe", Args: []string{"probe", "exit", "0"}, FS: newFS(t, map[string][]byte{"/probe": program})}); got.Code != 0 {
		t.Errorf("got %+v", got)
	}
}

func compilations(t *testing.T, dir string) wazero.CompilationCache {
	t.Helper()
	c, err := wazero.NewCompilationCacheWithDir(filepath.Join(dir, "compiled"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}
