//go:build linux

package onnomad

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// config is a worker block.
type config struct {
	Agent  string `json:"agent" required:"true" doc:"URL of the agent."`
	Tasks  string `json:"tasks" required:"true" doc:"Nomad's driver."`
	State  string `json:"state" required:"true" doc:"Where volumes are, and which allocations are containers that were made whole."`
	Allocs string `json:"allocs" required:"true" doc:"Where this machine has the allocations."`
	Shim   string `json:"shim" required:"true" doc:"The program on this machine."`
}

func plugin() sdk.Plugin {
	return sdk.Plugin{Name: "onnomad", Worker: config{}, Open: func(ctx context.Context, cfg sdk.Config) (sdk.Runtime, error) {
		var c config
		if err := cfg.Workers[0].Decode(&c); err != nil {
			return nil, err
		}
		w, err := newWorker(c, shim.Options{Log: cfg.Log, HelloTimeout: dialLimit})
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() {
			if err := w.end(); err != nil {
				cfg.Log.Error("not all is closed", "error", err)
			}
		})
		return runtime{w}, nil
	}}
}

// runtime has one worker, "node".
type runtime struct{ w *worker }

func (r runtime) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := emit(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot, Workers: []sdk.WorkerInfo{{Name: "node", Platform: "linux"}}}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (r runtime) Worker(name string) (sdk.Worker, error) {
	if name != "node" {
		return nil, sdk.NewNotFound(sdk.KindWorker, name)
	}
	return r.w, nil
}

// worker implements sdk.Worker; the process half is the driver's.
type worker struct {
	*shim.Driver
	config
	client    *api.Client
	transport *http.Transport

	volumes sync.Mutex // over all changes of their records

	mu     sync.Mutex
	locks  map[sdk.ContainerID]chan struct{} // of those who make or destroy it
	allocs map[sdk.ContainerID]*api.Allocation
	begun  int                  // execs
	cuts   []context.CancelFunc // of those that may be under way
}

func newWorker(c config, o shim.Options) (*worker, error) {
	w := &worker{config: c, locks: make(map[sdk.ContainerID]chan struct{}), allocs: make(map[sdk.ContainerID]*api.Allocation)}
	for _, dir := range []string{"volumes", "made"} {
		if err := os.MkdirAll(filepath.Join(c.State, dir), 0o700); err != nil {
			return nil, err
		}
	}
	w.transport = &http.Transport{DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext}
	var err error
	w.client, err = w.newClient(&http.Client{Transport: w.transport})
	if err != nil {
		return nil, err
	}
	o.Locate = w.locate
	w.Driver = shim.New(w.exec, o)
	return w, nil
}

func (w *worker) newClient(c *http.Client) (*api.Client, error) {
	return api.NewClient(&api.Config{Address: w.Agent, HttpClient: c, TLSConfig: &api.TLSConfig{}})
}

func (w *worker) end() error {
	defer w.transport.CloseIdleConnections()
	return w.Driver.Close()
}

// Close has nothing to free: all handles are the worker itself.
func (w *worker) Close() error { return nil }

const (
	dialLimit = time.Minute // on a machine that has other things to do
	askLimit  = time.Minute // for what is asked about a failure

	chrootProgram = "/slipway/shim"
	chrootScratch = "/local/scratch"
)

// locate is only good for a container whose allocation is known; exec says so of others.
func (w *worker) locate(id sdk.ContainerID) (string, string) {
	if w.Tasks == nomadtest.Exec {
		return chrootProgram, chrootScratch
	}
	alloc := w.made(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.allocs[id]; a != nil {
		alloc = a.ID
	}
	return w.Shim, filepath.Join(w.Allocs, alloc, nomadtest.TaskName, "local", "scratch")
}

// exec is all that the driver asks of a runtime.
func (w *worker) exec(ctx context.Context, id sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	alloc, err := w.alloc(ctx, id)
	if err != nil {
		return err
	}
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	w.mu.Lock()
	w.begun++
	w.cuts = append(w.cuts, cut)
	w.mu.Unlock()
	err = w.execIn(ctx, alloc, argv, stdin, stdout, stderr)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// Nomad's errors do not tell these apart.
	ask, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	if c, lookErr := w.lookup(ask, id); sdk.IsNotFound(lookErr, sdk.KindContainer) || lookErr == nil && c.stopped {
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	now, _, infoErr := w.client.Allocations().Info(alloc.ID, query(ask))
	if infoErr == nil && now.ClientTerminalStatus() || status(infoErr) == http.StatusNotFound {
		return lost(id)
	}
	return err
}

// execs is how many were begun.
func (w *worker) execs() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun
}

// cut ends all execs that are under way, as far as this side goes.
func (w *worker) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cut := range w.cuts {
		cut()
	}
	w.cuts = nil
}

