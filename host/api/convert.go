package api

import (
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/sdk"
)

// stamp is absent for a time that is not known.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func fromStamp(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime().Local()
}

func pbExit(e *sdk.Exit) *pb.Exit {
	if e == nil {
		return nil
	}
	return &pb.Exit{Code: int32(e.Code), Signal: string(e.Signal), Reason: string(e.Reason), Message: e.Message, StartedAt: stamp(e.StartedAt),
		EndedAt: stamp(e.EndedAt), PeakMemoryBytes: e.PeakMemoryBytes, OutputCut: e.OutputCut}
}

func fromExit(e *pb.Exit) *sdk.Exit {
	if e == nil {
		return nil
	}
	return &sdk.Exit{Code: int(e.GetCode()), Signal: sdk.Signal(e.GetSignal()), Reason: sdk.ExitReason(e.GetReason()), Message: e.GetMessage(),
		StartedAt: fromStamp(e.GetStartedAt()), EndedAt: fromStamp(e.GetEndedAt()), PeakMemoryBytes: e.GetPeakMemoryBytes(), OutputCut: e.GetOutputCut()}
}

func pbStep(s host.StepResult) *pb.StepResult {
	return &pb.StepResult{Step: s.Step, State: string(s.State), Worker: s.Worker, Exit: pbExit(s.Exit), Error: pbError(s.Err),
		Queue: durationpb.New(s.Queue), Stream: durationpb.New(s.Stream), Run: durationpb.New(s.Run), Attempts: int64(s.Attempts)}
}

func fromStep(s *pb.StepResult) *host.StepResult {
	if s == nil {
		return nil
	}
	return &host.StepResult{Step: s.GetStep(), State: host.StepState(s.GetState()), Worker: s.GetWorker(), Exit: fromExit(s.GetExit()),
		Err: fromError(s.GetError()), Queue: s.GetQueue().AsDuration(), Stream: s.GetStream().AsDuration(), Run: s.GetRun().AsDuration(), Attempts: int(s.GetAttempts())}
}

func pbRun(id string, r *host.RunResult, failure error) *pb.RunResult {
	out := &pb.RunResult{Id: id, Error: pbError(failure)}
	if r == nil {
		return out
	}
	out.Outputs, out.Took, out.Recorded = r.Outputs, durationpb.New(r.Took), r.Recorded
	for _, s := range r.Steps {
		out.Steps = append(out.Steps, pbStep(s))
	}
	return out
}

// fromRun gives nil for a run that did not begin.
func fromRun(r *pb.RunResult) (*host.RunResult, error) {
	err := fromError(r.GetError())
	if len(r.GetSteps()) == 0 && err != nil {
		return nil, err
	}
	out := &host.RunResult{ID: r.GetId(), Outputs: r.GetOutputs(), Took: r.GetTook().AsDuration(), Recorded: r.GetRecorded()}
	for _, s := range r.GetSteps() {
		out.Steps = append(out.Steps, *fromStep(s))
	}
	if errors.Is(err, sdk.ReasonAbandoned) {
		out.Abandoned = err.Error()
	}
	return out, err
}

func pbEvent(e host.Event) *pb.Event {
	out := &pb.Event{Time: stamp(e.Time), Step: e.Step, Kind: string(e.Kind), Worker: e.Worker, Message: e.Message, Exit: pbExit(e.Exit)}
	if s := e.Stream; s != nil {
		out.Stream = &pb.StreamProgress{Artifact: s.Artifact, From: s.From, To: s.To, Via: s.Via, Bytes: s.Bytes, Took: durationpb.New(s.Took), Done: s.Done}
	}
	if e.Process != nil {
		out.Process, out.Owner = host.MainProcess, e.Process.Owner()
	}
	if e.Result != nil {
		out.Result = pbStep(*e.Result)
	}
	return out
}

func fromEvent(e *pb.Event) host.Event {
	out := host.Event{Time: fromStamp(e.GetTime()), Step: e.GetStep(), Kind: host.EventKind(e.GetKind()), Worker: e.GetWorker(), Message: e.GetMessage(),
		Exit: fromExit(e.GetExit()), Result: fromStep(e.GetResult())}
	if s := e.GetStream(); s != nil {
		out.Stream = &host.StreamProgress{Artifact: s.GetArtifact(), From: s.GetFrom(), To: s.GetTo(), Via: s.GetVia(), Bytes: s.GetBytes(),
			Took: s.GetTook().AsDuration(), Done: s.GetDone()}
	}
	return out
}

func pbResources(r sdk.Resources) *pb.Resources {
	return &pb.Resources{CpuMillis: r.CPUMillis, MemoryBytes: r.MemoryBytes, DiskBytes: r.DiskBytes, Pids: r.PIDs, Containers: r.Containers, Volumes: r.Volumes}
}

