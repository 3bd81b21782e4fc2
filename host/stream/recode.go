package stream

import (
	"context"
	"errors"
	"io"

	"github.com/slipway-run/slipway/sdk"
)

// Encoded makes of a source of raw bytes one of encoded bytes. After an error of src they lack their end.
func Encoded(encoding string, src func(ctx context.Context, w io.Writer) error) func(ctx context.Context, w io.Writer) error {
	if encoding == "" || encoding == sdk.EncodingRaw {
		return src
	}
	return func(ctx context.Context, w io.Writer) error {
		out := &keepError{w: w}
		z, err := newEncoder(encoding, out)
		if err != nil {
			return err
		}
		if err = src(ctx, z); err == nil {
			err = z.Close()
		}
		if out.err != nil {
			return out.err
		}
		return err
	}
}

// Decoded makes of a source of encoded bytes one of raw bytes. Bytes that are damaged are Invalid with sdk.ReasonArchive, the last ones of
// a source included; an encoding that [Speaks] does not know is Invalid with sdk.ReasonEncoding.
func Decoded(encoding string, src func(ctx context.Context, w io.Writer) error) func(ctx context.Context, w io.Writer) error {
	if encoding == "" || encoding == sdk.EncodingRaw {
		return src
	}
	return func(ctx context.Context, w io.Writer) error {
		return through(ctx, src, func(r io.Reader) error {
			return decode(encoding, r, func(b []byte) error {
				_, err := w.Write(b)
				return err
			})
		})
	}
}

// Limited makes a source fail, as Invalid with sdk.ReasonTooLarge, when what it writes decodes to more than max bytes. The bytes themselves
// pass as they are, each only after it was decoded, so that no more than max bytes and one piece of a few KiB ever come
// out of what has passed. Damaged bytes fail as with [Decoded].
func Limited(encoding string, max int64, src func(ctx context.Context, w io.Writer) error) func(ctx context.Context, w io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		left := max
		take := func(b []byte) error {
			if left -= int64(len(b)); left < 0 {
				return sdk.NewInvalid(sdk.ReasonTooLarge, "the archive unpacks to more than %d bytes", max)
			}
			return nil
		}
		return through(ctx, src, func(r io.Reader) error {
			g := &gate{r: r, w: w}
			err := decode(encoding, g, take)
			if err == nil {
				err = g.open()
			}
			if g.err != nil { // whatever the decoder made of it
				return g.err
			}
			return err
		})
	}
}

// through runs a source into a function that reads what it writes, and gives the error of whichever failed first, unchanged.
func through(ctx context.Context, src func(ctx context.Context, w io.Writer) error, read func(r io.Reader) error) error {
	_, err := Relay(ctx, src, func(_ context.Context, r io.Reader) error { return read(r) }, Options{})
	if side, ok := errors.AsType[*SideError](err); ok {
		return side.Err
	}
	return err
}

// decode gives the decoded bytes of r to take, piece by piece, to the end of r. Errors of take come back unchanged, those of r as the decoder
// gives them.
func decode(encoding string, r io.Reader, take func([]byte) error) error {
	d, stop, err := newDecoder(encoding, r)
	defer stop()
	if err != nil {
		return damagedBytes(encoding, err)
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := d.Read(buf)
		if n > 0 {
			if err := take(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return damagedBytes(encoding, err)
		}
	}
}

func damagedBytes(encoding string, err error) error {
	if _, ok := errors.AsType[*sdk.Error](err); ok {
		return err
	}
	return &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonArchive, Cause: err, Message: "the " + encoding + " archive is damaged: " + err.Error()}
}

// gate passes to w what was read from r, but only when more is asked for or when it is opened: until then it is held back.
type gate struct {
	r    io.Reader
	w    io.Writer
	held []byte
	err  error // of w
}

func (g *gate) Read(p []byte) (int, error) {
	if err := g.open(); err != nil {
		return 0, err
	}
	n, err := g.r.Read(p)
	g.held = append(g.held, p[:n]...)
	return n, err
}

func (g *gate) open() error {
	if g.err == nil && len(g.held) > 0 {
		_, g.err = g.w.Write(g.held)
		g.held = g.held[:0]
	}
	return g.err
}
