package memory

import (
	"context"
	"slices"
	"testing"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

func config(plugin string, workers map[string]string) sdk.Config {
	cfg := sdk.Config{Plugin: sdk.Block{Name: "memory", Values: []byte(plugin)}}
	for name, values := range workers {
		cfg.Workers = append(cfg.Workers, sdk.Block{Name: name, Values: []byte(values)})
	}
	return cfg
}

func TestPluginOverTheWire(t *testing.T) {
	rt := rpctest.Open(t, Plugin(), config(`{"memory": "1MiB"}`, map[string]string{"a": "", "b": `{"memory": "2MiB"}`}))
	var names []string
	ctx, cancel := context.WithCancel(t.Context())
	_ = rt.Workers(ctx, func(e sdk.WorkerEvent) error {
		for _, w := range e.Workers {
			names = append(names, w.Name)
		}
		cancel()
		return nil
	})
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("workers %v", names)
	}
	for name, limit := range map[string]int64{"a": 1 << 20, "b": 2 << 20} {
		w := openWorker(t, rt, name)
		if s := statusOf(t, w); s.Capacity.DiskBytes != limit || !s.Has(sdk.FeatureVolatile) {
			t.Errorf("%s: %+v", name, s)
		}
		must(t, w.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "c", Token: "t"}, nil))
		if got := run(t, w, "c", "echo hi; exit 3"); got.stdout != "hi\n" || got.exit.Code != 3 {
			t.Errorf("%s: %+v", name, got)
		}
		must(t, w.DestroyContainer(t.Context(), "c"))
	}
}

func TestPluginSettings(t *testing.T) {
	p := Plugin()
	for _, v := range []any{p.Config, p.Worker} {
		if _, err := sdk.SchemaOf(v); err != nil {
			t.Error(err)
		}
	}
	workers := map[string]string{"w": ""}
	for name, cfg := range map[string]sdk.Config{
		"unknown":                     config(`{"no-such": 1}`, workers),
		"unknown of a worker":         config(``, map[string]string{"w": `{"zon": "z"}`}),
		"no memory":                   config(`{"memory": 0}`, workers),
		"not a size":                  config(`{"memory": "much"}`, workers),
		"no program memory":           config(`{"program-memory": 0}`, workers),
		"programs":                    config(`{"programs": "perhaps"}`, workers),
		"world and a worker's shell":  config(`{"world": "unix:/s"}`, map[string]string{"w": `{"shell": false}`}),
		"fault of nothing":            config(``, map[string]string{"w": `{"fault": [{"operation": "CreateVolum", "kind": "fail"}]}`}),
		"fault of no kind":            config(``, map[string]string{"w": `{"fault": [{"operation": "CreateVolume", "kind": "explode"}]}`}),
		"fault with an unknown word":  config(``, map[string]string{"w": `{"fault": [{"operation": "CreateVolume", "kind": "fail", "before": 1}]}`}),
		"world and a worker's zone":   config(`{"world": "unix:/s"}`, map[string]string{"w": `{"zone": "z"}`}),
		"relative world":              config(`{"world": "unix:s"}`, workers),
		"world without unix":          config(`{"world": "/s"}`, workers),
		"world and memory":            config(`{"world": "unix:/s", "memory": "1MiB"}`, workers),
		"world and shell":             config(`{"world": "unix:/s", "shell": false}`, workers),
		"world and a worker's memory": config(`{"world": "unix:/s"}`, map[string]string{"w": `{"memory": "1MiB"}`}),
	} {
		_, err := p.Open(t.Context(), cfg)
		if e := sdk.ClassOf(err); e != sdk.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	both, err := readConfig(config(`{"programs": "interpreted"}`, map[string]string{"a": `{"shell": false}`, "b": `{"shell": true}`}))
	if err != nil || !both.options.Interpret || !both.options.Workers["a"].NoShell || both.options.Workers["b"].NoShell || both.options.NoShell {
		t.Errorf("read %+v, %v", both, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// The defaults that a host fills in are no settings.
	if _, err := p.Open(ctx, config(`{"world": "unix:/s", "memory": "1GiB", "program-memory": "2GiB", "programs": "compiled", "shell": true}`, map[string]string{"w": `{"shell": true}`})); err != nil {
		t.Error(err)
	}
}
