package nomad

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keylock"
	"github.com/slipway-run/slipway/sdk/shim"
)

// node implements sdk.Worker for one client node. The process half is the embedded driver's.
type node struct {
	*shim.Driver

	pool    *pool
	name    string // of the worker
	id      string // of the node
	cluster *cluster
	log     *slog.Logger
	locks   keylock.Locks
	volumes *nodeStore

	mu     sync.Mutex
	ending map[sdk.ContainerID]bool      // being destroyed by this process
	making map[sdk.ContainerID]bool      // being made by this process
	known  map[sdk.ContainerID]*placed   // containers whose keeper has answered
	eager  map[sdk.ContainerID]*placed   // those whose keeper is asked before Nomad calls them up
	keeper map[sdk.ContainerID]string    // names of the first keepers that have answered
	idle   map[sdk.ContainerID]time.Time // those in which docker runs no command, since when

	look  look // for what it can do; with mu held
	asked bool // for its status; with mu held

	detour atomic.Bool // commands do not reach the node's own agent

	life context.Context // ends with the node's handle on the cluster
	end  context.CancelFunc
	own  sync.WaitGroup // of looks and of the opening of the store
}

// cleanup bounds what is done after a failure.
const cleanup = time.Minute

func newNode(p *pool, name, id string) *node {
	n := &node{
		pool: p, name: name, id: id, cluster: p.cluster, log: p.log.With("node", short(id)),
		ending: make(map[sdk.ContainerID]bool), making: make(map[sdk.ContainerID]bool), known: make(map[sdk.ContainerID]*placed), eager: make(map[sdk.ContainerID]*placed),
		keeper: make(map[sdk.ContainerID]string), idle: make(map[sdk.ContainerID]time.Time),
	}
	n.life, n.end = context.WithCancel(context.Background())
	n.volumes = newNodeStore(n)
	n.Driver = shim.New(n.exec, shim.Options{Locate: n.locate, Turn: n.turn, Recognise: n.recognise, HelloTimeout: 30 * time.Second, Log: n.log})
	return n
}

// stop ends what the node does by itself, and all conversations with containers and the store.
func (n *node) stop() error {
	n.mu.Lock()
	n.end()
	n.mu.Unlock()
	err := errors.Join(n.Driver.Close(), n.volumes.close())
	n.own.Wait()
	return err
}

// undo gives a context for cleaning up behind a call whose own may have ended.
func undo(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanup)
}

// Close has nothing to free: handles are the node itself, which ends with the runtime.
func (n *node) Close() error { return nil }

var (
	_ sdk.Worker       = (*node)(nil)
	_ sdk.Resizer      = (*node)(nil)
	_ sdk.FileReader   = (*node)(nil)
	_ sdk.PeerStreamer = (*node)(nil)
)
