package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/hcl/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/sdk"
)

// Options are the optional settings of [New].
type Options struct {
	Version string                                   // of the program
	Log     *slog.Logger                             // nil: nothing is logged
	Config  func() (*config.Config, hcl.Diagnostics) // reads the configuration anew; nil: there is no file to read
	Tracer  trace.TracerProvider                     // takes the traces of calls, runs, and what plugins are asked for them; nil: there are none
}

// Server is a host's face for other processes. Its methods may be called from many goroutines.
type Server struct {
	h    *host.Host
	opts Options
	log  *slog.Logger

	ctx   context.Context // ends when Close begins: with it whatever a client waits for
	end   context.CancelFunc
	tasks sync.WaitGroup // runs, and what watches processes
	told  chan struct{}  // closed once all plugins have told what they have

	reading sync.Mutex // one at a time reads the configuration and has the host go by it

	mu     sync.Mutex
	closed bool // no new task
	drain  bool // no new work
	busy   int  // runs, processes and uploads under way, and clients that watch
	idle   chan struct{}
	runs   map[string]*activeRun
	ended  []string // of runs, those that ended last at the end
	stdins map[string]*stdin

	metrics *metrics
	tracing tracing
}

// New makes a server of a host, which is from now on the server's to close.
func New(h *host.Host, opts Options) *Server {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{h: h, opts: opts, log: opts.Log, idle: make(chan struct{}), runs: make(map[string]*activeRun), stdins: make(map[string]*stdin), told: make(chan struct{})}
	close(s.idle)
	s.ctx, s.end = context.WithCancel(context.Background())
	s.metrics = newMetrics(s)
	s.tracing = newTracing(opts.Tracer)
	s.tasks.Go(func() {
		if h.Ready(s.ctx) == nil {
			close(s.told)
		}
	})
	return s
}

// Handler serves all that the package's documentation names.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	opts := []connect.HandlerOption{connect.WithInterceptors(s.tracing, s.metrics), connect.WithReadMaxBytes(maxMessage), jsonCodecs()}
	mux.Handle(pb.NewHostServiceHandler(hostService{s}, opts...))
	mux.Handle(pb.NewRunServiceHandler(runService{s}, opts...))
	mux.Handle(pb.NewContainerServiceHandler(containerService{s}, opts...))
	mux.Handle(pb.NewProcessServiceHandler(processService{s}, opts...))
	mux.Handle(pb.NewArtifactServiceHandler(artifactService{s}, opts...))
	s.plain(mux)
	return interruptible(named(mux))
}

// maxMessage bounds what one message of a client may have.
const maxMessage = 16 << 20

// Refuse takes no new work from now on.
func (s *Server) Refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain = true
}

// Drain takes no new work from now on, and waits until what is under way has ended, or ctx has. What is left then goes on without
// the server, and another on the same state directory follows it.
func (s *Server) Drain(ctx context.Context) error {
	s.Refuse()
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Draining tells whether new work is refused.
func (s *Server) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drain
}

// Close ends whatever clients wait for, and the host. Containers and processes go on. It takes as long as ctx lets the plugins take to
// stop, and some seconds for what was under way.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.drain, s.closed = true, true
	s.mu.Unlock()
	s.end()
	err := s.h.Close(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.tasks.Wait()
	}()
	late := time.NewTimer(lastTasks)
	defer late.Stop()
	select {
	case <-stopped:
	case <-late.C:
		err = errors.Join(err, fmt.Errorf("something that was under way has not stopped within %s of the host's end", lastTasks))
	}
	return err
}

// lastTasks is how long tasks may take to end after the host, whose end ends them.
const lastTasks = 20 * time.Second

// begin counts a run or a process as under way until done is called, unless the server takes no new work.
func (s *Server) begin() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drain {
		return nil, errClosing()
	}
	return s.count(), nil
}

// watching counts a client that watches something as under way until done is called, so that it sees the end of what it watches.
func (s *Server) watching() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count()
}

// count counts until done is called. The caller holds s.mu.
func (s *Server) count() (done func()) {
	if s.busy++; s.busy == 1 {
		s.idle = make(chan struct{})
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy--; s.busy == 0 {
			close(s.idle)
		}
	})
}

// spawn runs a task that Close awaits.
func (s *Server) spawn(task func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosing()
	}
	s.tasks.Go(task)
	return nil
}

// while gives a context that ends with a request's or with the server.
func (s *Server) while(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(errClosing()) })
	return ctx, func() { stop(); cancel(nil) }
}

// because gives the reason why a context of while ended in place of the error that came of it.
func because(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*Error](context.Cause(ctx)); ok && err != nil {
		return e
	}
	return err
}

// ready waits until the plugins have told what they have: nothing is placed before that.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := s.while(ctx)
	defer cancel()
	return because(ctx, s.h.Ready(ctx))
}

// artifact finds an artifact by its name.
func (s *Server) artifact(ctx context.Context, name string) (*host.Artifact, error) {
	if name == "" {
		return nil, invalid("an artifact's name is missing")
	}
	a, err := s.h.Artifact(ctx, name)
	if code(err) == connect.CodeNotFound && err != nil {
		return nil, &sdk.Error{Class: sdk.NotFound, Kind: host.KindArtifact, ID: name, Message: "there is no artifact " + name}
	}
	return a, err
}
