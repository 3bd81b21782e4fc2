package memory

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// proxy is a runtime in front of a world. It passes everything through unchanged, unless a fault says otherwise; only what a world that is away means is
// its own to say. It comes back by itself, also to a new world on the same socket.
type proxy struct {
	socket  string
	names   []string
	workers map[string]sdk.Worker

	mu     sync.Mutex
	client *rpc.Client // nil: dialled by the next call
	closed bool
}

// newProxy makes a proxy with these workers. Of their options only the faults are its own.
func newProxy(socket string, names []string, opts map[string]WorkerOptions) *proxy {
	p := &proxy{socket: socket, names: names, workers: make(map[string]sdk.Worker, len(names))}
	for _, name := range names {
		p.workers[name] = withFaults(&proxyWorker{world: p, name: name}, opts[name].Faults)
	}
	return p
}

// Workers reports the configured workers, whether or not the world is there and has them.
func (p *proxy) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := emit(snapshot(p.names)); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (p *proxy) Worker(name string) (sdk.Worker, error) {
	w, ok := p.workers[name]
	if !ok {
		return nil, sdk.NewNotFound(sdk.KindWorker, name)
	}
	return w, nil
}

func (p *proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.client != nil {
		p.client.Close()
	}
}

// dial gives the connection to the world, made if there is none.
func (p *proxy) dial(ctx context.Context) (*rpc.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, sdk.NewUnavailable(nil, "the plugin is ending")
	}
	if p.client != nil {
		return p.client, nil
	}
	client, err := rpc.Dial(ctx, &net.UnixAddr{Name: p.socket, Net: "unix"}, rpc.DialOptions{})
	if err != nil {
		return nil, err
	}
	p.client = client
	return client, nil
}

// settle says what an error of a call means and forgets a connection that is broken.
func (p *proxy) settle(client *rpc.Client, err error) error {
	if !errors.Is(err, sdk.ReasonPluginGone) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == client && client != nil {
		p.client = nil
		client.Close()
	}
	return p.away(err)
}

func (p *proxy) away(cause error) error {
	return sdk.NewUnavailable(cause, "the memory world at unix:%s is away; start it with \"slipway-memory world --socket %s\"", p.socket, p.socket)
}

// proxyWorker is one worker of the world, with every ability that a worker can have.
type proxyWorker struct {
	world *proxy
	name  string
}

// call makes one call to the world's worker.
func (w *proxyWorker) call(ctx context.Context, f func(sdk.Worker) error) error {
	client, err := w.world.dial(ctx)
	if err != nil {
		return err
	}
	remote, err := client.Runtime().Worker(w.name)
	if err == nil {
		err = f(remote)
	}
	return w.world.settle(client, err)
}

func (w *proxyWorker) Status(ctx context.Context) (status sdk.Status, err error) {
	err = w.call(ctx, func(r sdk.Worker) (err error) {
		status, err = r.Status(ctx)
		return err
	})
	switch {
	case errors.Is(err, sdk.Unavailable):
		return sdk.Status{Health: sdk.Away, Reason: err.Error()}, nil
	case sdk.IsNotFound(err, sdk.KindWorker):
		return sdk.Status{Health: sdk.Away, Reason: "the memory world at unix:" + w.world.socket + " has no worker " + w.name}, nil
	}
	return status, err
}

func (w *proxyWorker) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.CreateVolume(ctx, spec) })
}

func (w *proxyWorker) SealVolume(ctx context.Context, id sdk.VolumeID) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.SealVolume(ctx, id) })
}

func (w *proxyWorker) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.ListVolumes(ctx, filter, emit) })
}

func (w *proxyWorker) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.DestroyVolume(ctx, id) })
}

func (w *proxyWorker) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, src io.Reader) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.StreamIn(ctx, id, in, src) })
}

func (w *proxyWorker) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.StreamOut(ctx, id, out, dst) })
}

func (w *proxyWorker) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.CreateContainer(ctx, spec, progress) })
}

