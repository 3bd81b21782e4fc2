package garden

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/slipway-run/slipway/plugins/garden/internal/claim"
	"github.com/slipway-run/slipway/plugins/garden/internal/gdn"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keylock"
	"github.com/slipway-run/slipway/sdk/shim"
)

// worker implements sdk.Worker. The process half is the embedded driver's.
type worker struct {
	*shim.Driver

	name   string
	config Config
	log    *slog.Logger
	garden *gdn.Server
	store  *claim.Store
	digest string // of the shim's program
	locks  keylock.Locks
	trees  trees

	mu     sync.Mutex
	making map[sdk.ContainerID]bool  // by this process, which runs commands in them already
	made   int                       // how many of those have ended
	ending map[sdk.ContainerID]bool  // being destroyed by this process
	known  map[sdk.ContainerID]facts // of containers that are ready: they do not change any more

	suspects map[sdk.ContainerID]bool // may be dead: a command in them was killed, or refused
	dead     map[sdk.ContainerID]bool // nothing runs in them any more, though the server lists them

	probing   *probing   // nil: nobody looks
	abilities *abilities // found by a probe; nil: none has succeeded, or a server was away since
	former    *abilities // what the last probe found before a server was away

	spare time.Duration // spareTime

	life  context.Context // ends when the runtime is closed
	stop  context.CancelFunc
	looks sync.WaitGroup // probes, which outlive the calls that began them
}

// cleanup bounds what is done after a failure.
const cleanup = time.Minute

func newWorker(name string, c Config, pipes *claim.Pipes, log *slog.Logger) (*worker, error) {
	c, err := c.check(name)
	if err != nil {
		return nil, err
	}
	w := &worker{
		name: name, config: c, log: log,
		making: make(map[sdk.ContainerID]bool), ending: make(map[sdk.ContainerID]bool), known: make(map[sdk.ContainerID]facts),
		suspects: make(map[sdk.ContainerID]bool), dead: make(map[sdk.ContainerID]bool), spare: spareTime,
	}
	if w.digest, err = digest(c.Shim); err != nil {
		return nil, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: shim %s: %v", name, c.Shim, err)
	}
	if w.garden, err = gdn.New(gdn.Config{
		Address: c.Garden, ConnectTimeout: time.Duration(c.ConnectTimeout), RequestTimeout: time.Duration(c.RequestTimeout), Retries: c.Retries,
	}); err != nil {
		return nil, inWorker(name, err)
	}
	if c.Peers != "plugin" {
		pipes = nil
	}
	if w.store, err = claim.New(claim.Config{
		URL: c.Baggageclaim, ConnectTimeout: time.Duration(c.ConnectTimeout), RequestTimeout: time.Duration(c.RequestTimeout),
		StreamTimeout: time.Duration(c.StreamTimeout), Imports: c.Imports, Zone: c.PeerZone, Pipes: pipes, Log: log,
	}); err != nil {
		return nil, inWorker(name, err)
	}
	w.Driver = shim.New(w.exec, shim.Options{
		Program: shimPath, Scratch: scratchPath, Log: log,
		HelloTimeout: 30 * time.Second, // a server that makes containers and destroys others may take long over an exec
	})
	w.life, w.stop = context.WithCancel(context.Background())
	return w, nil
}

// close ends what goes on without a caller, and then the conversations.
func (w *worker) close() error {
	w.stop()
	w.looks.Wait()
	return errors.Join(w.Driver.Close(), w.store.Close())
}

// inWorker says of which block an error of its settings is.
func inWorker(name string, err error) error {
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		named := *e
		named.Message = "worker \"" + name + "\": " + e.Error()
		return &named
	}
	return err
}

func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil))[:32], nil
}

func (w *worker) mark(set map[sdk.ContainerID]bool, id sdk.ContainerID, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on {
		set[id] = true
	} else {
		delete(set, id)
	}
}

func (w *worker) marked(set map[sdk.ContainerID]bool, id sdk.ContainerID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return set[id]
}

// Close has nothing to free: handles are the worker itself, which ends with the runtime.
func (w *worker) Close() error { return nil }

// undo gives a context for cleaning up behind a call whose own may have ended.
func undo(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanup)
}

var (
	_ sdk.Worker       = (*worker)(nil)
	_ sdk.Resizer      = (*worker)(nil)
	_ sdk.PeerStreamer = (*worker)(nil)
)
