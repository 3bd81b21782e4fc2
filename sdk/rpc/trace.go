package rpc

import (
	"context"
	"io"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// A call whose context has a span that is recorded gets one below it, which goes to the plugin too, as W3C's traceparent. Without one nothing
// is traced, and it costs a look at the context.

// traceUnary traces a call.
func traceUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	ctx, span := startSpan(ctx, method)
	err := invoke(ctx, method, req, reply, cc, opts...)
	endSpan(span, err)
	return err
}

// traceStream traces a stream, until its end was read or its context has ended.
func traceStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return open(ctx, desc, cc, method, opts...)
	}
	sctx, span := startSpan(ctx, method)
	s, err := open(sctx, desc, cc, method, opts...)
	if err != nil {
		endSpan(span, err)
		return nil, err
	}
	t := &tracedStream{ClientStream: s, span: span}
	t.stop = context.AfterFunc(s.Context(), func() { t.end(nil) })
	return t, nil
}

// tracedStream ends its span with the stream.
type tracedStream struct {
	grpc.ClientStream
	span trace.Span
	stop func() bool
	once sync.Once
}

func (t *tracedStream) RecvMsg(m any) error {
	err := t.ClientStream.RecvMsg(m)
	if err != nil {
		t.stop()
		t.end(err)
	}
	return err
}

func (t *tracedStream) end(err error) {
	t.once.Do(func() {
		if err == io.EOF { // as gRPC gives it, bare
			err = nil
		}
		endSpan(t.span, err)
	})
}

func startSpan(ctx context.Context, method string) (context.Context, trace.Span) {
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/slipway-run/slipway/sdk/rpc")
	ctx, span := tracer.Start(ctx, method[strings.LastIndexByte(method, '.')+1:], trace.WithSpanKind(trace.SpanKindClient))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for key, value := range carrier {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	return ctx, span
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
