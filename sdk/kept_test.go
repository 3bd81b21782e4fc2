package sdk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/slipway-run/slipway/sdk"
)

// shortWriter takes a byte less than it is given, and says nothing of it.
type shortWriter struct{}

func (shortWriter) Write(p []byte) (int, error) { return len(p) - 1, nil }

// TestKept: whatever becomes of an error on its way, the caller's own is kept, and the end of a source is none.
func TestKept(t *testing.T) {
	own := errors.New("the caller's")
	r := sdk.KeepReader(io.MultiReader(strings.NewReader("some"), iotest.ErrReader(own)))
	if _, err := io.ReadAll(r); fmt.Errorf("wrapped: %w", err) == own || r.Err() != own {
		t.Errorf("a reader's error is kept as %v", r.Err())
	}
	whole := sdk.KeepReader(strings.NewReader("some"))
	if b, err := io.ReadAll(whole); string(b) != "some" || err != nil || whole.Err() != nil {
		t.Errorf("%q, %v, and kept is %v", b, err, whole.Err())
	}

	var to bytes.Buffer
	fails := true
	w := sdk.KeepWriter(writerFunc(func(p []byte) (int, error) {
		if fails {
			return 0, own
		}
		return to.Write(p)
	}))
	if _, err := w.Write([]byte("x")); err != own || w.Err() != own {
		t.Errorf("a writer's error is %v, and kept as %v", err, w.Err())
	}
	fails = false
	if n, err := w.Write([]byte("x")); n != 0 || err != own || to.Len() != 0 {
		t.Errorf("after an error it wrote %d bytes, %v", n, err)
	}
	short := sdk.KeepWriter(shortWriter{})
	if _, err := short.Write([]byte("some")); err != io.ErrShortWrite || short.Err() != io.ErrShortWrite {
		t.Errorf("a short write is %v, and kept as %v", err, short.Err())
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
