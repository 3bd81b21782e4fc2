package tree

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// FuzzReadTar: whatever the bytes are, the tree stays whole, the budget right
// and the errors typed; what was accepted comes out and in again as it is.
func FuzzReadTar(f *testing.F) {
	f.Add([]byte(nil), "")
	f.Add(make([]byte, 1024), "p")
	f.Add(archive(f, dir("d"), reg("d/f", "text"), hard("h", "d/f"), sym("s", "d")), "")
	f.Add(archive(f, sym("s", "/etc"), reg("s/x", "x")), "d/x")
	f.Add(archive(f, reg("../x", "x")), "")
	f.Add(archive(f, reg(strings.Repeat("n/", 200)+"f", ""), ent{tar.Header{Typeflag: tar.TypeReg, Name: "é", Format: tar.FormatPAX}, "x"}), "f")
	f.Add(append(v7("d/", ""), v7("d/f", "text")...), "")
	f.Add(gnuSparse(), "")
	f.Fuzz(func(t *testing.T, data []byte, p string) {
		data = repair(data)
		b := NewBudget(1 << 20)
		tr, err := New(b, Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, tr)
		w.ok(w.Mkdir("/", "d", 0o755))
		w.put("/d/x", "x")
		w.put("/f", "f")
		before := tr.Clone()
		was, err := digest(before)
		w.ok(err)

		err = tr.ReadTar(context.Background(), bytes.NewReader(data), p)
		var ee *EntryError
		var pe *fs.PathError
		if err != nil && !errors.As(err, &ee) && !errors.As(err, &pe) && !errors.Is(err, ErrArchive) {
			t.Errorf("an error of no type: %v", err)
		}
		if aerr := audit(b, tr, before); aerr != nil {
			t.Error(aerr)
		}
		if is, derr := digest(before); derr != nil || is != was {
			t.Errorf("a clone changed: %v", derr)
		}
		if err == nil {
			repack(t, tr)
		}
		tr.Release()
		before.Release()
		if used := b.Used(); used != 0 {
			t.Errorf("%d bytes are left", used)
		}
	})
}

// repair puts the checksums of headers right, for mutations would get no
// further than there.
func repair(data []byte) []byte {
	data = bytes.Clone(data)
	for at := 0; at+512 <= len(data); at += 512 {
		if h := data[at : at+512]; string(h[257:262]) == "ustar" {
			fixSum(h)
		}
	}
	return data
}

func repack(t *testing.T, tr *Tree) {
	var one, two bytes.Buffer
	if err := tr.WriteTar(context.Background(), &one, ""); err != nil {
		t.Fatal(err)
	}
	again, err := New(NewBudget(0), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	data := one.Bytes()
	if err := again.ReadTar(context.Background(), bytes.NewReader(data), ""); err != nil {
		if errors.Is(err, syscall.ENAMETOOLONG) {
			return
		}
		t.Fatalf("what was written cannot be read: %v", err)
	}
	if err := again.WriteTar(context.Background(), &two, ""); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, two.Bytes()) {
		t.Error("out, in and out again is not the same")
	}
}

// gnuSparse is a file with a hole in the old GNU format: 1 KiB, of which the
// last 512 bytes are there.
func gnuSparse() []byte {
	h := make([]byte, 512)
	copy(h, "sparse")
	copy(h[100:], "0000644\x000000000\x000000000\x0000000001000\x0000000000000\x00        S")
	copy(h[257:], "ustar  \x00")
	copy(h[386:], "00000001000\x0000000001000\x00") // offset, length
	copy(h[483:], "00000002000\x00")                // real size
	fixSum(h)
	return append(append(h, bytes.Repeat([]byte("d"), 512)...), make([]byte, 1024)...)
}

func TestGNUSparse(t *testing.T) {
	tr := newTree(t, newBudget(t, 0))
	w := newWorld(t, tr)
	w.ok(unpack(tr, gnuSparse(), ""))
	w.equal(w.get("/sparse"), strings.Repeat("\x00", 512)+strings.Repeat("d", 512))
}
