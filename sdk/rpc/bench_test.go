package rpc_test

import (
	"context"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

// pumps is a runtime of one pump.
type pumps struct{ *pump }

func (p pumps) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error { return nil }
func (p pumps) Worker(string) (sdk.Worker, error)                                   { return p.pump, nil }

// pump is a worker that makes and takes bytes, in the pieces in which the memory runtime does.
type pump struct {
	sdk.Worker
	size  int64
	piece []byte
}

func (p *pump) Close() error { return nil }

func (p *pump) StreamOut(_ context.Context, _ sdk.VolumeID, _ sdk.StreamOut, w io.Writer) error {
	for left := p.size; left > 0; left -= int64(len(p.piece)) {
		if _, err := w.Write(p.piece); err != nil {
			return err
		}
	}
	return nil
}

func (p *pump) StreamIn(_ context.Context, _ sdk.VolumeID, _ sdk.StreamIn, r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, 64<<10))
	return err
}

// benchStream measures a call that moves size bytes. "of-floor" is its speed as a share of that of a plain unix socket with a
// checksum at both ends, in turns with it.
func benchStream(b *testing.B, call func(w sdk.Worker, size int64) error) {
	const size = 64 << 20
	w, err := rpctest.Pair(b, pumps{&pump{size: size, piece: make([]byte, 64<<10)}}).Worker("w")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	b.ReportAllocs()
	var own, floor time.Duration
	for b.Loop() {
		began := time.Now()
		if err := call(w, size); err != nil {
			b.Fatal(err)
		}
		own += time.Since(began)
		b.StopTimer()
		began = time.Now()
		bareStream(b, size)
		floor += time.Since(began)
		b.StartTimer()
	}
	b.ReportMetric(float64(floor)/float64(own), "of-floor")
}

func bareStream(b *testing.B, size int64) {
	lis := listen(b)
	defer lis.Close()
	sent := make(chan error, 1)
	go func() {
		c, err := net.Dial("unix", lis.Addr().String())
		if err != nil {
			sent <- err
			return
		}
		defer c.Close()
		buf, sum := make([]byte, 256<<10), crc32.New(crc32.MakeTable(crc32.Castagnoli))
		for left := size; left > 0 && err == nil; left -= int64(len(buf)) {
			sum.Write(buf)
			_, err = c.Write(buf)
		}
		sent <- err
	}()
	c, err := lis.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{c}, make([]byte, 256<<10))
	if err != nil || n != size {
		b.Fatal(n, err)
	}
	if err := <-sent; err != nil {
		b.Fatal(err)
	}
}

func BenchmarkStreamOut(b *testing.B) {
	benchStream(b, func(w sdk.Worker, _ int64) error {
		return w.StreamOut(b.Context(), "v", sdk.StreamOut{}, struct{ io.Writer }{io.Discard})
	})
}

func BenchmarkStreamIn(b *testing.B) {
	benchStream(b, func(w sdk.Worker, size int64) error {
		return w.StreamIn(b.Context(), "v", sdk.StreamIn{}, io.LimitReader(zeros{}, size))
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
