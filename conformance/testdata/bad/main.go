// Command bad is a plugin that the suite must tell from a good one, and survive. Its first argument says what is wrong with it:
//
//	silent      it never says a word
//	garbage     it says something else than a handshake
//	protocol    it speaks a protocol of another time
//	hang        no call of a worker returns, whatever its context says
//	hang-later  the worker can be looked at, and no other call returns
//	crash       it dies in the middle of each start of a process
//	leak        what is destroyed stays
//	liar        it names a feature that it does not have
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

func main() {
	mode := os.Args[1]
	switch mode {
	case "silent":
		untilEnd()
	case "garbage":
		fmt.Println("Welcome to my plugin! Listening on port 8080.")
		untilEnd()
	case "protocol":
		fmt.Println("1|99|unix|/nowhere/plugin.sock|grpc|")
		untilEnd()
	}
	rpc.Serve(sdk.Plugin{Name: "bad", Version: "0.0.1", Open: func(_ context.Context, cfg sdk.Config) (sdk.Runtime, error) {
		names := make([]string, 0, len(cfg.Workers))
		for _, w := range cfg.Workers {
			names = append(names, w.Name)
		}
		return &runtime{memory.New(names, memory.Options{}), mode}, nil
	}})
}

// untilEnd waits for the end of stdin, which a host closes.
func untilEnd() {
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

type runtime struct {
	sdk.Runtime
	mode string
}

func (r *runtime) Worker(name string) (sdk.Worker, error) {
	w, err := r.Runtime.Worker(name)
	if err != nil {
		return nil, err
	}
	if r.mode == "liar" {
		fmt.Fprintln(os.Stderr, "files are read elsewhere")
		return &liar{worker{w, r.mode}}, nil
	}
	return &worker{w, r.mode}, nil
}

type worker struct {
	sdk.Worker
	mode string
}

func (w *worker) Status(ctx context.Context) (sdk.Status, error) {
	if w.mode == "hang" {
		select {}
	}
	return w.Worker.Status(ctx)
}

func (w *worker) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	if w.mode == "hang-later" {
		select {}
	}
	return w.Worker.CreateVolume(ctx, spec)
}

func (w *worker) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	if w.mode == "hang-later" {
		select {}
	}
	return w.Worker.CreateContainer(ctx, spec, progress)
}

func (w *worker) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	switch w.mode {
	case "hang-later":
		select {}
	case "leak":
		return nil
	}
	return w.Worker.DestroyContainer(ctx, id)
}

func (w *worker) StartProcess(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
	if w.mode == "crash" {
		fmt.Fprintln(os.Stderr, "the disk is on fire")
		os.Exit(9)
	}
	return w.Worker.StartProcess(ctx, id, spec)
}

// liar has the methods of a feature, and they do nothing.
type liar struct{ worker }

func (*liar) StatFile(context.Context, sdk.VolumeID, string) (sdk.FileInfo, error) {
	return sdk.FileInfo{}, sdk.NewUnsupported(sdk.FeatureFileRead)
}

func (*liar) ListFiles(context.Context, sdk.VolumeID, string, func(sdk.FileInfo) error) error {
	return sdk.NewUnsupported(sdk.FeatureFileRead)
}

func (*liar) ReadFile(context.Context, sdk.VolumeID, string, int64, int64, io.Writer) error {
	return sdk.NewUnsupported(sdk.FeatureFileRead)
}
