// Command testplugin is the smallest whole plugin.
package main

import (
	"context"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
	"github.com/slipway-run/slipway/sdk/rpc/internal/testruntime"
)

func main() {
	rpc.Serve(sdk.Plugin{Name: "test", Version: "1.2.3", Open: func(_ context.Context, cfg sdk.Config) (sdk.Runtime, error) {
		cfg.Log.Info("opened", "workers", len(cfg.Workers), "msg", 1)
		return testruntime.New("w"), nil
	}})
}
