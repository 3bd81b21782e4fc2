package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/sdk"
)

type runService struct{ *Server }

// endedRuns is how many runs that have ended are kept whole, for watchers that come late. What they came to is in the store for longer.
const endedRuns = 64

// StartRun begins a run, or finds it.
func (s runService) StartRun(ctx context.Context, c *connect.Request[pb.StartRunRequest]) (*connect.Response[pb.StartRunResponse], error) {
	found, err := s.startRun(ctx, c.Msg)
	if err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.StartRunResponse{Id: c.Msg.GetId(), Found: found}), nil
}

// startRun fills in the id of a request that has none.
func (s *Server) startRun(ctx context.Context, msg *pb.StartRunRequest) (found bool, err error) {
	if msg.GetId() == "" {
		msg.Id = host.NewRunID()
	}
	s.mu.Lock()
	r := s.runs[msg.GetId()]
	s.mu.Unlock()
	if r != nil && !r.over() {
		return true, r.same(msg)
	}
	rctx, cancel := context.WithCancelCause(s.tracing.begin(ctx, msg.GetId()))
	kill := make(chan struct{})
	r = newActiveRun(msg, s.ctx.Done(), cancel, sync.OnceFunc(func() { close(kill) }))
	req, err := s.runRequest(ctx, msg)
	req.Kill, req.Deliver = kill, r.deliver
	req.Events = func(e host.Event) {
		s.metrics.told(e)
		r.put(e)
	}
	if err == nil {
		err = s.checkRun(ctx, &req, msg.GetInputs())
	}
	if err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		cancel(nil)
		return false, err
	}
	done, err := s.begin()
	if err != nil {
		cancel(nil)
		return false, err
	}
	var in *stdin
	if msg.GetStdin() {
		in = newStdin()
		req.Stdin = in
	}
	s.mu.Lock()
	if other := s.runs[r.id]; other != nil && !other.over() { // another request was quicker
		s.mu.Unlock()
		cancel(nil)
		done()
		return true, other.same(msg)
	}
	s.runs[r.id] = r
	if in != nil {
		s.stdins[runStdin(r.id)] = in
	}
	s.mu.Unlock()
	err = s.spawn(func() {
		defer done()
		defer cancel(nil)
		res, err := s.h.Run(rctx, req)
		if in != nil {
			s.closeStdin(runStdin(r.id), in)
		}
		ended(rctx, err)
		if errors.Is(err, host.ErrClosed) {
			return // it has not ended: the next daemon goes on with it
		}
		s.dropBrought(context.WithoutCancel(rctx), r.id, req.Brought)
		s.metrics.ended(res, err)
		r.finish(pbRun(r.id, res, err))
		s.forget(r)
	})
	if err != nil {
		cancel(nil)
		done()
	}
	return false, err
}

// forget keeps only so many of the runs that have ended.
func (s *Server) forget(r *activeRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(slices.DeleteFunc(s.ended, func(id string) bool { return id == r.id }), r.id)
	for len(s.ended) > endedRuns {
		if old := s.runs[s.ended[0]]; old != nil && old.over() {
			delete(s.runs, s.ended[0])
		}
		s.ended = s.ended[1:]
	}
}

// runRequest makes a host's request of a message, but for its inputs.
func (s *Server) runRequest(ctx context.Context, msg *pb.StartRunRequest) (host.RunRequest, error) {
	req := host.RunRequest{ID: msg.GetId(), Outputs: msg.GetOutputs(), Grace: msg.GetGrace().AsDuration(), Parallel: int(msg.GetParallel()), Artifacts: make(map[string]*host.Artifact),
		Brought: make(map[string]*host.Artifact)}
	if req.Grace < 0 {
		return req, invalid("the grace of run %s is negative: %s", req.ID, req.Grace)
	}
	if req.Parallel < 0 {
		return req, invalid("run %s wants %d steps side by side: leave it out for as many as can be", req.ID, req.Parallel)
	}
	var err error
	req.Job, err = jobOf(msg)
	return req, err
}

// jobOf is the job that a request asks for.
func jobOf(msg *pb.StartRunRequest) (*job.Job, error) {
	switch what := msg.GetWhat().(type) {
	case *pb.StartRunRequest_File:
		j, diags := job.Parse([]byte(what.File.GetSource()), fileName(what.File.GetName()))
		if diags.HasErrors() {
			return nil, &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonSpec, Message: diagnostics(diags)}
		}
		return j, nil
	case *pb.StartRunRequest_Command:
		return commandJob(what.Command, msg), nil
	}
	return nil, invalid("run %s has neither a file nor a command", msg.GetId())
}

// checkRun finds a run's inputs, and what is wrong with its request, unless the run has ended: then nothing is run, and nothing needed.
func (s *Server) checkRun(ctx context.Context, req *host.RunRequest, inputs map[string]string) error {
	if i, err := s.runInfo(ctx, req.ID); err == nil && i.Ended {
		return nil
	}
	if err := s.findInputs(ctx, req, inputs); err != nil {
		return err
	}
	return req.Check()
}

