package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

func TestCommon(t *testing.T) {
	for _, c := range []struct {
		from, to []string
		want     string
	}{
		{[]string{"zstd", "gzip", "raw"}, []string{"gzip", "zstd", "raw"}, "zstd"},
		{[]string{"gzip", "zstd", "raw"}, []string{"zstd", "gzip", "raw"}, "gzip"},
		{[]string{"raw", "zstd", "gzip"}, []string{"raw", "zstd", "gzip"}, "raw"},  // no network on either side
		{[]string{"raw", "zstd", "gzip"}, []string{"zstd", "gzip", "raw"}, "zstd"}, // one behind the destination
		{[]string{"zstd", "raw"}, []string{"raw", "zstd"}, "zstd"},                 // one before the source
		{[]string{"raw", "zstd"}, []string{"s2", "raw", "zstd"}, "raw"},            // s2 is not shared
		{[]string{"s2", "raw"}, []string{"raw", "s2"}, "s2"},                       // nobody here speaks it, and nobody has to
		{[]string{"s2", "raw"}, []string{"zstd", "raw"}, "raw"},
		{[]string{"gzip"}, []string{"zstd"}, ""},
		{nil, []string{"zstd", "raw"}, "raw"},
		{nil, nil, "raw"},
		{[]string{"zstd"}, nil, ""},
	} {
		if got := stream.Common(c.from, c.to); got != c.want {
			t.Errorf("from %q to %q: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

func TestOwn(t *testing.T) {
	for _, c := range []struct {
		named []string
		want  string
	}{
		{nil, "raw"},
		{[]string{"raw", "zstd", "gzip"}, "raw"},
		{[]string{"zstd", "gzip", "raw"}, "zstd"},
		{[]string{"gzip", "zstd", "raw"}, "zstd"},
		{[]string{"gzip", "raw", "zstd"}, "gzip"},
		{[]string{"s2", "raw"}, "raw"},
		{[]string{"gzip"}, "gzip"},
	} {
		if got := stream.Own(c.named); got != c.want {
			t.Errorf("%q: %q, want %q", c.named, got, c.want)
		}
	}
}

// text is content that packs well, but not to nothing.
func text(n int) []byte {
	words := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefgh"[words.IntN(8)]
	}
	return b
}

// packed encodes by the libraries themselves, in settings that this package does not use.
func packed(t testing.TB, encoding string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var z io.WriteCloser
	switch encoding {
	case stream.Gzip:
		z = gzip.NewWriter(&b)
	case stream.Zstd:
		e, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedDefault))
		if err != nil {
			t.Fatal(err)
		}
		z = e
	default:
		return content
	}
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpacked(t testing.TB, encoding string, b []byte) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(b)
	switch encoding {
	case stream.Gzip:
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = z
	case stream.Zstd:
		z, err := zstd.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestRecoding(t *testing.T) {
	content := text(600 << 10)
	for _, encoding := range []string{sdk.EncodingRaw, stream.Zstd, stream.Gzip} {
		var out bytes.Buffer
		if err := stream.Encoded(encoding, write(content))(t.Context(), &out); err != nil {
			t.Fatal(encoding, err)
		}
		if encoding != sdk.EncodingRaw && out.Len() > len(content)*2/3 {
			t.Errorf("%s: %d bytes are not packed", encoding, out.Len())
		}
		if !bytes.Equal(unpacked(t, encoding, out.Bytes()), content) {
			t.Errorf("%s: encoded to something else", encoding)
		}
		given := packed(t, encoding, content)
		twice := append(bytes.Clone(given), given...) // both formats allow for that
		for _, in := range [][]byte{given, twice} {
			out.Reset()
			if err := stream.Decoded(encoding, write(in))(t.Context(), &out); err != nil {
				t.Fatal(encoding, err)
			}
			if want := bytes.Repeat(content, len(in)/len(given)); !bytes.Equal(out.Bytes(), want) {
				t.Errorf("%s: decoded to something else", encoding)
			}
		}
		out.Reset()
		if err := stream.Limited(encoding, int64(len(content)), write(given))(t.Context(), &out); err != nil {
			t.Fatal(encoding, err)
		}
		if !bytes.Equal(out.Bytes(), given) {
			t.Errorf("%s: what passes is not what was given", encoding)
		}
	}
}

// Whatever is missing or wrong in encoded bytes is found, also in the last of them.
func TestDamagedBytes(t *testing.T) {
	for _, encoding := range []string{stream.Zstd, stream.Gzip} {
		given := packed(t, encoding, text(150<<10))
		flipped := bytes.Clone(given)
		flipped[len(given)/2] ^= 4
		sum := bytes.Clone(given)
		if encoding == stream.Zstd {
			sum[len(sum)-1] ^= 1
		} else {
			sum[len(sum)-8] ^= 1
		}
		for name, in := range map[string][]byte{
			"cut": given[:len(given)/2], "without its last byte": given[:len(given)-1], "a bit": flipped, "checksum": sum,
			"something after it": append(bytes.Clone(given), `{"error":"failed"}`...), "another format": []byte("ustar ustar ustar ustar"),
		} {
			for way, source := range map[string]func(context.Context, io.Writer) error{
				"decoded": stream.Decoded(encoding, write(in)), "limited": stream.Limited(encoding, 1<<30, write(in)),
			} {
				err := source(t.Context(), io.Discard)
				if sdk.ClassOf(err) != sdk.Invalid || !errors.Is(err, sdk.ReasonArchive) {
					t.Errorf("%s, %s, %s: %v", encoding, name, way, err)
				}
			}
		}
	}
	for way, source := range map[string]func(context.Context, io.Writer) error{
		"decoded": stream.Decoded("s2", write(nil)), "encoded": stream.Encoded("s2", write(nil)), "limited": stream.Limited("s2", 1, write([]byte("x"))),
	} {
		if err := source(t.Context(), io.Discard); !errors.Is(err, sdk.ReasonEncoding) {
			t.Errorf("%s in s2: %v", way, err)
		}
	}
}

// Few bytes that unpack to many are not passed on: of a bomb of 32 MiB, what has passed unpacks to little more than the limit.
func TestLimitedHoldsBack(t *testing.T) {
	const limit = 1 << 20
	for _, encoding := range []string{stream.Zstd, stream.Gzip} {
		bomb := packed(t, encoding, make([]byte, 32<<20))
		var passed bytes.Buffer
		err := stream.Limited(encoding, limit, write(bomb))(t.Context(), &passed)
		if sdk.ClassOf(err) != sdk.Invalid || !errors.Is(err, sdk.ReasonTooLarge) {
			t.Fatalf("%s: %v", encoding, err)
		}
		var n countWriter
		err = stream.Decoded(encoding, write(passed.Bytes()))(t.Context(), &n) // it lacks its end
		if !errors.Is(err, sdk.ReasonArchive) || n > limit+128<<10 {
			t.Errorf("%s: what has passed unpacks to %d bytes (%v)", encoding, n, err)
		}
	}
	if err := stream.Limited(sdk.EncodingRaw, 4, write([]byte("five!")))(t.Context(), io.Discard); !errors.Is(err, sdk.ReasonTooLarge) {
		t.Errorf("raw: %v", err)
	}
	if err := stream.Limited(sdk.EncodingRaw, 4, write([]byte("four")))(t.Context(), io.Discard); err != nil {
		t.Errorf("raw, just enough: %v", err)
	}
}

type countWriter int64

func (c *countWriter) Write(b []byte) (int, error) {
	*c += countWriter(len(b))
	return len(b), nil
}

// Errors of the source and of what is written to come back as they are, and cancelling ends both, whatever lies between them.
func TestRecodingKeepsErrors(t *testing.T) {
	content := text(800 << 10)
	ways := func(encoding string, src func(context.Context, io.Writer) error, pack bool) map[string]func(context.Context, io.Writer) error {
		if pack {
			return map[string]func(context.Context, io.Writer) error{"encoded": stream.Encoded(encoding, src)}
		}
		return map[string]func(context.Context, io.Writer) error{
			"decoded": stream.Decoded(encoding, src), "limited": stream.Limited(encoding, 1<<30, src),
		}
	}
	for _, encoding := range []string{stream.Zstd, stream.Gzip} {
		for _, pack := range []bool{true, false} {
			given := content
			if !pack {
				given = packed(t, encoding, content)
			}
			half := func(ctx context.Context, w io.Writer) error {
				if _, err := w.Write(given[:len(given)/2]); err != nil {
					return err
				}
				return errBroken
			}
			for way, source := range ways(encoding, half, pack) {
				var out bytes.Buffer
				if err := source(t.Context(), &out); err != errBroken {
					t.Errorf("%s %s: a source that breaks: %v", encoding, way, err)
				}
				if err := stream.Decoded(encoding, write(out.Bytes()))(t.Context(), io.Discard); way == "encoded" && out.Len() > 0 && err == nil {
					t.Errorf("%s %s: what a broken source wrote seems whole", encoding, way)
				}
			}
			for way, source := range ways(encoding, write(given), pack) {
				if err := source(t.Context(), brokenWriter{}); err != errBroken {
					t.Errorf("%s %s: a destination that breaks: %v", encoding, way, err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			waits := func(ctx context.Context, w io.Writer) error {
				if _, err := w.Write(given[:len(given)/2]); err != nil {
					return err
				}
				cancel()
				<-ctx.Done()
				return ctx.Err()
			}
			for way, source := range ways(encoding, waits, pack) {
				if err := source(ctx, io.Discard); !errors.Is(err, context.Canceled) {
					t.Errorf("%s %s: cancelled: %v", encoding, way, err)
				}
			}
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }
