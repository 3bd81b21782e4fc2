package rpc_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/internal/testruntime"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestStepEndToEnd does what a host does for one step.
func TestStepEndToEnd(t *testing.T) {
	w, err := rpctest.Pair(t, testruntime.New("w")).Worker("w")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: "t"}))
	archive := bytes.Repeat([]byte("0123456789abcdef"), testkit.Times(1<<20, 4<<20))
	must(w.StreamIn(ctx, "v", sdk.StreamIn{Path: "a"}, bytes.NewReader(archive)))
	must(w.SealVolume(ctx, "v"))
	var back bytes.Buffer
	must(w.StreamOut(ctx, "v", sdk.StreamOut{Path: "a"}, &back))
	if !bytes.Equal(back.Bytes(), archive) {
		t.Errorf("%d bytes came back changed", len(archive))
	}
	must(w.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: "t"}, nil))
	must(w.StartProcess(ctx, "c", sdk.ProcessSpec{ID: "p", Token: "t", Path: "cat", Stdin: true}))
	input := strings.Repeat("all of stdin, ", 400_000) // more than may be ahead
	var output strings.Builder
	var exit *sdk.Exit
	must(w.FollowProcess(ctx, "c", "p", 0, sdk.Follow{
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				output.Write(r.Data)
			}
			return nil
		},
		Exit:  func(e sdk.Exit) error { exit = &e; return nil },
		Stdin: io.LimitReader(strings.NewReader(input), 1<<40),
	}))
	if output.String() != input {
		t.Errorf("cat gave %d bytes, want the %d it was fed", output.Len(), len(input))
	}
	if exit == nil || exit.Code != 0 {
		t.Errorf("exit is %+v", exit)
	}
}
