package memory

import (
	"context"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Version of this plugin.
const Version = "0.1.0-alpha.1"

// closeGrace is how long the processes of a plugin that ends may take to end.
const closeGrace = 10 * time.Second

// Plugin is the memory plugin, to be handed to rpc.Serve.
func Plugin() sdk.Plugin {
	return sdk.Plugin{
		Name:    "memory",
		Version: Version,
		Config:  pluginConfig{},
		Worker:  workerConfig{},
		Open:    open,
	}
}

// open makes a runtime that ends with ctx.
func open(ctx context.Context, cfg sdk.Config) (sdk.Runtime, error) {
	s, err := readConfig(cfg)
	if err != nil {
		return nil, err
	}
	if s.world != "" {
		p := newProxy(s.world, s.workers, s.options.Workers)
		context.AfterFunc(ctx, p.close)
		return p, nil
	}
	s.options.Volatile = true
	r := New(s.workers, s.options)
	context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		if err := r.Close(ending); err != nil && cfg.Log != nil {
			cfg.Log.Error("processes are left behind", "error", err)
		}
	})
	return r, nil
}
