package rpc

import (
	"math"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// unknownPolicy is what an unknown enum value becomes: ProcessSpec.Validate refuses it.
const unknownPolicy = sdk.WhenFull(255)

func policies() []pair[sdk.WhenFull, pb.WhenFull] {
	return []pair[sdk.WhenFull, pb.WhenFull]{
		{unknownPolicy, -1},
		{sdk.BlockWriter, pb.WhenFull_WHEN_FULL_BLOCK_WRITER},
		{sdk.BlockWriter, pb.WhenFull_WHEN_FULL_UNSPECIFIED},
		{sdk.DropOldest, pb.WhenFull_WHEN_FULL_DROP_OLDEST},
	}
}

func processSpecToPB(worker string, container sdk.ContainerID, s sdk.ProcessSpec) *pb.StartProcessRequest {
	r := &pb.StartProcessRequest{
		Worker: worker, Container: string(container), Id: string(s.ID), Token: string(s.Token), Path: []byte(s.Path),
		Args: byteStrings(s.Args), Env: byteStrings(s.Env), Dir: []byte(s.Dir), User: s.User, Stdin: s.Stdin, Spill: s.Spill,
		WhenFull: toPB(policies(), s.WhenFull),
	}
	if s.TTY != nil {
		r.Tty = sizeToPB(*s.TTY)
	}
	return r
}

func processSpecFromPB(r *pb.StartProcessRequest) (sdk.ProcessSpec, error) {
	s := sdk.ProcessSpec{
		ID: sdk.ProcessID(r.Id), Token: sdk.Token(r.Token), Path: string(r.Path), Args: stringsOf(r.Args),
		Env: stringsOf(r.Env), Dir: string(r.Dir), User: r.User, Stdin: r.Stdin, Spill: r.Spill,
		WhenFull: fromPB(policies(), r.WhenFull),
	}
	if r.Tty != nil {
		size, err := sizeFromPB(r.Tty)
		if err != nil {
			return s, err
		}
		s.TTY = &size
	}
	return s, nil
}

func processStates() []pair[sdk.ProcessState, pb.ProcessState] {
	return []pair[sdk.ProcessState, pb.ProcessState]{
		{0, pb.ProcessState_PROCESS_STATE_UNSPECIFIED},
		{sdk.ProcessRunning, pb.ProcessState_PROCESS_STATE_RUNNING},
		{sdk.ProcessExited, pb.ProcessState_PROCESS_STATE_EXITED},
		{sdk.ProcessAbandoned, pb.ProcessState_PROCESS_STATE_ABANDONED},
	}
}

func processToPB(p sdk.ProcessInfo) *pb.ProcessInfo {
	out := &pb.ProcessInfo{Id: text(string(p.ID)), Token: text(string(p.Token)), State: toPB(processStates(), p.State),
		StartedAt: timeToPB(p.StartedAt)}
	if p.Exit != nil {
		out.Exit = exitToPB(*p.Exit)
	}
	return out
}

func processFromPB(p *pb.ProcessInfo) sdk.ProcessInfo {
	out := sdk.ProcessInfo{ID: sdk.ProcessID(p.Id), Token: sdk.Token(p.Token), State: fromPB(processStates(), p.State),
		StartedAt: timeFromPB(p.StartedAt)}
	if p.Exit != nil {
		exit := exitFromPB(p.Exit)
		out.Exit = &exit
	}
	return out
}

// exitToPB never makes a code of the contract of one that is not: that is for the host to see.
func exitToPB(e sdk.Exit) *pb.Exit {
	return &pb.Exit{Code: int32(min(max(e.Code, math.MinInt32), math.MaxInt32)), Signal: text(string(e.Signal)), Reason: text(string(e.Reason)), Message: text(e.Message),
		StartedAt: timeToPB(e.StartedAt), EndedAt: timeToPB(e.EndedAt), PeakMemoryBytes: e.PeakMemoryBytes, OutputCut: e.OutputCut}
}

func exitFromPB(e *pb.Exit) sdk.Exit {
	return sdk.Exit{Code: int(e.Code), Signal: sdk.Signal(e.Signal), Reason: sdk.ExitReason(e.Reason), Message: e.Message,
		StartedAt: timeFromPB(e.StartedAt), EndedAt: timeFromPB(e.EndedAt), PeakMemoryBytes: e.PeakMemoryBytes, OutputCut: e.OutputCut}
}

func openedToPB(o sdk.Opened) *pb.Opened {
	return &pb.Opened{State: toPB(processStates(), o.State), StdinTaken: o.StdinTaken,
		StdinGeneration: o.StdinGeneration}
}

func openedFromPB(o *pb.Opened) sdk.Opened {
	return sdk.Opened{State: fromPB(processStates(), o.State), StdinTaken: o.StdinTaken,
		StdinGeneration: o.StdinGeneration}
}

// The two enumerations of streams have the same numbers; records are too many for a table.

func recordToPB(r sdk.Record) *pb.Record {
	return &pb.Record{Position: int64(r.Position), Stream: pb.OutputStream(r.Stream), TimeUnixNano: nanosOf(r.Time),
		Data: r.Data, GapTo: int64(r.GapTo)}
}

func recordFromPB(r *pb.Record) sdk.Record {
	return sdk.Record{Position: sdk.Position(r.Position), Stream: sdk.Stream(r.Stream), Time: timeOfNanos(r.TimeUnixNano),
		Data: r.Data, GapTo: sdk.Position(r.GapTo)}
}
