package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/slipway-run/slipway/sdk"
)

// Exit codes of a plugin that cannot begin, from sysexits.h: a supervisor need not try those again.
const (
	exitUsage    = 64
	exitSoftware = 70
)

// byHand is what a person sees who starts a plugin.
const byHand = `%s is a Slipway runtime plugin; a host starts it. Name it in a host's configuration:

    plugin %q {
      command = %q
    }

or try it with: slipway conformance run %s
`

// Serve is the whole main of a plugin. It returns when the host has told the plugin to end, by closing its stdin or by
// SIGTERM, and running calls have ended or five seconds have passed; the context given to Open ends first. SIGINT is left to
// the host. Started by hand, it says what to do on stderr and exits with 64; with a mistake in p, with 70.
//
// Stdout belongs to the handshake. What the plugin prints there later, or on stderr, reaches the host as a line of unknown
// meaning and blocks nothing, but it should log through [sdk.Config].Log.
func Serve(p sdk.Plugin) {
	if code := serve(p, os.Stdin, os.Stderr); code != 0 {
		os.Exit(code)
	}
}

func serve(p sdk.Plugin, stdin io.Reader, stderr *os.File) int {
	if os.Getenv(cookieKey) != cookieValue {
		fmt.Fprintf(stderr, byHand, os.Args[0], p.Name, os.Args[0], os.Args[0])
		return exitUsage
	}
	info, err := infoOf(p)
	if err != nil {
		fmt.Fprintf(stderr, "plugin %q: %v\n", p.Name, err)
		return exitSoftware
	}
	// A host that died takes the reading ends of our pipes with it; that must not kill us before we have drained.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, os.Interrupt)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)

	s := newServer(info, newLogger(stderr, p.Name))
	s.open = p.Open
	if err := serveChild(s, stdin, term); err != nil {
		s.log.Error("plugin cannot serve", "error", err)
		return exitSoftware
	}
	return 0
}

// serveChild serves through go-plugin until the host says that it is enough.
func serveChild(s *server, stdin io.Reader, term <-chan os.Signal) error {
	s.begin = sync.OnceFunc(keepOutput())
	made := make(chan *grpc.Server, 1)
	ended := make(chan struct{})
	var ending sync.WaitGroup
	ending.Go(func() {
		select {
		case <-ended:
			return
		case <-atEnd(stdin):
			s.log.Debug("stdin is at its end: the host wants the plugin to end")
		case <-term:
			s.log.Debug("told to end by SIGTERM")
		}
		select {
		case server := <-made:
			s.stop(server)
		case <-ended:
		}
	})
	served := false
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         plugin.PluginSet{pluginName: &services{register: s.register}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			served = true
			server := s.grpcServer(opts)
			made <- server
			return server
		},
		Logger: hclog.NewNullLogger(),
	})
	close(ended)
	ending.Wait()
	if !served {
		return errors.New("no socket to listen on; is the folder for temporary files writable?")
	}
	return s.close()
}

// atEnd is closed once r is at its end. It is read for nothing else; the goroutine ends with the process.
func atEnd(r io.Reader) <-chan struct{} {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, r) // an error is an end, too
	}()
	return end
}

func infoOf(p sdk.Plugin) (sdk.PluginInfo, error) {
	if p.Name == "" || p.Open == nil {
		return sdk.PluginInfo{}, errors.New("sdk.Plugin needs a Name and Open")
	}
	config, err := sdk.SchemaOf(p.Config)
	if err != nil {
		return sdk.PluginInfo{}, fmt.Errorf("settings of the plugin block: %w", err)
	}
	worker, err := sdk.SchemaOf(p.Worker)
	if err != nil {
		return sdk.PluginInfo{}, fmt.Errorf("settings of the worker block: %w", err)
	}
	return sdk.PluginInfo{Name: p.Name, Version: p.Version, SDK: "slipway-go/" + sdk.Version, PluginSchema: config, WorkerSchema: worker}, nil
}

// ServeOptions are the optional settings of [ServeOn].
type ServeOptions struct {
	Log *slog.Logger // nil: nothing is logged
}

// ServeOn serves a runtime that is configured already on a listener, until ctx ends or the listener fails. Hosts come and
// go; Configure is Unsupported. At the end running calls get five seconds, the listener is closed, and so are all handles of
// workers. It returns nil if ctx ended it.
func ServeOn(ctx context.Context, lis net.Listener, info sdk.PluginInfo, rt sdk.Runtime, opts ServeOptions) error {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := newServer(info, log)
	s.configured, s.runtime = true, sdk.Checked(rt)
	return s.serveOn(ctx, lis)
}

func (s *server) serveOn(ctx context.Context, lis net.Listener) error {
	server := s.grpcServer(nil)
	s.register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	var err error
	select {
	case <-ctx.Done():
		s.stop(server)
		<-served
	case err = <-served:
		server.Stop()
		err = fmt.Errorf("serving on %s: %w", lis.Addr(), err)
	}
	return errors.Join(err, s.close())
}
