package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/host/stream"
)

const twoOutputs = `
job "j" {
  step "s" {
    outputs = ["a", "b"]
    run {
      path = "sh"
      args = ["-c", "echo one > a/f; echo two > b/f"]
    }
  }
  output "a" { from = step.s.a }
  output "b" { from = step.s.b }
}`

func twoTargets(t *testing.T) RunRequest {
	dir := t.TempDir()
	return RunRequest{ID: "r", Job: parseJob(t, twoOutputs), Outputs: map[string]string{"a": filepath.Join(dir, "a"), "b": filepath.Join(dir, "b")}}
}

// wantOutputs checks that a run has succeeded and what its two targets hold.
func wantOutputs(t *testing.T, req RunRequest, res *RunResult, err error) {
	t.Helper()
	if err != nil || !res.Succeeded() || len(res.Outputs) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	for name, want := range map[string]string{"a": "one\n", "b": "two\n"} {
		if b, err := os.ReadFile(filepath.Join(req.Outputs[name], "f")); err != nil || string(b) != want {
			t.Errorf("output %s has %q, %v", name, b, err)
		}
	}
}

// runToPoint begins a run under a host that ends at the n-th time of a point as if it were killed there, and gives another on what it left.
func runToPoint(t *testing.T, req RunRequest, point string, n int32) *Host {
	t.Helper()
	rt, dir := newMemory(t, "m"), t.TempDir()
	var h *Host
	var seen atomic.Int32
	closed := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h = openHost(t, rt, Options{StateDir: dir, fault: func(at string) {
		if at == point && seen.Add(1) == n {
			cancel() // so that nothing goes on from here
			go func() { closeTestHost(t, h); close(closed) }()
			<-h.ctx.Done()
		}
	}}, "m")
	if res, err := h.Run(ctx, req); !errors.Is(err, ErrClosed) {
		t.Fatalf("%+v, %v", res, err)
	}
	<-closed
	return openHost(t, rt, Options{StateDir: dir}, "m")
}

// TestOutputInPlace: the same command ends well whenever the first was ended, before an output was put in its target or after that, one of two
// or both, and however often it is repeated.
func TestOutputInPlace(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"output-placing", "output-placed"} {
		for n, name := range []string{"one of two", "both"} {
			t.Run(point+", "+name, func(t *testing.T) {
				t.Parallel()
				req := twoTargets(t)
				h := runToPoint(t, req, point, int32(n+1))
				there := make(map[string]os.FileInfo)
				for output, target := range req.Outputs {
					if fi, err := os.Stat(target); err == nil {
						there[output] = fi
					}
				}
				if want := n + map[string]int{"output-placed": 1}[point]; len(there) != want {
					t.Fatalf("in place: %v", there)
				}
				res, err := h.Run(t.Context(), req)
				wantOutputs(t, req, res, err)
				for output, before := range there {
					if fi, err := os.Stat(req.Outputs[output]); err != nil || !os.SameFile(before, fi) {
						t.Errorf("output %s was in place, and was put there again: %v", output, err)
					}
				}
				checkEmpty(t, h)
				res, err = h.Run(t.Context(), req)
				if wantOutputs(t, req, res, err); !res.Recorded {
					t.Error("it was run again after its end")
				}
			})
		}
	}
}

// TestInterruptedInPlace: a run is resumed, and interrupted before it has looked at its outputs. What is in place is not told to be missing.
func TestInterruptedInPlace(t *testing.T) {
	t.Parallel()
	req := twoTargets(t)
	h := runToPoint(t, req, "output-placed", 1)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	req.Events = func(e Event) {
		if e.Kind == EventFinished {
			interrupt()
		}
	}
	res, err := h.Run(ctx, req)
	if !errors.Is(err, errInterrupted) || len(res.Outputs) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	for name, target := range req.Outputs {
		if _, err := os.Stat(target); (err == nil) != (res.Outputs[name] == target) {
			t.Errorf("output %s is told to be in %q: %v", name, res.Outputs[name], err)
		}
	}
}

// TestOutputNotInPlace: what is in a target's place by another's hand stays and is refused, force replaces it, and one that is gone is written
// again.
func TestOutputNotInPlace(t *testing.T) {
	t.Parallel()
	add := func(target string) error { return os.WriteFile(filepath.Join(target, "mine"), nil, 0o644) }
	empty := func(target string) error { return errors.Join(os.RemoveAll(target), os.Mkdir(target, 0o755)) }
	another := func(target string) error { return errors.Join(empty(target), add(target)) } // which may get the number of the one before
	for name, c := range map[string]struct {
		change func(target string) error
		force  bool
		ok     bool
		kept   bool // what the user has added
	}{
		"added to":          {add, false, true, true},
		"added to, force":   {add, true, true, false},
		"removed":           {os.RemoveAll, false, true, false},
		"another":           {another, false, false, true},
		"another, force":    {another, true, true, false},
		"another and empty": {empty, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := twoTargets(t)
			h := runToPoint(t, req, "output-placed", 1)
			if err := c.change(req.Outputs["a"]); err != nil {
				t.Fatal(err)
			}
			req.Force = c.force
			res, err := h.Run(t.Context(), req)
			if c.ok {
				wantOutputs(t, req, res, err)
			} else if !errors.Is(err, stream.ErrNotEmpty) {
				t.Errorf("%+v, %v", res, err)
			}
			if _, err := os.Stat(filepath.Join(req.Outputs["a"], "mine")); (err == nil) != c.kept {
				t.Errorf("what was added: %v", err)
			}
		})
	}
}

// TestOutputAfterAnother: one output is in place when another cannot be written; once that is mended, the same command writes what is left.
func TestOutputAfterAnother(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	req := twoTargets(t)
	inTheWay := filepath.Join(req.Outputs["b"], "in the way")
	req.Events = func(e Event) {
		if e.Kind == EventFinished { // all was well when it began
			if err := os.MkdirAll(inTheWay, 0o755); err != nil {
				t.Error(err)
			}
		}
	}
	res, err := h.Run(t.Context(), req)
	if !errors.Is(err, stream.ErrNotEmpty) || res.Outputs["a"] == "" || res.Outputs["b"] != "" {
		t.Fatalf("%+v, %v", res, err)
	}
	req.Events = nil
	if _, err := h.Run(t.Context(), req); !errors.Is(err, stream.ErrNotEmpty) {
		t.Fatalf("it is in the way still: %v", err)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	res, err = h.Run(t.Context(), req)
	wantOutputs(t, req, res, err)
	checkEmpty(t, h)
}
