package pool_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/host/pool"
)

func TestParsePolicy(t *testing.T) {
	got, err := pool.ParsePolicy(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	locality := []pool.Strategy{"volume-locality", "fewest-build-containers"}
	if d := cmp.Diff(pool.Policy{Build: locality, NoInput: locality, Check: []pool.Strategy{"random"}}, got); d != "" {
		t.Error(d)
	}
	got, err = pool.ParsePolicy([]string{"limit-active-tasks"}, []string{}, []string{"limit-active-volumes", "limit-active-containers"})
	if err != nil {
		t.Fatal(err)
	}
	want := pool.Policy{Build: []pool.Strategy{"limit-active-tasks"}, NoInput: []pool.Strategy{}, Check: []pool.Strategy{"limit-active-volumes", "limit-active-containers"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestStrategyError(t *testing.T) {
	const known = " (known are random, volume-locality, fewest-build-containers, limit-active-tasks, limit-active-containers, limit-active-volumes)"
	tests := []struct {
		names []string
		want  pool.StrategyError
		text  string
	}{
		{[]string{"random", "volume-localty"}, pool.StrategyError{Chain: "check", Index: 1, Name: "volume-localty", Suggestion: pool.VolumeLocality},
			`placement check: unknown strategy "volume-localty", did you mean "volume-locality"?` + known},
		{[]string{"Fewest_Build_Containers"}, pool.StrategyError{Chain: "check", Name: "Fewest_Build_Containers", Suggestion: pool.FewestBuildContainers},
			`placement check: unknown strategy "Fewest_Build_Containers", did you mean "fewest-build-containers"?` + known},
		{[]string{"bogus"}, pool.StrategyError{Chain: "check", Name: "bogus"}, `placement check: unknown strategy "bogus"` + known},
		{[]string{""}, pool.StrategyError{Chain: "check"}, `placement check: unknown strategy ""` + known},
		{[]string{"random", "random"}, pool.StrategyError{Chain: "check", Index: 1, Name: "random", Repeated: true},
			`placement check: strategy "random" stands in the chain twice: remove the later one, which decides nothing`},
	}
	for _, tt := range tests {
		_, err := pool.ParsePolicy(nil, nil, tt.names)
		var got *pool.StrategyError
		if !errors.As(err, &got) {
			t.Fatalf("ParsePolicy(%q): %v", tt.names, err)
		}
		if d := cmp.Diff(tt.want, *got); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(tt.text, err.Error()); d != "" {
			t.Error(d)
		}
	}
	var bad *pool.StrategyError
	if _, err := pool.NewPlacer(pool.Policy{NoInput: []pool.Strategy{"spread"}}, pool.Options{}); !errors.As(err, &bad) || bad.Chain != "no-input" {
		t.Errorf("NewPlacer with an unknown strategy: %v", err)
	}
}
