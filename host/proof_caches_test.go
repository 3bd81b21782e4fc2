package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cacheJob's step says what its cache holds, and adds a line.
const cacheJob = `
job "cached" {
  input "text" {}
  step "work" {
    inputs  = { text = input.text }
    outputs = ["made"]
    caches  = ["kept"]
    run {
      path = "sh"
      args = ["-ec", "if [ -f kept/lines ]; then cat kept/lines; fi; cat text/in.txt >> kept/lines; cp kept/lines made/out.txt"]
    }
  }
  output "copy" { from = step.work.made }
}
`

// TestHostKilledWhileCachesAreKept kills a host with SIGKILL at each point around the keeping of a cache. Whoever resumes the run keeps it, once, and the next run
// has it; nothing else is left on the worker.
func TestHostKilledWhileCachesAreKept(t *testing.T) {
	plugin := memoryPlugin(t)
	for _, at := range []string{"exit-stored", "destroyed", "cache-sealed", "cache-registered", "output-sealed"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			world := startWorld(t, "m", fewLines)
			input, outputs := t.TempDir(), t.TempDir()
			spec := childSpec{Plugin: plugin, Socket: world.socket, State: t.TempDir(), Run: "first", Job: cacheJob, Input: input, Output: filepath.Join(outputs, "first"), Point: at, Nth: 1}
			write := func(text string) {
				if err := os.WriteFile(filepath.Join(input, "in.txt"), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("one\n")
			if _, killed := startHost(t, spec); !killed {
				t.Fatal("the point was not reached")
			}
			spec.Point = ""
			if res, _ := startHost(t, spec); res.Err != "" || res.Steps["work"] != "succeeded" || res.Output != "" {
				t.Fatalf("the second host: %+v", res)
			}
			write("two\n")
			spec.Run, spec.Output = "next", filepath.Join(outputs, "next")
			if res, _ := startHost(t, spec); res.Err != "" || res.Steps["work"] != "succeeded" || res.Output != "one\n" {
				t.Fatalf("the next run: %+v", res)
			}
			if got, err := os.ReadFile(filepath.Join(spec.Output, "out.txt")); err != nil || string(got) != "one\ntwo\n" {
				t.Errorf("output file %q, %v", got, err)
			}
			if n := world.starts(); n != 2 {
				t.Errorf("%d starts of 2 steps", n)
			}
			if left := world.left(t, "m"); len(left) != 2 || !strings.HasPrefix(left[0], "volume") || !strings.HasPrefix(left[1], "volume") {
				t.Errorf("left on the worker: %q, want the cache and what it is a copy of", left)
			}
		})
	}
}
