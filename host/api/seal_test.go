package api

import (
	"errors"
	"testing"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestSealWhileItRuns: a client cannot keep what a process is still writing, and what was kept before stays. Once the process has ended, by a signal of the client's, it can, however often.
func TestSealWhileItRuns(t *testing.T) {
	s := serve(t)
	ctx := testkit.Context(t)
	begin := func(owner, script string) {
		t.Helper()
		_, err := s.containers.EnsureContainer(ctx, connect.NewRequest(&pb.EnsureContainerRequest{Owner: owner, Outputs: []*pb.ContainerOutput{{Name: "out", Path: "out"}},
			Caches: []*pb.ContainerCache{{Scope: "project", Path: "c"}}}))
		must(t, err)
		s.start(t, owner, false, script)
	}
	seal := func(owner string) (map[string]string, error) {
		r, err := s.containers.SealContainer(ctx, connect.NewRequest(&pb.SealContainerRequest{Owner: owner, SaveCaches: true}))
		if err != nil {
			return nil, err
		}
		return r.Msg.GetOutputs(), nil
	}
	begin("first", "echo whole > c/file")
	s.exit(t, "first")
	_, err := seal("first")
	must(t, err)

	begin("second", "echo half > c/file; echo half > out/file; echo ready; sleep 100000")
	o, err := s.Output(ctx, "second", host.MainProcess, 0)
	must(t, err)
	defer o.Close()
	_, err = o.Next(ctx)
	must(t, err)
	_, err = seal("second")
	if got := s.err(ctx, err); connect.CodeOf(err) != connect.CodeFailedPrecondition || !errors.Is(got, host.ReasonUnended) || !errors.Is(got, sdk.FailedPrecondition) {
		t.Errorf("sealed while it runs: %v", got)
	}
	begin("third", "cat c/file")
	s.exit(t, "third")
	if got := s.output(t, "third"); got != "whole\n" {
		t.Errorf("the cache has %q", got)
	}
	_, err = s.processes.SignalProcess(ctx, connect.NewRequest(&pb.SignalProcessRequest{Process: &pb.ProcessName{Owner: "second"}, Signal: "KILL"}))
	must(t, err)
	if e := s.exit(t, "second"); e.GetExit().GetSignal() != "KILL" {
		t.Errorf("it ended as %v", e)
	}
	for range 2 {
		outputs, err := seal("second")
		if err != nil || outputs["out"] != "second/out" {
			t.Errorf("sealed after its end: %v, %v", outputs, s.err(ctx, err))
		}
	}
}
