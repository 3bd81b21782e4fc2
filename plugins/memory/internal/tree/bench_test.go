package tree

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"testing"
)

// forest is a tree of n small files, 100 in a directory.
func forest(b *testing.B, n int) (*Tree, *Namespace) {
	b.Helper()
	tr := newTree(b, newBudget(b, 0))
	ns, err := NewNamespace(tr, nil, NamespaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if i%100 == 0 {
			if err := ns.Mkdir("/", fmt.Sprintf("d%d", i/100), 0o755); err != nil {
				b.Fatal(err)
			}
		}
		f, err := ns.Open("/", fmt.Sprintf("d%d/f%d", i/100, i), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Write(make([]byte, 1000)); err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
	return tr, ns
}

// BenchmarkClone must not depend on the number of files; the write that
// follows depends on its logarithm.
func BenchmarkClone(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		tr, _ := forest(b, n)
		b.Run(fmt.Sprintf("%d files", n), func(b *testing.B) {
			for b.Loop() {
				tr.Clone().Release()
			}
		})
		b.Run(fmt.Sprintf("%d files and a write", n), func(b *testing.B) {
			for b.Loop() {
				c := tr.Clone()
				if _, err := c.create(rootIno, "new", attr{mode: 0o644}); err != nil {
					b.Fatal(err)
				}
				c.Release()
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	const size = 64 << 20
	for _, block := range []int{4 << 10, 32 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%d KiB blocks", block>>10), func(b *testing.B) {
			tr, ns := forest(b, 0)
			p := make([]byte, block)
			b.SetBytes(size)
			for b.Loop() {
				f, err := ns.Open("/", "f", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
				if err != nil {
					b.Fatal(err)
				}
				for range size / block {
					if _, err := f.Write(p); err != nil {
						b.Fatal(err)
					}
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
			tr.Release()
		})
	}
}

// big is a tree with one file.
func big(b *testing.B, size int) *Tree {
	tr, ns := forest(b, 0)
	f, err := ns.Open("/", "f", os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := f.Write(make([]byte, size)); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return tr
}

func BenchmarkRead(b *testing.B) {
	const size = 64 << 20
	tr := big(b, size)
	b.SetBytes(size)
	p := make([]byte, 64<<10)
	for b.Loop() {
		f, err := tr.OpenFile("f")
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, p); n != size || err != nil {
			b.Fatal(n, err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTar(b *testing.B) {
	ctx := context.Background()
	small, _ := forest(b, 10_000)
	for name, tr := range map[string]*Tree{"64 MiB file": big(b, 64<<20), "10,000 files": small} {
		var buf bytes.Buffer
		if err := tr.WriteTar(ctx, &buf, ""); err != nil {
			b.Fatal(err)
		}
		b.Run("out/"+name, func(b *testing.B) {
			b.SetBytes(int64(buf.Len()))
			for b.Loop() {
				if err := tr.WriteTar(ctx, io.Discard, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("in/"+name, func(b *testing.B) {
			b.SetBytes(int64(buf.Len()))
			for b.Loop() {
				c, err := New(tr.budget, Options{})
				if err != nil {
					b.Fatal(err)
				}
				if err := c.ReadTar(ctx, bytes.NewReader(buf.Bytes()), ""); err != nil {
					b.Fatal(err)
				}
				c.Release()
			}
		})
	}
}
