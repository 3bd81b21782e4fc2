package api

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
)

// begin starts a run of one command.
func (s *served) begin(t *testing.T, req *pb.StartRunRequest, script string) {
	t.Helper()
	req.What = &pb.StartRunRequest_Command{Command: &pb.Command{Path: "sh", Args: []string{"-c", script}}}
	_, err := s.runs.StartRun(testkit.Context(t), connect.NewRequest(req))
	must(t, err)
}

// until watches a run to the first event of a kind.
func (s *served) until(t *testing.T, run, kind string) *pb.Event {
	t.Helper()
	from, err := s.runs.WatchRun(testkit.Context(t), connect.NewRequest(&pb.WatchRunRequest{Id: run}))
	must(t, err)
	defer from.Close()
	for from.Receive() {
		if from.Msg().GetKind() == kind {
			return from.Msg()
		}
	}
	t.Fatalf("run %s has no event %q: %v", run, kind, from.Err())
	return nil
}

// script is a job of one step as a client has it: it makes the output "out".
func script(text string) *job.Job {
	return &job.Job{Name: CommandStep, Outputs: []job.Output{{Name: "out", From: job.Ref{Step: CommandStep, Output: "out"}}},
		Steps: []job.Step{{Name: CommandStep, Outputs: []string{"out"}, Run: job.Run{Path: "sh", Args: []string{"-c", text}}}}}
}

// TestCloseBeforeFetched ends a server while a run waits for a client that has gone. The next server gives its output to one that comes back.
func TestCloseBeforeFetched(t *testing.T) {
	dir, rt := place(t), memory.New([]string{"m"}, memory.Options{})
	t.Cleanup(func() { must(t, rt.Close(context.Background())) })
	s := serveIn(t, dir, rt)
	const text = "echo made > out/file"
	target := filepath.Join(dir, "target")
	s.begin(t, &pb.StartRunRequest{Id: "a", Outputs: map[string]string{"out": target}}, text)
	s.until(t, "a", KindOutput)
	s.stop()

	s = serveIn(t, dir, rt)
	defer s.stop()
	res, err := s.Run(testkit.Context(t), RunRequest{RunRequest: host.RunRequest{ID: "a", Job: script(text), Outputs: map[string]string{"out": target}}})
	must(t, err)
	if !res.Succeeded() || res.Recorded {
		t.Errorf("it ended as %+v", res)
	}
	if got, err := os.ReadFile(filepath.Join(target, "file")); err != nil || string(got) != "made\n" {
		t.Errorf("the output has %q %v", got, err)
	}
}

// twoOutputs is a job with the outputs "one" and "two", each with a file, and where they are to be written.
func (s *served) twoOutputs() (*job.Job, map[string]string) {
	targets := map[string]string{"one": filepath.Join(s.dir, "one"), "two": filepath.Join(s.dir, "two")}
	j := script("echo made | tee one/file > two/file")
	j.Outputs, j.Steps[0].Outputs = nil, nil
	for _, name := range sortedKeys(targets) {
		j.Steps[0].Outputs = append(j.Steps[0].Outputs, name)
		j.Outputs = append(j.Outputs, job.Output{Name: name, From: job.Ref{Step: CommandStep, Output: name}})
	}
	return j, targets
}

// TestMissedOutput has a client whose output another has taken, and that cannot write it for itself: it is told.
func TestMissedOutput(t *testing.T) {
	s := serve(t)
	j, targets := s.twoOutputs()
	_, err := s.runs.StartRun(testkit.Context(t), connect.NewRequest(&pb.StartRunRequest{Id: "a", Outputs: targets,
		What: &pb.StartRunRequest_Command{Command: command(j)}}))
	must(t, err)
	taken := s.until(t, "a", KindOutput).GetOutput().GetName()
	_, err = s.runs.AcceptOutput(testkit.Context(t), connect.NewRequest(&pb.AcceptOutputRequest{Id: "a", Name: taken}))
	must(t, err)
	res, err := s.Run(testkit.Context(t), RunRequest{RunRequest: host.RunRequest{ID: "a", Job: j, Outputs: targets}, Told: func(e RunEvent) {
		if e.Kind == host.EventFinished { // all was well when it began
			must(t, os.MkdirAll(filepath.Join(targets[taken], "in the way"), 0o755))
		}
	}})
	if !errors.Is(err, stream.ErrNotEmpty) || res == nil || !res.Succeeded() || res.Outputs[taken] != "" || len(res.Outputs) != 1 {
		t.Errorf("it ended as %+v, %v", res, err)
	}
}

