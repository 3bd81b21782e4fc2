package api

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
)

// served is a server on a socket, with one worker in memory.
type served struct {
	*Client
	server *Server
	dir    string
	stop   func() // once; the test's end calls it, too
}

func serve(t *testing.T) *served {
	t.Helper()
	dir, rt := place(t), memory.New([]string{"m"}, memory.Options{})
	s := serveIn(t, dir, rt)
	t.Cleanup(func() {
		s.stop()
		must(t, rt.Close(context.Background()))
	})
	return s
}

// place makes a directory for a server.
func place(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sa-") // short, for a socket
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

// serveIn serves a runtime's worker m with what an earlier server has left in a directory.
func serveIn(t *testing.T, dir string, rt sdk.Runtime) *served {
	t.Helper()
	return serveLimited(t, dir, rt, config.Limits{})
}

func serveLimited(t *testing.T, dir string, rt sdk.Runtime, limits config.Limits) *served {
	t.Helper()
	return serveLogged(t, dir, rt, limits, nil)
}

func serveLogged(t *testing.T, dir string, rt sdk.Runtime, limits config.Limits, log *slog.Logger) *served {
	t.Helper()
	return serveConfig(t, dir, rt, &config.Config{Plugins: []config.Plugin{{Name: "memory", Command: "none"}},
		Workers: []config.Worker{{Name: "m", Plugin: "memory", Limits: limits}}, Timing: config.Default().Timing}, log)
}

func serveConfig(t *testing.T, dir string, rt sdk.Runtime, cfg *config.Config, log *slog.Logger) *served {
	t.Helper()
	h, err := host.Open(t.Context(), cfg, host.Options{StateDir: filepath.Join(dir, "state"), Runtimes: map[string]sdk.Runtime{"memory": rt}, Log: log})
	must(t, err)
	s := New(h, Options{Version: "test"})
	address := "unix://" + filepath.Join(dir, "s")
	l, err := Listen(t.Context(), address)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ctx, l, s.Handler()) }()
	c, err := NewClient(address)
	must(t, err)
	end := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
		defer cancel()
		must(t, s.Close(ctx))
		stop()
		must(t, <-done)
		c.Close()
	})
	t.Cleanup(end)
	return &served{c, s, dir, end}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start runs a script as a process of an owner.
func (s *served) start(t *testing.T, owner string, stdin bool, script string) {
	t.Helper()
	_, err := s.containers.EnsureContainer(testkit.Context(t), connect.NewRequest(&pb.EnsureContainerRequest{Owner: owner, Outputs: []*pb.ContainerOutput{{Name: "out", Path: "out"}}}))
	must(t, err)
	_, err = s.processes.StartProcess(testkit.Context(t), connect.NewRequest(&pb.StartProcessRequest{Owner: owner, Path: "sh", Args: []string{"-c", script}, Stdin: stdin}))
	must(t, err)
}

func (s *served) exit(t *testing.T, owner string) *pb.WaitProcessResponse {
	t.Helper()
	r, err := s.processes.WaitProcess(testkit.Context(t), connect.NewRequest(&pb.WaitProcessRequest{Process: &pb.ProcessName{Owner: owner}}))
	must(t, err)
	return r.Msg
}

func (s *served) output(t *testing.T, owner string) string {
	t.Helper()
	o, err := s.Output(testkit.Context(t), owner, host.MainProcess, 0)
	must(t, err)
	defer o.Close()
	var b strings.Builder
	for {
		rec, err := o.Next(testkit.Context(t))
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		must(t, err)
		b.Write(rec.Data)
	}
}

