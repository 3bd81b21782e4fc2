package sdk

import (
	"io"
	"sync/atomic"
)

// KeptReader reads a caller's reader and keeps the error that it gives, for rule 14: a call returns that error as it is, and most that a plugin hands the reader to, a
// client of HTTP for example, wraps it or says something else. Err may be asked while a Read is under way, which may outlast the call.
type KeptReader struct {
	r   io.Reader
	err atomic.Pointer[error]
}

// KeepReader keeps the error of r.
func KeepReader(r io.Reader) *KeptReader { return &KeptReader{r: r} }

// Read reads the caller's reader.
func (k *KeptReader) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	if err != nil && err != io.EOF {
		k.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Err is the first error of the reader's own; nil where there was none but io.EOF.
func (k *KeptReader) Err() error { return kept(&k.err) }

// KeptWriter writes to a caller's writer and keeps the error that it gives, as [KeptReader] does. After an error it writes no more. A writer that took less than it was
// given and gave no error has failed with io.ErrShortWrite.
type KeptWriter struct {
	w   io.Writer
	err atomic.Pointer[error]
}

// KeepWriter keeps the error of w.
func KeepWriter(w io.Writer) *KeptWriter { return &KeptWriter{w: w} }

// Write writes to the caller's writer.
func (k *KeptWriter) Write(p []byte) (int, error) {
	if err := k.Err(); err != nil {
		return 0, err
	}
	n, err := k.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		k.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Err is the first error of the writer's own.
func (k *KeptWriter) Err() error { return kept(&k.err) }

func kept(err *atomic.Pointer[error]) error {
	if e := err.Load(); e != nil {
		return *e
	}
	return nil
}
