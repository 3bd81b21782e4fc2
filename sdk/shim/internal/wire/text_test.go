package wire

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestText(t *testing.T) {
	want := make([]byte, 3*textBytes+17)
	rand.Read(want)
	for _, n := range []int{0, 1, 2, textBytes, textBytes + 1, len(want)} {
		lines, err := io.ReadAll(&TextEncoder{R: bytes.NewReader(want[:n])})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Trim(string(lines), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n") != "" {
			t.Fatal("not text")
		}
		got, err := io.ReadAll(NewTextReader(iotest.OneByteReader(bytes.NewReader(lines))))
		if err != nil || !bytes.Equal(got, want[:n]) {
			t.Fatalf("%d bytes came back as %d, %v", n, len(got), err)
		}
	}
	failing := &TextEncoder{R: io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errBroken))}
	if lines, err := io.ReadAll(failing); string(lines) != "YWJj\n" || err != errBroken {
		t.Errorf("of a reader that fails came %q, %v", lines, err)
	}
}

var errBroken = errors.New("broken")

func TestTextRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		want  error
	}{
		"half a line":      {"YWJj\nYWJj", io.ErrUnexpectedEOF},
		"no base64":        {"YWJj\n\xff\xfe\n", ErrProtocol},
		"a line too long":  {strings.Repeat("A", textLine+4) + "\n", ErrProtocol},
		"padding in a row": {"YQ==YQ==\n", ErrProtocol},
	} {
		if _, err := io.ReadAll(NewTextReader(strings.NewReader(c.lines))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
