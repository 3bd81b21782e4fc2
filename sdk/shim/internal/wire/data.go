package wire

import (
	"fmt"
	"io"
)

// DataWriter sends bytes as frames of KindData.
type DataWriter struct{ Conn *Conn }

// Write sends all of p.
func (w DataWriter) Write(p []byte) (int, error) {
	for sent := 0; ; {
		part := p[sent:min(len(p), sent+MaxFrame)]
		if len(part) == 0 {
			return sent, nil
		}
		if err := w.Conn.Write(KindData, part); err != nil {
			return sent, err
		}
		sent += len(part)
	}
}

// DataReader reads frames of KindData up to KindEnd. io.EOF comes of that frame only, and only if it tells of no failure.
type DataReader struct {
	Conn *Conn
	rest []byte
	err  error
}

// Read gives what there is of the frame at hand, or of the next.
func (r *DataReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		r.rest, r.err = r.next()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *DataReader) next() ([]byte, error) {
	kind, b, err := r.Conn.Read()
	switch {
	case err == io.EOF:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case kind == KindData:
		return b, nil
	case kind != KindEnd:
		return nil, broken("a frame of kind %d among data", kind)
	case len(b) == 0:
		return nil, io.EOF
	}
	var f *Failure
	if err := Decode(b, &f); err != nil {
		return nil, err
	}
	if err := f.Err(); err != nil {
		return nil, fmt.Errorf("the other side could not go on: %w", err)
	}
	return nil, io.EOF
}
