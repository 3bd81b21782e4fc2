package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api"
)

// serveFlags are the settings of a daemon.
type serveFlags struct {
	listen  string
	metrics string
	drain   time.Duration
}

func (a *app) serveCommand() *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Keep a host open on a state directory, for many commands and programs",
		Long: `Keep a host open on a state directory, for many commands and programs.

Commands with the same --state work on it instead of on a host of their own. Programs talk to it at its socket, which
only this user can reach, by gRPC, gRPC-Web, or JSON over HTTP; its .proto files are in host/api/proto:
  curl --unix-socket DIR/serve.sock -H 'Content-Type: application/json' -d '{}' \
    http://slipway/slipway.host.v1alpha1.HostService/ListWorkers
At the same place are /healthz, /readyz and, for Prometheus, /metrics.

At SIGTERM or SIGINT it takes no new work, waits until what runs has ended, for as long as --drain says, and ends. What runs
then goes on where its workers outlive their plugins, and the next host on the state directory follows it. A second
signal ends the wait.

At SIGHUP, unless that was ignored when it began, as under nohup, it reads its configuration file anew, as "slipway reload" has it
do, which says more of that.

Traces go to an OpenTelemetry collector if OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT names one.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.stateDir == "" {
				return usageError{errors.New("serve needs --state DIR: where it keeps what it knows")}
			}
			if flags.drain < 0 {
				return usageError{fmt.Errorf("--drain %s is negative", flags.drain)}
			}
			if !c.Flags().Changed("log-level") {
				a.logLevel = "info"
			}
			return a.serve(c.Context(), flags)
		},
	}
	f := c.Flags()
	f.StringVar(&flags.listen, "listen", "", "`address` to listen at: unix:///PATH; default serve.sock in the state directory")
	f.StringVar(&flags.metrics, "metrics", "", "`HOST:PORT` for /metrics, /healthz and /readyz alone, without encryption")
	f.DurationVar(&flags.drain, "drain", 30*time.Second, "how long to wait for what runs before it ends")
	return c
}

// serve runs a daemon until a signal has ended ctx, or something fails.
func (a *app) serve(ctx context.Context, flags serveFlags) (err error) {
	hups := a.hangups.take() // those that come before it listens are seen to then
	log, err := a.logger()
	if err != nil {
		return err
	}
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(a.stateDir)
	if err != nil {
		return err
	}
	if flags.listen == "" {
		flags.listen = "unix://" + filepath.Join(dir, api.SocketFile)
	}
	h, err := host.Open(ctx, cfg, host.Options{StateDir: dir, Log: log, Version: version, KeepFailed: cfg.Reaping.KeepFailed, Daemon: true})
	if err != nil {
		return err
	}
	a.host.Store(h)
	if err := tellStopped(ctx, h, log); err != nil {
		return errors.Join(err, a.closeHost(ctx, h))
	}
	traces, flush, err := newTraces(ctx)
	if err != nil {
		return errors.Join(err, a.closeHost(ctx, h))
	}
	defer func() { err = errors.Join(err, flush()) }()
	s := api.New(h, api.Options{Version: version, Log: log, Tracer: traces, Config: a.configReader()})
	closed := false
	closeServer := func() error {
		cctx, cancel := a.closing(ctx)
		defer cancel()
		closed = true
		return s.Close(cctx)
	}
	defer func() {
		if !closed {
			err = errors.Join(err, closeServer())
		}
	}()
	l, err := api.Listen(ctx, flags.listen)
	if err != nil {
		return err
	}
	faces := []*face{newFace(flags.listen, l, s.Handler())}
	if flags.metrics != "" {
		var lc net.ListenConfig
		ml, err := lc.Listen(ctx, "tcp", flags.metrics)
		if err != nil {
			return errors.Join(fmt.Errorf("--metrics %s: %w", flags.metrics, err), l.Close())
		}
		faces = append(faces, newFace("http://"+ml.Addr().String()+"/metrics", ml, s.Watched()))
	}
	withdraw, err := api.Announce(dir, flags.listen)
	if err != nil {
		for _, f := range faces {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	endReloads := reloadAt(ctx, hups, s, log)
	return a.answer(ctx, faces, flags.drain, log, s, func() error {
		err := errors.Join(withdraw(), closeServer())
		endReloads()
		return err
	})
}

// tellStopped tells of the runs that an earlier host has left: their steps go on and are held to their timeouts, but no other step of them begins.
func tellStopped(ctx context.Context, h *host.Host, log *slog.Logger) error {
	runs, err := h.Runs(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, r := range runs {
		if !r.Ended && !r.Running {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) > 0 {
		log.Warn("runs of an earlier host have not ended, and nobody drives them: run each again with its --id, or give it up with slipway run --abort", "runs", ids)
	}
	return nil
}

// face is where a daemon answers, and what. It is a listener that tells when it was closed.
type face struct {
	net.Listener
	at      string
	handler http.Handler
	once    func() error
	closed  chan struct{}
}

func newFace(at string, l net.Listener, handler http.Handler) *face {
	f := &face{Listener: l, at: at, handler: handler, closed: make(chan struct{})}
	f.once = sync.OnceValue(func() error {
		defer close(f.closed)
		return l.Close()
	})
	return f
}

// Close ends listening.
func (f *face) Close() error { return f.once() }

// answer answers until ctx ends, and drains then. A face that fails ends it, too. Nothing that another daemon on the state directory would
// meet is left when closeServer gives the directory free.
func (a *app) answer(ctx context.Context, faces []*face, patience time.Duration, log *slog.Logger, s *api.Server, closeServer func() error) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	failed := make(chan error, len(faces))
	for _, f := range faces {
		go func() { failed <- api.Serve(serving, last, f, f.handler) }()
		fmt.Fprintf(a.out, "slipway listens at %s\n", f.at)
	}
	var errs []error
	left := len(faces)
	select {
	case err := <-failed:
		errs = append(errs, err)
		left--
	case <-ctx.Done():
		s.Refuse()
		log.Info("ending: no new work is taken", "waiting_at_most", patience, "cause", context.Cause(ctx))
		a.drain(serving, patience, log, s)
	}
	stop()
	for _, f := range faces {
		<-f.closed
	}
	errs = append(errs, closeServer())
	end()
	for range left {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

// drain waits for what runs: not for longer than its patience, nor after a second signal.
func (a *app) drain(ctx context.Context, patience time.Duration, log *slog.Logger, s *api.Server) {
	ctx, release := boundedBy(ctx, patience, a.hurry, 0)
	defer release()
	if err := s.Drain(ctx); err != nil {
		log.Warn("something still runs: it is left to the next host on this state directory")
	}
}
