package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// inputsJob reads its inputs in its second step, which begins once the first is told to end.
const inputsJob = `
job "j" {
  input "in" {}
  input "shared" {}
  step "first" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "trap 'exit 0' USR1; echo begun; while :; do sleep 0.05; done"]
    }
  }
  step "then" {
    inputs = { in = input.in, shared = input.shared, o = step.first.o }
    run {
      path = "sh"
      args = ["-c", "grep mine in/f && grep mine shared/f"]
    }
  }
}`

func bring(t *testing.T, h *Host, name, text string) *Artifact {
	t.Helper()
	a, err := h.UploadFiles(t.Context(), Upload{Name: name}, stream.File{Name: "f", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func artifactNames(t *testing.T, h *Host) []string {
	t.Helper()
	list, err := h.Artifacts(t.Context(), ArtifactFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range list {
		out = append(out, a.Name)
	}
	return out
}

// What a run needs stays while it is under way, however long that takes; what was brought for it alone goes with it.
func TestInputsStay(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	started := make(chan *Process, 1)
	req := RunRequest{ID: "r", Job: parseJob(t, inputsJob), Brought: map[string]*Artifact{"in": bring(t, h, "brought", "mine")},
		Artifacts: map[string]*Artifact{"shared": bring(t, h, "shared", "mine")}, Events: func(e Event) {
			if e.Kind == EventStarted && e.Step == "first" {
				started <- e.Process
			}
		}}
	var res *RunResult
	var failure error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		res, failure = h.Run(t.Context(), req)
	}()
	p := <-started
	r, err := p.Output(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Next(t.Context()); err != nil { // it hears signals now
		t.Fatal(err)
	}
	late := time.Now().Add(2 * DefaultArtifactTTL)
	if err := h.expireArtifacts(t.Context(), late); err != nil {
		t.Error(err)
	}
	if got := artifactNames(t, h); !slices.Equal(got, []string{"run/r/@input/in", "shared"}) {
		t.Errorf("late in the run there are %q", got)
	}
	if err := p.Signal(t.Context(), "USR1"); err != nil {
		t.Fatal(err)
	}
	if <-ended; failure != nil || !res.Succeeded() {
		t.Errorf("the run: %+v %v", res, failure)
	}
	if got := artifactNames(t, h); !slices.Equal(got, []string{"shared"}) {
		t.Errorf("after the run there are %q", got)
	}
	if err := h.expireArtifacts(t.Context(), late); err != nil {
		t.Error(err)
	}
	if got := artifactNames(t, h); len(got) > 0 {
		t.Errorf("%q are still needed", got)
	}
}

// A run that is resumed goes on with the inputs that it was begun with, and takes none that is another's.
func TestInputsOfResumedRun(t *testing.T) {
	t.Parallel()
	dir, rt := t.TempDir(), newMemory(t, "m")
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	owned, err := h.UploadFiles(t.Context(), Upload{Name: "owned", Owner: "somebody"}, stream.File{Name: "f", Data: []byte("mine")})
	if err != nil {
		t.Fatal(err)
	}
	req := RunRequest{ID: "r", Job: parseJob(t, inputsJob), Brought: map[string]*Artifact{"in": owned, "shared": bring(t, h, "other", "mine")}}
	if _, err := h.Run(t.Context(), req); !errors.Is(err, sdk.Invalid) {
		t.Errorf("an artifact that somebody owns is taken: %v", err)
	}
	if _, err := h.RunByID(t.Context(), "r"); !errors.Is(err, sdk.NotFound) {
		t.Errorf("a run that could not begin is remembered: %v", err)
	}
	req.Brought["in"] = bring(t, h, "first", "mine")
	req.Events = func(e Event) {
		if e.Kind == EventStarted {
			h.cancel() // the host ends
		}
	}
	if _, err := h.Run(t.Context(), req); !errors.Is(err, ErrClosed) {
		t.Fatalf("the run has ended though its host has: %v", err)
	}
	closeTestHost(t, h)

	h = openHost(t, rt, Options{StateDir: dir}, "m")
	has, err := h.RunInputs(t.Context(), "r")
	if err != nil || len(has) != 2 || has["in"].ID == "" || has["shared"].ID == "" {
		t.Errorf("it has the inputs %v %v", has, err)
	}
	req.Brought = map[string]*Artifact{"in": bring(t, h, "second", "another's")}
	shared := has["shared"].Artifact
	req.Artifacts = map[string]*Artifact{"shared": &shared}
	req.Events = func(e Event) {
		if e.Kind == EventStarted && e.Step == "first" {
			go func() {
				r, err := e.Process.Output(t.Context(), 0)
				if err == nil {
					defer r.Close()
					if _, err = r.Next(t.Context()); err == nil {
						err = e.Process.Signal(t.Context(), "USR1")
					}
				}
				if err != nil {
					t.Error(err)
				}
			}()
		}
	}
	res, err := h.Run(t.Context(), req)
	if err != nil || !res.Succeeded() {
		t.Errorf("the run: %+v %v", res, err)
	}
	if got := artifactNames(t, h); !slices.Equal(got, []string{"owned", "second"}) {
		t.Errorf("after the run there are %q", got)
	}
}

// TestStepCalledInput: what a step of that name makes is not the run's input of the same name.
func TestStepCalledInput(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	out := filepath.Join(t.TempDir(), "out")
	res, err := h.Run(testkit.Context(t), RunRequest{ID: "r", Inputs: map[string]string{"text": tree(t, map[string]string{"a": "brought"})},
		Outputs: map[string]string{"text": out}, Job: parseJob(t, `
job "j" {
  input "text" {}
  step "input" {
    inputs  = { was = input.text }
    outputs = ["text"]
    run {
      path = "sh"
      args = ["-ec", "test $(cat was/a) = brought; printf made > text/a"]
    }
  }
  step "again" {
    inputs = { was = input.text, is = step.input.text }
    run {
      path = "sh"
      args = ["-ec", "test $(cat was/a) = brought; test $(cat is/a) = made"]
    }
  }
  output "text" { from = step.input.text }
}`)})
	if err != nil || !res.Succeeded() {
		t.Fatalf("%s: %v", states(res), err)
	}
	if b, err := os.ReadFile(filepath.Join(out, "a")); err != nil || string(b) != "made" {
		t.Errorf("the output is %q, %v", b, err)
	}
}
