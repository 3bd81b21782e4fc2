package nomad

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

// Options are the optional settings of [New].
type Options struct {
	Log    *slog.Logger // nil: nothing is logged
	Plugin string       // the name of the plugin's block, of which an installation has one of that name

	listener net.Listener // of tests: instead of one at shim_listen
	refusals int          // of tests: instead of mostRefused
}

// Runtime is a set of pools, each with its nodes as workers.
type Runtime struct {
	pools    []*pool
	log      *slog.Logger
	plugin   string
	end      context.CancelFunc
	listener net.Listener // see Options
	refusals int
	serving  map[string]*serving // by address
	own      sync.WaitGroup      // the pools' followers and the programs' servers

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	listed  int           // pools whose first list, or its failure, has come
}

// New makes a runtime with a pool of each name. It begins to ask for nodes and to serve the shim; what is wrong with a setting is Invalid with
// sdk.ReasonConfig. Whoever uses it calls Close in the end.
func New(pools map[string]Config, opts Options) (*Runtime, error) {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Runtime{log: log, plugin: opts.Plugin, listener: opts.listener, refusals: cmp.Or(opts.refusals, mostRefused), end: cancel, changed: make(chan struct{}), serving: make(map[string]*serving)}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		p, err := r.open(name, pools[name])
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.pools = append(r.pools, p)
	}
	if err := shareStores(r.pools); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, p := range r.pools {
		p.siblings = r.pools
		r.own.Go(func() {
			first := true
			_ = p.follow(ctx, func() { r.tell(first); first = false })
		})
	}
	return r, nil
}

func (r *Runtime) open(name string, c Config) (*pool, error) {
	c, err := c.check(name)
	if err != nil {
		return nil, err
	}
	k, err := newCluster(c)
	if err != nil {
		return nil, err
	}
	p := &pool{name: name, plugin: r.plugin, c: c, cluster: k, refusals: r.refusals, log: r.log.With("worker", name), nodes: make(map[string]*node), first: make(chan struct{})}
	if c.Driver == "raw_exec" {
		p.log.Warn("the driver raw_exec isolates nothing: every container is a process of its node's own root; use it for development only")
	}
	if c.Driver == "exec" && c.Store != nil {
		p.log.Warn("the driver exec mounts no volumes: steps with inputs or outputs go to other workers, and this one's store is of no use")
	}
	if c.ShimPath == "" {
		if p.shimSum, err = sum(shimProgram, c.Shim); err != nil {
			return nil, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: shim %s: %v", name, c.Shim, err)
		}
	}
	if c.Store != nil && c.Store.Path == "" {
		if p.storeSum, err = sum(storeProgram, c.Store.Program); err != nil {
			return nil, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: store: program %s: %v", name, c.Store.Program, err)
		}
	}
	if !c.fetches() {
		return p, nil
	}
	empty, err := emptyArchive(c.Architecture)
	if err != nil {
		return nil, sdk.NewInternal(err, "worker %q: making the empty image: %v", name, err)
	}
	p.emptySum = hexSum(empty)
	return p, r.serve(p, empty)
}

// serving is what is served at one address, for all blocks that name it.
type serving struct {
	mux   *http.ServeMux
	given map[string]bool // paths
}

