package host

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// stepSpan begins a span of one attempt at a step, below that of the run, in the caller's provider. What plugins are asked for the step has spans below it, by
// package rpc. Where nobody traces, it costs a look at the context.
func stepSpan(ctx context.Context, run, step string, attempt int) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, noop.Span{}
	}
	return above.TracerProvider().Tracer("github.com/slipway-run/slipway/host").Start(ctx, "step", trace.WithAttributes(
		attribute.String("slipway.run", run), attribute.String("slipway.step", step), attribute.Int("slipway.attempt", attempt)))
}

// traceParentEnv is the variable in which a step's processes find their step's span, as programs of other CI systems do.
const traceParentEnv = "TRACEPARENT"

// traceParent says in the form of W3C Trace Context which span is the parent of what a step does itself; empty where nobody traces.
func traceParent(span trace.Span) string {
	c := span.SpanContext()
	if !c.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", c.TraceID(), c.SpanID(), c.TraceFlags())
}

// tellSpan notes an event of a step in its span, at the time at which it came. Progress is left out: a span keeps only so many events.
func tellSpan(span trace.Span, e Event) {
	if !span.IsRecording() || e.Kind == EventStreaming || e.Kind == EventCreating {
		return
	}
	var more []attribute.KeyValue
	if e.Worker != "" {
		more = append(more, attribute.String("slipway.worker", e.Worker))
	}
	if e.Message != "" {
		more = append(more, attribute.String("message", e.Message))
	}
	span.AddEvent(string(e.Kind), trace.WithAttributes(more...))
}

// endStepSpan ends an attempt's span with what it came to.
func endStepSpan(span trace.Span, res StepResult) {
	span.SetAttributes(attribute.String("slipway.state", string(res.State)), attribute.String("slipway.worker", res.Worker))
	if res.Exit != nil {
		span.SetAttributes(attribute.Int("slipway.exit_code", int(res.Exit.Code)))
	}
	if res.State != StepSucceeded {
		span.SetStatus(codes.Error, res.Summary())
	}
	span.End()
}
