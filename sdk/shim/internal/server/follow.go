package server

import (
	"context"
	"io"
	"sync"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// serveFollow serves one follower until its journal is told, or the stream ends.
func serveFollow(ctx context.Context, conn *wire.Conn, r wire.Request, k Keeper) {
	if r.Follow == nil {
		_ = conn.WriteMessage(wire.KindEnd, wire.NewFailure(sdk.NewInternal(nil, "a request to follow does not say from where")))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	acks := make(chan sdk.Position)
	in := newAhead()
	defer in.fail(io.ErrClosedPipe)
	go func() { // ends with the stream, which our caller closes
		defer cancel()
		in.fail(receive(ctx, conn, acks, in))
	}()
	f := sdk.Follow{
		Opened: func(o sdk.Opened) error { return conn.WriteMessage(wire.KindOpened, wire.Opened(o)) },
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				if err := conn.WriteOutput(r); err != nil {
					return err
				}
			}
			return nil
		},
		Taken: func(total int64) { _ = conn.WriteNumber(wire.KindTaken, total) },
		Exit:  func(e sdk.Exit) error { return conn.WriteMessage(wire.KindExit, wire.NewExit(e)) },
		Acks:  acks,
	}
	if r.Follow.Stdin {
		f.Stdin = in
	}
	err := k.Follow(ctx, r.Process, *r.Follow, f)
	_ = conn.WriteMessage(wire.KindEnd, wire.NewFailure(err))
}

// receive takes what the driver sends while it follows, until that is no more. Its error is never io.EOF: only a frame says that stdin
// is at its end.
func receive(ctx context.Context, conn *wire.Conn, acks chan<- sdk.Position, in *ahead) error {
	for {
		kind, p, err := conn.Read()
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		switch kind {
		case wire.KindAck:
			n, err := wire.Number(p)
			if err != nil {
				return err
			}
			select {
			case acks <- sdk.Position(n):
			case <-ctx.Done():
				return ctx.Err()
			}
		case wire.KindStdin:
			if !in.add(p) {
				return wire.ErrProtocol
			}
		case wire.KindStdinEnd:
			in.fail(io.EOF)
		default:
			return wire.ErrProtocol
		}
	}
}

// ahead is the stdin that a driver has sent and the keeper has not taken. The contract bounds it, so that acknowledgements behind it are
// never held up.
type ahead struct {
	mu      sync.Mutex
	changed *sync.Cond
	bytes   []byte
	err     error
}

func newAhead() *ahead {
	a := new(ahead)
	a.changed = sync.NewCond(&a.mu)
	return a
}

func (a *ahead) add(p []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil || len(a.bytes)+len(p) > sdk.MaxStdinAhead {
		return false
	}
	a.bytes = append(a.bytes, p...)
	a.changed.Signal()
	return true
}

// fail ends it once what is there has been read. The first error counts.
func (a *ahead) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
	}
	a.changed.Broadcast()
}

// Read waits for bytes or the end.
func (a *ahead) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.bytes) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		a.changed.Wait()
	}
	n := copy(p, a.bytes)
	if a.bytes = a.bytes[n:]; len(a.bytes) == 0 {
		a.bytes = nil
	}
	return n, nil
}
