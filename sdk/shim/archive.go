package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/source"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// StreamIn unpacks a tar archive below a path below root, by an exec of its own. It is that of [sdk.Worker], raw.
func (d *Driver) StreamIn(ctx context.Context, container sdk.ContainerID, root, path string, r io.Reader) error {
	return d.archive(ctx, container, wire.Request{Verb: wire.VerbIn, Root: root, Path: []byte(path)}, func(a *archive) error {
		src := source.New(r, func(src *source.Source) {
			if !a.feed(src) && src.Failed() != nil {
				a.c.end() // and with it the wait for a reply
			}
			_ = a.x.out.SetReadDeadline(time.Now().Add(d.o.CallTimeout)) // also where the container has stopped reading
		})
		var reply wire.Reply
		err := a.conn.ReadMessage(wire.KindReply, &reply)
		whole := a.whole.Load()
		a.x.in.Close() // what the source's goroutine may wait for
		src.Stop()
		if failed := src.Failed(); failed != nil {
			return callerError{failed}
		}
		if err == nil {
			err = a.c.failure(reply.Error, sdk.KindFile, path, false)
			if err == nil && !whole {
				err = fmt.Errorf("%w: an archive is taken for whole before its end", wire.ErrProtocol)
			}
		}
		return err
	})
}

// feed sends what the source gives, and then its end.
func (a *archive) feed(src *source.Source) bool {
	buf := make([]byte, wire.MaxFrame)
	for {
		n, err := src.Read(buf)
		_ = a.x.in.SetWriteDeadline(time.Now().Add(a.c.d.o.CallTimeout))
		if n > 0 && a.conn.Write(wire.KindData, buf[:n]) != nil {
			return false
		}
		if err == io.EOF {
			a.whole.Store(true) // before it is, for the reply may be faster than we are
			return a.conn.Write(wire.KindEnd) == nil
		}
		if err != nil {
			return false
		}
	}
}

// StreamOut packs a path below root as a tar archive into w, by an exec of its own. It is that of [sdk.Worker], raw.
func (d *Driver) StreamOut(ctx context.Context, container sdk.ContainerID, root, path string, w io.Writer) error {
	return d.archive(ctx, container, wire.Request{Verb: wire.VerbOut, Root: root, Path: []byte(path)}, func(a *archive) error {
		for {
			_ = a.x.out.SetReadDeadline(time.Now().Add(d.o.CallTimeout))
			kind, p, err := a.conn.Read()
			switch {
			case err != nil:
				return err
			case kind == wire.KindReply:
				var reply wire.Reply
				if err := wire.Decode(p, &reply); err != nil {
					return err
				}
				return a.c.failure(reply.Error, sdk.KindFile, path, false)
			case kind != wire.KindData || len(p) == 0:
				return fmt.Errorf("%w: a frame of kind %d with %d bytes in an archive", wire.ErrProtocol, kind, len(p))
			}
			if err := writeAll(w, p); err != nil {
				return callerError{err}
			}
		}
	})
}

// archive is one archive on its way.
type archive struct {
	c    *call
	x    *running
	conn *wire.Conn

	whole atomic.Bool // the end of one that goes in is sent
}

// archive execs the verb and sends the request. The exec is seen to its end by the driver.
func (d *Driver) archive(ctx context.Context, id sdk.ContainerID, req wire.Request, do func(*archive) error) error {
	if err := checkPath(id, req.Path); err != nil {
		return err
	}
	c, err := d.enter(ctx, id)
	if err != nil {
		return err
	}
	defer c.leave()
	program, _ := d.o.Locate(id)
	x, err := d.start(c.ctx, id, program, string(req.Verb))
	if err != nil {
		return c.fail(err, "")
	}
	defer d.own.Go(x.finish)
	defer context.AfterFunc(c.ctx, x.close)()
	h, err := x.hello(c.ctx)
	if err != nil {
		return c.fail(err, "")
	}
	if h.State != wire.StateFiles {
		return x.broken(fmt.Errorf("%w: state %q where files are asked for", wire.ErrProtocol, wire.Text(string(h.State))))
	}
	a := &archive{c: c, x: x, conn: wire.NewConn(x.r, x.in)}
	_ = x.in.SetWriteDeadline(time.Now().Add(d.o.CallTimeout))
	err = a.conn.WriteMessage(wire.KindRequest, req)
	if err == nil {
		err = do(a)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("its shim ended before the archive did%s: %w", x.said(), err)
	}
	return c.fail(err, "")
}
