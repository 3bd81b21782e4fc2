package tree

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"testing"
)

func TestSmoke(t *testing.T) {
	b := NewBudget(0)
	tr, err := New(b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, _ := New(b, Options{})
	n, err := NewNamespace(tr, []Mount{{Path: "/a/b", Tree: v}}, NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := n.Open("/", "a/b/x", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "hello")
	f.Seek(0, 0)
	data, _ := io.ReadAll(f)
	if string(data) != "hello" {
		t.Fatal(string(data))
	}
	f.Close()
	var buf bytes.Buffer
	if err := v.WriteTar(context.Background(), &buf, ""); err != nil {
		t.Fatal(err)
	}
	if err := tr.ReadTar(context.Background(), &buf, "c/d"); err != nil {
		t.Fatal(err)
	}
	tr.Release()
	v.Release()
	if b.Used() != 0 {
		t.Fatal(b.Used())
	}
}
