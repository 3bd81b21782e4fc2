package conformance

import "testing"

// TestMemoryWASI runs the suite's own program under WASI, in containers that hold nothing else, of a plugin that runs no scripts. It is the
// plugin's program, for the race detector would make the compiler of WASI programs many times slower.
func TestMemoryWASI(t *testing.T) {
	file, err := BuildProbe(t.Context(), t.TempDir(), "wasip1/wasm")
	if err != nil {
		t.Fatal(err)
	}
	target := memoryProgram(t, buildMemory(t), `{"shell":false}`, nil)
	if target.Commands, err = LoadProbe(file); err != nil {
		t.Fatal(err)
	}
	opts := options([]string{"C17*", "I05*", "I06*", "I26*", "P01*", "P06*", "V11*"}, EnvCrash, EnvProbeLinux, EnvProgram) // the first ones need the probe
	opts.Skip = []string{"P22-*"}
	Run(t, target, opts)
}
