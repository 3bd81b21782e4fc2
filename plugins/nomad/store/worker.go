//go:build linux

package store

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

// runtime is the store as a runtime of one worker.
type runtime struct{ s *server }

// Workers implements [sdk.Runtime].
func (r runtime) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	err := emit(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot, Workers: []sdk.WorkerInfo{{Name: storenet.WorkerName, Platform: "linux"}}})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// Worker implements [sdk.Runtime].
func (r runtime) Worker(name string) (sdk.Worker, error) {
	if name != storenet.WorkerName {
		return nil, sdk.NewNotFound(sdk.KindWorker, name)
	}
	return &worker{Store: r.s.volumes, s: r.s}, nil
}

// worker is the volume half of one.
type worker struct {
	noContainers
	*volumedir.Store
	s *server
}

// Status implements [sdk.Worker].
func (w *worker) Status(ctx context.Context) (sdk.Status, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Status{}, err
	}
	count, err := w.Count()
	if err != nil {
		return sdk.Status{}, err
	}
	features, err := w.s.features()
	if err != nil {
		return sdk.Status{}, err
	}
	status := sdk.Status{Health: sdk.Healthy, VolumeIncarnation: w.Incarnation(), Features: features, Encodings: []string{sdk.EncodingRaw}, Zone: w.s.o.Zone}
	status.Used.Volumes = count
	var fs unix.Statfs_t
	if err := unix.Statfs(w.s.o.Dir, &fs); err != nil {
		return sdk.Status{}, volumedir.Fault(err, sdk.KindWorker, storenet.WorkerName)
	}
	status.Capacity.DiskBytes = int64(fs.Blocks) * fs.Bsize
	status.Used.DiskBytes = int64(fs.Blocks-fs.Bfree) * fs.Bsize
	return status, nil
}

// SealVolume is refused: only in a session can the plugin be asked to quiet the containers that write.
func (w *worker) SealVolume(context.Context, sdk.VolumeID) error {
	return sdk.NewInternal(nil, "a volume is sealed in a session")
}

var (
	_ sdk.Worker       = (*worker)(nil)
	_ sdk.FileReader   = (*worker)(nil)
	_ sdk.PeerStreamer = (*worker)(nil)
)
