package rpc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// TestManyEmptyArguments: a start with more arguments than there may be is Invalid as too-large, however little each takes on the wire, on whichever side that is found.
func TestManyEmptyArguments(t *testing.T) {
	for what, c := range map[string]struct {
		unchecked bool
		args      int
	}{
		"found by the host":          {false, 300_000},
		"found by the plugin":        {true, 300_000},
		"many more, by the plugin":   {true, 2_000_000},
		"more than a message, asked": {true, 3_000_000},
	} {
		t.Run(what, func(t *testing.T) {
			lis := listen(t)
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- rpc.ServeOn(ctx, lis, sdk.PluginInfo{}, idle{}, rpc.ServeOptions{}) }()
			client, err := rpc.Dial(ctx, lis.Addr(), rpc.DialOptions{Unchecked: c.unchecked})
			if err != nil {
				t.Fatal(err)
			}
			w, err := client.Runtime().Worker("w")
			if err != nil {
				t.Fatal(err)
			}
			err = w.StartProcess(ctx, "c", sdk.ProcessSpec{ID: "p", Token: "t", Path: "true", Args: make([]string, c.args)})
			if !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonTooLarge) {
				t.Errorf("%d empty arguments: %v", c.args, err)
			}
			err = client.Close()
			cancel()
			if err := errors.Join(err, <-served); err != nil {
				t.Error(err)
			}
		})
	}
}

// idle has workers that none of the test's calls reaches.
type idle struct{ sdk.Runtime }

func (idle) Worker(string) (sdk.Worker, error) { return idleWorker{}, nil }

type idleWorker struct{ sdk.Worker }

func (idleWorker) Close() error { return nil }
