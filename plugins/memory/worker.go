package memory

import (
	"context"
	"errors"
	"sync"

	"github.com/slipway-run/slipway/plugins/memory/internal/shell"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
	"github.com/slipway-run/slipway/plugins/memory/internal/wasi"
	"github.com/slipway-run/slipway/sdk"
)

// worker implements sdk.Worker. Its mutex guards the tables and what is in them, but for the trees and journals, which
// guard themselves; it is never held while anything is waited for.
type worker struct {
	incarnation string
	volatile    bool
	budget      *tree.Budget
	engine      *shell.Engine
	zone        string // where peers are; empty: nowhere
	peers       *peers
	memory      *wasi.Memory // what containers' limits are of; nil: they can have none, for there is a shell

	mu         sync.Mutex
	volumes    map[sdk.VolumeID]*volume
	containers map[sdk.ContainerID]*container
}

func newWorker(incarnation string, volatile bool, budget *tree.Budget, engine *shell.Engine) *worker {
	return &worker{
		incarnation: incarnation,
		volatile:    volatile,
		budget:      budget,
		engine:      engine,
		volumes:     make(map[sdk.VolumeID]*volume),
		containers:  make(map[sdk.ContainerID]*container),
	}
}

// Status is always healthy: what could be away is this very process.
func (w *worker) Status(ctx context.Context) (sdk.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	features := []sdk.Feature{
		sdk.FeatureImageVolume,
		sdk.FeatureNetworkNone, // there never is one
		sdk.FeatureCloneLive,
		sdk.FeatureTarDirTimes,
		sdk.FeatureTarXattrs,
		sdk.FeatureTarSparse,
		sdk.FeatureFileRead,
	}
	if w.memory != nil {
		features = append(features, sdk.FeatureLimitsMemory, sdk.FeatureExitOOM)
	}
	if w.zone != "" {
		features = append(features, sdk.FeaturePeerStream)
	}
	if w.volatile {
		features = append(features, sdk.FeatureVolatile)
	}
	return sdk.Status{
		Health:               sdk.Healthy,
		ContainerIncarnation: w.incarnation,
		VolumeIncarnation:    w.incarnation,
		Features:             features,
		Capacity:             sdk.Resources{DiskBytes: w.budget.Limit()},
		Used: sdk.Resources{
			DiskBytes:  w.budget.Used(),
			Containers: int64(len(w.containers)),
			Volumes:    int64(len(w.volumes)),
		},
		Encodings: encodings(),
		Zone:      w.zone,
	}, nil
}

// Close has nothing to free: handles are the worker itself.
func (w *worker) Close() error { return nil }

func (w *worker) destroyAll(ctx context.Context) error {
	var errs []error
	for _, c := range w.selectContainers(sdk.Filter{}) {
		errs = append(errs, w.DestroyContainer(ctx, c.ID))
	}
	for _, v := range w.selectVolumes(sdk.Filter{}) {
		errs = append(errs, w.DestroyVolume(ctx, v.ID))
	}
	return errors.Join(errs...)
}

var (
	_ sdk.Worker       = (*worker)(nil)
	_ sdk.FileReader   = (*worker)(nil)
	_ sdk.PeerStreamer = (*worker)(nil)
)
