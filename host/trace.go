package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// traceParentEnv is the variable in which a process finds the span that it is below, as programs of other CI systems do: its step's, or the one of who starts it.
const traceParentEnv = "TRACEPARENT"

// withTraceParent is a process's environment with the span of the context in it, in the form of W3C Trace Context, unless that or its container's has one of its own.
// Where nobody traces, it is the same.
func withTraceParent(ctx context.Context, env, container []string) []string {
	c := trace.SpanContextFromContext(ctx)
	has := func(v string) bool { return strings.HasPrefix(v, traceParentEnv+"=") }
	if !c.IsValid() || slices.ContainsFunc(env, has) || slices.ContainsFunc(container, has) {
		return env
	}
	return append([]string{fmt.Sprintf("%s=00-%s-%s-%s", traceParentEnv, c.TraceID(), c.SpanID(), c.TraceFlags())}, env...)
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