func fromResources(r *pb.Resources) sdk.Resources {
	return sdk.Resources{CPUMillis: r.GetCpuMillis(), MemoryBytes: r.GetMemoryBytes(), DiskBytes: r.GetDiskBytes(), PIDs: r.GetPids(),
		Containers: r.GetContainers(), Volumes: r.GetVolumes()}
}

// texts converts between kinds of strings.
func texts[To, From ~string](list []From) []To {
	var out []To
	for _, s := range list {
		out = append(out, To(s))
	}
	return out
}

func pbPlugin(r launch.Report) *pb.Plugin {
	out := &pb.Plugin{Name: r.Name, State: string(r.State), Since: stamp(r.Since), Is: r.Info.Name, Version: r.Info.Version, Sdk: r.Info.SDK,
		Path: r.Path, Sha256: r.SHA256, Pid: int64(r.PID), Restarts: int64(r.Restarts)}
	if r.Err != nil {
		out.Error = pbError(r.Err)
		out.Error.Reason = string(r.Err.Reason)
	}
	return out
}

func fromPlugin(p *pb.Plugin) launch.Report {
	out := launch.Report{Name: p.GetName(), State: launch.State(p.GetState()), Since: fromStamp(p.GetSince()),
		Info: sdk.PluginInfo{Name: p.GetIs(), Version: p.GetVersion(), SDK: p.GetSdk()}, Path: p.GetPath(), SHA256: p.GetSha256(),
		PID: int(p.GetPid()), Restarts: int(p.GetRestarts())}
	if e := p.GetError(); e != nil { // its message has the plugin's name already
		out.Err = &launch.Error{Reason: launch.Reason(e.GetReason()), Message: e.GetMessage(), RetryAfter: e.GetRetryAfter().AsDuration()}
	}
	return out
}

func pbWorker(r host.WorkerReport) *pb.Worker {
	return &pb.Worker{Name: r.Name, Plugin: r.Plugin, Up: r.Up, Why: r.Why, Since: stamp(r.Since), Platform: r.Info.Platform, Team: r.Info.Team,
		Tags: r.Info.Tags, Attributes: r.Info.Attributes, Ephemeral: r.Info.Ephemeral, Health: r.Status.Health.String(), Reason: r.Status.Reason,
		Features: texts[string](r.Status.Features), Encodings: r.Status.Encodings, Zone: r.Status.Zone,
		Capacity: pbResources(r.Status.Capacity), Used: pbResources(r.Status.Used), State: string(r.State), StateReason: r.Reason, Drain: pbDrain(r.Drain), Owed: pbOwed(r.Owed)}
}

func fromWorker(w *pb.Worker) host.WorkerReport {
	return host.WorkerReport{Name: w.GetName(), State: pool.State(w.GetState()), Reason: w.GetStateReason(), Drain: fromDrain(w.GetDrain()), Owed: fromOwed(w.GetOwed()), Plugin: w.GetPlugin(), Up: w.GetUp(), Why: w.GetWhy(), Since: fromStamp(w.GetSince()),
		Info: sdk.WorkerInfo{Name: w.GetName(), Platform: w.GetPlatform(), Team: w.GetTeam(), Tags: w.GetTags(), Attributes: w.GetAttributes(),
			Ephemeral: w.GetEphemeral()},
		Status: sdk.Status{Health: health(w.GetHealth()), Reason: w.GetReason(), Features: texts[sdk.Feature](w.GetFeatures()),
			Encodings: w.GetEncodings(), Zone: w.GetZone(), Capacity: fromResources(w.GetCapacity()), Used: fromResources(w.GetUsed())}}
}

func health(word string) sdk.Health {
	for h := sdk.HealthUnknown; h <= sdk.Away; h++ {
		if h.String() == word {
			return h
		}
	}
	return sdk.HealthUnknown
}

func pbOwed(o host.Owed) *pb.Owed {
	if o.None() {
		return nil
	}
	return &pb.Owed{Containers: int64(o.Containers), Volumes: int64(o.Volumes), Since: stamp(o.Since), Why: o.Why}
}

func fromOwed(o *pb.Owed) host.Owed {
	return host.Owed{Containers: int(o.GetContainers()), Volumes: int(o.GetVolumes()), Since: fromStamp(o.GetSince()), Why: o.GetWhy()}
}

func pbDrain(d *host.Drain) *pb.Drain {
	if d == nil {
		return nil
	}
	out := &pb.Drain{Containers: d.Containers, Volumes: int64(d.Volumes), Moved: int64(d.Moved), MovedBytes: d.MovedBytes}
	for _, a := range d.Artifacts {
		out.Artifacts = append(out.Artifacts, &pb.DrainArtifact{Name: a.Name, Bytes: a.Bytes, Copied: a.Copied, Why: a.Why})
	}
	return out
}

