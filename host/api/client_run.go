package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/sdk"
)

// RunRequest is a host's request, for a daemon to fulfil: inputs are uploaded, outputs downloaded. Of its Artifacts the names count, by which the
// daemon has them. Its Events and Deliver are not used. A job that was not read from a text has one step, of the name CommandStep.
type RunRequest struct {
	host.RunRequest
	// Told is told what happens, from one goroutine; the events have no Process. It must not block for long.
	Told func(RunEvent)
}

// RunEvent is an event of a run on a daemon.
type RunEvent struct {
	host.Event
	// Owner is with EventStarted whose process it is: its output is followed by that.
	Owner string
	// GoesOn says with EventFinished that the step's process goes on, on a worker that is away.
	GoesOn bool
}

// ResumeError says that a run was left by its client, for the daemon went away. It can be resumed.
type ResumeError struct {
	ID  string
	Err error
}

func (e *ResumeError) Error() string { return fmt.Sprintf("%v: resume run %s to go on", e.Err, e.ID) }

// Unwrap gives Err.
func (e *ResumeError) Unwrap() error { return e.Err }

// Run has a daemon run a job, and waits for its end. When ctx ends, the run is aborted, and the wait goes on. A run under that id that is under
// way is watched from its beginning on.
//
// A reader of req.Stdin may be left in a read. Where another client has given the run another stdin, Run fails and the run goes on.
func (c *Client) Run(ctx context.Context, req RunRequest) (*host.RunResult, error) {
	if req.ID == "" {
		req.ID = host.NewRunID()
	}
	if err := c.check(ctx, &req); err != nil {
		return nil, err
	}
	msg := &pb.StartRunRequest{Id: req.ID, Inputs: make(map[string]string), Outputs: make(map[string]string), Stdin: req.Stdin != nil,
		Parallel: int32(min(req.Parallel, math.MaxInt32))}
	for name, target := range req.Outputs {
		var err error
		if msg.Outputs[name], err = filepath.Abs(target); err != nil { // the daemon, and who asks again, may be in another directory
			return nil, err
		}
	}
	if req.Grace > 0 {
		msg.Grace = durationpb.New(req.Grace)
	}
	if source := req.Job.Source(); len(source) > 0 {
		msg.What = &pb.StartRunRequest_File{File: &pb.JobFile{Source: string(source), Name: req.Job.File}}
	} else {
		msg.What = &pb.StartRunRequest_Command{Command: command(req.Job)}
	}
	if err := c.begin(ctx, req, msg); err != nil {
		return nil, err
	}
	return c.attend(ctx, req)
}

// check finds what is wrong with a request before anything is sent. A run that has ended needs nothing; of one that was begun before, outputs may be
// in their places.
func (c *Client) check(ctx context.Context, req *RunRequest) error {
	r, err := c.runs.GetRun(ctx, connect.NewRequest(&pb.GetRunRequest{Id: req.ID}))
	if err != nil { // what is wrong with the daemon shows where it is needed
		return req.Check()
	}
	if r.Msg.GetRun().GetState() == stateEnded {
		return nil
	}
	placed := host.Placed(fromPlacing(r.Msg.GetRun().GetPlacing()), req.Outputs)
	maps.Copy(placed, req.Placed)
	req.Placed = placed
	return req.Check()
}

func command(j *job.Job) *pb.Command {
	s := j.Steps[0]
	c := &pb.Command{Path: s.Run.Path, Args: s.Run.Args, Env: s.Env, Dir: s.Dir, User: s.User, Runtime: s.Runtime, Platform: s.Platform, Tags: s.Tags,
		Outputs: s.Outputs}
	if s.Timeout > 0 {
		c.Timeout = durationpb.New(s.Timeout)
	}
	return c
}

// attend watches a run to its end, and does a client's part in it.
func (c *Client) attend(ctx context.Context, req RunRequest) (*host.RunResult, error) {
	wctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel(nil)
	helpers.Go(func() { c.abortWith(ctx, wctx, req) })
	if req.Stdin != nil {
		go func() { // its reader may never return; all else in it ends with wctx
			if err := c.feed(wctx, req); err != nil {
				cancel(err)
			}
		}()
	}
	from, err := c.runs.WatchRun(wctx, connect.NewRequest(&pb.WatchRunRequest{Id: req.ID}))
	if err != nil {
		return nil, c.left(wctx, req.ID, err)
	}
	defer from.Close()
	missed := make(map[string]error) // outputs that another has
	for from.Receive() {
		e := from.Msg()
		switch e.GetKind() {
		case KindOutput:
			if err := c.fetch(ctx, wctx, req, e.GetOutput()); err != nil {
				missed[e.GetOutput().GetName()] = err
			}
		case KindEnded:
			res, err := fromRun(e.GetRun())
			for _, name := range sortedKeys(missed) {
				if res != nil {
					delete(res.Outputs, name)
				}
				err = errors.Join(err, missed[name])
			}
			return res, err
		default:
			if req.Told != nil {
				req.Told(RunEvent{Event: fromEvent(e), Owner: e.GetOwner(), GoesOn: e.GetResult().GetGoesOn()})
			}
		}
	}
	err = from.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return nil, c.left(wctx, req.ID, err)
}

