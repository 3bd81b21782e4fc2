package conformance_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/plugins/memory"
)

// A plugin's own test runs all cases, each as a subtest.
func ExampleRun() {
	_ = func(t *testing.T) {
		rt := memory.New([]string{"w"}, memory.Options{})
		conformance.Run(t, conformance.InProcess(rt, "w"), conformance.Options{})
	}
}

// A program gets results as they come and a summary at the end.
func ExampleExecute() {
	rt := memory.New([]string{"w"}, memory.Options{})
	defer rt.Close(context.Background())

	sum, err := conformance.Execute(context.Background(), conformance.InProcess(rt, "w"),
		conformance.Options{Only: []string{"P01-*"}, Profiles: []conformance.Profile{conformance.Core}},
		func(r conformance.Result) {
			if r.Status != conformance.Skipped {
				fmt.Println(r.Status, r.Name())
			}
		})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, p := range sum.Profiles {
		if p.Profile == conformance.Core {
			fmt.Println(p.Profile, p.Verdict) // what was not run was not shown
		}
	}
	// Output:
	// pass core/P01-run-true
	// pass core/Q03-nothing-left
	// core partial
}
