package rpctest_test

import (
	"context"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/internal/testruntime"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestOpenGivesThePluginItsBlocks(t *testing.T) {
	var given sdk.Config
	var life context.Context
	t.Run("open", func(t *testing.T) {
		p := sdk.Plugin{Name: "p", Open: func(ctx context.Context, cfg sdk.Config) (sdk.Runtime, error) {
			given, life = cfg, ctx
			return testruntime.New(cfg.Workers[0].Name), nil
		}}
		rt := rpctest.Open(t, p, sdk.Config{Workers: []sdk.Block{{Name: "w", Values: []byte(`{"a":1}`)}}})
		w, err := rt.Worker("w")
		if err != nil {
			t.Fatal(err)
		}
		if s, err := w.Status(t.Context()); err != nil || s.Health != sdk.Healthy {
			t.Errorf("got %+v, %v", s, err)
		}
		if life.Err() != nil {
			t.Error("the plugin's context ended before the test")
		}
	})
	if string(given.Workers[0].Values) != `{"a":1}` {
		t.Errorf("the plugin got %+v", given)
	}
	if life.Err() == nil {
		t.Error("the plugin's context outlived the test")
	}
}