// archive is a tree of one file.
func archive(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
	_, err := w.Write([]byte(text))
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

// TestContainer goes the whole way of an owner's container: an artifact goes in, a process runs, its output becomes an artifact.
func TestContainer(t *testing.T) {
	s := serve(t)
	must(t, s.Upload(testkit.Context(t), host.Upload{Name: "tree"}, func(_ context.Context, w io.Writer) error {
		_, err := w.Write(archive(t, "file", "content\n"))
		return err
	}))
	err := s.Upload(testkit.Context(t), host.Upload{Name: "tree"}, func(_ context.Context, w io.Writer) error { return nil })
	if !errors.Is(err, sdk.AlreadyExists) {
		t.Errorf("the same name again: %v", err)
	}
	_, err = s.containers.EnsureContainer(testkit.Context(t), connect.NewRequest(&pb.EnsureContainerRequest{Owner: "me",
		Inputs: []*pb.ContainerInput{{Artifact: "tree", Path: "in"}}, Outputs: []*pb.ContainerOutput{{Name: "out", Path: "out"}}}))
	must(t, err)
	for range 2 { // the second time it is found
		_, err = s.processes.StartProcess(testkit.Context(t), connect.NewRequest(&pb.StartProcessRequest{Owner: "me", Path: "sh",
			Args: []string{"-c", "cat in/file; cp in/file out/copy; exit 3"}}))
		must(t, err)
	}
	if r := s.exit(t, "me"); r.GetExit().GetCode() != 3 || r.GetError() != nil {
		t.Errorf("it ended as %v", r)
	}
	if got := s.output(t, "me"); got != "content\n" {
		t.Errorf("it wrote %q", got)
	}
	sealed, err := s.containers.SealContainer(testkit.Context(t), connect.NewRequest(&pb.SealContainerRequest{Owner: "me"}))
	must(t, err)
	var b bytes.Buffer
	must(t, s.ReadFile(testkit.Context(t), sealed.Msg.GetOutputs()["out"], "copy", &b))
	if b.String() != "content\n" {
		t.Errorf("the output has %q", b.String())
	}
	list, err := s.containers.ListContainers(testkit.Context(t), connect.NewRequest(&pb.ListContainersRequest{OwnerPrefix: "me", All: true}))
	must(t, err)
	if c := list.Msg.GetContainers(); len(c) != 1 || c[0].GetState() != "destroyed" || len(c[0].GetProcesses()) != 1 || c[0].GetProcesses()[0].GetExit().GetCode() != 3 {
		t.Errorf("remembered is %v", c)
	}
	_, err = s.containers.EnsureContainer(testkit.Context(t), connect.NewRequest(&pb.EnsureContainerRequest{Owner: "run/a/b"}))
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a container of a run: %v", err)
	}
	_, err = s.processes.WaitProcess(testkit.Context(t), connect.NewRequest(&pb.WaitProcessRequest{Process: &pb.ProcessName{Owner: "nobody"}}))
	if connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("an unknown process: %v", err)
	}
}

// TestProtocols asks the same by each protocol.
func TestProtocols(t *testing.T) {
	s := serve(t)
	s.start(t, "me", false, "echo hello")
	hc := s.http()
	for name, opts := range map[string][]connect.ClientOption{"connect": nil, "json": {connect.WithProtoJSON()}, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()}} {
		c := pb.NewProcessServiceClient(hc, base, opts...)
		stream, err := c.FollowOutput(testkit.Context(t), connect.NewRequest(&pb.FollowOutputRequest{Process: &pb.ProcessName{Owner: "me"}}))
		must(t, err)
		var got []byte
		for stream.Receive() {
			got = append(got, stream.Msg().GetData()...)
		}
		if err := errors.Join(stream.Err(), stream.Close()); err != nil || string(got) != "hello\n" {
			t.Errorf("%s: %q %v", name, got, err)
		}
		_, err = c.SignalProcess(testkit.Context(t), connect.NewRequest(&pb.SignalProcessRequest{Process: &pb.ProcessName{Owner: "none"}, Signal: "TERM"}))
		if got := answered(t.Context(), "", err); !errors.Is(got, sdk.NotFound) {
			t.Errorf("%s: an unknown process is %v", name, got)
		}
	}
}

