package keeper

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// BenchmarkSegments is the journal with a follower who acknowledges all; the floor beside it is what a pipe between two goroutines
// does.
func BenchmarkSegments(b *testing.B) {
	for name, size := range map[string]int{"64KiB": 64 << 10, "4KiB": 4 << 10, "80B": 80} {
		p := pattern(0, sdk.Position(size))
		b.Run(name+"/pipe", func(b *testing.B) { benchmarkPipe(b, p) })
		b.Run(name+"/journal", func(b *testing.B) {
			spec := sdk.ProcessSpec{}
			benchmarkJournal(b, New(spec, NewSegments(filepath.Join(b.TempDir(), "journal"), spec)), p)
		})
		b.Run(name+"/memory", func(b *testing.B) { benchmarkJournal(b, New(sdk.ProcessSpec{}, nil), p) })
	}
}

func benchmarkJournal(b *testing.B, j *Journal, p []byte) {
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	end := make(chan error, 1)
	sink := make([]byte, sdk.MaxRecordBytes)
	go func() {
		end <- j.Follow(context.Background(), 0, sdk.Follow{Output: func(records []sdk.Record) error {
			for _, r := range records {
				copy(sink, r.Data)
			}
			return nil
		}})
	}()
	for b.Loop() {
		if _, err := j.Write(b.Context(), sdk.Stdout, p); err != nil {
			b.Fatal(err)
		}
	}
	j.Exit(sdk.Exit{})
	if err := <-end; err != nil {
		b.Fatal(err)
	}
}

func benchmarkPipe(b *testing.B, p []byte) {
	b.SetBytes(int64(len(p)))
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	end := make(chan error, 1)
	go func() {
		buf := make([]byte, 64<<10)
		for {
			if _, err := r.Read(buf); err != nil {
				end <- errors.Join(r.Close())
				return
			}
		}
	}()
	for b.Loop() {
		if _, err := w.Write(p); err != nil {
			b.Fatal(err)
		}
	}
	_ = w.Close()
	if err := <-end; err != nil && err != io.EOF {
		b.Fatal(err)
	}
}
