package api

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/sdk"
)

type containerService struct{ *Server }

// ofRuns is how the owners of steps begin; see host.RunOwner.
const ofRuns = "run/"

// checkOwner keeps clients from the containers of runs, which only the run may change.
func checkOwner(owner string) error {
	if strings.HasPrefix(owner, ofRuns) {
		return invalid("owner %q belongs to a run: choose one that does not begin with run/", owner)
	}
	return nil
}

// EnsureContainer finds or makes an owner's container.
func (s containerService) EnsureContainer(ctx context.Context, c *connect.Request[pb.EnsureContainerRequest]) (*connect.Response[pb.EnsureContainerResponse], error) {
	container, err := s.ensure(ctx, c.Msg)
	if err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.EnsureContainerResponse{Owner: container.Owner(), Worker: container.Worker(), State: container.State(), Id: container.ID()}), nil
}

func (s *Server) ensure(ctx context.Context, msg *pb.EnsureContainerRequest) (*host.Container, error) {
	if err := checkOwner(msg.GetOwner()); err != nil {
		return nil, err
	}
	if s.Draining() {
		return nil, errClosing()
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	req := host.ContainerRequest{Team: msg.GetTeam(), Runtime: msg.GetRuntime(), Platform: msg.GetPlatform(), Tags: msg.GetTags(), Kind: pool.Build,
		ImageRef: msg.GetImageRef(), User: msg.GetUser(), Dir: msg.GetDir(), Limits: fromResources(msg.GetLimits()),
		Privileged: msg.GetPrivileged(), Hermetic: msg.GetHermetic(), Features: texts[sdk.Feature](msg.GetFeatures()),
		With: msg.GetWith(), Priority: int(msg.GetPriority()), WaitLimit: msg.GetWaitLimit().AsDuration(), TTL: msg.GetTtl().AsDuration()}
	r := fromResources(msg.GetResources())
	req.Resources = pool.Resources{CPUMillis: r.CPUMillis, MemoryBytes: r.MemoryBytes, DiskBytes: r.DiskBytes, PIDs: r.PIDs}
	switch {
	case msg.GetCheck():
		req.Kind = pool.Check
	case len(msg.GetInputs()) == 0:
		req.Kind = pool.NoInput
	}
	inputs := func(of []*pb.ContainerInput) (out []host.Input, err error) {
		for _, in := range of {
			a, err := s.artifact(ctx, in.GetArtifact())
			if err != nil {
				return nil, err
			}
			out = append(out, host.Input{Artifact: a, Path: in.GetPath()})
		}
		return out, nil
	}
	var err error
	if msg.GetImage() != "" {
		if req.Image, err = s.artifact(ctx, msg.GetImage()); err != nil {
			return nil, err
		}
	}
	if req.Inputs, err = inputs(msg.GetInputs()); err != nil {
		return nil, err
	}
	if req.Shared, err = inputs(msg.GetShared()); err != nil {
		return nil, err
	}
	for _, out := range msg.GetOutputs() {
		req.Outputs = append(req.Outputs, host.Output{Name: out.GetName(), Path: out.GetPath()})
	}
	for _, c := range msg.GetCaches() {
		if c.GetScope() == "" {
			return nil, invalid("the cache at %q has no scope: say what the containers that share it have in common", c.GetPath())
		}
		req.Caches = append(req.Caches, host.Cache{Key: host.TaskCacheKey(msg.GetTeam(), c.GetScope(), ofNoStep, c.GetPath()), Path: c.GetPath(), TTL: c.GetTtl().AsDuration()})
	}
	return s.h.Container(ctx, msg.GetOwner(), req)
}

// ofNoStep stands for a step's name in the key of a cache, which no step has.
const ofNoStep = ""

// ListContainers lists what is remembered of containers.
func (s containerService) ListContainers(ctx context.Context, c *connect.Request[pb.ListContainersRequest]) (*connect.Response[pb.ListContainersResponse], error) {
	list, err := s.h.Containers(ctx, c.Msg.GetOwnerPrefix())
	if err != nil {
		return nil, answer(err)
	}
	waiting, err := s.h.Waiting(ctx, c.Msg.GetOwnerPrefix())
	if err != nil {
		return nil, answer(err)
	}
	out := &pb.ListContainersResponse{}
	for _, e := range waiting {
		out.Waiting = append(out.Waiting, pbExplanation("", e))
	}
	for _, i := range list {
		if !i.Over() || c.Msg.GetAll() {
			out.Containers = append(out.Containers, pbContainer(i))
		}
	}
	return connect.NewResponse(out), nil
}

func pbContainer(i host.ContainerInfo) *pb.Container {
	out := &pb.Container{Id: i.ID, Owner: i.Owner, Worker: i.Worker, State: i.State, CreatedAt: stamp(i.Created), ExpiresAt: stamp(i.Expires)}
	for _, p := range i.Processes {
		out.Processes = append(out.Processes, &pb.Process{Name: p.Name, State: p.State, Path: p.Path, StartedAt: stamp(p.Started), EndedAt: stamp(p.Ended),
			Exit: pbExit(p.Exit), Reason: p.Reason})
	}
	return out
}

// SealContainer makes a container's outputs artifacts.
func (s containerService) SealContainer(ctx context.Context, c *connect.Request[pb.SealContainerRequest]) (*connect.Response[pb.SealContainerResponse], error) {
	container, err := s.own(ctx, c.Msg.GetOwner())
	if err != nil {
		return nil, answer(err)
	}
	if c.Msg.GetSaveCaches() {
		if err := container.SaveCaches(ctx); err != nil {
			return nil, answer(err)
		}
	}
	outputs, err := container.Seal(ctx)
	if err != nil {
		return nil, answer(err)
	}
	out := &pb.SealContainerResponse{Outputs: make(map[string]string)}
	for name, a := range outputs {
		out.Outputs[name] = a.Name
	}
	return connect.NewResponse(out), nil
}

// own finds a container that clients may change.
func (s *Server) own(ctx context.Context, owner string) (*host.Container, error) {
	if err := checkOwner(owner); err != nil {
		return nil, err
	}
	return s.h.FindContainer(ctx, owner)
}

// DestroyContainer destroys a container.
func (s containerService) DestroyContainer(ctx context.Context, c *connect.Request[pb.DestroyContainerRequest]) (*connect.Response[pb.DestroyContainerResponse], error) {
	owner, id := c.Msg.GetOwner(), c.Msg.GetId()
	err := checkOwner(owner)
	switch {
	case err != nil:
	case id != "":
		err = s.h.RemoveContainerByID(ctx, owner, id)
	default:
		err = s.h.RemoveContainer(ctx, owner)
	}
	if err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.DestroyContainerResponse{}), nil
}

