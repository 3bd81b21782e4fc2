//go:build linux

package nomadtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// programEnv names a variable with the path of the agent's program; without it the one that `make deps` builds is used.
const programEnv = "SLIPWAY_NOMAD"

// program returns the path of the agent's program, for those who may run it: the one that is named, else bin/nomad of the checkout, else the one in
// the user's cache.
func program(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "a Nomad agent needs root: run the tests as root")
	}
	if p := os.Getenv(programEnv); p != "" {
		abs, err := filepath.Abs(p)
		if err == nil && !executable(abs) {
			err = fmt.Errorf("%s=%s is not an executable file", programEnv, p)
		}
		if err != nil {
			t.Fatalf("nomadtest: %v", err)
		}
		return abs
	}
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("nomadtest: go env GOMOD: %v", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	built := filepath.Join(root, "bin", "nomad")
	if executable(built) {
		return built
	}
	cached, err := cachedProgram(root)
	if err != nil {
		t.Fatalf("nomadtest: %v", err)
	}
	if !executable(cached) {
		testkit.Lacking(t, "no Nomad at %s, nor at %s: build it with `make deps`, or set %s", built, cached, programEnv)
	}
	return cached
}

// cachedProgram returns where build.sh keeps the program that it would build from this checkout.
func cachedProgram(root string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "plugins", "nomad", "testserver")
	files, err := filepath.Glob(filepath.Join(dir, "clouds", "*", "*"))
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range append([]string{filepath.Join(dir, "go.mod"), filepath.Join(dir, "go.sum"), filepath.Join(dir, "build.sh")}, files...) {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		h.Write(b)
	}
	io.WriteString(h, runtime.GOARCH+"\n")
	return filepath.Join(cache, "slipway", "nomad-v1.9.4-"+hex.EncodeToString(h.Sum(nil))[:16]), nil
}

func executable(path string) bool {
	s, err := os.Stat(path)
	return err == nil && s.Mode().IsRegular() && s.Mode()&0o111 != 0
}
