package store

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func row(n int64) Container {
	return Container{
		ID: fmt.Sprintf("01j0c%010d", n), Worker: "linux-1", Owner: fmt.Sprintf("run/%d/build", n), Team: "main",
		Token: "0123456789abcdef", State: "creating", Spec: []byte(`{"dir":"/w","image":"` + strings.Repeat("x", 400) + `"}`),
		CreatedAt: time.Now(), UpdatedAt: time.Now(),
	}
}

// BenchmarkUpdate is one small update alone.
func BenchmarkUpdate(b *testing.B) {
	for d, name := range []string{"kill-safe", "power-safe"} {
		b.Run(name, func(b *testing.B) {
			s := mustOpen(b, b.TempDir())
			n := int64(0)
			for b.Loop() {
				n++
				if err := s.Update(context.Background(), Durability(d), func(tx *Tx) error { return tx.PutContainer(row(n)) }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUpdate64 is 64 callers side by side: what one update costs then.
func BenchmarkUpdate64(b *testing.B) {
	for d, name := range []string{"kill-safe", "power-safe"} {
		b.Run(name, func(b *testing.B) {
			s := mustOpen(b, b.TempDir())
			var n atomic.Int64
			b.SetParallelism(32) // times two CPUs
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := s.Update(context.Background(), Durability(d), func(tx *Tx) error { return tx.PutContainer(row(n.Add(1))) }); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkStep is what a step stores: the claim, the container, the process,
// its result, and the end of all; 8 side by side.
func BenchmarkStep(b *testing.B) {
	s := mustOpen(b, b.TempDir())
	var n atomic.Int64
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c := row(n.Add(1))
			p := Process{ID: "p" + c.ID, Container: c.ID, Token: c.Token, State: "starting", Spec: c.Spec}
			for _, fn := range []func(*Tx) error{
				func(tx *Tx) error { return tx.PutContainer(c) },
				func(tx *Tx) error { c.State = "created"; return tx.PutContainer(c) },
				func(tx *Tx) error { return tx.PutProcess(p) },
				func(tx *Tx) error { p.State, p.Exit = "exited", []byte(`{"code":0}`); return tx.PutProcess(p) },
				func(tx *Tx) error { c.State = "destroying"; return tx.PutContainer(c) },
				func(tx *Tx) error {
					if err := tx.DeleteProcess(p.ID); err != nil {
						return err
					}
					return tx.DeleteContainer(c.ID)
				},
			} {
				if err := s.Update(context.Background(), KillSafe, fn); err != nil {
					b.Error(err)
					return
				}
			}
		}
	})
}

// BenchmarkOpen opens a directory with 10,000 containers and reads them all.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s := mustOpen(b, dir)
	err := s.Update(b.Context(), KillSafe, func(tx *Tx) error {
		for i := range int64(10_000) {
			c := row(i)
			if err := tx.PutContainer(c); err != nil {
				return err
			}
			if err := tx.PutProcess(Process{ID: "p" + c.ID, Container: c.ID, Spec: c.Spec}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Open(b.Context(), dir, Options{Reserve: -1})
		if err != nil {
			b.Fatal(err)
		}
		err = s.View(b.Context(), func(tx *Tx) error {
			if _, err := tx.Containers(ContainerFilter{}); err != nil {
				return err
			}
			_, err := tx.Processes(ProcessFilter{})
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