// A field in JSON that there is not is refused by name; nothing is done.
func TestMisspelt(t *testing.T) {
	s := serve(t)
	for _, kind := range []string{"application/json", "application/json; charset=utf-8"} {
		r, err := s.http().Post(base+"/slipway.host.v1alpha1.ContainerService/EnsureContainer", kind, strings.NewReader(`{"owner": "me", "tll": "1s"}`))
		must(t, err)
		text, err := io.ReadAll(r.Body)
		must(t, errors.Join(err, r.Body.Close()))
		if r.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), `unknown field \"tll\"`) || !strings.Contains(string(text), "EnsureContainerRequest") {
			t.Errorf("%s: %s: %s", kind, r.Status, text)
		}
	}
	if all, err := s.server.h.Containers(testkit.Context(t), ""); err != nil || len(all) > 0 {
		t.Errorf("there is %v, %v", all, err)
	}
}

// TestFollowers has one client follow that reads nothing: it holds up neither the process nor another.
func TestFollowers(t *testing.T) {
	s := serve(t)
	const lines = 200_000
	s.start(t, "me", false, "yes | head -n 200000")
	slow, err := s.Output(testkit.Context(t), "me", host.MainProcess, 0)
	must(t, err)
	first, err := slow.Next(testkit.Context(t))
	must(t, err)
	if r := s.exit(t, "me"); r.GetExit().GetCode() != 0 {
		t.Fatalf("it ended as %v", r)
	}
	want := s.output(t, "me")
	if n := strings.Count(want, "y\n"); n != lines {
		t.Errorf("the quick one read %d lines", n)
	}
	got := bytes.NewBuffer(first.Data)
	for {
		rec, err := slow.Next(testkit.Context(t))
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		got.Write(rec.Data)
	}
	must(t, slow.Close())
	if got.String() != want {
		t.Errorf("the slow one read %d bytes, the quick one %d", got.Len(), len(want))
	}
}

// TestStdin breaks off one client's stdin; another sends all again, and nothing is doubled.
func TestStdin(t *testing.T) {
	s := serve(t)
	s.start(t, "me", true, "cat")
	name := &pb.ProcessName{Owner: "me"}
	ctx, vanish := context.WithCancel(testkit.Context(t))
	to := s.processes.WriteStdin(ctx)
	must(t, to.Send(&pb.WriteStdinRequest{Process: name, Data: []byte("one ")}))
	follow, err := s.Output(testkit.Context(t), "me", host.MainProcess, 0)
	must(t, err)
	rec, err := follow.Next(testkit.Context(t)) // so it has arrived
	must(t, err)
	must(t, follow.Close())
	vanish()
	_, _ = to.CloseAndReceive()

	to = s.processes.WriteStdin(testkit.Context(t))
	must(t, to.Send(&pb.WriteStdinRequest{Process: name, Data: []byte("one two ")}))
	must(t, to.Send(&pb.WriteStdinRequest{Position: 8, Data: []byte("three"), End: true}))
	r, err := to.CloseAndReceive()
	must(t, err)
	if r.Msg.GetTaken() != 13 {
		t.Errorf("%d bytes are taken", r.Msg.GetTaken())
	}
	if s.exit(t, "me"); string(rec.Data) != "one " || s.output(t, "me") != "one two three" {
		t.Errorf("it read %q, then %q", rec.Data, s.output(t, "me"))
	}
	to = s.processes.WriteStdin(testkit.Context(t))
	_ = to.Send(&pb.WriteStdinRequest{Process: &pb.ProcessName{Owner: "nobody"}, Data: []byte("x")}) // the answer says what is wrong
	if _, err := to.CloseAndReceive(); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("stdin of nobody: %v", err)
	}
}

