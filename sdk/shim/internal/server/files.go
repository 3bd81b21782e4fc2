package server

import (
	"context"
	"io"
	"os"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
	"github.com/slipway-run/slipway/sdk/volumetar"
)

// serveFile looks at files below a directory of the container.
func serveFile(ctx context.Context, conn *wire.Conn, r wire.Request) {
	var last wire.Reply
	root, err := volumetar.Open(r.Root, volumetar.Options{})
	if err == nil {
		err = lookAt(ctx, conn, r, root, &last)
		root.Close() // only read
	}
	last.Error = wire.NewFailure(err)
	_ = conn.WriteMessage(wire.KindReply, last)
}

// lookAt sends what it finds, but for what the last reply can hold.
func lookAt(ctx context.Context, conn *wire.Conn, r wire.Request, root *volumetar.Root, last *wire.Reply) error {
	switch r.Verb {
	case wire.VerbStat:
		info, err := root.Stat(ctx, string(r.Path))
		if err == nil {
			last.Files = []wire.File{wire.NewFile(info)}
		}
		return err
	case wire.VerbFiles:
		var part wire.Reply
		err := root.List(ctx, string(r.Path), func(info sdk.FileInfo) error {
			if part.Files = append(part.Files, wire.NewFile(info)); len(part.Files) < wire.PerReply {
				return nil
			}
			err := conn.WriteMessage(wire.KindReply, part)
			part.Files = part.Files[:0]
			return err
		})
		if err == nil && len(part.Files) > 0 {
			err = conn.WriteMessage(wire.KindReply, part)
		}
		return err
	default:
		return root.ReadFile(ctx, string(r.Path), r.Offset, r.Length, wire.DataWriter{Conn: conn})
	}
}

// Archive serves the one request of an exec for an archive, over the command's own stdin and stdout. Its Hello was sent.
func Archive(ctx context.Context, stdin io.Reader, stdout io.Writer, verb wire.Verb) error {
	conn := wire.NewConn(stdin, stdout)
	r, err := conn.ReadRequest()
	if err != nil {
		return err
	}
	if r.Verb != verb {
		return wire.ErrProtocol
	}
	// Who is not root can give nothing away: what it unpacks is its own.
	root, err := volumetar.Open(r.Root, volumetar.Options{DropOwners: os.Geteuid() != 0})
	if err == nil {
		if verb == wire.VerbIn {
			err = root.Unpack(ctx, string(r.Path), &wire.DataReader{Conn: conn})
		} else {
			err = root.Pack(ctx, string(r.Path), wire.DataWriter{Conn: conn})
		}
		root.Close() // what was written is checked by whoever wrote it
	}
	return conn.WriteMessage(wire.KindReply, wire.Reply{Error: wire.NewFailure(err)})
}
