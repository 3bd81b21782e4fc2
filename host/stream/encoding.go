package stream

import (
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/slipway-run/slipway/sdk"
)

// The encodings that this package itself reads and writes, beside sdk.EncodingRaw. What lies between other programs may
// be in any.
const (
	Zstd = "zstd"
	Gzip = "gzip"
)

// Speaks tells whether this package can read and write an encoding; an empty one is raw.
func Speaks(encoding string) bool {
	switch encoding {
	case "", sdk.EncodingRaw, Zstd, Gzip:
		return true
	}
	return false
}

// Common chooses the encoding for bytes that pass from one side to another as they are, from what each names, its best first: the
// source's first that the destination names, too, but raw only where both prefer it to all else that they share. A side that
// does not has a network behind it, where raw bytes would be packed anyhow. It is empty if nothing is shared. A side that names nothing names raw.
func Common(from, to []string) string {
	from, to = orRaw(from), orRaw(to)
	shared := slices.DeleteFunc(slices.Clone(from), func(e string) bool { return !slices.Contains(to, e) })
	if len(shared) == 0 {
		return ""
	}
	first := slices.IndexFunc(to, func(e string) bool { return slices.Contains(shared, e) })
	if len(shared) > 1 && shared[0] == sdk.EncodingRaw && to[first] != sdk.EncodingRaw {
		return shared[1]
	}
	return shared[0]
}

// Own chooses the encoding in which this program itself reads from a side or writes to it, from what that names, its best first. A
// side that prefers raw gets raw; else it is the one that costs this machine least among those that the side prefers to raw: zstd before
// gzip. What this package does not speak is passed over.
func Own(named []string) string {
	better := orRaw(named)
	if i := slices.Index(better, sdk.EncodingRaw); i >= 0 {
		better = better[:i]
	}
	for _, e := range []string{Zstd, Gzip} {
		if slices.Contains(better, e) {
			return e
		}
	}
	return sdk.EncodingRaw
}

func orRaw(named []string) []string {
	if len(named) == 0 {
		return []string{sdk.EncodingRaw}
	}
	return named
}

// What decoding may take of memory is that of the window, which the sender chose: at most what the zstd command takes without being asked.
const maxWindow = 128 << 20

// newDecoder reads encoded bytes of r only as it needs them: before it asks for more it has decoded all that it was given, zstd to the block, gzip to
// the few KiB of its buffer. The stop that it returns frees what it holds, and is never nil.
func newDecoder(encoding string, r io.Reader) (_ io.Reader, stop func(), err error) {
	none := func() {}
	switch encoding {
	case "", sdk.EncodingRaw:
		return r, none, nil
	case Gzip:
		z, err := gzip.NewReader(r)
		if err == io.EOF { // not even a header
			err = io.ErrUnexpectedEOF
		}
		return z, none, err
	case Zstd:
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, none, err
		}
		return z, z.Close, nil
	}
	return nil, none, unspoken(encoding)
}

// newEncoder writes encoded bytes to w. Without its Close, which does not close w, they lack their end.
func newEncoder(encoding string, w io.Writer) (io.WriteCloser, error) {
	switch encoding {
	case Gzip:
		return gzip.NewWriterLevel(w, gzip.BestSpeed)
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	}
	return nil, unspoken(encoding)
}

func unspoken(encoding string) error {
	return sdk.NewInvalid(sdk.ReasonEncoding, "encoding %q is none of raw, zstd and gzip, which the host can read and write itself", encoding)
}