// TestOutputsInPlace repeats a run whose client was gone before it could say that an output was in place, one of whose outputs could not be
// written, and one that has ended: the same request ends well each time, and puts nothing in place twice.
func TestOutputsInPlace(t *testing.T) {
	s := serve(t)
	j, targets := s.twoOutputs()
	req := RunRequest{RunRequest: host.RunRequest{ID: "a", Job: j, Outputs: targets}}
	_, err := s.runs.StartRun(testkit.Context(t), connect.NewRequest(&pb.StartRunRequest{Id: "a", Outputs: targets,
		What: &pb.StartRunRequest_Command{Command: command(j)}}))
	must(t, err)
	first := s.until(t, "a", KindOutput).GetOutput()
	must(t, s.downloadDir(testkit.Context(t), first.GetArtifact(), targets[first.GetName()], false, func(dir string) {
		s.place(testkit.Context(t), "a", first.GetName(), targets[first.GetName()], dir)
	})) // and here its client is killed
	before, err := os.Stat(targets["one"])
	must(t, err)
	inTheWay := filepath.Join(targets["two"], "in the way")
	req.Told = func(e RunEvent) {
		if e.Kind == host.EventFinished {
			must(t, os.MkdirAll(inTheWay, 0o755))
		}
	}
	if res, err := s.Run(testkit.Context(t), req); err == nil || res.Outputs["one"] == "" || res.Outputs["two"] != "" {
		t.Fatalf("with something in the way it ended as %+v, %v", res, err)
	}
	must(t, os.Remove(inTheWay))
	req.Told = nil
	for _, recorded := range []bool{false, true} {
		res, err := s.Run(testkit.Context(t), req)
		must(t, err)
		if !res.Succeeded() || len(res.Outputs) != 2 || res.Recorded != recorded {
			t.Errorf("it ended as %+v", res)
		}
	}
	for _, target := range targets {
		if got, err := os.ReadFile(filepath.Join(target, "file")); err != nil || string(got) != "made\n" {
			t.Errorf("%s has %q, %v", target, got, err)
		}
	}
	if after, err := os.Stat(targets["one"]); err != nil || !os.SameFile(before, after) {
		t.Errorf("what was in place was put there again: %v", err)
	}
}

// inputs is a request for a run that copies its input's file f to its output.
func inputs(t *testing.T, id, in, target string) RunRequest {
	t.Helper()
	j, diags := job.Parse([]byte(`
job "j" {
  input "in" {}
  step "wait" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "trap 'exit 0' USR1; echo begun; while :; do sleep 0.05; done"]
    }
  }
  step "copy" {
    inputs  = { in = input.in, o = step.wait.o }
    outputs = ["out"]
    run {
      path = "cp"
      args = ["in/f", "out/f"]
    }
  }
  output "out" { from = step.copy.out }
}`), "j.hcl")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return RunRequest{RunRequest: host.RunRequest{ID: id, Job: j, Inputs: map[string]string{"in": in}, Outputs: map[string]string{"out": target}}}
}

// release ends the step "wait" once it can hear.
func (s *served) release(t *testing.T, run string) {
	t.Helper()
	owner := host.RunOwner(run, "wait")
	o, err := s.Output(testkit.Context(t), owner, host.MainProcess, 0)
	must(t, err)
	defer o.Close()
	_, err = o.Next(testkit.Context(t))
	must(t, err)
	_, err = s.processes.SignalProcess(testkit.Context(t), connect.NewRequest(&pb.SignalProcessRequest{Process: &pb.ProcessName{Owner: owner}, Signal: "USR1"}))
	must(t, err)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(text), 0o644))
}

func (s *served) artifactNames(t *testing.T) []string {
	t.Helper()
	list, err := s.Artifacts(testkit.Context(t), "")
	must(t, err)
	var out []string
	for _, a := range list {
		out = append(out, a.Name)
	}
	return out
}

