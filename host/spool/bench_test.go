package spool

import (
	"context"
	"io"
	"testing"
)

const benchRecord = 32 << 10

func BenchmarkAppend(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	w := mustWriter(b, s, "p1")
	data := pattern(0, benchRecord)
	b.SetBytes(benchRecord)
	b.ReportAllocs()
	var pos int64
	for b.Loop() {
		if err := w.Append([]Record{{Stream: Stdout, Position: pos, Data: data}}); err != nil {
			b.Fatal(err)
		}
		pos += benchRecord
	}
}

// BenchmarkFollow has a reader at the writer's heels.
func BenchmarkFollow(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	w := mustWriter(b, s, "p1")
	r := mustReader(b, s, "p1", 0)
	data := pattern(0, benchRecord)
	b.SetBytes(benchRecord)
	end := make(chan error)
	go func() {
		for {
			if _, err := r.Next(context.Background()); err != nil {
				end <- err
				return
			}
		}
	}()
	var pos int64
	for b.Loop() {
		if err := w.Append([]Record{{Stream: Stdout, Position: pos, Data: data}}); err != nil {
			b.Fatal(err)
		}
		pos += benchRecord
	}
	if err := w.Finish(nil); err != nil {
		b.Fatal(err)
	}
	if err := <-end; err != io.EOF {
		b.Fatal(err)
	}
}

// BenchmarkRead reads what is there.
func BenchmarkRead(b *testing.B) {
	for name, size := range map[string]int64{"32KiB": benchRecord, "80B": 80} {
		b.Run(name, func(b *testing.B) {
			s := mustOpen(b, b.TempDir(), Options{})
			w := mustWriter(b, s, "p1")
			const total = 64 << 20
			var recs []Record
			var pos int64
			for pos < total {
				recs = append(recs, Record{Stream: Stdout, Position: pos, Data: pattern(pos, pos+size)})
				pos += size
				if len(recs) == 100 || pos >= total {
					mustAppend(b, w, recs...)
					recs = recs[:0]
				}
			}
			if err := w.Finish(nil); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(total)
			for b.Loop() {
				r, err := s.Reader("p1", 0)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = r.Next(context.Background())
				}
				if err != io.EOF {
					b.Fatal(err)
				}
				_ = r.Close()
			}
		})
	}
}