func (w *proxyWorker) ListContainers(ctx context.Context, filter sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.ListContainers(ctx, filter, emit) })
}

func (w *proxyWorker) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.DestroyContainer(ctx, id) })
}

func (w *proxyWorker) StartProcess(ctx context.Context, container sdk.ContainerID, spec sdk.ProcessSpec) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.StartProcess(ctx, container, spec) })
}

func (w *proxyWorker) ListProcesses(ctx context.Context, container sdk.ContainerID) (infos []sdk.ProcessInfo, err error) {
	err = w.call(ctx, func(r sdk.Worker) (err error) {
		infos, err = r.ListProcesses(ctx, container)
		return err
	})
	return infos, err
}

func (w *proxyWorker) FollowProcess(ctx context.Context, container sdk.ContainerID, id sdk.ProcessID, from sdk.Position, follow sdk.Follow) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.FollowProcess(ctx, container, id, from, follow) })
}

func (w *proxyWorker) SignalProcess(ctx context.Context, container sdk.ContainerID, id sdk.ProcessID, signal sdk.Signal) error {
	return w.call(ctx, func(r sdk.Worker) error { return r.SignalProcess(ctx, container, id, signal) })
}

// Close has nothing to free: the connection belongs to the proxy.
func (w *proxyWorker) Close() error { return nil }

func (w *proxyWorker) StatFile(ctx context.Context, id sdk.VolumeID, path string) (info sdk.FileInfo, err error) {
	err = w.call(ctx, func(r sdk.Worker) error {
		files, ok := r.(sdk.FileReader)
		if !ok {
			return sdk.NewUnsupported(sdk.FeatureFileRead)
		}
		info, err = files.StatFile(ctx, id, path)
		return err
	})
	return info, err
}

func (w *proxyWorker) ListFiles(ctx context.Context, id sdk.VolumeID, dir string, emit func(sdk.FileInfo) error) error {
	return w.call(ctx, func(r sdk.Worker) error {
		files, ok := r.(sdk.FileReader)
		if !ok {
			return sdk.NewUnsupported(sdk.FeatureFileRead)
		}
		return files.ListFiles(ctx, id, dir, emit)
	})
}

func (w *proxyWorker) ReadFile(ctx context.Context, id sdk.VolumeID, path string, offset, length int64, dst io.Writer) error {
	return w.call(ctx, func(r sdk.Worker) error {
		files, ok := r.(sdk.FileReader)
		if !ok {
			return sdk.NewUnsupported(sdk.FeatureFileRead)
		}
		return files.ReadFile(ctx, id, path, offset, length, dst)
	})
}

func (w *proxyWorker) ResizeProcess(ctx context.Context, container sdk.ContainerID, id sdk.ProcessID, size sdk.TTY) error {
	return w.call(ctx, func(r sdk.Worker) error { return sdk.ResizeProcess(ctx, r, container, id, size) })
}

func (w *proxyWorker) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (ticket sdk.PeerTicket, err error) {
	err = w.call(ctx, func(r sdk.Worker) error {
		peer, ok := r.(sdk.PeerStreamer)
		if !ok {
			return sdk.NewUnsupported(sdk.FeaturePeerStream)
		}
		ticket, err = peer.PeerTicket(ctx, dst, in)
		return err
	})
	return ticket, err
}

func (w *proxyWorker) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, ticket sdk.PeerTicket) error {
	return w.call(ctx, func(r sdk.Worker) error {
		peer, ok := r.(sdk.PeerStreamer)
		if !ok {
			return sdk.NewUnsupported(sdk.FeaturePeerStream)
		}
		return peer.PeerSend(ctx, src, out, ticket)
	})
}

var (
	_ sdk.Runtime      = (*proxy)(nil)
	_ sdk.Worker       = (*proxyWorker)(nil)
	_ sdk.FileReader   = (*proxyWorker)(nil)
	_ sdk.Resizer      = (*proxyWorker)(nil)
	_ sdk.PeerStreamer = (*proxyWorker)(nil)
)
