//go:build linux

package onnomad

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// pluginEnv makes the test binary the plugin that it tests.
const pluginEnv = "ONNOMAD_PLUGIN"

// program is the shim, built once.
var program string

func TestMain(m *testing.M) {
	if os.Getenv(pluginEnv) != "" {
		rpc.Serve(plugin())
		return
	}
	dir, err := os.MkdirTemp("", "onnomad")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "shim")
	if err := testkit.Build(program, "../../cmd"); err != nil {
		panic(err)
	}
	testkit.Main(m, func() { os.RemoveAll(dir) })
}

// startAgent starts Nomad with the shim in the root of exec tasks.
func startAgent(t testing.TB, o nomadtest.Options) *nomadtest.Agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "onnomad")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) // after the agent's end
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o.ChrootEnv, err = nomadtest.BusyboxRoot(filepath.Join(dir, "root"))
	if err != nil {
		testkit.Lacking(t, "%v", err)
	}
	// A copy, for Nomad links to it, and the containers' root could write it.
	own := filepath.Join(dir, "slipway")
	if err := copyProgram(filepath.Join(own, "shim")); err != nil {
		t.Fatal(err)
	}
	o.ChrootEnv[own] = filepath.Dir(chrootProgram)
	o.GCMaxAllocs = 1000
	return nomadtest.Start(t, o)
}

func copyProgram(to string) error {
	if err := os.Mkdir(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(program)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// settings are those of a worker on the agent, with a state directory of its own.
func settings(t testing.TB, a *nomadtest.Agent, driver string) config {
	t.Helper()
	state, err := os.MkdirTemp("", "onnomad")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	return config{Agent: a.Address(), Tasks: driver, State: state, Allocs: filepath.Join(a.Dir(), "data", "alloc"), Shim: program}
}

// drivers runs a test on both.
func drivers(t *testing.T, a *nomadtest.Agent, f func(t *testing.T, driver string)) {
	for _, driver := range []string{nomadtest.RawExec, nomadtest.Exec} {
		t.Run(driver, func(t *testing.T) {
			if driver == nomadtest.Exec && !a.HasExec() {
				testkit.Lacking(t, "Nomad's exec driver")
			}
			f(t, driver)
		})
	}
}

func block(c config) sdk.Block {
	values, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return sdk.Block{Name: "node", Values: values}
}
