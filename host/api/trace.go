package api

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// tracing makes a span of each call, below the caller's if it sends one (W3C traceparent), and of each run below the call that began it. What
// plugins are asked on the way has spans of its own, by package rpc.
type tracing struct {
	tracer trace.Tracer
	from   propagation.TraceContext
}

func newTracing(p trace.TracerProvider) tracing {
	if p == nil {
		p = noop.NewTracerProvider()
	}
	return tracing{tracer: p.Tracer("github.com/slipway-run/slipway/host/api")}
}

func (t tracing) call(ctx context.Context, header http.Header, procedure string) (context.Context, trace.Span) {
	ctx = t.from.Extract(ctx, propagation.HeaderCarrier(header))
	return t.tracer.Start(ctx, short(procedure), trace.WithSpanKind(trace.SpanKindServer))
}

// begin begins the span of a run, in a context that goes on after the call's. Ended ends it.
func (t tracing) begin(ctx context.Context, run string) context.Context {
	ctx, _ = t.tracer.Start(context.WithoutCancel(ctx), "run", trace.WithAttributes(attribute.String("slipway.run", run)))
	return ctx
}

// ended ends the span of a context, as failed if there is an error.
func ended(ctx context.Context, err error) {
	span := trace.SpanFromContext(ctx)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// WrapUnary traces a call.
func (t tracing) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, _ = t.call(ctx, req.Header(), req.Spec().Procedure)
		out, err := next(ctx, req)
		ended(ctx, err)
		return out, err
	}
}

// WrapStreamingClient is for clients, of which a server has none.
func (t tracing) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler traces a stream.
func (t tracing) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, _ = t.call(ctx, conn.RequestHeader(), conn.Spec().Procedure)
		err := next(ctx, conn)
		ended(ctx, err)
		return err
	}
}
