package memory

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
	"github.com/slipway-run/slipway/sdk"
)

// Encodings of tar streams. Without a network in between, raw is the best.
const (
	encodingZstd = "zstd"
	encodingGzip = "gzip"
)

func encodings() []string { return []string{sdk.EncodingRaw, encodingZstd, encodingGzip} }

// unpack is StreamIn into a held volume.
func (w *worker) unpack(ctx context.Context, v *volume, in sdk.StreamIn, r io.Reader) error {
	source := sdk.KeepReader(r)
	decoded, closeDecoder, err := decode(in.Encoding, source)
	if err == nil {
		defer closeDecoder()
		counted := &meter{r: decoded}
		err = v.tree.ReadTar(ctx, counted, in.Path)
		if errors.Is(err, syscall.ENOSPC) {
			err = w.tooLargeOrFull(ctx, v, counted)
		}
	}
	if err == nil {
		return nil
	}
	if own := source.Err(); own != nil {
		return own // the caller's own
	}
	return archiveError(ctx, v, in.Path, err)
}

// archiveError makes an error of the contract from why an archive was not taken.
func archiveError(ctx context.Context, v *volume, below string, err error) error {
	_, isContract := errors.AsType[*sdk.Error](err)
	_, isEntry := errors.AsType[*tree.EntryError](err)
	where, isPath := errors.AsType[*fs.PathError](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case isContract:
		return err
	case errors.Is(err, fs.ErrClosed):
		return sdk.NewNotFound(sdk.KindVolume, string(v.id)) // destroyed meanwhile
	case errors.Is(err, syscall.EROFS):
		return sealedAgainst(v)
	case errors.Is(err, syscall.EFBIG):
		return sdk.NewInvalid(sdk.ReasonTooLarge, "volume %q: %v", v.id, err)
	case errors.Is(err, errors.ErrUnsupported):
		return &sdk.Error{Class: sdk.Unsupported, Feature: sdk.FeatureTarDevices, Message: err.Error(), Cause: err}
	case isPath && !isEntry:
		return sdk.NewInvalid(sdk.ReasonPath, "volume %q: cannot unpack below %q: %v", v.id, below, where.Err)
	}
	return sdk.NewInvalid(sdk.ReasonArchive, "volume %q: %v", v.id, err)
}

func sealedAgainst(v *volume) error {
	return sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(v.id),
		"volume %q is sealed and takes no archive; stream into a new one", v.id)
}

// tooLargeOrFull tells an archive that can never fit from one that may fit when others have gone: the first is longer than
// the whole limit. To know that, it reads on as far as need be.
func (w *worker) tooLargeOrFull(ctx context.Context, v *volume, m *meter) error {
	limit := w.budget.Limit()
	if _, err := io.CopyN(io.Discard, &contextReader{ctx, m}, max(limit-m.n+1, 0)); err != nil && err != io.EOF {
		return err
	}
	if m.n > limit {
		return sdk.NewInvalid(sdk.ReasonTooLarge, "volume %q: the archive is longer than the %d bytes that all volumes may take; "+moreMemory,
			v.id, limit)
	}
	return w.noRoom("volume %q: the archive", v.id)
}

// pack is StreamOut of a held volume.
func (w *worker) pack(ctx context.Context, v *volume, out sdk.StreamOut, wr io.Writer) error {
	sink := sdk.KeepWriter(wr)
	encoded, err := encode(out.Encoding, sink)
	if err != nil {
		return err
	}
	err = v.tree.WriteTar(ctx, encoded, out.Path)
	if err == nil {
		err = encoded.Close()
	}
	if own := sink.Err(); own != nil {
		return own // the caller's own
	}
	return fileError(ctx, v, out.Path, err)
}

// fileError makes an error of the contract from one of a tree about a path.
func fileError(ctx context.Context, v *volume, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrClosed):
		return sdk.NewNotFound(sdk.KindVolume, string(v.id))
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // the latter: below a file
		return sdk.NewNotFound(sdk.KindFile, name)
	}
	return sdk.NewInvalid(sdk.ReasonPath, "volume %q: %v", v.id, err)
}

func decode(encoding string, r io.Reader) (decoded io.Reader, closeDecoder func(), err error) {
	switch encoding {
	case "", sdk.EncodingRaw:
		return r, func() {}, nil
	case encodingGzip:
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	case encodingZstd:
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return nil, nil, unknownEncoding(encoding)
}

func encode(encoding string, w io.Writer) (io.WriteCloser, error) {
	switch encoding {
	case "", sdk.EncodingRaw:
		return rawEncoder{w}, nil
	case encodingGzip:
		return gzip.NewWriter(w), nil
	case encodingZstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	}
	return nil, unknownEncoding(encoding)
}

func checkEncoding(encoding string) error {
	if encoding == "" || slices.Contains(encodings(), encoding) {
		return nil
	}
	return unknownEncoding(encoding)
}

func unknownEncoding(encoding string) error {
	return sdk.NewInvalid(sdk.ReasonEncoding, "encoding %q is not one of %q", encoding, encodings())
}

type rawEncoder struct{ io.Writer }

func (rawEncoder) Close() error { return nil }

// meter counts what was read.
type meter struct {
	r io.Reader
	n int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.n += int64(n)
	return n, err
}

// contextReader stops reading when a context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
