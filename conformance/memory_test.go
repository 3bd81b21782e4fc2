package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

// bareMemory is the reference runtime without anything in between.
func bareMemory(t *testing.T) sdk.Runtime {
	t.Helper()
	rt := memory.New([]string{"mem"}, memory.Options{})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testkit.Bound(t))
		defer cancel()
		if err := rt.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func memoryTarget(rt sdk.Runtime) Target {
	target := InProcess(rt, "mem")
	target.Bare = true // its programs are part of it
	return target
}

// patience is what the times of cases are multiplied by: here they are for hangs only, and the machine may have a lot else to do.
func patience() float64 { return 10 * testkit.TimeScale() }

// bareOptions are for the runtime itself: long loops look for its faults. Nothing there can be killed, and no program of Linux's runs.
func bareOptions() Options {
	opts := Options{Short: testing.Short(), TimeScale: patience(), Without: []Requirement{EnvCrash, EnvProbe, EnvProgram}}
	if testing.Short() {
		opts.Skip = []string{"P29-*"} // most of the time, under the race detector; the gate has it on the plugin's process
	}
	return opts
}

// options are for the ways to it, on which short loops do. In the gate only the given cases are run, for what the runtime does has been
// seen on it bare: those of each kind of call, and of what a way may do to streams, callbacks, errors and contexts.
func options(gate []string, without ...Requirement) Options {
	opts := Options{Short: true, TimeScale: patience(), Without: without}
	if testing.Short() {
		opts.Only = gate
	}
	return opts
}

// onTheWire are the cases of the gate for a plugin that is not a part of this process.
var onTheWire = []string{
	"D0*", "E0*", "K0*", "W0*", "W1*", "W20*", "W21*", "C01*", "C06*", "C23*", "V0*", "F0*", "F16*", "F17*", "F22*", "F23*", "F24*", "F34*",
	"P0*", "P12*", "P20*", "P21*", "X01*", "S0*", "S11*", "S15*", "I01*", "I02*", "I07*", "I08*", "I10*", "I17*", "I18*", "I19*", "I20*", "I2[1-47-9]*", "A0[1-8]*", "A1*", "A2*", "Y0*", "J*", "Q03*",
}

func TestMemoryBare(t *testing.T) {
	Run(t, memoryTarget(bareMemory(t)), bareOptions())
}

func TestMemoryOverRPC(t *testing.T) {
	Run(t, memoryTarget(rpctest.Pair(t, bareMemory(t))), options(onTheWire, EnvCrash, EnvProbe, EnvProgram))
}

// built is where the plugin's program is, once it is asked for.
var built string

// removeBuilt is for the end of all tests.
func removeBuilt() {
	if built != "" {
		os.RemoveAll(filepath.Dir(built))
	}
}

// buildMemory builds the plugin's program, unless that is done.
func buildMemory(t *testing.T) string {
	t.Helper()
	if built != "" {
		return built
	}
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "slipway-memory")
	if err := testkit.Build(path, "../plugins/memory/cmd"); err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	built = path
	return path
}

// memoryProgram has two workers; zone is empty or the settings of both.
func memoryProgram(t *testing.T, path, settings string, zone json.RawMessage) Target {
	t.Helper()
	target := Command(Program{
		Path:    path,
		Plugin:  sdk.Block{Name: "memory", Values: json.RawMessage(settings)},
		Workers: []sdk.Block{{Name: "mem", Values: zone}, {Name: "peer", Values: zone}},
		Launch:  launch.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))},
	})
	target.Bare, target.Worker, target.Peer = true, "mem", "peer"
	return target
}

func TestMemoryProcess(t *testing.T) {
	some := []string{"P01*", "P20*", "C01*", "V01*", "F01*", "F23*", "I07*", "I18*", "A07*", "S11*", "X01*", "K0[14]*", "P29*", "R0[23]*", "B*", "J*"}
	Run(t, memoryProgram(t, buildMemory(t), `{}`, json.RawMessage(`{"zone":"here"}`)), options(some, EnvProbe))
}

// TestMemoryWorld kills plugins whose containers live in another process.
func TestMemoryWorld(t *testing.T) {
	path := buildMemory(t)
	dir, err := os.MkdirTemp("", "world")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	world := exec.Command(path, "world", "--socket", socket, "--worker", "mem", "--worker", "peer", "--zone", "here")
	world.Stderr = t.Output()
	stdout, err := world.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := world.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		world.Process.Signal(os.Interrupt)
		if err := world.Wait(); err != nil {
			t.Errorf("the world ended with %v", err)
		}
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("the world said %q and then %v", line, err)
	}
	Run(t, memoryProgram(t, path, fmt.Sprintf(`{"world":%q}`, "unix:"+socket), nil), options([]string{"R*", "P01*", "I07*", "S11*"}, EnvProbe))
}

// TestCrashOften: however often a case kills the plugin, it is there again at once, though a host would wait longer each time, and then not try for a while.
func TestCrashOften(t *testing.T) {
	inst, err := memoryProgram(t, buildMemory(t), `{}`, nil).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer inst.Close()
	for i := range 8 { // of which five within two minutes are too many
		if _, err := inst.Crash(testkit.Context(t)); err != nil {
			t.Fatalf("the plugin is gone after %d kills: %v", i+1, err)
		}
	}
}

// TestMemoryStress is what is large or much, for minutes, on the plugin's own process.
func TestMemoryStress(t *testing.T) {
	testkit.Soak(t, "gigabytes go each way")
	file, err := BuildProbe(t.Context(), t.TempDir(), "wasip1/wasm")
	if err != nil {
		t.Fatal(err)
	}
	target := memoryProgram(t, buildMemory(t), `{}`, nil)
	if target.Commands, err = LoadProbe(file); err != nil {
		t.Fatal(err)
	}
	// Under the race detector each byte costs the suite ten times as much, and races need no gigabytes.
	Run(t, target, Options{Profiles: []Profile{Stress}, TimeScale: patience(), Small: testkit.Race})
}
