package wire

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
)

// textBytes is how much of what is written becomes one line.
const textBytes = 24 << 10

// textLine is the longest line that a reader of text takes.
var textLine = base64.StdEncoding.EncodedLen(textBytes) + 1

// TextEncoder turns what it reads into lines of base64, for runtimes that carry nothing but text. A line is what one Read gave, so that the
// other side has it at once.
type TextEncoder struct {
	R io.Reader

	buf  []byte
	rest []byte // of the line
}

// Read gives what there is of the line at hand, or of what is read next.
func (t *TextEncoder) Read(p []byte) (int, error) {
	if t.buf == nil {
		t.buf = make([]byte, textBytes)
	}
	for len(t.rest) == 0 {
		n, err := t.R.Read(t.buf)
		if n > 0 {
			t.rest = append(base64.StdEncoding.AppendEncode(t.rest, t.buf[:n]), '\n')
			break // the error comes again
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// TextReader turns such lines back. What is no such line is [ErrProtocol]; io.EOF comes between two lines only.
type TextReader struct {
	r    *bufio.Reader
	line []byte
	rest []byte // of the line
}

// NewTextReader reads lines from r.
func NewTextReader(r io.Reader) *TextReader {
	return &TextReader{r: bufio.NewReaderSize(r, textLine), line: make([]byte, textBytes+2)}
}

// Read gives what there is of the line at hand, or of the next.
func (t *TextReader) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		line, err := t.r.ReadSlice('\n')
		switch {
		case err == io.EOF && len(line) > 0:
			return 0, io.ErrUnexpectedEOF
		case errors.Is(err, bufio.ErrBufferFull):
			return 0, fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, textLine)
		case err != nil:
			return 0, err
		}
		n, err := base64.StdEncoding.Decode(t.line, line[:len(line)-1])
		if err != nil {
			return 0, fmt.Errorf("%w: a line that is not base64", ErrProtocol)
		}
		t.rest = t.line[:n]
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}