type processService struct{ *Server }

// StartProcess starts a process once.
func (s processService) StartProcess(ctx context.Context, c *connect.Request[pb.StartProcessRequest]) (*connect.Response[pb.StartProcessResponse], error) {
	if err := s.startProcess(ctx, c.Msg); err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.StartProcessResponse{}), nil
}

func (s *Server) startProcess(ctx context.Context, msg *pb.StartProcessRequest) error {
	container, err := s.own(ctx, msg.GetOwner())
	if err != nil {
		return err
	}
	done, err := s.begin()
	if err != nil {
		return err
	}
	name := processName(msg.GetName())
	req := host.ProcessRequest{Path: msg.GetPath(), Args: msg.GetArgs(), Env: msg.GetEnv(), Dir: msg.GetDir(), User: msg.GetUser(), SpillBytes: msg.GetSpillBytes()}
	if msg.GetDropOldest() {
		req.WhenFull = sdk.DropOldest
	}
	key := processStdin(msg.GetOwner(), name)
	var in *stdin
	if msg.GetStdin() {
		in = s.stdin(key)
		req.Stdin = in
	}
	p, err := container.Start(ctx, name, req)
	if err == nil {
		err = s.spawn(func() {
			<-p.Done() // the host's own end, too
			if in != nil {
				s.leaveStdin(key, in)
			}
			done()
		})
	}
	if err != nil {
		if in != nil {
			s.leaveStdin(key, in)
		}
		done()
	}
	return err
}

// stdin gives the stdin under a key, one for all who ask, each of whom leaves it with leaveStdin.
func (s *Server) stdin(key string) *stdin {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.stdins[key]
	if in == nil {
		in = newStdin()
		s.stdins[key] = in
	}
	in.users++
	return in
}

// leaveStdin ends a stdin that stdin gave once all who asked for it have left: who only asks again for a process ends nothing of it.
func (s *Server) leaveStdin(key string, in *stdin) {
	s.mu.Lock()
	in.users--
	last := in.users == 0
	if last && s.stdins[key] == in {
		delete(s.stdins, key)
	}
	s.mu.Unlock()
	if last {
		in.close()
	}
}

// process finds a process that was started.
func (s *Server) process(ctx context.Context, n *pb.ProcessName) (*host.Process, error) {
	if n.GetOwner() == "" {
		return nil, invalid("the process's owner is missing")
	}
	return s.h.FindProcess(ctx, n.GetOwner(), processName(n.GetName()))
}