// runEnd is how a client's run ended.
type runEnd struct {
	res *host.RunResult
	err error
}

// run runs a job from another goroutine, and tells when its first step has started.
func (s *served) run(t *testing.T, req RunRequest) (started chan struct{}, done chan runEnd) {
	started, done = make(chan struct{}), make(chan runEnd, 1)
	once := sync.OnceFunc(func() { close(started) })
	req.Told = func(e RunEvent) {
		if e.Kind == host.EventStarted {
			once()
		}
	}
	ctx := testkit.Context(t)
	go func() {
		res, err := s.Run(ctx, req)
		done <- runEnd{res, err}
	}()
	return started, done
}

// TestInputsOfRetriedRun has what a client left that never began its run: the next one's inputs are its own. From then on they are the
// run's, also when it is stopped, and a server that ends takes nothing from it.
func TestInputsOfRetriedRun(t *testing.T) {
	dir, rt := place(t), memory.New([]string{"m"}, memory.Options{})
	t.Cleanup(func() { must(t, rt.Close(context.Background())) })
	in, target := filepath.Join(dir, "in"), filepath.Join(dir, "target")
	left := "upload/a/in"
	s := serveIn(t, dir, rt)
	must(t, s.Upload(testkit.Context(t), host.Upload{Name: left}, func(_ context.Context, w io.Writer) error {
		_, err := w.Write(archive(t, "f", "left"))
		return err
	}))
	write(t, filepath.Join(in, "f"), "mine")
	started, done := s.run(t, inputs(t, "a", in, target))
	<-started
	if got := s.artifactNames(t); !slices.Equal(got, []string{left, "run/a/@input/in"}) {
		t.Errorf("under the run there are %q", got)
	}
	s.stop()
	if r := <-done; !isType[*ResumeError](r.err) {
		t.Fatalf("the server has ended, and the run with %+v %v", r.res, r.err)
	}

	write(t, filepath.Join(in, "f"), "changed")
	s = serveIn(t, dir, rt)
	_, err := s.runs.AbortRun(testkit.Context(t), connect.NewRequest(&pb.AbortRunRequest{Id: "a"}))
	if err = s.err(t.Context(), err); !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, sdk.Reason("stopped")) {
		t.Errorf("a run that is not under way is aborted: %v", err)
	}
	s.server.Refuse()
	if _, err := s.Run(testkit.Context(t), inputs(t, "a", in, target)); what(err) != WhatClosing {
		t.Errorf("a server that ends begins a run: %v", err)
	}
	s.stop()

	s = serveIn(t, dir, rt)
	defer s.stop()
	started, done = s.run(t, inputs(t, "a", in, target))
	<-started
	s.release(t, "a")
	if r := <-done; r.err != nil || !r.res.Succeeded() {
		t.Fatalf("the run ended with %+v %v", r.res, r.err)
	}
	if got, err := os.ReadFile(filepath.Join(target, "f")); err != nil || string(got) != "mine" {
		t.Errorf("the output has %q %v", got, err)
	}
	if got := s.artifactNames(t); !slices.Equal(got, []string{left}) {
		t.Errorf("after the run there are %q", got)
	}
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// TestOneRunOfMany has several clients ask for one run at once, each with its inputs: all see the same. One with another directory is refused.
func TestOneRunOfMany(t *testing.T) {
	s := serve(t)
	var all []chan runEnd
	var begun []chan struct{}
	in, other := filepath.Join(s.dir, "in"), filepath.Join(s.dir, "other")
	write(t, filepath.Join(in, "f"), "x")
	write(t, filepath.Join(other, "f"), "x")
	for range 4 {
		req := inputs(t, "a", in, "")
		req.Outputs = nil
		started, done := s.run(t, req)
		all, begun = append(all, done), append(begun, started)
	}
	for i, started := range begun {
		select {
		case <-started:
		case r := <-all[i]:
			t.Fatalf("a client's run ended with %+v %v", r.res, r.err)
		}
	}
	req := inputs(t, "a", other, "")
	req.Outputs = nil
	if _, err := s.Run(testkit.Context(t), req); !errors.Is(err, sdk.Invalid) || !strings.Contains(err.Error(), in) || !strings.Contains(err.Error(), other) {
		t.Errorf("another directory: %v", err)
	}
	s.release(t, "a")
	for _, done := range all {
		if r := <-done; r.err != nil || !r.res.Succeeded() {
			t.Errorf("a client's run ended with %+v %v", r.res, r.err)
		}
	}
	if got := s.artifactNames(t); len(got) > 0 {
		t.Errorf("%q are left", got)
	}
}

