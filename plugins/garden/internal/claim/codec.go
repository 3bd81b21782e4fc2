package claim

import (
	"compress/gzip"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/slipway-run/slipway/sdk"
)

// The encodings. Raw is the plugin's: the server speaks the other two only.
const (
	encodingZstd = "zstd"
	encodingGzip = "gzip"
)

// Encodings are those of the streams, best first.
func (s *Store) Encodings() []string { return []string{encodingZstd, encodingGzip, sdk.EncodingRaw} }

func checkEncoding(encoding string) (string, error) {
	switch encoding {
	case "", sdk.EncodingRaw:
		return sdk.EncodingRaw, nil
	case encodingZstd, encodingGzip:
		return encoding, nil
	}
	return "", sdk.NewInvalid(sdk.ReasonEncoding, "encoding %s is none of zstd, gzip and raw", quote(encoding))
}

// codecs are kept for the next stream: making one costs more than a small archive. They work in the goroutine that calls them. What
// memory they take is that of the window: 1 MiB to encode; to decode what the sender chose, 8 MiB from such a server (9 MiB for a whole stream
// into a volume). Streams do not wait for each other's memory: one source may feed many of them in step.
type codecs struct{ encoders, decoders sync.Pool }

const (
	encoderWindow = 1 << 20
	decoderWindow = 64 << 20 // the most that is taken
)

func (c *codecs) encoder(w io.Writer) (*zstd.Encoder, func(), error) {
	if e, ok := c.encoders.Get().(*zstd.Encoder); ok {
		e.Reset(w)
		return e, func() { e.Reset(nil); c.encoders.Put(e) }, nil
	}
	e, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(encoderWindow), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, nil, sdk.NewInternal(err, "zstd: %v", err)
	}
	return e, func() { e.Reset(nil); c.encoders.Put(e) }, nil
}

// decoder decodes one of the encodings. With one goroutine it has decoded all that it has read before it reads on, in whole blocks.
func (c *codecs) decoder(encoding string, r io.Reader) (io.Reader, func(), error) {
	switch encoding {
	case encodingZstd:
	case encodingGzip:
		return &lazyGzip{src: r}, func() {}, nil
	default:
		return r, func() {}, nil
	}
	d, ok := c.decoders.Get().(*zstd.Decoder)
	var err error
	if ok {
		err = d.Reset(r)
	} else {
		d, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(decoderWindow))
	}
	if err != nil {
		return nil, nil, sdk.NewInternal(err, "zstd: %v", err)
	}
	return d, func() {
		if d.Reset(nil) == nil {
			c.decoders.Put(d)
		}
	}, nil
}

// lazyGzip reads the header only when it is asked for content.
type lazyGzip struct {
	src io.Reader
	z   *gzip.Reader
}

func (l *lazyGzip) Read(p []byte) (int, error) {
	if l.z == nil {
		z, err := gzip.NewReader(l.src)
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		l.z = z
	}
	return l.z.Read(p)
}

// writer encodes into w until close.
func (c *codecs) writer(encoding string, w io.Writer) (_ io.Writer, close func() error, err error) {
	switch encoding {
	case encodingZstd:
		e, free, err := c.encoder(w)
		if err != nil {
			return nil, nil, err
		}
		return e, func() error { defer free(); return e.Close() }, nil
	case encodingGzip:
		z := gzip.NewWriter(w)
		return z, z.Close, nil
	}
	return w, func() error { return nil }, nil
}
