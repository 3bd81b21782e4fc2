package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTime bounds the sending of the last traces: a collector may be busy, and a daemon's end is not held up for long.
const flushTime = 15 * time.Second

// newTraces sends traces to the collector that OpenTelemetry's own variables name. They are none, and nil, if there is none.
func newTraces(ctx context.Context) (_ trace.TracerProvider, flush func() error, err error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, func() error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("traces by OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(resource.NewSchemaless(
		attribute.String("service.name", "slipway"), attribute.String("service.version", version))))
	return p, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			return fmt.Errorf("the last traces could not be sent: %w", err)
		}
		return nil
	}, nil
}
