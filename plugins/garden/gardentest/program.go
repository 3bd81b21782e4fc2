//go:build linux

package gardentest

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

// programs are the paths of the servers.
type programs struct {
	garden, baggageclaim, houdini string
	guardian, concourse           string // the directories of their programs; empty where they are not asked for
}

// find looks for the programs where build.sh keeps what it would build from this checkout.
func find(t testing.TB, o Options) programs {
	t.Helper()
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "root, which containers and volumes need: run the tests as root")
	}
	if _, err := exec.LookPath("runc"); err != nil {
		testkit.Lacking(t, "%v; install Debian's runc (make deps does)", err)
	}
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("gardentest: go env GOMOD: %v", err)
	}
	checkout := filepath.Dir(strings.TrimSpace(string(mod)))
	p, err := cached(checkout)
	if err != nil {
		t.Fatalf("gardentest: %v", err)
	}
	for _, path := range []string{p.garden, p.baggageclaim, p.houdini} {
		if s, err := os.Stat(path); err != nil || !s.Mode().IsRegular() || s.Mode()&0o111 == 0 {
			testkit.Lacking(t, "program %s: build it with `make deps`, again after changes of its sources", path)
		}
	}
	if o.Guardian {
		p.guardian = findGuardian(t, checkout)
	}
	if o.Concourse {
		p.concourse = findConcourse(t, checkout)
	}
	return p
}

// cached follows the rule of build.sh.
func cached(checkout string) (programs, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return programs{}, err
	}
	here := filepath.Join(checkout, "plugins", "garden", "testserver")
	common := []string{"go.mod", "go.sum", "build.sh", "once.sh"}
	tools, err := key(here, common)
	if err != nil {
		return programs{}, err
	}
	ours, err := key(here, append(common,
		"../gardentest/runcgarden/*.go", "../gardentest/runcgarden/init/init.c", "../../../plugins/runc/engine/*.go"))
	if err != nil {
		return programs{}, err
	}
	servers := filepath.Join(cache, "slipway", "garden-servers-"+tools)
	return programs{
		garden:       filepath.Join(cache, "slipway", "garden-runcgarden-"+ours, "runcgarden"),
		baggageclaim: filepath.Join(servers, "baggageclaim"),
		houdini:      filepath.Join(servers, "houdini"),
	}, nil
}

func key(dir string, patterns []string) (string, error) {
	h := sha256.New()
	io.WriteString(h, runtime.GOARCH+"\n")
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		if len(paths) == 0 {
			return "", fmt.Errorf("no file %s", filepath.Join(dir, pattern))
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			h.Write(text)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
