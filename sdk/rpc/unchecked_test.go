package rpc_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// TestUnchecked: what is wrong with a spec is refused by a host's side, unless the plugin is to judge it. Here that has no such call.
func TestUnchecked(t *testing.T) {
	for unchecked, want := range map[bool]sdk.Class{false: sdk.Invalid, true: sdk.Unsupported} {
		lis := listen(t)
		server := grpc.NewServer()
		pb.RegisterWorkerServer(server, pb.UnimplementedWorkerServer{})
		served := make(chan error, 1)
		go func() { served <- server.Serve(lis) }()
		c, err := rpc.Dial(t.Context(), lis.Addr(), rpc.DialOptions{Unchecked: unchecked})
		if err != nil {
			t.Fatal(err)
		}
		w, _ := c.Runtime().Worker("w")
		for what, err := range map[string]error{
			"a volume":    w.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "../x"}),
			"a container": w.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "../x"}, nil),
			"a process":   w.StartProcess(t.Context(), "c", sdk.ProcessSpec{ID: "../x"}),
		} {
			if !errors.Is(err, want) {
				t.Errorf("unchecked %v, %s: %v, want %s", unchecked, what, err, want)
			}
		}
		err = c.Close()
		server.Stop()
		if err := errors.Join(err, <-served); err != nil {
			t.Error(err)
		}
	}
}
