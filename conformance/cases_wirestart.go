package conformance

import (
	"context"
	"maps"
	"strings"

	"github.com/slipway-run/slipway/conformance/internal/wire"
	"github.com/slipway-run/slipway/sdk"
)

func runUnknownValue(ctx context.Context, c *C) {
	w, start := c.wiredStart(ctx)
	start["when_full"] = 77
	w.refusesStart(ctx, start, "spec", "a when_full that there is not")
	w.wantNoProcess(ctx, start.Text("container"))
}

func runStartRefused(ctx context.Context, c *C) {
	w, start := c.wiredStart(ctx)
	for what, wrong := range map[string]wire.Message{
		"a variable without a =":        {"env": []any{[]byte("A=1"), []byte("NAME")}},
		"a variable without a name":     {"env": []any{[]byte("=value")}},
		"a variable with NUL":           {"env": []any{[]byte("NAME=\x00")}},
		"an argument with NUL":          {"args": []any{[]byte("a\x00b")}},
		"no path":                       {"path": []byte("")},
		"a negative spill":              {"spill": -1},
		"a relative directory":          {"dir": []byte("a/b")},
		"a directory that is not clean": {"dir": []byte("/a/../b")},
		"an id in capitals":             {"id": "MAIN"},
		"a token with a space":          {"token": "one two"},
		"a token that is too long":      {"token": strings.Repeat("t", 129)},
	} {
		reason := "spec"
		if wrong.Has("dir") {
			reason = "path"
		}
		request := maps.Clone(start)
		maps.Copy(request, wrong)
		w.refusesStart(ctx, request, reason, what)
	}
	w.wantNoProcess(ctx, start.Text("container"))
	w.call(ctx, "Worker/StartProcess", start) // nothing but that was wrong
}

// wiredStart gives a start that works, in a container of its own.
func (c *C) wiredStart(ctx context.Context) (*wired, wire.Message) {
	c.runs()
	w := c.wired(ctx)
	cmd := c.Commands.Exit(0)
	var args []any
	for _, a := range cmd.Args {
		args = append(args, []byte(a))
	}
	return w, wire.Message{"worker": w.worker, "container": w.container(ctx), "id": string(c.ProcessID()), "token": string(sdk.NewToken()),
		"path": []byte(cmd.Path), "args": args}
}

func (w *wired) refusesStart(ctx context.Context, start wire.Message, reason, what string) {
	_, err := w.control.Call(ctx, "Worker/StartProcess", start)
	w.wants(err, "CLASS_INVALID", reason, "what is asked for is done or refused", "Worker/StartProcess with %s", what)
}

func (w *wired) wantNoProcess(ctx context.Context, container string) {
	answers, err := w.ask(ctx, "Worker/ListProcesses", wire.Message{"worker": w.worker, "container": container}).Rest()
	if err != nil {
		w.c.Fatalf(whyRefused, "Worker/ListProcesses: got %s, want success", tell(err))
	}
	for _, a := range answers {
		if list, _ := a["processes"].([]any); len(list) > 0 {
			w.c.Errorf("a start that was Invalid leaves no record", "%d processes are listed, want none", len(list))
		}
	}
}
