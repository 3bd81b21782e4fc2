package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/sdk"
)

// TestExitOrder wants, of all pairs of ends, the code that the help names first.
func TestExitOrder(t *testing.T) {
	t.Parallel()
	order := []struct {
		state host.StepState
		code  int
	}{
		{host.StepAborted, codeInterrupted}, {host.StepLost, codeLost}, {host.StepErrored, codeInternal}, {host.StepTimedOut, codeTimedOut},
		{host.StepFailed, codeStepFailed}, {host.StepSkipped, 0}, {host.StepSucceeded, 0},
	}
	for i, first := range order {
		for _, second := range order[i:] {
			for _, steps := range [][]host.StepResult{{{State: first.state}, {State: second.state}}, {{State: second.state}, {State: first.state}}} {
				if got := runCode(steps, nil); got != first.code {
					t.Errorf("%s and %s give %d, want %d", steps[0].State, steps[1].State, got, first.code)
				}
			}
		}
	}
	lost := []host.StepResult{{State: host.StepLost}}
	if got := runCode(lost, errors.New("output not written")); got != codeLost {
		t.Errorf("a lost step and an output that was not written give %d", got)
	}
	if got := runCode(nil, sdk.NewInvalid(sdk.ReasonSpec, "wrong")); got != codeUsage {
		t.Errorf("a wrong request gives %d", got)
	}
	if got := runCode([]host.StepResult{{State: host.StepErrored, Err: sdk.NewInvalid(sdk.ReasonSpec, "wrong")}}, nil); got != codeInternal {
		t.Errorf("a step with a wrong request gives %d", got)
	}
}

// TestExitOfMixedSteps runs jobs whose steps end differently.
func TestExitOfMixedSteps(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	steps := map[string]string{
		"failed":  `run { path = "false" }`,
		"errored": `run { path = "frobnicate" }`,
		"late":    "timeout = \"100ms\"\n    run {\n      path = \"sleep\"\n      args = [\"600\"]\n    }",
	}
	for _, c := range []struct {
		names []string
		code  int
	}{
		{[]string{"failed", "errored"}, codeInternal}, {[]string{"late", "failed"}, codeTimedOut}, {[]string{"late", "errored", "failed"}, codeInternal},
	} {
		text := "job \"j\" {\n"
		for _, name := range c.names {
			text += fmt.Sprintf("  step %q {\n    %s\n  }\n", name, steps[name])
		}
		p.write(map[string]string{"j.hcl": text + "}\n"})
		p.run("run", "j.hcl", "--grace", "100ms").wants(c.code).once()
	}
}