// TestStdinRepeat asks again for a process in a way that fails. The stdin of the one that runs stays.
func TestStdinRepeat(t *testing.T) {
	s := serve(t)
	s.start(t, "me", true, "cat")
	_, err := s.processes.StartProcess(testkit.Context(t), connect.NewRequest(&pb.StartProcessRequest{Owner: "me", Path: "sh", Stdin: true, Env: []string{"no name"}}))
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("asking again, wrongly: %v", err)
	}
	to := s.processes.WriteStdin(testkit.Context(t))
	must(t, to.Send(&pb.WriteStdinRequest{Process: &pb.ProcessName{Owner: "me"}, Data: []byte("all"), End: true}))
	_, err = to.CloseAndReceive()
	must(t, err)
	if r := s.exit(t, "me"); r.GetExit() == nil || r.GetExit().GetCode() != 0 || s.output(t, "me") != "all" {
		t.Errorf("it ended as %v and wrote %q", r, s.output(t, "me"))
	}
	must(t, s.server.Drain(testkit.Context(t))) // which waits for what goes with the process
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	for key := range s.server.stdins {
		t.Errorf("a stdin of %s is left", key)
	}
}

// TestUploadBroken breaks uploads off in several ways. None leaves anything.
func TestUploadBroken(t *testing.T) {
	s := serve(t)
	tree := archive(t, "file", strings.Repeat("content", 1000))
	broken := errors.New("broken")
	err := s.Upload(testkit.Context(t), host.Upload{Name: "a"}, func(_ context.Context, w io.Writer) error {
		_, err := w.Write(tree[:len(tree)/2])
		return errors.Join(err, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("a reader that breaks: %v", err)
	}
	to := s.artifacts.UploadArtifact(testkit.Context(t))
	must(t, to.Send(&pb.UploadArtifactRequest{Name: "b", Data: tree}))
	_, err = to.CloseAndReceive() // without a sum
	if err == nil {
		t.Error("an upload without a sum is taken")
	}
	to = s.artifacts.UploadArtifact(testkit.Context(t))
	must(t, to.Send(&pb.UploadArtifactRequest{Name: "c", Data: tree}))
	must(t, to.Send(&pb.UploadArtifactRequest{Sum: &pb.Sum{Bytes: int64(len(tree)), Crc32C: 1}}))
	if _, err = to.CloseAndReceive(); err == nil {
		t.Error("an upload with a wrong sum is taken")
	}
	to = s.artifacts.UploadArtifact(testkit.Context(t))
	if _, err := to.CloseAndReceive(); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("an upload of nothing: %v", err)
	}
	must(t, s.server.Drain(testkit.Context(t))) // which waits for uploads that their clients have left
	list, err := s.Artifacts(testkit.Context(t), "")
	must(t, err)
	if len(list) != 0 {
		t.Errorf("artifacts are left: %v", list)
	}
	blobs, err := os.ReadDir(filepath.Join(s.dir, "state", "blobs"))
	if len(blobs) != 0 || err != nil {
		t.Errorf("blobs are left: %v %v", blobs, err)
	}
	if err := s.Upload(testkit.Context(t), host.Upload{Name: "d"}, func(context.Context, io.Writer) error { return nil }); what(err) != WhatClosing {
		t.Errorf("a server that drains: %v", err)
	}
}

// TestAway asks a daemon that is not there.
func TestAway(t *testing.T) {
	c, err := NewClient("unix://" + filepath.Join(t.TempDir(), "none"))
	must(t, err)
	defer c.Close()
	_, err = c.Info(testkit.Context(t))
	if _, ok := errors.AsType[*GoneError](err); !ok {
		t.Errorf("it is %v", err)
	}
	for _, address := range []string{"", "tcp://localhost:1", "unix://relative"} {
		if _, err := NewClient(address); err == nil {
			t.Errorf("address %q is taken", address)
		}
	}
}

// TestContainerCaches: what a container leaves in a cache is there for the next one of the same scope and team, once its work is said to have succeeded.
func TestContainerCaches(t *testing.T) {
	s := serve(t)
	run := func(owner, team, scope, script string, save bool) string {
		t.Helper()
		ctx := testkit.Context(t)
		_, err := s.containers.EnsureContainer(ctx, connect.NewRequest(&pb.EnsureContainerRequest{Owner: owner, Team: team, Caches: []*pb.ContainerCache{{Scope: scope, Path: "c"}}}))
		must(t, err)
		_, err = s.processes.StartProcess(ctx, connect.NewRequest(&pb.StartProcessRequest{Owner: owner, Path: "sh", Args: []string{"-c", script}}))
		must(t, err)
		s.exit(t, owner)
		out := s.output(t, owner)
		for range 2 { // idempotent
			_, err = s.containers.SealContainer(ctx, connect.NewRequest(&pb.SealContainerRequest{Owner: owner, SaveCaches: save}))
			must(t, err)
		}
		return out
	}
	const add = "cat c/seen; echo x >>c/seen"
	for i, want := range []string{"", "x\n", "x\n"} { // the second one is not saved
		if got := run(fmt.Sprintf("owner-%d", i), "", "project", "touch c/seen; "+add, i == 0); got != want {
			t.Errorf("container %d found %q, want %q", i, got, want)
		}
	}
	if got := run("elsewhere", "", "other", "ls c", true); got != "" {
		t.Errorf("another scope found %q", got)
	}
	_, err := s.containers.EnsureContainer(testkit.Context(t), connect.NewRequest(&pb.EnsureContainerRequest{Owner: "none", Caches: []*pb.ContainerCache{{Path: "c"}}}))
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a cache without a scope: %v", err)
	}
}

