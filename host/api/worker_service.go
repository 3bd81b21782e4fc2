package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/sdk"
)

// Order is what an operator wants of a worker.
type Order string

// The orders; the host's methods of those names say what each does.
const (
	Cordon   Order = "cordon"
	Uncordon Order = "uncordon"
	Land     Order = "land"
	Retire   Order = "retire"
)

// OrderWorker gives a worker an order.
func (s hostService) OrderWorker(ctx context.Context, c *connect.Request[pb.OrderWorkerRequest]) (*connect.Response[pb.OrderWorkerResponse], error) {
	var err error
	switch worker, reason := c.Msg.GetWorker(), c.Msg.GetReason(); Order(c.Msg.GetOrder()) {
	case Cordon:
		err = s.h.CordonWorker(ctx, worker, reason)
	case Uncordon:
		err = s.h.UncordonWorker(ctx, worker)
	case Land:
		err = s.h.LandWorker(ctx, worker, reason)
	case Retire:
		err = s.h.RetireWorker(ctx, worker, reason)
	default:
		err = invalid("order %q is none of cordon, uncordon, land and retire", c.Msg.GetOrder())
	}
	if err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.OrderWorkerResponse{}), nil
}

// WatchDrain tells what a worker waits for.
func (s hostService) WatchDrain(ctx context.Context, c *connect.Request[pb.WatchDrainRequest], to *connect.ServerStream[pb.Drain]) error {
	ctx, cancel := s.while(ctx)
	defer cancel()
	err := s.h.AwaitDrained(ctx, c.Msg.GetWorker(), func(d host.Drain) {
		if to.Send(pbDrain(&d)) != nil {
			cancel() // nobody is there
		}
	})
	return answer(because(ctx, err))
}

// Explain says where what would run.
func (s hostService) Explain(ctx context.Context, c *connect.Request[pb.ExplainRequest]) (*connect.Response[pb.ExplainResponse], error) {
	out, err := s.explain(ctx, c.Msg)
	if err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(out), nil
}

func (s *Server) explain(ctx context.Context, msg *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if run := msg.GetRun(); run != "" {
		return s.explainRun(ctx, run)
	}
	out := &pb.ExplainResponse{}
	if owner := msg.GetOwner(); owner != "" {
		e, err := s.h.ExplainOwner(ctx, owner)
		if err != nil {
			return nil, err
		}
		out.Explanations = append(out.Explanations, pbExplanation("", e))
		return out, nil
	}
	j, diags := job.Parse([]byte(msg.GetFile().GetSource()), fileName(msg.GetFile().GetName()))
	if diags.HasErrors() {
		return nil, &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonSpec, Message: diagnostics(diags)}
	}
	inputs := make(map[string]*host.Artifact)
	for name, artifact := range msg.GetInputs() {
		a, err := s.artifact(ctx, artifact)
		if err != nil {
			return nil, err
		}
		inputs[name] = a
	}
	all, err := s.h.ExplainJob(ctx, j, inputs)
	if err != nil {
		return nil, err
	}
	for i := range j.Steps {
		out.Explanations = append(out.Explanations, pbExplanation(j.Steps[i].Name, all[j.Steps[i].Name]))
	}
	return out, nil
}

// OrderWorker gives a worker an order.
func (c *Client) OrderWorker(ctx context.Context, worker string, order Order, reason string) error {
	_, err := c.host.OrderWorker(ctx, connect.NewRequest(&pb.OrderWorkerRequest{Worker: worker, Order: string(order), Reason: reason}))
	return c.err(ctx, err)
}

// AwaitDrained waits until a landing or retiring worker is empty, as host.Host does.
func (c *Client) AwaitDrained(ctx context.Context, worker string, progress func(host.Drain)) error {
	from, err := c.host.WatchDrain(ctx, connect.NewRequest(&pb.WatchDrainRequest{Worker: worker}))
	if err != nil {
		return c.err(ctx, err)
	}
	defer from.Close()
	for from.Receive() {
		if progress != nil {
			progress(*fromDrain(from.Msg()))
		}
	}
	return c.err(ctx, from.Err())
}

// ExplainJob says where each step of a job would run, by its name, as host.Host does. The job was read from a file; inputs are names of artifacts.
func (c *Client) ExplainJob(ctx context.Context, j *job.Job, inputs map[string]string) (map[string]*host.Explanation, error) {
	r, err := c.host.Explain(ctx, connect.NewRequest(&pb.ExplainRequest{Inputs: inputs,
		What: &pb.ExplainRequest_File{File: &pb.JobFile{Source: string(j.Source()), Name: j.File}}}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	out := make(map[string]*host.Explanation)
	for _, e := range r.Msg.GetExplanations() {
		out[e.GetStep()] = fromExplanation(e)
	}
	return out, nil
}
