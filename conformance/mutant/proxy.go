package mutant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/slipway-run/slipway/conformance/internal/wire"
	"github.com/slipway-run/slipway/host/launch"
)

// proxy is a plugin's program that passes every call on to another one's, message by message, but for its fault. It is no part of the SDK, which would not
// let it be wrong.
type proxy struct {
	fault
	good *grpc.ClientConn

	mu    sync.Mutex
	first string // worker that was configured
}

// endTime bounds the end of the good plugin.
const endTime = 10 * time.Second

// serveWire is [Serve] for a mutant that is broken on the wire.
func serveWire(f fault, command []string) (err error) {
	if os.Getenv(wire.CookieName) != wire.CookieValue {
		fmt.Fprintln(os.Stderr, "this is a broken plugin, for the conformance suite's own test; a host starts it")
		os.Exit(64)
	}
	path, err := launch.Resolve(command[0], "")
	if err != nil {
		return err
	}
	behind, err := wire.Start(wire.Program{Path: path, Args: command[1:], Env: ownEnvironment()})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		err = errors.Join(err, behind.Close(ctx))
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	socket, err := behind.Socket(ctx)
	if err != nil {
		return fmt.Errorf("the good plugin: %w", err)
	}
	good, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(
		grpc.ForceCodec(frames{}), grpc.MaxCallRecvMsgSize(4<<20)))
	if err != nil {
		return err
	}
	defer good.Close()

	dir := os.Getenv(wire.SocketDir)
	if f.elsewhere {
		dir = os.TempDir()
	}
	own := filepath.Join(dir, "plugin")
	lis, err := net.Listen("unix", own)
	if err != nil {
		return err
	}
	p := &proxy{fault: f, good: good}
	server := grpc.NewServer(grpc.ForceServerCodec(frames{}), grpc.UnknownServiceHandler(p.pass), grpc.MaxRecvMsgSize(4<<20))
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) }) // ends with Stop
	defer serving.Wait()
	defer server.Stop()
	ended := p.told()
	if f.banner != "" {
		fmt.Println(f.banner)
	}
	fmt.Printf("1|1|unix|%s|grpc|\n", own)
	<-ended
	return nil
}

// told is closed once somebody has told the program to end in a way that it hears.
func (p *proxy) told() <-chan struct{} {
	term, interrupted, eof, ended := make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(term, syscall.SIGTERM)
	signal.Notify(interrupted, os.Interrupt)
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(eof)
	}()
	heard := func(it bool, c <-chan os.Signal) <-chan os.Signal {
		if it {
			return c
		}
		return nil
	}
	atEnd := (<-chan struct{})(eof)
	if p.noStdin {
		atEnd = nil
	}
	go func() {
		defer close(ended)
		select {
		case <-heard(!p.noTerm, term):
		case <-heard(p.diesOfInt, interrupted):
		case <-atEnd:
		}
	}()
	return ended
}

// pass passes one call on.
func (p *proxy) pass(_ any, from grpc.ServerStream) error {
	path, _ := grpc.MethodFromServerStream(from)
	c := &call{method: nameOf(path), proxy: p}
	if p.chatty == "*" || p.chatty == c.method {
		fmt.Println("called:", c.method)
	}
	if p.call != nil {
		switch answer, ok, err := p.call(c); {
		case err != nil:
			return err
		case ok:
			return from.SendMsg(&answer)
		}
	}
	ctx, cancel := context.WithCancel(from.Context())
	defer cancel()
	to, err := p.good.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
	if err != nil {
		return err
	}
	refused := make(chan error, 1)
	go func() { // ends with the call
		if err := p.upward(c, from, to); err != nil {
			refused <- err
			cancel()
		}
	}()
	err = p.downward(c, to, from)
	select {
	case err := <-refused:
		return err
	default:
	}
	if s, ok := status.FromError(err); ok && err != nil && p.fails != nil {
		return p.fails(s)
	}
	return err
}

// upward passes on what the client sends.
func (p *proxy) upward(c *call, from grpc.ServerStream, to grpc.ClientStream) error {
	send := func(m wire.Message) error {
		frame, err := wire.Build(c.method, false, m)
		if err != nil {
			return err
		}
		_ = to.SendMsg(&frame) // what the plugin has against it comes down
		return nil
	}
	for {
		var frame []byte
		if err := from.RecvMsg(&frame); err == io.EOF {
			if p.upEnd != nil {
				if m := p.upEnd(c); m != nil {
					if err := send(m); err != nil {
						return err
					}
				}
			}
			_ = to.CloseSend()
			return nil
		} else if err != nil {
			return nil // the call has ended
		}
		m, newer, err := wire.Parse(c.method, false, frame)
		if err != nil {
			return err
		}
		p.heed(c.method, m)
		if p.up == nil {
			_ = to.SendMsg(&frame)
			continue
		}
		if m, err = p.up(c, m, newer); err != nil {
			return err
		}
		if m != nil {
			if err := send(m); err != nil {
				return err
			}
		}
	}
}

// downward passes on what the plugin answers.
func (p *proxy) downward(c *call, from grpc.ClientStream, to grpc.ServerStream) error {
	for {
		var frame []byte
		if err := from.RecvMsg(&frame); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		last := false
		if p.down != nil {
			m, _, err := wire.Parse(c.method, true, frame)
			if err != nil {
				return err
			}
			if m, last = p.down(c, m); m == nil {
				return nil
			}
			if frame, err = wire.Build(c.method, true, m); err != nil {
				return err
			}
		}
		if err := to.SendMsg(&frame); err != nil || last {
			return err
		}
	}
}

// frames is gRPC's codec for messages as they travel.
type frames struct{}

// Marshal implements encoding.Codec.
func (frames) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is no frame", v)
	}
	return *b, nil
}

// Unmarshal implements encoding.Codec.
func (frames) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is no frame", v)
	}
	*b = append((*b)[:0], data...)
	return nil
}

// Name implements encoding.Codec.
func (frames) Name() string { return "proto" }
