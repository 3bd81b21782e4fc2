package tree

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// property checks what must hold of random operations: in the gate of the same few in every run, in the soak of a hundred others each time.
// Both can be chosen with the flags -rapid.checks and -rapid.seed.
func property(t *testing.T, gate int, prop func(*rapid.T)) {
	t.Helper()
	if gate = testkit.Times(gate, 0); gate > 0 {
		for name, value := range map[string]int{"rapid.checks": gate * 5, "rapid.seed": 1} { // rapid divides by 5 under -short
			f := flag.Lookup(name)
			if was := f.Value.String(); was == f.DefValue {
				if err := f.Value.Set(strconv.Itoa(value)); err != nil {
					t.Fatal(err)
				}
				defer f.Value.Set(was)
			}
		}
	}
	rapid.Check(t, prop)
}