// execIn is `alloc exec`: it ends when the command or ctx has. What it says of a command that has ended is not passed on.
func (w *worker) execIn(ctx context.Context, alloc *api.Allocation, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	tr := &http.Transport{DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext}
	defer tr.CloseIdleConnections()
	client, err := w.newClient(&http.Client{Transport: tr, Timeout: dialLimit}) // a handshake's; a websocket has none
	if err != nil {
		return err
	}
	out, errs := &gate{to: stdout}, &gate{to: stderr}
	defer out.shut()
	defer errs.shut()
	code, err := client.Allocations().Exec(ctx, alloc, nomadtest.TaskName, false, argv, stdin, out, errs, nil, query(ctx))
	if err == nil && code < 0 {
		err = errors.New("Nomad does not know what became of the command")
	}
	return err
}

// gate passes writes on until it is shut: Nomad's client may write after it has returned.
type gate struct {
	mu sync.Mutex
	to io.Writer
}

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.to == nil {
		return 0, io.ErrClosedPipe
	}
	return g.to.Write(b)
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to = nil
}

// Status names what the shim can do, which one container shows, once.
func (w *worker) Status(ctx context.Context) (sdk.Status, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Status{}, err
	}
	features, err := w.features(ctx)
	if err != nil {
		return sdk.Status{}, err
	}
	return sdk.Status{
		Health: sdk.Healthy, ContainerIncarnation: w.State, VolumeIncarnation: w.State, Features: features, Encodings: []string{sdk.EncodingRaw},
	}, nil
}

const probe = "probe"

func (w *worker) features(ctx context.Context) (features []sdk.Feature, err error) {
	unlock, err := w.lock(ctx, probe)
	if err != nil {
		return nil, err
	}
	defer unlock()
	file := filepath.Join(w.State, "features")
	if text, err := os.ReadFile(file); err == nil {
		return features, json.Unmarshal(text, &features)
	}
	info, err := w.build(ctx, sdk.ContainerSpec{ID: probe, Token: sdk.NewToken()})
	if err := errors.Join(err, w.remove(ctx, probe)); err != nil {
		return nil, err
	}
	features = info.Features
	if w.Tasks == nomadtest.Exec { // the other driver has no limits
		features = append(features, sdk.FeatureLimitsMemory)
	}
	text, err := json.Marshal(features)
	if err != nil {
		return nil, err
	}
	return features, os.WriteFile(file, text, 0o600)
}

// lock keeps others from making or destroying a container.
func (w *worker) lock(ctx context.Context, id sdk.ContainerID) (func(), error) {
	w.mu.Lock()
	l := w.locks[id]
	if l == nil {
		l = make(chan struct{}, 1)
		w.locks[id] = l
	}
	w.mu.Unlock()
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func query(ctx context.Context) *api.QueryOptions { return new(api.QueryOptions).WithContext(ctx) }

func write(ctx context.Context) *api.WriteOptions { return new(api.WriteOptions).WithContext(ctx) }

// status gives the status of Nomad's answer; zero: none.
func status(err error) int {
	if e, ok := errors.AsType[api.UnexpectedResponseError](err); ok {
		return e.StatusCode()
	}
	return 0
}

// away makes an error of the contract of one of Nomad's client.
func away(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*sdk.Error](err); ok || err == nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return sdk.NewUnavailable(err, "Nomad: %v", err)
}

func lost(id sdk.ContainerID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonRecordLost, sdk.KindContainer, string(id), "container %q: its allocation has ended; destroy it", id)
}

var (
	_ sdk.Worker  = (*worker)(nil)
	_ sdk.Resizer = (*worker)(nil)
)
