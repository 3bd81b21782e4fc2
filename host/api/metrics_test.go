package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
)

// keeping is a runtime whose containers cannot be destroyed.
type keeping struct{ sdk.Runtime }

func (k keeping) Worker(name string) (sdk.Worker, error) {
	w, err := k.Runtime.Worker(name)
	return keepingWorker{w}, err
}

type keepingWorker struct{ sdk.Worker }

func (keepingWorker) DestroyContainer(context.Context, sdk.ContainerID) error {
	return sdk.NewInternal(nil, "it stays")
}

// measures tells whether the metrics have a line.
func (s *served) measures(t *testing.T, line string) bool {
	t.Helper()
	r, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, base+"/metrics", nil)
	must(t, err)
	answer, err := s.http().Do(r)
	must(t, err)
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	must(t, err)
	return regexp.MustCompile("(?m)^" + line + "$").Match(all)
}

// TestMetrics: what waits for a place, what is still to be destroyed and what went to workers can be watched.
func TestMetrics(t *testing.T) {
	dir, rt := place(t), memory.New([]string{"m"}, memory.Options{})
	s := serveLimited(t, dir, keeping{rt}, config.Limits{Containers: 1})
	t.Cleanup(func() {
		s.stop()
		must(t, rt.Close(context.Background()))
	})
	has := func(line string) bool { return s.measures(t, line) }
	h, ctx := s.server.h, testkit.Context(t)
	must(t, h.Ready(ctx))
	a, err := h.Upload(ctx, host.Upload{Name: "in"}, bytes.NewReader(archive(t, "file", "text")))
	must(t, err)
	c, err := h.Container(ctx, "first", host.ContainerRequest{Inputs: []host.Input{{Artifact: a, Path: "in"}}})
	must(t, err)

	wctx, leave := context.WithCancel(ctx)
	left := make(chan error)
	go func() {
		_, err := h.Container(wctx, "second", host.ContainerRequest{Team: "blue"})
		left <- err
	}()
	testkit.Until(t, "the second waits", func() bool { return has(`slipway_waiting\{team="blue"\} 1`) })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the second ends with %v", err)
	}
	if err := c.Destroy(ctx); !errors.Is(err, sdk.Internal) {
		t.Errorf("the first is destroyed: %v", err)
	}
	for _, line := range []string{`slipway_worker_owed\{kind="container",worker="m"\} 1`, `slipway_worker_owed_seconds\{worker="m"\} [0-9].*`,
		`slipway_waiting_longest_seconds 0`, `slipway_streamed_bytes_total\{via="[a-z]+"\} [1-9].*`, `slipway_workers\{health="healthy",plugin="memory",state="running"\} 1`} {
		if !has(line) {
			t.Errorf("the metrics have no %s", line)
		}
	}
}

// losing is a runtime that does not know how the first process ended that was started.
type losing struct {
	sdk.Runtime
	lost *sync.Map // containers by "", one at most
}

func (l losing) Worker(name string) (sdk.Worker, error) {
	w, err := l.Runtime.Worker(name)
	return losingWorker{w, l.lost}, err
}

type losingWorker struct {
	sdk.Worker
	lost *sync.Map
}

func (l losingWorker) FollowProcess(ctx context.Context, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	if first, _ := l.lost.LoadOrStore("", c); first == c {
		return sdk.NewFailedPrecondition(sdk.ReasonAbandoned, sdk.KindProcess, string(p), "its keeper was killed")
	}
	return l.Worker.FollowProcess(ctx, c, p, from, f)
}

// TestStepsCountWhenTheyEnd: a step counts while its run goes on, as does an attempt at it that was lost, and neither counts again with the server that resumes the run.
func TestStepsCountWhenTheyEnd(t *testing.T) {
	dir, rt := place(t), memory.New([]string{"m", "n"}, memory.Options{})
	t.Cleanup(func() { must(t, rt.Close(context.Background())) })
	cfg := &config.Config{Plugins: []config.Plugin{{Name: "memory", Command: "none"}}, Workers: []config.Worker{{Name: "m", Plugin: "memory"}, {Name: "n", Plugin: "memory"}},
		Timing: config.Default().Timing}
	unsure := losing{rt, new(sync.Map)}
	begin := func() *served {
		s := serveConfig(t, dir, unsure, cfg, nil)
		_, err := s.runs.StartRun(testkit.Context(t), connect.NewRequest(&pb.StartRunRequest{Id: "a", What: &pb.StartRunRequest_File{File: &pb.JobFile{Source: `
job "j" {
  step "first" {
    attempts = 2
    outputs  = ["o"]
    run { path = "true" }
  }
  step "second" {
    inputs = { o = step.first.o }
    run {
      path = "sleep"
      args = ["100000"]
    }
  }
}`}}}))
		must(t, err)
		return s
	}
	has := func(s *served, lines ...string) {
		t.Helper()
		for _, line := range lines {
			testkit.Until(t, "the metrics have "+line, func() bool { return s.measures(t, line) })
		}
	}
	started := func(s *served) {
		t.Helper()
		err := s.server.watchRun(testkit.Context(t), "a", 0, func(e *pb.Event) error {
			if e.GetOwner() == host.RunOwner("a", "second") {
				return errFound
			}
			return nil
		})
		if !errors.Is(err, errFound) {
			t.Fatal(err)
		}
	}
	s := begin()
	started(s)
	has(s, `slipway_steps_total\{state="lost"\} 1`, `slipway_steps_total\{state="succeeded"\} 1`, `slipway_step_seconds_count\{phase="run"\} 2`)
	s.stop()

	s = begin()
	defer s.stop()
	started(s)
	_, err := s.processes.SignalProcess(testkit.Context(t), connect.NewRequest(&pb.SignalProcessRequest{Process: &pb.ProcessName{Owner: host.RunOwner("a", "second")}, Signal: "KILL"}))
	must(t, err)
	has(s, `slipway_runs_total\{state="failed"\} 1`, `slipway_steps_total\{state="failed"\} 1`, `slipway_step_seconds_count\{phase="run"\} 1`)
	if s.measures(t, `slipway_steps_total\{state="(lost|succeeded)"\}.*`) {
		t.Error("what had ended before counts again")
	}
}
