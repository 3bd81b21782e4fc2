package tree

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestSparseFilesStaySparse(t *testing.T) {
	const size = 64 << 20
	b := newBudget(t, 1<<20) // far less than the file's size
	tr := newTree(t, b)
	w := newWorld(t, tr)
	f, err := w.Open("/", "/sparse", os.O_CREATE|os.O_RDWR, 0o640)
	w.ok(err)
	w.ok(f.Truncate(size))
	for _, at := range []int64{0, 100 << 10, 32<<20 - 3, size - 5} {
		_, err := f.WriteAt([]byte("data!"), at)
		w.ok(err)
	}
	w.ok(f.Close())
	w.put("/plain", strings.Repeat("p", 1000))
	e, err := w.Open("/", "/empty", os.O_CREATE|os.O_RDWR, 0o600)
	w.ok(err)
	w.ok(e.Truncate(10 << 20)) // nothing but a hole
	w.ok(e.Close())
	w.ok(w.Chown("/", "/sparse", 1<<21+1, 7))
	w.ok(w.Chtimes("/", "/sparse", time.Unix(-5, 250000000)))
	w.ok(w.Rename("/", "/sparse", "/"+strings.Repeat("long", 40)))

	data := pack(t, tr, "")
	if len(data) > 256<<10 {
		t.Fatalf("the archive has %d bytes", len(data))
	}
	again := newTree(t, b)
	if err := unpack(again, data, ""); err != nil {
		t.Fatal(err)
	}
	same(t, tr, again)
	for _, name := range []string{strings.Repeat("long", 40), "empty"} {
		was, holesWere := partsOf(t, tr, name)
		is, holesAre := partsOf(t, again, name)
		if len(is) != len(was) || holesAre < holesWere {
			t.Errorf("%.10s: parts %v became %v, holes of %d bytes %d", name, was, is, holesWere, holesAre)
		}
	}
	if err := audit(b, tr, again); err != nil {
		t.Error(err)
	}
	// One file gives one entry, sparse or not.
	r := tar.NewReader(bytes.NewReader(pack(t, tr, strings.Repeat("long", 40))))
	h, err := r.Next()
	if err != nil || h.Size != size || h.Uid != 1<<21+1 || !h.ModTime.Equal(time.Unix(-5, 250000000)) || h.Mode != 0o640 {
		t.Errorf("got %+v, %v", h, err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the entry: %v", err)
	}
}

func partsOf(t *testing.T, tr *Tree, name string) ([]part, int64) {
	t.Helper()
	a, err := tr.lookup(rootIno, name)
	if err != nil {
		t.Fatal(err)
	}
	return tr.find(a.ino).parts()
}

// More parts than readers take become fewer, with zeros between them.
func TestSparseMapIsBounded(t *testing.T) {
	b := newBudget(t, 0)
	tr := newTree(t, b)
	w := newWorld(t, tr)
	f, err := w.Open("/", "/f", os.O_CREATE|os.O_RDWR, 0o600)
	w.ok(err)
	for i := range int64(maxParts + 10) {
		_, err := f.WriteAt([]byte{1}, i*chunkSize)
		w.ok(err)
	}
	w.ok(f.Close())
	if parts, _ := partsOf(t, tr, "f"); len(parts) != maxParts-1 {
		t.Errorf("%d parts", len(parts))
	}
	again := newTree(t, b)
	if err := unpack(again, pack(t, tr, ""), ""); err != nil {
		t.Fatal(err)
	}
	g := newWorld(t, again).open("/f", os.O_RDONLY)
	defer g.Close()
	one := make([]byte, 2)
	for i := range int64(maxParts + 9) {
		if _, err := g.ReadAt(one, i*chunkSize); err != nil || one[0] != 1 || one[1] != 0 {
			t.Fatalf("part %d: %v, %v", i, one, err)
		}
	}
	if info, err := g.Stat(); err != nil || info.Size() != (maxParts+9)*chunkSize+1 {
		t.Errorf("size %d, %v", info.Size(), err)
	}
}

// Holes cost the reader nothing but time, which its context ends.
func TestSparseEntryCanBeCancelled(t *testing.T) {
	b := newBudget(t, 1<<20)
	tr := newTree(t, b)
	w := newWorld(t, tr)
	f := w.open("/f", os.O_CREATE|os.O_RDWR)
	w.ok(f.Truncate(maxFileSize))
	w.ok(f.Close())
	data := pack(t, tr, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := &cancelAtEnd{r: bytes.NewReader(data), left: 3 << 9, cancel: cancel}
	if err := newTree(t, b).ReadTar(ctx, cancelled, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// cancelAtEnd cancels once so much was read.
type cancelAtEnd struct {
	r      io.Reader
	left   int
	cancel func()
}

func (c *cancelAtEnd) Read(p []byte) (int, error) {
	n, err := c.r.Read(p[:min(len(p), 512)])
	if c.left -= n; c.left <= 0 {
		c.cancel()
	}
	return n, err
}

// TestPaxRecordCountsItself: the length of a record counts its own digits, also where they become one more by that.
func TestPaxRecordCountsItself(t *testing.T) {
	for n := range 1100 {
		record := paxRecord("k", strings.Repeat("v", n))
		var length int
		if _, err := fmt.Sscanf(record, "%d ", &length); err != nil || length != len(record) {
			t.Fatalf("%q... says %d, has %d", record[:8], length, len(record))
		}
	}
}
