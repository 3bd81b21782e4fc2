package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// parseJob reads a job file's text.
func parseJob(t testing.TB, text string) *job.Job {
	t.Helper()
	j, diags := job.Parse([]byte(text), "test.hcl")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return j
}

// tree writes files into a fresh directory.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// states gives each step's end.
func states(res *RunResult) string {
	var b strings.Builder
	for _, s := range res.Steps {
		fmt.Fprintf(&b, "%s=%s ", s.Step, s.State)
	}
	return strings.TrimSpace(b.String())
}

// checkEmpty checks that a run has left nothing: no volume and no container, on the workers or in the store.
func checkEmpty(t testing.TB, h *Host) {
	t.Helper()
	for _, w := range h.sortedWorkers() {
		conn, err := w.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = conn.ListContainers(t.Context(), sdk.Filter{}, func(i sdk.ContainerInfo) error {
			t.Errorf("container %s is left on %s", i.ID, w.name)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = conn.ListVolumes(t.Context(), sdk.Filter{}, func(i sdk.VolumeInfo) error {
			t.Errorf("volume %s is left on %s", i.ID, w.name)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rows, err := h.volumes(t.Context(), store.VolumeFilter{})
	if err != nil || len(rows) > 0 {
		t.Errorf("rows of volumes are left: %+v, %v", rows, err)
	}
}

// TestRunAcrossPlugins runs steps on two plugin processes, by tag, and one that joins what both made: content is streamed out of one
// process into the other.
func TestRunAcrossPlugins(t *testing.T) {
	t.Parallel()
	plugin := memoryPlugin(t)
	cfg, diags := config.Parse(fmt.Appendf(nil, `
plugin "one" { command = %[1]q }
plugin "two" { command = %[1]q }
worker "left" {
  plugin = "one"
  tags   = ["left"]
}
worker "right" {
  plugin = "two"
  tags   = ["right"]
}
`, plugin), "test.hcl")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	h := openConfig(t, cfg, Options{})
	in := tree(t, map[string]string{"a b.txt": "one\n", "dir/ü.txt": "two\n"})
	out := filepath.Join(t.TempDir(), "out")
	var mu sync.Mutex
	streams := make(map[string]int)
	res, err := h.Run(t.Context(), RunRequest{
		Job: parseJob(t, `
job "mixed" {
  input "text" {}
  step "l" {
    tags    = ["left"]
    inputs  = { text = input.text }
    outputs = ["made"]
    run {
      path = "sh"
      args = ["-ec", "cat 'text/a b.txt' > made/l.txt; chmod 751 made/l.txt; ln -s l.txt made/link"]
    }
  }
  step "r" {
    tags    = ["right"]
    inputs  = { text = input.text }
    outputs = ["made"]
    run {
      path = "sh"
      args = ["-ec", "cat text/dir/ü.txt > made/r.txt"]
    }
  }
  step "join" {
    tags    = ["right"]
    inputs  = {
      l = step.l.made
      r = step.r.made
    }
    outputs = ["all"]
    run {
      path = "sh"
      args = ["-ec", "cp -a l/. all; cp r/r.txt all"]
    }
  }
  output "all" { from = step.join.all }
}`),
		Inputs: map[string]string{"text": in}, Outputs: map[string]string{"all": out},
		Events: func(e Event) {
			if e.Kind == EventStreaming && e.Stream.Done {
				mu.Lock()
				streams[e.Stream.From+" to "+e.Stream.To]++
				mu.Unlock()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := states(res); got != "l=succeeded r=succeeded join=succeeded" {
		for _, s := range res.Steps {
			t.Log(s.Step, s.Summary())
		}
		t.Fatal(got)
	}
	for name, want := range map[string]string{"l.txt": "one\n", "r.txt": "two\n", "link": "one\n"} {
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if fi, err := os.Lstat(filepath.Join(out, "l.txt")); err != nil || fi.Mode().Perm() != 0o751 {
		t.Errorf("l.txt: %v, %v", fi, err)
	}
	if fi, err := os.Lstat(filepath.Join(out, "link")); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("link: %v, %v", fi, err)
	}
	// The directory is read once, for both or for one that gives it to the other; its content and what l made go from process to process.
	local, between := streams["local to left"]+streams["local to right"], streams["left to right"]+streams["right to left"]
	if local < 1 || local+between != 3 || streams["left to right"] < 1 {
		t.Errorf("streams: %v", streams)
	}
	checkEmpty(t, h)
}

// TestRunGoesOnBesideAFailure: a failed step stops only what needs it, and its code is told.
func TestRunGoesOnBesideAFailure(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	res, err := h.Run(t.Context(), RunRequest{Job: parseJob(t, `
job "partly" {
  step "bad" {
    outputs = ["x"]
    run {
      path = "sh"
      args = ["-c", "exit 7"]
    }
  }
  step "needs-bad" {
    inputs = { x = step.bad.x }
    run { path = "true" }
  }
  step "after" {
    after = ["needs-bad"]
    run { path = "true" }
  }
  step "missing" {
    run { path = "no-such-program" }
  }
  step "good" {
    run { path = "true" }
  }
}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := "bad=failed needs-bad=skipped after=skipped missing=errored good=succeeded"
	if got := states(res); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	if code := res.Steps[0].Exit.Code; code != 7 {
		t.Errorf("bad exited with %d", code)
	}
	if !errors.Is(res.Steps[3].Err, sdk.ReasonExecutableNotFound) {
		t.Errorf("missing: %v", res.Steps[3].Err)
	}
	checkEmpty(t, h)
}

// TestRunEndings: a timeout, an interrupt and an abort end a step, which is told to end first unless it is killed, and leave nothing. The step tells which of them it was.
func TestRunEndings(t *testing.T) {
	t.Parallel()
	text := func(extra string) string {
		return `
job "endless" {
  step "s" {
    ` + extra + `
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "trap 'echo told; exit 3' TERM; echo here; while true; do sleep 0.05; done"]
    }
  }
}`
	}
	for _, c := range []struct {
		name, extra string
		interrupt   bool
		cause       error
		kill        bool
		want        StepState
		says        string
	}{
		{"timeout", `timeout = "300ms"`, false, nil, false, StepTimedOut, "300ms"},
		{"interrupt", "", true, nil, false, StepAborted, "the run was interrupted"},
		{"abort", "", true, ErrRunAborted, false, StepAborted, "the run was aborted"},
		{"kill", "", true, nil, true, StepAborted, "the run was aborted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testkit.Bubble(t, func(t testing.TB) { // no time passes while anything goes on: what is told to end has its time, and what is killed its moment
				h := openHost(t, newMemory(t, "m"), Options{}, "m")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var p *Process
				kill := make(chan struct{})
				res, err := h.Run(ctx, RunRequest{Job: parseJob(t, text(c.extra)), Kill: kill, Events: func(e Event) {
					if e.Kind == EventStarted {
						p = e.Process
						awaitText(t, p, "here") // its timeout counts from when this returns
						if c.interrupt {
							cancel(c.cause)
						}
						if c.kill {
							close(kill)
						}
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				if got := res.Steps[0].State; got != c.want {
					t.Errorf("state %s, want %s (%v)", got, c.want, res.Steps[0].Err)
				}
				if err := res.Steps[0].Err; err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it says %v, want %q", err, c.says)
				}
				if out := output(t, p); out != "here\ntold\n" && !c.kill {
					t.Errorf("output %q", out)
				}
				checkEmpty(t, h)
			})
		})
	}
}

// TestTimeoutAfterTheEnd: a timeout that passes once the end is stored, while the plugin still has the stream open, is none.
func TestTimeoutAfterTheEnd(t *testing.T) {
	t.Parallel()
	o := &hooked{Runtime: newMemory(t, "m"), hook: func(ctx context.Context, call, _ string, _ int, real func() error) error {
		err := real()
		if call == "follow" {
			<-ctx.Done()
		}
		return err
	}}
	h := openHost(t, o, Options{}, "m")
	req := RunRequest{Job: parseJob(t, `
job "quick" {
  step "s" {
    timeout = "1ms"
    run {
      path = "true"
    }
  }
}`)}
	req.Events = func(e Event) {
		if e.Kind != EventStarted {
			return
		}
		testkit.Until(t, "its end is stored", func() bool { // its timeout counts from when this returns
			var row store.Process
			err := h.store.View(t.Context(), func(tx *store.Tx) (err error) {
				row, err = tx.Process(e.Process.ID())
				return err
			})
			return err == nil && row.State == lifecycle.ProcessExited
		})
	}
	res, err := h.Run(testkit.Context(t), req)
	if err != nil || !res.Succeeded() {
		t.Fatalf("%s: %v", states(res), err)
	}
}

// awaitText waits until a process has written a text.
func awaitText(t testing.TB, p *Process, text string) {
	r, err := p.Output(t.Context(), 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
	defer cancel()
	var b strings.Builder
	for !strings.Contains(b.String(), text) {
		rec, err := r.Next(ctx)
		if err != nil {
			t.Errorf("waiting for %q after %q: %v", text, b.String(), err)
			return
		}
		b.Write(rec.Data)
	}
}

// TestOneContainerForAnOwner: many ask for one owner's container at once, and start its one process; there is one of each, and
// every caller sees the same end.
func TestOneContainerForAnOwner(t *testing.T) {
	t.Parallel()
	o := &hooked{Runtime: newMemory(t, "a", "b")}
	h := openHost(t, o, Options{}, "a", "b")
	var wg sync.WaitGroup
	ids := make([]sdk.ContainerID, 50)
	outputs := make([]string, len(ids))
	for i := range ids {
		wg.Go(func() {
			c, err := h.Container(t.Context(), "owner", ContainerRequest{})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = c.id
			p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo once"}})
			if err != nil {
				t.Error(err)
				return
			}
			waitOutcome(t, p)
			outputs[i] = output(t, p)
		})
	}
	wg.Wait()
	for i := range ids {
		if ids[i] != ids[0] || outputs[i] != "once\n" {
			t.Fatalf("caller %d: container %s, output %q; the first had %s", i, ids[i], outputs[i], ids[0])
		}
	}
	if n := o.calls("create"); n != 1 {
		t.Errorf("%d containers were created", n)
	}
	if n := o.usedTokens(); n != 1 {
		t.Errorf("%d starts", n)
	}
}

// TestSeveralReaders: whoever reads a process's output gets all of it, at any pace, early or late.
func TestSeveralReaders(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	p := script(t, h, "owner", "seq 1 50000")
	var wg sync.WaitGroup
	outs := make([]string, 4)
	for i := range outs {
		wg.Go(func() { outs[i] = output(t, p) })
	}
	wg.Wait()
	waitOutcome(t, p)
	late := output(t, p)
	if !strings.HasPrefix(late, "1\n2\n") || !strings.HasSuffix(late, "49999\n50000\n") {
		t.Fatalf("output %.20q", late)
	}
	for i, o := range outs {
		if o != late {
			t.Errorf("reader %d got %d bytes, want %d", i, len(o), len(late))
		}
	}
}

// TestRefusedRuns: what is wrong with a request is said before anything runs.
func TestRefusedRuns(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	j := parseJob(t, `
job "j" {
  input "in" {}
  step "s" {
    inputs  = { in = input.in }
    outputs = ["o"]
    run { path = "true" }
  }
  output "o" { from = step.s.o }
}`)
	dir := t.TempDir()
	full := tree(t, map[string]string{"x": ""})
	for name, c := range map[string]struct {
		req  RunRequest
		want string
	}{
		"no input":        {RunRequest{}, `input "in" needs a directory`},
		"missing dir":     {RunRequest{Inputs: map[string]string{"in": dir + "/no"}}, "no such file or directory"},
		"unknown input":   {RunRequest{Inputs: map[string]string{"in": dir, "other": dir}}, `no input "other"`},
		"unknown output":  {RunRequest{Inputs: map[string]string{"in": dir}, Outputs: map[string]string{"p": dir}}, `no output "p"`},
		"target not free": {RunRequest{Inputs: map[string]string{"in": dir}, Outputs: map[string]string{"o": full}}, "not empty"},
		"bad id":          {RunRequest{ID: "a b", Inputs: map[string]string{"in": dir}}, `run id "a b" must be`},
		"id of parts":     {RunRequest{ID: "a/b", Inputs: map[string]string{"in": dir}}, `run id "a/b" must be`}, // whose things would be run a's
		"long id":         {RunRequest{ID: strings.Repeat("a", 129), Inputs: map[string]string{"in": dir}}, "must be 1 to 128"},
	} {
		c.req.Job = j
		res, err := h.Run(t.Context(), c.req)
		if err == nil || res != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestEndedRun: repeating a run that has ended begins nothing, and tells what it came to, after a restart too.
func TestEndedRun(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	text := `
job "j" {
  step "good" {
    outputs = ["o"]
    run { path = "true" }
  }
  step "bad" {
    run {
      path = "sh"
      args = ["-c", "exit 7"]
    }
  }
  step "odd" {
    run { path = "no-such-program" }
  }
  output "o" { from = step.good.o }
}`
	out := filepath.Join(t.TempDir(), "out")
	req := RunRequest{ID: "r", Job: parseJob(t, text), Outputs: map[string]string{"o": out}}
	first, err := h.Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	closeTestHost(t, h)
	h = openHost(t, rt, Options{StateDir: dir}, "m")
	again, err := h.Run(t.Context(), req)
	if err != nil || !again.Recorded || states(again) != states(first) || again.Steps[1].Exit.Code != 7 || again.Outputs["o"] != out {
		t.Fatalf("again: %+v, %v", again, err)
	}
	if got, want := again.Steps[2].Err.Error(), first.Steps[2].Err.Error(); got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	req.Outputs = map[string]string{"o": out + "-elsewhere"}
	if _, err := h.Run(t.Context(), req); !errors.Is(err, sdk.Invalid) {
		t.Errorf("another target: %v", err)
	}
	req.Job = parseJob(t, strings.Replace(text, "exit 7", "exit 8", 1))
	if _, err := h.Run(t.Context(), req); !errors.Is(err, sdk.Invalid) {
		t.Errorf("another job: %v", err)
	}
}

// TestOutputAtAnInput: an output at an input's path goes on from that input's copy, and nothing of it is left.
func TestOutputAtAnInput(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	out := filepath.Join(t.TempDir(), "out")
	res, err := h.Run(t.Context(), RunRequest{Job: parseJob(t, `
job "j" {
  input "src" {}
  step "s" {
    inputs  = { src = input.src }
    outputs = ["src"]
    run {
      path = "sh"
      args = ["-c", "echo more > src/b"]
    }
  }
  output "src" { from = step.s.src }
}`), Inputs: map[string]string{"src": tree(t, map[string]string{"a": "first"})}, Outputs: map[string]string{"src": out}})
	if err != nil || !res.Succeeded() {
		t.Fatal(states(res), err)
	}
	for name, want := range map[string]string{"a": "first", "b": "more\n"} {
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	checkEmpty(t, h)
}

// TestInterruptedWhileAway: an interrupt ends a run within its grace though the worker is away; what is left there goes once it is back.
func TestInterruptedWhileAway(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	o, away := pluggable(rt)
	h := openHost(t, o, Options{}, "m")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := h.Run(ctx, RunRequest{Grace: 500 * time.Millisecond, Job: parseJob(t, `
job "j" {
  step "s" {
    outputs = ["o"]
    run {
      path = "sleep"
      args = ["1000"]
    }
  }
}`), Events: func(e Event) {
		if e.Kind == EventStarted {
			away.Store(true)
			cancel()
		}
	}})
	if res.Steps[0].State != StepAborted { // after the graces, and not the hour for which the worker would be waited for
		t.Errorf("%s, %v", states(res), err)
	}
	away.Store(false)
	testkit.Until(t, "the worker is empty", func() bool { return len(onWorker(t, rt, "m")) == 0 })
}

// TestTwoOutputsInOnePlace are refused before anything runs.
func TestTwoOutputsInOnePlace(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	j := parseJob(t, `
job "j" {
  step "s" {
    outputs = ["a", "b"]
    run { path = "true" }
  }
  output "a" { from = step.s.a }
  output "b" { from = step.s.b }
}`)
	dir := t.TempDir()
	for _, b := range []string{"out", "out/", "./out/../out", "out/in"} {
		req := RunRequest{Job: j, Outputs: map[string]string{"a": filepath.Join(dir, "out"), "b": dir + "/" + b}}
		if res, err := h.Run(t.Context(), req); res != nil || !errors.Is(err, sdk.Invalid) || !strings.Contains(err.Error(), "both") {
			t.Errorf("%s: %v", b, err)
		}
	}
}