// findInputs finds a run's inputs: those that it has, if it was begun before, then those that a request names.
func (s *Server) findInputs(ctx context.Context, req *host.RunRequest, named map[string]string) error {
	has, err := s.h.RunInputs(ctx, req.ID)
	if err != nil {
		return err
	}
	for name, artifact := range named {
		if a, ok := has[name]; ok {
			req.Artifacts[name] = &a.Artifact
			continue
		}
		if artifact == "" {
			return invalid("run %s has no input %q yet: name an artifact", req.ID, name)
		}
		a, err := s.artifact(ctx, artifact)
		if err != nil {
			return fmt.Errorf("input %q: %w", name, err)
		}
		if strings.HasPrefix(artifact, broughtFor(req.ID)) {
			req.Brought[name] = a
		} else {
			req.Artifacts[name] = a
		}
	}
	return nil
}

func fileName(name string) string {
	if name == "" {
		return "job.hcl"
	}
	return name
}

// diagnostics are all errors of a file, one on each line.
func diagnostics(diags hcl.Diagnostics) string {
	var lines []string
	for _, d := range diags {
		switch {
		case d.Severity != hcl.DiagError:
		case d.Subject == nil: // of no place in the file
			lines = append(lines, d.Summary+": "+d.Detail)
		default:
			lines = append(lines, d.Error())
		}
	}
	return strings.Join(lines, "\n")
}

// CommandStep is the name of the step that a command runs in.
const CommandStep = "exec"

// commandJob is a job of that one step.
func commandJob(c *pb.Command, msg *pb.StartRunRequest) *job.Job {
	step := job.Step{Name: CommandStep, Runtime: c.GetRuntime(), Platform: c.GetPlatform(), Tags: c.GetTags(), Env: c.GetEnv(), Dir: c.GetDir(),
		User: c.GetUser(), Timeout: c.GetTimeout().AsDuration(), Run: job.Run{Path: c.GetPath(), Args: c.GetArgs()}, Inputs: make(map[string]job.Ref)}
	j := &job.Job{Name: CommandStep}
	for _, name := range sortedKeys(msg.GetInputs()) {
		j.Inputs = append(j.Inputs, job.Input{Name: name})
		step.Inputs[name] = job.Ref{Input: name}
	}
	outputs := append(sortedKeys(msg.GetOutputs()), c.GetOutputs()...)
	slices.Sort(outputs)
	for _, name := range slices.Compact(outputs) {
		step.Outputs = append(step.Outputs, name)
		j.Outputs = append(j.Outputs, job.Output{Name: name, From: job.Ref{Step: CommandStep, Output: name}})
	}
	j.Steps = []job.Step{step}
	return j
}

// GetRun tells how a run stands.
func (s runService) GetRun(ctx context.Context, c *connect.Request[pb.GetRunRequest]) (*connect.Response[pb.GetRunResponse], error) {
	i, err := s.standing(ctx, c.Msg.GetId())
	if err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.GetRunResponse{Run: i}), nil
}

// standing tells how a run stands. One that was just begun may not be remembered yet.
func (s *Server) standing(ctx context.Context, id string) (*pb.RunInfo, error) {
	s.mu.Lock()
	r := s.runs[id]
	s.mu.Unlock()
	i, err := s.runInfo(ctx, id)
	placing, perr := s.h.RunPlacing(ctx, id)
	if perr != nil {
		return nil, perr
	}
	has, herr := s.h.RunInputs(ctx, id)
	if herr != nil {
		return nil, herr
	}
	sources := make(map[string]string)
	for name, input := range has {
		sources[name] = input.Source
	}
	if r != nil && !r.over() && (err == nil || errors.Is(err, sdk.NotFound)) {
		return &pb.RunInfo{Id: id, State: stateRunning, Since: stamp(i.Created), Inputs: sortedKeys(r.request.GetInputs()), Placing: pbPlacing(placing), InputSources: sources}, nil
	}
	if err != nil {
		return nil, err
	}
	out := pbRunInfo(i)
	out.Placing = pbPlacing(placing)
	if !i.Ended {
		out.Inputs, out.InputSources = sortedKeys(has), sources
	}
	return out, nil
}

func (s *Server) runInfo(ctx context.Context, id string) (host.RunInfo, error) {
	return s.h.RunByID(ctx, id)
}

// States of a run.
const (
	stateRunning = "running"
	stateEnded   = "ended"
	stateStopped = "stopped" // begun by an earlier daemon
)

