package supervisor

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// Refuse is the life of a keeper that could not make its container: it tells each driver why until ctx ends. It is the only one that there ever is, as any.
func Refuse(ctx context.Context, scratch, version string, why error) error {
	if _, ok := errors.AsType[*sdk.Error](why); !ok {
		why = &sdk.Error{Class: sdk.FailedPrecondition, Message: why.Error()}
	}
	if err := enter(scratch); err != nil {
		return err
	}
	s := &Supervisor{scratch: ".", name: string(sdk.NewToken())}
	if err := s.beBorn(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { s.socket.Close() })()
	for {
		conn, err := s.socket.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			select { // until something else is closed, of which nobody tells
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		if checkPeer(conn) == nil {
			_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
			_ = wire.WriteHello(conn, wire.Hello{State: wire.StateNoWay, Program: version, Error: wire.NewFailure(why)}) // or he has gone
		}
		conn.Close()
	}
}
