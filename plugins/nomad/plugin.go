package nomad

import (
	"context"

	"github.com/slipway-run/slipway/sdk"
)

// Version of this plugin.
const Version = "0.1.0-alpha.1"

// Plugin is the plugin, to be handed to rpc.Serve.
func Plugin() sdk.Plugin {
	return sdk.Plugin{
		Name:    "nomad",
		Version: Version,
		Worker:  Config{},
		Open: func(ctx context.Context, cfg sdk.Config) (sdk.Runtime, error) {
			pools := make(map[string]Config, len(cfg.Workers))
			for _, block := range cfg.Workers {
				var c Config
				if err := block.Decode(&c); err != nil {
					return nil, err
				}
				pools[block.Name] = c
			}
			r, err := New(pools, Options{Log: cfg.Log, Plugin: cfg.Plugin.Name})
			if err != nil {
				return nil, err
			}
			context.AfterFunc(ctx, func() {
				if err := r.Close(); err != nil {
					cfg.Log.Error("not all is closed", "error", err)
				}
			})
			return r, nil
		},
	}
}
