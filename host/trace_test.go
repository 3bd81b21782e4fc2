package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestStepSpans: each attempt at a step is a span below its run's, with what happened to it, and what the plugin was asked for it is below that.
func TestStepSpans(t *testing.T) {
	t.Parallel()
	cfg := testConfig("m")
	cfg.Plugins[0].Command = memoryPlugin(t)
	h := openConfig(t, cfg, Options{})
	spans := tracetest.NewSpanRecorder()
	ctx, run := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test").Start(testkit.Context(t), "run")
	res, err := h.Run(ctx, RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "good" {
    run { path = "true" }
  }
  step "bad" {
    run {
      path = "sh"
      args = ["-c", "exit 3"]
    }
  }
}`)})
	if err != nil || res.Succeeded() {
		t.Fatalf("%v, %v", res, err)
	}
	run.End()

	above := make(map[trace.SpanID]sdktrace.ReadOnlySpan)
	for _, s := range spans.Ended() {
		above[s.SpanContext().SpanID()] = s
	}
	asked := make(map[string][]string) // of plugins, by step
	for _, s := range spans.Ended() {
		if over := above[s.Parent().SpanID()]; s.SpanKind() == trace.SpanKindClient && over != nil && over.Name() == "step" {
			asked[attributesOf(over)["slipway.step"]] = append(asked[attributesOf(over)["slipway.step"]], s.Name())
		}
	}
	for step, code := range map[string]string{"good": "0", "bad": "3"} {
		i := slices.IndexFunc(spans.Ended(), func(s sdktrace.ReadOnlySpan) bool {
			return s.Name() == "step" && attributesOf(s)["slipway.step"] == step
		})
		if i < 0 {
			t.Errorf("there is no span of step %s", step)
			continue
		}
		s := spans.Ended()[i]
		a := attributesOf(s)
		if s.Parent().SpanID() != run.SpanContext().SpanID() || a["slipway.run"] != "r" || a["slipway.worker"] != "m" || a["slipway.attempt"] != "1" || a["slipway.exit_code"] != code {
			t.Errorf("the span of step %s has %v, below %v", step, a, s.Parent().SpanID())
		}
		var events []string
		for _, e := range s.Events() {
			events = append(events, e.Name)
		}
		for _, want := range []EventKind{EventPlaced, EventStarted, EventExited} {
			if !slices.Contains(events, string(want)) {
				t.Errorf("the span of step %s has the events %v, without %s", step, events, want)
			}
		}
		for _, want := range []string{"Worker/CreateContainer", "Worker/StartProcess"} {
			if !slices.Contains(asked[step], want) {
				t.Errorf("below the span of step %s are %v, without %s", step, asked[step], want)
			}
		}
	}
}

// TestTraceParent: a step's processes are told in TRACEPARENT which span is theirs, unless the job says something of its own; where nobody traces they are told nothing.
func TestTraceParent(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	const file = `
job "j" {
  step "told" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "printf %s \"$TRACEPARENT\" > o/f"]
    }
  }
  step "own" {
    outputs = ["o"]
    env     = { TRACEPARENT = "mine" }
    run {
      path = "sh"
      args = ["-c", "printf %s \"$TRACEPARENT\" > o/f"]
    }
  }
  output "told" { from = step.told.o }
  output "own" { from = step.own.o }
}`
	told := func(ctx context.Context) (told, own string) {
		t.Helper()
		dir := t.TempDir()
		res, err := h.Run(ctx, RunRequest{Job: parseJob(t, file), Outputs: map[string]string{"told": filepath.Join(dir, "told"), "own": filepath.Join(dir, "own")}})
		if err != nil || !res.Succeeded() {
			t.Fatalf("%+v, %v", res, err)
		}
		read := func(output string) string {
			b, err := os.ReadFile(filepath.Join(dir, output, "f"))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		return read("told"), read("own")
	}
	if got, own := told(testkit.Context(t)); got != "" || own != "mine" {
		t.Errorf("nobody traces: told %q, own %q", got, own)
	}
	spans := tracetest.NewSpanRecorder()
	ctx, run := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test").Start(testkit.Context(t), "run")
	got, own := told(ctx)
	run.End()
	i := slices.IndexFunc(spans.Ended(), func(s sdktrace.ReadOnlySpan) bool {
		return s.Name() == "step" && attributesOf(s)["slipway.step"] == "told"
	})
	if i < 0 {
		t.Fatal("there is no span of the step")
	}
	c := spans.Ended()[i].SpanContext()
	if want := "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-01"; got != want || own != "mine" {
		t.Errorf("told %q, own %q, want %q", got, own, want)
	}
}

func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	out := make(map[string]string)
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// TestTraceParentOfStarted: a process that is started by itself, as over the API, is told the span of who starts it, though that is traced elsewhere; unless its environment or its container's
// says something of its own.
func TestTraceParentOfStarted(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	const mine = traceParentEnv + "=mine"
	above := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})
	traced := trace.ContextWithSpanContext(testkit.Context(t), above)
	for name, c := range map[string]struct {
		ctx                context.Context
		container, process []string
		want               string
	}{
		"nobody traces":     {testkit.Context(t), nil, nil, ""},
		"traced":            {traced, nil, nil, "00-01000000000000000000000000000000-0200000000000000-01"},
		"the process's own": {traced, nil, []string{mine}, "mine"},
		"the container's":   {traced, []string{mine}, nil, "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			container, err := h.Container(c.ctx, strings.NewReplacer(" ", "-", "'", "-").Replace(name), ContainerRequest{Env: c.container})
			if err != nil {
				t.Fatal(err)
			}
			p, err := container.Start(c.ctx, MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", `printf %s "$TRACEPARENT"`}, Env: c.process})
			if err != nil {
				t.Fatal(err)
			}
			waitOutcome(t, p)
			if got := output(t, p); got != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
}