// TestSameRun asks for a run that is under way in other words: what is not the same is refused.
func TestSameRun(t *testing.T) {
	s := serve(t)
	for _, name := range []string{"one", "two"} {
		must(t, s.Upload(testkit.Context(t), host.Upload{Name: name}, func(_ context.Context, w io.Writer) error {
			_, err := w.Write(archive(t, "f", name))
			return err
		}))
	}
	request := func(change func(*pb.StartRunRequest, *pb.Command)) *pb.StartRunRequest {
		c := &pb.Command{Path: "sh", Args: []string{"-c", "while :; do sleep 0.05; done"}, Env: map[string]string{"A": "1", "B": "2"}}
		r := &pb.StartRunRequest{Id: "a", What: &pb.StartRunRequest_Command{Command: c}, Inputs: map[string]string{"in": "one"}}
		change(r, c)
		return r
	}
	_, err := s.runs.StartRun(testkit.Context(t), connect.NewRequest(request(func(*pb.StartRunRequest, *pb.Command) {})))
	must(t, err)
	for _, tt := range []struct {
		what   string
		change func(*pb.StartRunRequest, *pb.Command)
		err    error // nil: it is found
	}{
		{"the same", func(*pb.StartRunRequest, *pb.Command) {}, nil},
		{"its own inputs", func(r *pb.StartRunRequest, _ *pb.Command) { r.Inputs["in"] = "" }, nil},
		{"another input", func(r *pb.StartRunRequest, _ *pb.Command) { r.Inputs["in"] = "two" }, ReasonOtherInputs},
		{"more inputs", func(r *pb.StartRunRequest, _ *pb.Command) { r.Inputs["more"] = "two" }, sdk.Invalid},
		{"no inputs", func(r *pb.StartRunRequest, _ *pb.Command) { r.Inputs = nil }, sdk.Invalid},
		{"other arguments", func(_ *pb.StartRunRequest, c *pb.Command) { c.Args = append(c.Args, "x") }, sdk.Invalid},
		{"another environment", func(_ *pb.StartRunRequest, c *pb.Command) { c.Env["B"] = "3" }, sdk.Invalid},
		{"a file", func(r *pb.StartRunRequest, _ *pb.Command) {
			r.What = &pb.StartRunRequest_File{File: &pb.JobFile{Source: "x"}}
		}, sdk.Invalid},
	} {
		r, err := s.runs.StartRun(testkit.Context(t), connect.NewRequest(request(tt.change)))
		switch err = s.err(t.Context(), err); {
		case tt.err == nil && (err != nil || !r.Msg.GetFound()):
			t.Errorf("%s is not found: %v", tt.what, err)
		case tt.err != nil && !errors.Is(err, tt.err):
			t.Errorf("%s: %v", tt.what, err)
		}
	}
	s.until(t, "a", string(host.EventStarted)) // of one that had not begun there would be no result
	_, err = s.runs.AbortRun(testkit.Context(t), connect.NewRequest(&pb.AbortRunRequest{Id: "a", Kill: true}))
	must(t, err)
	s.until(t, "a", KindEnded)
	_, err = s.runs.AbortRun(testkit.Context(t), connect.NewRequest(&pb.AbortRunRequest{Id: "a"})) // it stays as it is
	must(t, err)
	res, err := s.AbortRun(testkit.Context(t), "a", false)
	must(t, err)
	if step := res.Steps[0]; step.State != host.StepAborted || step.Err == nil || step.Err.Error() != host.ErrRunAborted.Error() {
		t.Errorf("the step of an aborted run is told as %s: %v", step.State, step.Err)
	}
}
