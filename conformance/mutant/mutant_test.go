package mutant

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// target is a good runtime, broken by wrap, that can be told to crash: its containers live elsewhere, as a server's do.
func target(t *testing.T, wrap func(sdk.Runtime) sdk.Runtime) conformance.Target {
	t.Helper()
	good := memory.New([]string{"mem"}, memory.Options{})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := good.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	rt := wrap(good)
	return conformance.Target{
		Name: t.Name(), Worker: "mem", Local: true, Bare: true, CanCrash: true,
		Open: func(context.Context) (*conformance.Instance, error) {
			return &conformance.Instance{Runtime: rt, Close: func() {}, Crash: func(context.Context) (sdk.Runtime, error) {
				Crashed(rt)
				return rt, nil
			}}, nil
		},
	}
}

func TestKilled(t *testing.T) {
	var all []string
	for _, m := range All() {
		all = append(all, m.Killers...)
		t.Run(m.ID, func(t *testing.T) {
			sum, err := conformance.Execute(t.Context(), target(t, m.Runtime), conformance.Options{Only: m.Killers}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range m.Killers {
				i := slices.IndexFunc(sum.Results, func(r conformance.Result) bool { return r.ID == id })
				if i < 0 {
					t.Errorf("there is no case %s", id)
					continue
				}
				r := sum.Results[i]
				if r.Status != conformance.Fail {
					t.Errorf("%s is %s on a runtime where %s (%s)", id, r.Status, m.Doc, r.Note)
					continue
				}
				what, _, _ := strings.Cut(r.Failures[0].What, "\n")
				t.Logf("%s: %s", id, what)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		good := target(t, func(rt sdk.Runtime) sdk.Runtime { return rt })
		sum, err := conformance.Execute(t.Context(), good, conformance.Options{Only: all}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range sum.Results {
			if slices.Contains(all, r.ID) && r.Status != conformance.Pass {
				t.Errorf("%s is %s on the good runtime: %+v", r.ID, r.Status, r.Failures)
			}
		}
	})
}
