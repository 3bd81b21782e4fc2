package gdn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"code.cloudfoundry.org/garden"
	"code.cloudfoundry.org/garden/client/connection"
	"code.cloudfoundry.org/lager/v3"
	"github.com/tedsuo/rata"

	"code.cloudfoundry.org/garden/routes"

	"github.com/slipway-run/slipway/sdk"
)

// Config says where a server is and how long to wait for it.
type Config struct {
	Address        string        // tcp://HOST:PORT, or unix:///PATH
	ConnectTimeout time.Duration // for one attempt to connect; zero: 5 s
	RequestTimeout time.Duration // for an answer; zero: 1 min. Creating and destroying may take as long
	Retries        int           // of a call that could not connect; such a call has had no effect
}

// Server is one Garden server. Its methods may be called from many goroutines at once. It holds no connection between calls.
type Server struct {
	c                Config
	network, address string
	requests         *rata.RequestGenerator
	client           *http.Client
	log              lager.Logger // of the library: it goes nowhere
}

// retryAfter is the wait before another attempt to connect.
const retryAfter = 200 * time.Millisecond

// New makes a Server and dials nothing. An address that cannot be one is Invalid with sdk.ReasonConfig.
func New(c Config) (*Server, error) {
	network, address, ok := strings.Cut(c.Address, "://")
	switch {
	case ok && network == "unix" && strings.HasPrefix(address, "/"):
	case ok && network == "tcp":
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			ok = false
		}
	default:
		ok = false
	}
	if !ok {
		return nil, sdk.NewInvalid(sdk.ReasonConfig, "garden %q must be tcp://HOST:PORT or unix:///PATH", c.Address)
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 5 * time.Second
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = time.Minute
	}
	s := &Server{c: c, network: network, address: address, requests: rata.NewRequestGenerator("http://garden", routes.Routes), log: lager.NewLogger("garden")}
	s.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
		// One that was idle while the server was restarted fails the next call, which then may have had an effect or not.
		DisableKeepAlives:     true,
		ResponseHeaderTimeout: c.RequestTimeout,
	}}
	return s, nil
}

// String names the server.
func (s *Server) String() string { return "garden at " + s.c.Address }

// errDial marks a connection that was never made.
var errDial = errors.New("not connected")

func (s *Server) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: s.c.ConnectTimeout}
	for attempt := 0; ; attempt++ {
		conn, err := d.DialContext(ctx, s.network, s.address)
		if err == nil {
			return conn, nil
		}
		err = fmt.Errorf("%w: %w", errDial, err)
		if attempt >= s.c.Retries {
			return nil, err
		}
		t := time.NewTimer(retryAfter << min(attempt, 4))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, err
		}
	}
}

// call binds the library to a context.
func (s *Server) call(ctx context.Context) (connection.Connection, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.c.RequestTimeout)
	return connection.NewWithHijacker(&wire{s: s, ctx: ctx}, s.log), cancel
}

// Ping asks whether the server works. One that says no is Unavailable, as one that does not answer: Concourse's backend does so while its containerd is dead.
func (s *Server) Ping(ctx context.Context) error {
	c, cancel := s.call(ctx)
	defer cancel()
	err := s.fail(ctx, "", c.Ping())
	if r, ok := errors.AsType[*Refusal](err); ok {
		// Without the refusal as its cause: it is no answer to what was asked for.
		return sdk.NewUnavailable(nil, "%s says that it does not work: %s", s, r.Message)
	}
	return err
}

// unlessDown gives what a call has failed with. Where that is a refusal by a server that says of itself that it does not work it is Unavailable: it refuses
// everything then, and what was asked for is no reason.
func (s *Server) unlessDown(ctx context.Context, err error) error {
	if sdk.ClassOf(err) != sdk.Internal {
		return err
	}
	if down := s.Ping(ctx); errors.Is(down, sdk.Unavailable) {
		return down
	}
	return err
}

// Create makes a container. After an error there may be one of that handle all the same: Concourse's backend lists what it could not start.
func (s *Server) Create(ctx context.Context, spec garden.ContainerSpec) error {
	c, cancel := s.call(ctx)
	defer cancel()
	_, err := c.Create(spec)
	return s.unlessDown(ctx, s.fail(ctx, spec.Handle, err))
}

// Destroy kills what runs in a container and takes it away. One that is not there is a success.
func (s *Server) Destroy(ctx context.Context, handle string) error {
	c, cancel := s.call(ctx)
	defer cancel()
	err := c.Destroy(handle)
	if err == nil {
		return nil
	}
	if there, listErr := s.Has(ctx, handle); listErr == nil && !there { // not all servers say so in a way that can be told
		return nil
	}
	return s.unlessDown(ctx, s.fail(ctx, handle, err))
}

// List gives the handles of all containers that have these properties.
func (s *Server) List(ctx context.Context, properties garden.Properties) ([]string, error) {
	c, cancel := s.call(ctx)
	defer cancel()
	handles, err := c.List(properties)
	return handles, s.unlessDown(ctx, s.fail(ctx, "", err))
}

// Has tells whether there is a container of that handle, whosever it is.
func (s *Server) Has(ctx context.Context, handle string) (bool, error) {
	handles, err := s.List(ctx, nil)
	return slices.Contains(handles, handle), err
}

// Properties gives a container's properties. One that is not there is NotFound.
func (s *Server) Properties(ctx context.Context, handle string) (garden.Properties, error) {
	c, cancel := s.call(ctx)
	defer cancel()
	p, err := c.Properties(handle)
	return p, s.missing(ctx, handle, err)
}

// SetProperty sets one. A container that is not there is NotFound.
func (s *Server) SetProperty(ctx context.Context, handle, name, value string) error {
	c, cancel := s.call(ctx)
	defer cancel()
	return s.missing(ctx, handle, c.SetProperty(handle, name, value))
}

// missing is fail for calls on a container: where a server refuses, it asks whether the container is there at all, for only guardian says so in
// a way that can be told.
func (s *Server) missing(ctx context.Context, handle string, err error) error {
	err = s.fail(ctx, handle, err)
	if sdk.ClassOf(err) != sdk.Internal {
		return err
	}
	there, listErr := s.Has(ctx, handle)
	switch {
	case errors.Is(listErr, sdk.Unavailable): // it went, or says that it does not work
		return listErr
	case listErr == nil && !there:
		return sdk.NewNotFound(sdk.KindContainer, handle)
	}
	return err
}
