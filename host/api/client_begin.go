package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// begin starts a run, or finds it, with its inputs. Where another client has begun the same run meanwhile, it is the other's inputs that the
// run has, if they are of the same directories.
func (c *Client) begin(ctx context.Context, req RunRequest, msg *pb.StartRunRequest) error {
	for {
		brought, err := c.bring(ctx, req, msg)
		if err != nil {
			c.drop(ctx, brought)
			return err
		}
		r, err := c.runs.StartRun(ctx, connect.NewRequest(msg))
		if err == nil {
			if r.Msg.GetFound() {
				c.drop(ctx, brought)
			}
			return nil
		}
		if ctx.Err() != nil { // it may have begun
			c.abort(context.WithoutCancel(ctx), req.ID, true)
		}
		err = c.err(ctx, err)
		if _, gone := errors.AsType[*GoneError](err); gone { // what was brought goes when its time is over
			return err
		}
		c.drop(ctx, brought)
		if len(brought) == 0 || !errors.Is(err, ReasonOtherInputs) {
			return err
		}
	}
}

// bring uploads the inputs, but for those that the run has. It gives the names of what it has uploaded, after an error, too. They are
// nobody else's: what an earlier client has left is not taken for them.
func (c *Client) bring(ctx context.Context, req RunRequest, msg *pb.StartRunRequest) (brought []string, err error) {
	r, err := c.runs.GetRun(ctx, connect.NewRequest(&pb.GetRunRequest{Id: req.ID}))
	if err != nil && connect.CodeOf(err) != connect.CodeNotFound {
		return nil, c.err(ctx, err)
	}
	var run *pb.RunInfo
	if err == nil {
		run = r.Msg.GetRun()
	}
	for name, a := range req.Artifacts {
		msg.Inputs[name] = a.Name
	}
	own := broughtFor(req.ID) + rand.Text() + "/"
	for _, name := range sortedKeys(req.Inputs) {
		msg.Inputs[name] = ""
		if run.GetState() == stateEnded {
			continue
		}
		if slices.Contains(run.GetInputs(), name) {
			if err := host.SameInput(req.ID, name, run.GetInputSources()[name], req.Inputs[name]); err != nil {
				return brought, err
			}
			continue
		}
		source, err := filepath.Abs(req.Inputs[name])
		if err != nil {
			return brought, fmt.Errorf("input %q: %w", name, err)
		}
		err = c.Upload(ctx, host.Upload{Name: own + name, Source: source}, func(ctx context.Context, w io.Writer) error {
			return stream.PackDir(ctx, req.Inputs[name], w)
		})
		if err != nil {
			return brought, fmt.Errorf("input %q: %w", name, err)
		}
		brought = append(brought, own+name)
		msg.Inputs[name] = own + name
	}
	return brought, nil
}

// dropTime bounds the removal of what was brought in vain. What stays goes when its time is over.
const dropTime = 30 * time.Second

// drop removes artifacts that no run has taken.
func (c *Client) drop(ctx context.Context, names []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	for _, name := range names {
		if err := c.RemoveArtifact(ctx, name); err != nil && !errors.Is(err, sdk.NotFound) {
			return
		}
	}
}
