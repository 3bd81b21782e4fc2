package storenet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Lines are JSON values, one each. Whoever reads one says how long it may be.
const (
	maxFirstLine = 1 << 10  // of somebody unknown
	maxAnswer    = 16 << 10 // to it
	maxLine      = 1 << 20  // of a session
)

// writeLine writes a value as one line.
func writeLine(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// readByByte reads a line and nothing beyond it, for what comes next is another reader's. r should have a buffer of its own.
func readByByte(r io.Reader, most int, v any) error {
	var line []byte
	one := make([]byte, 1)
	for {
		if _, err := io.ReadFull(r, one); err != nil {
			return err
		}
		if one[0] == '\n' {
			return json.Unmarshal(line, v)
		}
		if line = append(line, one[0]); len(line) > most {
			return tooLong(most)
		}
	}
}

func tooLong(most int) error { return fmt.Errorf("a line of more than %d bytes came", most) }

// readLine reads a line of a session.
func readLine(r *bufio.Reader, v any) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return tooLong(maxLine)
		}
		if err == nil {
			return json.Unmarshal(bytes.TrimSuffix(line, []byte("\n")), v)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// Fault is an error of the contract on its way.
type Fault struct {
	Class       sdk.Class   `json:"class"`
	Kind        sdk.Kind    `json:"kind,omitempty"`
	ID          string      `json:"id,omitempty"`
	Reason      sdk.Reason  `json:"reason,omitempty"`
	Feature     sdk.Feature `json:"feature,omitempty"`
	RetryMillis int64       `json:"retry,omitempty"`
	Message     string      `json:"message"`
}

// maxMessage bounds the words of a Fault.
const maxMessage = 4 << 10

// NewFault makes one of an error. One of a context is Unavailable: what ended was the store's own, or the caller has gone.
func NewFault(err error) *Fault {
	f := &Fault{Class: sdk.ClassOf(err), Message: err.Error()}
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		f.Kind, f.ID, f.Reason, f.Feature, f.RetryMillis = e.Kind, e.ID, e.Reason, e.Feature, e.RetryAfter.Milliseconds()
	} else if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		f.Class = sdk.Unavailable
	}
	if len(f.Message) > maxMessage {
		f.Message = f.Message[:maxMessage] + "…"
	}
	return f
}

// Err makes an error of it.
func (f *Fault) Err() error {
	return &sdk.Error{Class: f.Class, Kind: f.Kind, ID: f.ID, Reason: f.Reason, Feature: f.Feature, Message: f.Message,
		RetryAfter: time.Duration(max(f.RetryMillis, 0)) * time.Millisecond}
}