// WaitProcess waits for a process's end.
func (s processService) WaitProcess(ctx context.Context, c *connect.Request[pb.WaitProcessRequest]) (*connect.Response[pb.WaitProcessResponse], error) {
	p, err := s.process(ctx, c.Msg.GetProcess())
	if err != nil {
		return nil, answer(err)
	}
	defer s.watching()()
	ctx, cancel := s.while(ctx)
	defer cancel()
	outcome, err := p.Wait(ctx)
	if err == nil && errors.Is(outcome.Err, host.ErrClosed) {
		err = errClosing() // it has not ended
	}
	if err != nil {
		return nil, answer(because(ctx, err))
	}
	return connect.NewResponse(&pb.WaitProcessResponse{Exit: pbExit(outcome.Exit), Error: pbError(outcome.Err)}), nil
}

// FollowOutput gives a process's output.
func (s processService) FollowOutput(ctx context.Context, c *connect.Request[pb.FollowOutputRequest], to *connect.ServerStream[pb.Record]) error {
	return answer(s.followOutput(ctx, c.Msg.GetProcess(), c.Msg.GetFrom(), func(rec spool.Record) error { return to.Send(pbRecord(rec)) }))
}

// followOutput sends records until the output is finished, which is nil.
func (s *Server) followOutput(ctx context.Context, name *pb.ProcessName, from int64, send func(spool.Record) error) error {
	if from < 0 {
		return invalid("output is followed from %d: positions begin at 0", from)
	}
	defer s.watching()()
	ctx, cancel := s.while(ctx)
	defer cancel()
	if err := s.awaitStep(ctx, name.GetOwner()); err != nil {
		return err
	}
	p, err := s.process(ctx, name)
	if err != nil {
		return err
	}
	r, err := p.Output(ctx, sdk.Position(from))
	if errors.Is(err, fs.ErrNotExist) { // it was lost before it wrote anything
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		rec, err := r.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, spool.ErrClosed):
			return errClosing()
		case err != nil:
			return because(ctx, err)
		}
		if err := send(rec); err != nil {
			return err
		}
	}
}

// awaitStep waits until a step of a run that is under way was started, or will not be. Other owners are none of its affair.
func (s *Server) awaitStep(ctx context.Context, owner string) error {
	r, step := s.stepOf(owner)
	if r == nil {
		return nil
	}
	err := r.watch(ctx, 0, func(e *pb.Event) error {
		if e.GetOwner() == owner || e.GetStep() == step && e.GetKind() == string(host.EventFinished) {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

// stepOf finds the run under way that an owner's container is for, and the step: run/RUN/STEP, or run/RUN/STEP/N of a later attempt.
func (s *Server) stepOf(owner string) (r *activeRun, step string) {
	rest, ok := strings.CutPrefix(owner, ofRuns)
	if !ok {
		return nil, ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 2 {
		i := strings.LastIndexByte(rest, '/')
		if i < 0 {
			break
		}
		if r := s.runs[rest[:i]]; r != nil {
			return r, rest[i+1:]
		}
		rest = rest[:i]
	}
	return nil, ""
}

// errFound ends a search.
var errFound = errors.New("found")

func pbRecord(rec spool.Record) *pb.Record {
	if rec.GapTo > rec.Position {
		return &pb.Record{Position: rec.Position, Time: stamp(rec.Time), GapTo: rec.GapTo}
	}
	return &pb.Record{Stream: sdk.Stream(rec.Stream).String(), Position: rec.Position, Time: stamp(rec.Time), Data: rec.Data}
}

func fromRecord(r *pb.Record) spool.Record {
	out := spool.Record{Position: r.GetPosition(), Time: fromStamp(r.GetTime()), Data: r.GetData(), GapTo: r.GetGapTo()}
	if r.GetStream() == sdk.Stderr.String() {
		out.Stream = uint8(sdk.Stderr)
	} else if out.GapTo == 0 {
		out.Stream = uint8(sdk.Stdout)
	}
	return out
}

// SignalProcess sends a signal.
func (s processService) SignalProcess(ctx context.Context, c *connect.Request[pb.SignalProcessRequest]) (*connect.Response[pb.SignalProcessResponse], error) {
	p, err := s.process(ctx, c.Msg.GetProcess())
	if err == nil {
		err = p.Signal(ctx, sdk.Signal(c.Msg.GetSignal()))
	}
	if err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.SignalProcessResponse{}), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
