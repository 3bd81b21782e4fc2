// Package server is the keeper's end of a session: it takes the driver's requests off the wire, asks a [Keeper], and puts the answers on
// it. It keeps nothing itself.
package server

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// Keeper answers for the processes of a container: the supervisor, or its records once it is gone. The methods are those of
// sdk.Worker, but for what a session adds.
type Keeper interface {
	Start(ctx context.Context, spec sdk.ProcessSpec) error
	List() ([]sdk.ProcessInfo, error)
	Follow(ctx context.Context, id sdk.ProcessID, by wire.Follow, f sdk.Follow) error
	Signal(ctx context.Context, id sdk.ProcessID, signal sdk.Signal) error
	Resize(ctx context.Context, id sdk.ProcessID, size sdk.TTY) error
	Quiesce(ctx context.Context) error
}

const (
	// keepAlive is how often a driver must answer. One that does not is taken for gone, for a runtime may keep the pipes of a relay
	// open whose client has left.
	keepAlive = 20 * time.Second
	// writeTimeout bounds a frame of the session's own on a driver that does not read. Data waits for room as long as it takes.
	writeTimeout = 30 * time.Second
	streamLinger = 10 * time.Second      // for the other end of a stream to close it, too; as long it is kept, and its session
	maxStreams   = sdk.MaxProcesses + 64 // at once: a follower of each process, and the calls beside them
	// maxReading is how many requests are read at once, each of which takes megabytes at worst. The next ones wait.
	maxReading = 8
)

// Serve serves one session over conn until either end closes it, ctx ends, or the driver falls silent, and closes conn. It has sent
// nothing before: the Hello is the caller's.
func Serve(ctx context.Context, conn io.ReadWriteCloser, k Keeper) error {
	config := yamux.DefaultConfig()
	config.KeepAliveInterval = keepAlive
	config.ConnectionWriteTimeout = writeTimeout
	config.StreamCloseTimeout = streamLinger
	config.LogOutput = io.Discard
	session, err := yamux.Server(wire.JoinFrames(conn), config)
	if err != nil {
		conn.Close()
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { session.Close() })
	defer stop()
	defer session.Close()
	room, reading := make(chan struct{}, maxStreams), make(chan struct{}, maxReading)
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, yamux.ErrSessionShutdown) {
				return nil
			}
			return err
		}
		select {
		case room <- struct{}{}:
		case <-session.CloseChan():
			return nil
		}
		calls.Go(func() {
			defer func() { <-room }()
			defer stream.Close()
			serveCall(ctx, stream, reading, k)
		})
	}
}

// requestTimeout is how long a request may take to arrive once it is its turn.
const requestTimeout = 30 * time.Second

// serveCall serves one stream. There is nobody to tell of an error of the stream itself.
func serveCall(ctx context.Context, stream *yamux.Stream, reading chan struct{}, k Keeper) {
	select {
	case reading <- struct{}{}:
	case <-ctx.Done():
		return
	}
	conn := wire.NewConn(stream, stream)
	_ = stream.SetReadDeadline(time.Now().Add(requestTimeout))
	r, err := conn.ReadRequest()
	_ = stream.SetReadDeadline(time.Time{})
	<-reading
	if err != nil {
		return
	}
	switch r.Verb {
	case wire.VerbFollow:
		serveFollow(ctx, conn, r, k)
	case wire.VerbList:
		serveList(conn, k)
	case wire.VerbStat, wire.VerbFiles, wire.VerbRead:
		serveFile(ctx, conn, r)
	default:
		// The end of the stream is not awaited: these calls are short, and what they have begun they finish (rule 2).
		_ = conn.WriteMessage(wire.KindReply, wire.Reply{Error: wire.NewFailure(unary(ctx, r, k))})
	}
}

func unary(ctx context.Context, r wire.Request, k Keeper) error {
	switch {
	case r.Verb == wire.VerbStart && r.Start != nil:
		spec := r.Start.Spec()
		if err := spec.Validate(); err != nil {
			return err
		}
		return k.Start(ctx, spec)
	case r.Verb == wire.VerbSignal:
		if err := r.Signal.Validate(); err != nil {
			return err
		}
		return k.Signal(ctx, r.Process, r.Signal)
	case r.Verb == wire.VerbResize && r.Size != nil:
		return k.Resize(ctx, r.Process, *r.Size)
	case r.Verb == wire.VerbQuiesce:
		return k.Quiesce(ctx)
	}
	return sdk.NewInternal(nil, "the shim does not know the request %q", wire.Text(string(r.Verb)))
}

func serveList(conn *wire.Conn, k Keeper) {
	all, err := k.List()
	if err != nil {
		_ = conn.WriteMessage(wire.KindReply, wire.Reply{Error: wire.NewFailure(err)})
		return
	}
	for len(all) > 0 {
		n := min(len(all), wire.PerReply)
		var part wire.Reply
		for _, p := range all[:n] {
			part.Processes = append(part.Processes, wire.NewProcess(p))
		}
		if conn.WriteMessage(wire.KindReply, part) != nil {
			return
		}
		all = all[n:]
	}
	_ = conn.WriteMessage(wire.KindReply, wire.Reply{})
}