// left says that a run goes on, or can, without this client.
func (c *Client) left(ctx context.Context, id string, err error) error {
	err = c.err(ctx, err)
	if _, gone := errors.AsType[*GoneError](err); gone || what(err) == WhatClosing {
		return &ResumeError{ID: id, Err: err}
	}
	return err
}

// abortWith passes on that the caller was interrupted.
func (c *Client) abortWith(ctx, until context.Context, req RunRequest) {
	select {
	case <-ctx.Done():
	case <-until.Done():
		return
	}
	c.abort(until, req.ID, false)
	select {
	case <-req.Kill:
		c.abort(until, req.ID, true)
	case <-until.Done():
	}
}

func (c *Client) abort(ctx context.Context, id string, kill bool) {
	_, _ = c.runs.AbortRun(ctx, connect.NewRequest(&pb.AbortRunRequest{Id: id, Kill: kill, Interrupted: true})) // if it fails, the watch of the run does, too
}

// AbortRun ends a run, under way or not, and gives what it came to: see [host.Host.AbortRun]. One that is under way gets its grace, unless kill is set.
func (c *Client) AbortRun(ctx context.Context, id string, kill bool) (*host.RunResult, error) {
	if _, err := c.runs.AbortRun(ctx, connect.NewRequest(&pb.AbortRunRequest{Id: id, Kill: kill, GiveUp: true})); err != nil {
		return nil, c.err(ctx, err)
	}
	r, err := c.runs.WaitRun(ctx, connect.NewRequest(&pb.WaitRunRequest{Id: id}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	res, err := fromRun(r.Msg.GetResult())
	if errors.Is(err, sdk.ReasonAbandoned) { // that is what was asked for
		if res == nil {
			res = &host.RunResult{ID: id, Abandoned: err.Error()}
		}
		err = nil
	}
	return res, err
}

// fetch downloads an output and says so. What goes wrong becomes the run's error; where it cannot, for another client was quicker, it is
// returned.
func (c *Client) fetch(ctx, until context.Context, req RunRequest, o *pb.ReadyOutput) error {
	target, ok := req.Outputs[o.GetName()]
	if !ok {
		return nil // another's
	}
	var err error
	if !req.Placed[o.GetName()] || req.Force {
		err = c.downloadDir(ctx, o.GetArtifact(), target, req.Force, func(dir string) { c.place(until, req.ID, o.GetName(), target, dir) })
	}
	_, refused := c.runs.AcceptOutput(until, connect.NewRequest(&pb.AcceptOutputRequest{Id: req.ID, Name: o.GetName(), Error: pbError(err)}))
	if err == nil || refused == nil || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("output %q went to another client of run %s, and here it could not be written: %w", o.GetName(), req.ID, err)
}

// place notes that an output is about to be in its target. If it cannot, only who comes after a kill just then misses it.
func (c *Client) place(ctx context.Context, run, output, target, dir string) {
	p, ok, err := host.NewPlacing(target, dir)
	if err != nil || !ok {
		return
	}
	_, _ = c.runs.PlaceOutput(ctx, connect.NewRequest(&pb.PlaceOutputRequest{Id: run, Name: output,
		Placing: &pb.Placing{Target: p.Target, Directory: p.Directory}}))
}

// feed sends the stdin of a run. One that cannot be read to its end ends the run: what was sent is not the whole. It fails where another
// client has sent another stdin, which the run goes on with.
func (c *Client) feed(ctx context.Context, req RunRequest) error {
	to := c.processes.WriteStdin(ctx)
	var at int64
	buf := make([]byte, 32<<10)
	for {
		n, err := req.Stdin.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			c.abort(ctx, req.ID, true)
			return nil
		}
		if to.Send(&pb.WriteStdinRequest{Run: req.ID, Position: at, Data: buf[:n], End: err != nil}) != nil || err != nil {
			_, err := to.CloseAndReceive()
			if err = c.err(ctx, err); errors.Is(err, sdk.Invalid) || errors.Is(err, sdk.FailedPrecondition) {
				return fmt.Errorf("run %s goes on without this client: %w", req.ID, err)
			}
			return nil // the process needs no more
		}
		at += int64(n)
	}
}
