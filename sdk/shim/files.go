package shim

import (
	"context"
	"fmt"
	"io"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// StatFile is that of [sdk.FileReader] for a path below root, which is an absolute path in the container that nothing below it leaves.
func (d *Driver) StatFile(ctx context.Context, container sdk.ContainerID, root, path string) (sdk.FileInfo, error) {
	var info sdk.FileInfo
	err := d.file(ctx, container, wire.Request{Verb: wire.VerbStat, Root: root, Path: []byte(path)}, func(c *call, t *talk) error {
		var reply wire.Reply
		if err := c.readReply(t, &reply, path); err != nil {
			return err
		}
		if len(reply.Files) != 1 {
			return fmt.Errorf("%w: a stat with %d files", wire.ErrProtocol, len(reply.Files))
		}
		f, err := reply.Files[0].SDK()
		if err != nil {
			return err
		}
		return t.hand(func() error { info = f; return nil })
	})
	return info, err
}

// ListFiles is that of [sdk.FileReader] for a directory below root. If the relay is cut in its midst it is Unavailable.
func (d *Driver) ListFiles(ctx context.Context, container sdk.ContainerID, root, dir string, emit func(sdk.FileInfo) error) error {
	return d.file(ctx, container, wire.Request{Verb: wire.VerbFiles, Root: root, Path: []byte(dir)}, func(c *call, t *talk) error {
		last := ""
		for {
			var reply wire.Reply
			if err := c.readReply(t, &reply, dir); err != nil || len(reply.Files) == 0 {
				return err
			}
			if len(reply.Files) > wire.PerReply {
				return fmt.Errorf("%w: %d files in one reply", wire.ErrProtocol, len(reply.Files))
			}
			for _, f := range reply.Files {
				info, err := f.SDK()
				if err != nil {
					return err
				}
				if info.Name <= last {
					return fmt.Errorf("%w: a directory's files out of order", wire.ErrProtocol)
				}
				last = info.Name
				if err := t.hand(func() error { return emit(info) }); err != nil {
					return err
				}
			}
		}
	})
}

// ReadFile is that of [sdk.FileReader] for a file below root. If the relay is cut in its midst it is Unavailable.
func (d *Driver) ReadFile(ctx context.Context, container sdk.ContainerID, root, path string, offset, length int64, w io.Writer) error {
	if offset < 0 {
		return sdk.NewInvalid(sdk.ReasonSpec, "container %q: file %q: offset %d is negative", container, path, offset)
	}
	req := wire.Request{Verb: wire.VerbRead, Root: root, Path: []byte(path), Offset: offset, Length: length}
	return d.file(ctx, container, req, func(c *call, t *talk) error {
		var got int64
		for {
			t.patience(c.d.o.CallTimeout)
			kind, p, err := t.Read()
			switch {
			case err != nil:
				return err
			case kind == wire.KindReply:
				var reply wire.Reply
				if err := wire.Decode(p, &reply); err != nil {
					return err
				}
				return c.failure(reply.Error, sdk.KindFile, path, false)
			case kind != wire.KindData || len(p) == 0:
				return fmt.Errorf("%w: a frame of kind %d with %d bytes in a file", wire.ErrProtocol, kind, len(p))
			}
			if got += int64(len(p)); length >= 0 && got > length {
				return fmt.Errorf("%w: more of a file than was asked for", wire.ErrProtocol)
			}
			if err := t.hand(func() error { return writeAll(w, p) }); err != nil {
				return err
			}
		}
	})
}

// file makes a call about a file. The caller may have got a part of the answer when it is cut, so only one that was not sent is sent again.
func (d *Driver) file(ctx context.Context, id sdk.ContainerID, req wire.Request, read func(*call, *talk) error) error {
	if err := checkPath(id, req.Path); err != nil {
		return err
	}
	c, err := d.enter(ctx, id)
	if err != nil {
		return err
	}
	defer c.leave()
	once := req.Verb == wire.VerbStat
	return c.fail(c.converse(once, once, req, func(t *talk) error { return read(c, t) }), "")
}

// readReply reads one reply about a file, which must come in time.
func (c *call) readReply(t *talk, reply *wire.Reply, path string) error {
	t.patience(c.d.o.CallTimeout)
	if err := t.ReadMessage(wire.KindReply, reply); err != nil {
		return err
	}
	return c.failure(reply.Error, sdk.KindFile, path, false)
}

const maxPath = 4 << 10

func checkPath(id sdk.ContainerID, path []byte) error {
	if len(path) > maxPath {
		return sdk.NewInvalid(sdk.ReasonPath, "container %q: a path of %d bytes, more than %d", id, len(path), maxPath)
	}
	return nil
}

func writeAll(w io.Writer, p []byte) error {
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}
