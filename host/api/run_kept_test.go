package api

import (
	"fmt"
	"testing"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/internal/testkit"
)

// TestEndedRunsAreForgotten: however many runs a server has seen, it keeps whole those under way and the last that have ended; the others are told from the store.
func TestEndedRunsAreForgotten(t *testing.T) {
	s := serve(t)
	ctx := testkit.Context(t)
	s.begin(t, &pb.StartRunRequest{Id: "long"}, "sleep 100000")
	run := func(id string) {
		t.Helper()
		s.begin(t, &pb.StartRunRequest{Id: id, Stdin: true}, "true")
		r, err := s.runs.WaitRun(ctx, connect.NewRequest(&pb.WaitRunRequest{Id: id}))
		must(t, err)
		if steps := r.Msg.GetResult().GetSteps(); len(steps) != 1 || steps[0].GetState() != "succeeded" {
			t.Fatalf("run %s: %v", id, r.Msg)
		}
	}
	for i := range endedRuns + 3 {
		run(fmt.Sprint("r", i))
	}
	run("r0") // which has ended long ago, and is asked for again
	keeps := func(want ...string) {
		t.Helper()
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		if len(s.server.runs) != endedRuns+1 || len(s.server.ended) != endedRuns || len(s.server.stdins) != 0 {
			t.Errorf("it keeps %d runs, %d as ended, and %d stdins", len(s.server.runs), len(s.server.ended), len(s.server.stdins))
		}
		for _, id := range want {
			if s.server.runs[id] == nil {
				t.Errorf("run %s is not kept", id)
			}
		}
		if s.server.runs["r1"] != nil {
			t.Error("the oldest is kept")
		}
	}
	testkit.Until(t, "only the long run is under way", func() bool { // the last one was told to have ended a moment before it is
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		return s.server.busy == 1
	})
	keeps("long", "r0", fmt.Sprint("r", endedRuns+2))
	r, err := s.runs.WaitRun(ctx, connect.NewRequest(&pb.WaitRunRequest{Id: "r1"}))
	must(t, err)
	if steps := r.Msg.GetResult().GetSteps(); len(steps) != 1 || steps[0].GetState() != "succeeded" {
		t.Errorf("of one that is not kept it tells %v", r.Msg)
	}
	_, err = s.runs.AbortRun(ctx, connect.NewRequest(&pb.AbortRunRequest{Id: "long", Kill: true}))
	must(t, err)
}
