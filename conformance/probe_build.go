package conformance

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The probe's source travels with the suite, so that it can be built wherever there is a go command: far from this module's own folder,
// too. It needs the standard library only.
//
//go:embed probe/*.go
var probeSource embed.FS

// ProbePlatforms lists what the probe can be built for, as GOOS/GOARCH.
func ProbePlatforms() []string { return []string{"linux/amd64", "linux/arm64", "wasip1/wasm"} }

// BuildProbe builds the probe for a platform with the go command into a file "probe" of a directory, which must be there, and gives
// the file's path. It downloads nothing.
func BuildProbe(ctx context.Context, dir, platform string) (string, error) {
	goos, goarch, _ := strings.Cut(platform, "/")
	if !slices.Contains(ProbePlatforms(), platform) {
		return "", fmt.Errorf("probe: it is not for %q, but for %s", platform, strings.Join(ProbePlatforms(), ", "))
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("probe: no go command to build it with: install Go, or give the file that was built elsewhere "+
			"with \"CGO_ENABLED=0 GOOS=%s GOARCH=%s go build\" of the package conformance/probe: %w", goos, goarch, err)
	}
	source, err := os.MkdirTemp("", "slipway-probe-")
	if err != nil {
		return "", err
	}
	file, err := buildProbe(ctx, goCommand, source, dir, goos, goarch)
	return file, errors.Join(err, os.RemoveAll(source))
}

func buildProbe(ctx context.Context, goCommand, source, dir, goos, goarch string) (string, error) {
	entries, err := probeSource.ReadDir("probe")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		text, err := probeSource.ReadFile("probe/" + e.Name())
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(source, e.Name()), text, 0o600); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(source, "go.mod"), []byte("module probe\n\ngo 1.26\n"), 0o600); err != nil {
		return "", err
	}
	file, err := filepath.Abs(filepath.Join(dir, probeName))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, goCommand, "build", "-trimpath", "-ldflags", "-s -w", "-o", file, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOWORK=off", "GOFLAGS=", "GOTOOLCHAIN=local", "GOEXPERIMENT=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("probe: building it for %s/%s: %w\n%s", goos, goarch, err, out)
	}
	return file, nil
}
