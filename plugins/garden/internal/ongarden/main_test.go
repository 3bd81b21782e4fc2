//go:build linux

package ongarden

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// built is where the programs lie side by side, as make builds them.
var built string

func TestMain(m *testing.M) {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.RemoveAll(built)
		os.Exit(1)
	}
	testkit.Main(m, func() { os.RemoveAll(built) })
}

// build builds the programs.
func build() (err error) {
	if built, err = os.MkdirTemp("", "slipway-built-"); err != nil {
		return err
	}
	for name, pkg := range map[string]string{
		"slipway": "cmd/host", "slipway-memory": "plugins/memory/cmd", "slipway-garden": "plugins/garden/cmd", "slipway-shim-linux-" + runtime.GOARCH: "sdk/shim/cmd",
	} {
		if err := testkit.Build(program(name), "github.com/slipway-run/slipway/"+pkg); err != nil {
			return err
		}
	}
	return os.Setenv("PATH", built+string(os.PathListSeparator)+os.Getenv("PATH")) // where hosts of this process look for plugins
}

func program(name string) string { return filepath.Join(built, name) }