// serve gives programs to whoever asks, each under its sum: blocks of one address may have different ones. They are no secret, and nodes check their sums.
func (r *Runtime) serve(p *pool, empty []byte) error {
	at := r.serving[p.c.Listen]
	if at == nil {
		lis, err := r.listener, error(nil)
		if lis == nil {
			lis, err = net.Listen("tcp", p.c.Listen)
		}
		if err != nil {
			return sdk.NewInvalid(sdk.ReasonConfig, "worker %q: shim_listen: %v", p.name, err)
		}
		at = &serving{mux: http.NewServeMux(), given: make(map[string]bool)}
		r.serving[p.c.Listen] = at
		s := &http.Server{Handler: at.mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
		r.own.Go(func() { _ = s.Serve(lis) })
		end := r.end
		r.end = func() { end(); s.Close() }
	}
	give := func(name, sum string, write func(io.Writer) error) {
		path := "GET /" + sum + "/" + name
		if at.given[path] {
			return
		}
		at.given[path] = true
		at.mux.HandleFunc(path, func(w http.ResponseWriter, q *http.Request) {
			if err := write(w); err != nil { // the node sees that it is not whole
				r.log.Warn("a node did not get a program", "program", name, "error", err)
			}
		})
	}
	if p.c.ShimPath == "" {
		give(shimProgram+".tar", p.shimSum, func(w io.Writer) error { return pack(w, shimProgram, p.c.Shim) })
	}
	if p.c.Store != nil && p.c.Store.Path == "" {
		give(storeProgram+".tar", p.storeSum, func(w io.Writer) error { return pack(w, storeProgram, p.c.Store.Program) })
	}
	give(emptyFile, p.emptySum, func(w io.Writer) error { _, err := w.Write(empty); return err })
	return nil
}

// The programs that nodes need, by the names that they have in a task.
const (
	shimProgram  = "slipway-shim"
	storeProgram = "slipway-store"
)

// pack writes a program as an archive, in which it can be executable: a node fetches plain files without that bit.
func pack(w io.Writer, name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	if _, err := io.Copy(tw, f); err != nil {
		return err
	}
	return tw.Close()
}

// sum is that of a packed program.
func sum(name, file string) (string, error) {
	h := sha256.New()
	if err := pack(h, name, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hexSum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func (r *Runtime) tell(first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first {
		r.listed++
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Runtime) state() (changed <-chan struct{}, all bool, infos map[string]sdk.WorkerInfo) {
	r.mu.Lock()
	changed, all = r.changed, r.listed == len(r.pools)
	r.mu.Unlock()
	infos = make(map[string]sdk.WorkerInfo)
	for _, p := range r.pools {
		maps.Copy(infos, p.infos())
	}
	return changed, all, infos
}

// firstList is how long Workers waits for clusters to tell their nodes before it says what it knows: a host that hears of no nodes takes them for gone.
const firstList = 10 * time.Second

// Workers reports the nodes as they come and go.
func (r *Runtime) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	late := time.NewTimer(firstList)
	defer late.Stop()
	changed, all, infos := r.state()
	for waited := false; !all && !waited; changed, all, infos = r.state() {
		select {
		case <-changed:
		case <-late.C:
			waited = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	snapshot := sdk.WorkerEvent{Kind: sdk.WorkerSnapshot}
	for _, name := range slices.Sorted(maps.Keys(infos)) {
		snapshot.Workers = append(snapshot.Workers, infos[name])
	}
	if err := emit(snapshot); err != nil {
		return err
	}
	for told := infos; ; told = infos {
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		changed, _, infos = r.state()
		for _, name := range slices.Sorted(maps.Keys(infos)) {
			if before, ok := told[name]; ok && reflect.DeepEqual(before, infos[name]) {
				continue
			}
			if err := emit(sdk.WorkerEvent{Kind: sdk.WorkerUpsert, Workers: []sdk.WorkerInfo{infos[name]}}); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(told)) {
			if _, ok := infos[name]; ok {
				continue
			}
			if err := emit(sdk.WorkerEvent{Kind: sdk.WorkerRemove, Workers: []sdk.WorkerInfo{{Name: name}}}); err != nil {
				return err
			}
		}
	}
}

// Worker gives a node. All handles of a name are the same, and stay good until Close of the runtime.
func (r *Runtime) Worker(name string) (sdk.Worker, error) {
	block, _, _ := strings.Cut(name, "/")
	for _, p := range r.pools {
		if p.name != block {
			continue
		}
		if name == block {
			return nowhere{p}, nil
		}
		n, err := p.worker(name)
		if err != nil {
			return nil, err
		}
		return n, nil
	}
	return nil, sdk.NewNotFound(sdk.KindWorker, name)
}

// Close ends the conversations with clusters and containers. Containers and processes stay. Nothing may be called afterwards.
func (r *Runtime) Close() error {
	var errs []error
	for _, p := range r.pools {
		errs = append(errs, p.close())
	}
	r.end()
	r.own.Wait()
	return errors.Join(errs...)
}

// fetch is how a node gets a program that it has not: from the plugin, into the task's directory.
func (p *pool) fetch(program, sum string) []*api.TaskArtifact {
	return []*api.TaskArtifact{{
		GetterSource:  new(strings.TrimRight(p.c.Serve, "/") + "/" + sum + "/" + program + ".tar"),
		GetterOptions: map[string]string{"checksum": "sha256:" + sum},
		RelativeDest:  new("local"),
	}}
}

// fetchEmpty gets the image of nothing, as a file.
func (p *pool) fetchEmpty() *api.TaskArtifact {
	return &api.TaskArtifact{
		GetterSource:  new(strings.TrimRight(p.c.Serve, "/") + "/" + p.emptySum + "/" + emptyFile),
		GetterOptions: map[string]string{"checksum": "sha256:" + p.emptySum, "archive": "false"},
		GetterMode:    new("file"),
		RelativeDest:  new("local/" + emptyFile),
	}
}

var _ sdk.Runtime = (*Runtime)(nil)