// TestContainerIsPlaced: a container is placed as its request asks: beside another, with what is shared, and for no longer than it waits.
func TestContainerIsPlaced(t *testing.T) {
	dir, rt := place(t), memory.New([]string{"m"}, memory.Options{})
	s := serveLimited(t, dir, rt, config.Limits{Tasks: 1})
	t.Cleanup(func() {
		s.stop()
		must(t, rt.Close(context.Background()))
	})
	must(t, s.Upload(testkit.Context(t), host.Upload{Name: "tree"}, func(_ context.Context, w io.Writer) error {
		_, err := w.Write(archive(t, "file", "content"))
		return err
	}))
	ensure := func(req *pb.EnsureContainerRequest) error {
		_, err := s.containers.EnsureContainer(testkit.Context(t), connect.NewRequest(req))
		return err
	}
	must(t, ensure(&pb.EnsureContainerRequest{Owner: "task", Shared: []*pb.ContainerInput{{Artifact: "tree", Path: "in"}}}))
	_, err := s.processes.StartProcess(testkit.Context(t), connect.NewRequest(&pb.StartProcessRequest{Owner: "task", Path: "sh", Args: []string{"-c", "cat in/file; echo more > in/file"}}))
	must(t, err)
	if r := s.exit(t, "task"); r.GetExit().GetCode() == 0 || !strings.HasPrefix(s.output(t, "task"), "content") {
		t.Errorf("what is shared is not read-only: %v, %q", r, s.output(t, "task"))
	}
	must(t, ensure(&pb.EnsureContainerRequest{Owner: "check", Check: true, With: "task"})) // is no task
	for name, c := range map[string]struct {
		req  *pb.EnsureContainerRequest
		code connect.Code
	}{
		"does not wait":      {&pb.EnsureContainerRequest{WaitLimit: durationpb.New(-1)}, connect.CodeResourceExhausted},
		"waits for a moment": {&pb.EnsureContainerRequest{WaitLimit: durationpb.New(1)}, connect.CodeResourceExhausted},
		"fits nowhere":       {&pb.EnsureContainerRequest{Platform: "plan9"}, connect.CodeFailedPrecondition},
		"beside nobody":      {&pb.EnsureContainerRequest{With: "nobody"}, connect.CodeNotFound},
	} {
		c.req.Owner = strings.ReplaceAll(name, " ", "-")
		if err := ensure(c.req); connect.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
	}
}
