package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// built is where slipway and slipway-memory lie side by side, as make builds them.
var built string

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	// Tests end slipway by these signals, whatever whoever runs the tests ignores: what is caught here is at its default in each child.
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	dir, err := os.MkdirTemp("", "slipway-built-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built = dir
	flag.Parse() // for the tier
	for name, pkg := range map[string]string{"slipway": ".", "slipway-memory": "../../plugins/memory/cmd", "hostile": "./internal/hostile"} {
		flags := []string{"-ldflags", "-w -X main.giveUpAfter=20s"}
		if testkit.Race && !testing.Short() { // in the gate the packages that they are made of run under the race detector, which makes these ten times slower
			flags = append(flags, "-race")
		}
		if err := testkit.Build(filepath.Join(dir, name), pkg, flags...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}