func pbRunInfo(i host.RunInfo) *pb.RunInfo {
	out := &pb.RunInfo{Id: i.ID, State: stateStopped, Since: stamp(i.Created), EndedAt: stamp(i.EndedAt)}
	switch {
	case i.Ended:
		out.State = stateEnded
	case i.Running:
		out.State = stateRunning
	}
	return out
}

// ListRuns lists all runs.
func (s runService) ListRuns(ctx context.Context, _ *connect.Request[pb.ListRunsRequest]) (*connect.Response[pb.ListRunsResponse], error) {
	runs, err := s.h.Runs(ctx)
	if err != nil {
		return nil, answer(err)
	}
	out := &pb.ListRunsResponse{}
	for _, i := range runs {
		out.Runs = append(out.Runs, pbRunInfo(i))
	}
	return connect.NewResponse(out), nil
}

// WatchRun tells what happens to a run.
func (s runService) WatchRun(ctx context.Context, c *connect.Request[pb.WatchRunRequest], to *connect.ServerStream[pb.Event]) error {
	return answer(s.watchRun(ctx, c.Msg.GetId(), c.Msg.GetAfter(), to.Send))
}

func (s *Server) watchRun(ctx context.Context, id string, after int64, send func(*pb.Event) error) error {
	defer s.watching()()
	ctx, cancel := s.while(ctx)
	defer cancel()
	s.mu.Lock()
	r := s.runs[id]
	s.mu.Unlock()
	if r != nil {
		return r.watch(ctx, after, send)
	}
	i, err := s.runInfo(ctx, id)
	if err != nil {
		return err
	}
	if !i.Ended {
		return stopped(id)
	}
	res, err := s.h.RunResult(ctx, id)
	if err != nil {
		return err
	}
	for n, step := range res.Steps {
		e := pbEvent(host.Event{Time: i.EndedAt, Step: step.Step, Kind: host.EventFinished, Worker: step.Worker, Exit: step.Exit, Result: &res.Steps[n]})
		if e.Number = int64(n + 1); e.Number > after {
			if err := send(e); err != nil {
				return err
			}
		}
	}
	return send(&pb.Event{Time: stamp(i.EndedAt), Kind: KindEnded, Number: int64(len(res.Steps) + 1), Run: pbRun(id, res, res.Failure())})
}

// stopped says that a run has not ended, and is not under way.
func stopped(id string) error {
	return sdk.NewFailedPrecondition(stateStopped, "run", id, "run %s was begun before and is not under way: start it again with the same id", id)
}

// WaitRun waits for a run's end.
func (s runService) WaitRun(ctx context.Context, c *connect.Request[pb.WaitRunRequest]) (*connect.Response[pb.WaitRunResponse], error) {
	out := &pb.WaitRunResponse{}
	err := s.watchRun(ctx, c.Msg.GetId(), 0, func(e *pb.Event) error {
		if e.GetKind() == KindEnded {
			out.Result = e.GetRun()
		}
		return nil
	})
	if err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(out), nil
}

// AbortRun asks a run to end.
func (s runService) AbortRun(ctx context.Context, c *connect.Request[pb.AbortRunRequest]) (*connect.Response[pb.AbortRunResponse], error) {
	s.mu.Lock()
	r := s.runs[c.Msg.GetId()]
	s.mu.Unlock()
	if r == nil || r.over() {
		i, err := s.runInfo(ctx, c.Msg.GetId())
		switch {
		case err != nil || i.Ended:
		case c.Msg.GetGiveUp():
			_, err = s.h.AbortRun(ctx, c.Msg.GetId())
		default:
			err = stopped(c.Msg.GetId())
		}
		if err != nil && (r == nil || !errors.Is(err, sdk.NotFound)) { // NotFound: it never began, which the watcher was told
			return nil, answer(err)
		}
		return connect.NewResponse(&pb.AbortRunResponse{}), nil
	}
	cause := host.ErrRunAborted
	if c.Msg.GetInterrupted() {
		cause = nil // which is what the host makes of one that ends by itself
	}
	r.cancel(cause)
	if c.Msg.GetKill() {
		r.kill()
	}
	return connect.NewResponse(&pb.AbortRunResponse{}), nil
}

// AcceptOutput says that an output was downloaded, or will not be.
func (s runService) AcceptOutput(_ context.Context, c *connect.Request[pb.AcceptOutputRequest]) (*connect.Response[pb.AcceptOutputResponse], error) {
	s.mu.Lock()
	r := s.runs[c.Msg.GetId()]
	s.mu.Unlock()
	if r == nil {
		return nil, answer(&sdk.Error{Class: sdk.NotFound, Kind: "run", ID: c.Msg.GetId(), Message: fmt.Sprintf("no run %q is under way", c.Msg.GetId())})
	}
	var failure error
	if e := c.Msg.GetError(); e != nil {
		failure = errors.New(e.GetMessage())
	}
	if err := r.accept(c.Msg.GetName(), failure); err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.AcceptOutputResponse{}), nil
}
