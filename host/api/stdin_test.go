package api

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestStalledStdin has stdins on a connection that nobody takes. A run can be ended on it, and what they have sent is all there.
func TestStalledStdin(t *testing.T) {
	s := serve(t)
	s.begin(t, &pb.StartRunRequest{Id: "a"}, "echo begun; while :; do sleep 0.05; done")
	s.until(t, "a", string(host.EventStarted))
	text := strings.Repeat("0123456789abcdef", 16<<10) // 256 KiB
	const stalled = 16
	var senders []*connect.ClientStreamForClient[pb.WriteStdinRequest, pb.WriteStdinResponse]
	for i := range stalled {
		run := fmt.Sprintf("stalled-%d", i)
		s.server.stdin(runStdin(run)) // of a run whose process reads nothing yet
		to := s.processes.WriteStdin(testkit.Context(t))
		half := len(text) / 2
		must(t, to.Send(&pb.WriteStdinRequest{Run: run, Data: []byte(text[:half])})) // more than the server takes
		must(t, to.Send(&pb.WriteStdinRequest{Position: int64(half), Data: []byte(text[half:])}))
		senders = append(senders, to)
	}
	_, err := s.runs.AbortRun(testkit.Context(t), connect.NewRequest(&pb.AbortRunRequest{Id: "a", Kill: true}))
	must(t, err)
	r, err := s.runs.WaitRun(testkit.Context(t), connect.NewRequest(&pb.WaitRunRequest{Id: "a"}))
	must(t, err)
	if got := r.Msg.GetResult().GetSteps(); len(got) != 1 || got[0].GetState() != string(host.StepAborted) {
		t.Errorf("the run ended as %v", r.Msg)
	}
	for i, to := range senders {
		in := s.server.stdin(runStdin(fmt.Sprintf("stalled-%d", i)))
		must(t, to.Send(&pb.WriteStdinRequest{Position: int64(len(text)), End: true}))
		if got, err := io.ReadAll(in); err != nil || string(got) != text {
			t.Errorf("%d bytes arrived: %v", len(got), err)
		}
		if _, err := to.CloseAndReceive(); err != nil {
			t.Error(err)
		}
	}
}

// TestStdinOfTwo has two clients send different things to one process: the one that does not fit is told, and takes nothing from the other.
func TestStdinOfTwo(t *testing.T) {
	s := serve(t)
	in := s.server.stdin(runStdin("a"))
	send := func(at int64, text string, end bool) (int64, error) {
		to := s.processes.WriteStdin(testkit.Context(t))
		_ = to.Send(&pb.WriteStdinRequest{Run: "a", Position: at, Data: []byte(text), End: end}) // the answer says what is wrong
		r, err := to.CloseAndReceive()
		if err != nil {
			return 0, s.err(t.Context(), err)
		}
		return r.Msg.GetTaken(), nil
	}
	for _, tt := range []struct {
		what string
		at   int64
		text string
		end  bool
		want int64 // taken; -1: it is refused
		err  error
	}{
		{"the first", 0, "one two", false, 7, nil},
		{"a shorter one", 0, "one", true, -1, sdk.Invalid},
		{"nothing at all", 0, "", true, -1, sdk.Invalid},
		{"a hole", 9, "x", false, -1, sdk.Invalid},
		{"the first goes on", 7, " three", true, 13, nil},
		{"the same again", 0, "one two three", true, 13, nil},
		{"a part of the same", 0, "one two", false, 13, nil},
		{"a shorter one after the end", 0, "one", true, -1, sdk.Invalid},
		{"a longer one after the end", 0, "one two three four", true, -1, sdk.FailedPrecondition},
		{"more after the end", 13, "x", false, -1, sdk.FailedPrecondition},
	} {
		taken, err := send(tt.at, tt.text, tt.end)
		if tt.err == nil && (err != nil || taken != tt.want) || tt.err != nil && !errors.Is(err, tt.err) {
			t.Errorf("%s: %d are taken, %v", tt.what, taken, err)
		}
	}
	if got, err := io.ReadAll(in); err != nil || string(got) != "one two three" {
		t.Errorf("the process reads %q, %v", got, err)
	}
	in.close()
	if _, err := send(13, "what nobody reads", true); err != nil {
		t.Errorf("what comes after the process's end: %v", err)
	}
}