func fromDrain(d *pb.Drain) *host.Drain {
	if d == nil {
		return nil
	}
	out := &host.Drain{Containers: d.GetContainers(), Volumes: int(d.GetVolumes()), Moved: int(d.GetMoved()), MovedBytes: d.GetMovedBytes()}
	for _, a := range d.GetArtifacts() {
		out.Artifacts = append(out.Artifacts, host.DrainArtifact{Name: a.GetName(), Bytes: a.GetBytes(), Copied: a.GetCopied(), Why: a.GetWhy()})
	}
	return out
}

func pbExplanation(step string, e *host.Explanation) *pb.Explanation {
	out := &pb.Explanation{Step: step, Owner: e.Owner, State: string(e.State), Worker: e.Worker, Held: e.Held, Scores: pbScores(e.Scores), At: stamp(e.At),
		Waited: durationpb.New(e.Waited), Position: int64(e.Position), Priority: int64(e.Priority), Reserved: e.Reserved, Error: pbError(e.Err),
		ReservedUntil: stamp(e.ReservedUntil), InTheWay: pbHolders(e.InTheWay), Turn: int64(e.Turn), Before: e.Before}
	for _, c := range e.Copies {
		out.Copies = append(out.Copies, &pb.Copy{Name: c.Name, Bytes: c.Bytes, From: c.From})
	}
	for _, v := range e.Workers {
		out.Workers = append(out.Workers, &pb.Verdict{Worker: v.Worker, Ok: v.OK, Reason: string(v.Reason), Detail: v.Detail, Scores: pbScores(v.Scores),
			Holders: pbHolders(v.Holders)})
	}
	return out
}

func fromExplanation(e *pb.Explanation) *host.Explanation {
	out := &host.Explanation{Owner: e.GetOwner(), State: host.PlacementState(e.GetState()), Worker: e.GetWorker(), Held: e.GetHeld(),
		Scores: fromScores(e.GetScores()), At: fromStamp(e.GetAt()), Waited: e.GetWaited().AsDuration(), Position: int(e.GetPosition()),
		Priority: int(e.GetPriority()), Reserved: e.GetReserved(), Err: fromError(e.GetError()),
		ReservedUntil: fromStamp(e.GetReservedUntil()), InTheWay: fromHolders(e.GetInTheWay()), Turn: int(e.GetTurn()), Before: e.GetBefore()}
	for _, c := range e.GetCopies() {
		out.Copies = append(out.Copies, host.Copy{Name: c.GetName(), Bytes: c.GetBytes(), From: c.GetFrom()})
	}
	for _, v := range e.GetWorkers() {
		out.Workers = append(out.Workers, pool.Verdict{Worker: v.GetWorker(), OK: v.GetOk(), Reason: pool.Reason(v.GetReason()), Detail: v.GetDetail(),
			Scores: fromScores(v.GetScores()), Holders: fromHolders(v.GetHolders())})
	}
	return out
}

func pbHolders(all pool.Holders) (out []*pb.Holder) {
	for _, o := range all {
		h := &pb.Holder{Owner: o.Owner, Artifact: o.Artifact, Cache: o.Cache, Going: o.Going, Others: o.Others, Volumes: int64(o.Volumes), Claimed: int64(o.Claimed), Why: o.Why}
		if r := o.Resources; r != (pool.Resources{}) {
			h.Resources = &pb.Resources{CpuMillis: r.CPUMillis, MemoryBytes: r.MemoryBytes, DiskBytes: r.DiskBytes, Pids: r.PIDs}
		}
		out = append(out, h)
	}
	return out
}

func fromHolders(all []*pb.Holder) (out pool.Holders) {
	for _, o := range all {
		r := o.GetResources()
		out = append(out, pool.Holder{Owner: o.GetOwner(), Artifact: o.GetArtifact(), Cache: o.GetCache(), Going: o.GetGoing(), Others: o.GetOthers(), Volumes: int(o.GetVolumes()),
			Claimed: int(o.GetClaimed()), Why: o.GetWhy(),
			Resources: pool.Resources{CPUMillis: r.GetCpuMillis(), MemoryBytes: r.GetMemoryBytes(), DiskBytes: r.GetDiskBytes(), PIDs: r.GetPids()}})
	}
	return out
}

func pbScores(list []pool.Score) []*pb.Score {
	var out []*pb.Score
	for _, s := range list {
		out = append(out, &pb.Score{Strategy: string(s.Strategy), Value: s.Value})
	}
	return out
}

func fromScores(list []*pb.Score) []pool.Score {
	var out []pool.Score
	for _, s := range list {
		out = append(out, pool.Score{Strategy: pool.Strategy(s.GetStrategy()), Value: s.GetValue()})
	}
	return out
}
