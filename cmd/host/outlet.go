package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

// outlet is a standard stream to write to. Its first failure ends the command: what nobody can read need not be made.
type outlet struct {
	file   *os.File
	name   string
	end    context.CancelCauseFunc
	hurry  <-chan struct{} // once it is closed, nobody waits for a reader
	term   bool            // it is a terminal that does what it is told
	colour bool

	mu  sync.Mutex // held while it is written
	buf []byte
	err error
}

// readerTime is how long a write may take once somebody hurries. A reader who is there takes it at once.
const readerTime = 200 * time.Millisecond

var errUnread = errors.New("nobody reads it")

// outletError says that a standard stream takes no more.
type outletError struct {
	name  string
	cause error
}

func (e *outletError) Error() string { return fmt.Sprintf("cannot write to %s: %v", e.name, e.cause) }
func (e *outletError) Unwrap() error { return e.cause }

// closed tells whether the reader has gone, as head(1) does when it has seen enough.
func (e *outletError) closed() bool { return errors.Is(e.cause, syscall.EPIPE) }

func newOutlet(f *os.File, name string, end context.CancelCauseFunc) *outlet {
	o := &outlet{file: f, name: name, end: end, term: isatty.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb"}
	o.colour = o.term && os.Getenv("NO_COLOR") == ""
	return o
}

// Write writes everything, or fails for good. While nobody reads, it waits, until somebody hurries.
func (o *outlet) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.write(b)
	if err != nil {
		cause := err
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			cause = pe.Err
		}
		o.err = &outletError{o.name, cause}
		o.end(o.err)
		return n, o.err
	}
	return n, nil
}

// failure is why the outlet takes no more, if it does not.
func (o *outlet) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// write leaves a write behind that nobody ends: the system does so only with the process.
func (o *outlet) write(b []byte) (n int, err error) {
	o.buf = append(o.buf[:0], b...)
	done := make(chan struct{})
	var wrote struct {
		n   int
		err error
	}
	go func() {
		defer close(done)
		wrote.n, wrote.err = o.file.Write(o.buf)
	}()
	select {
	case <-done:
		return wrote.n, wrote.err
	case <-o.hurry:
	}
	late := time.NewTimer(readerTime)
	defer late.Stop()
	select {
	case <-done:
		return wrote.n, wrote.err
	case <-late.C:
		return 0, errUnread
	}
}

// width is how wide lines are to be made for the terminal: at least 40 columns, 0 if it is none.
func (o *outlet) width() int {
	if n := o.columns(); n > 0 {
		return max(n, 40)
	}
	return 0
}

// columns is how many the terminal has; 80 if unknown, 0 if it is none.
func (o *outlet) columns() int {
	if !o.term {
		return 0
	}
	w, _, err := term.GetSize(int(o.file.Fd()))
	if err != nil || w <= 0 {
		return 80
	}
	return w
}

// The colours, as ECMA-48 numbers them.
const (
	red    = 31
	green  = 32
	yellow = 33
)

// stepColours are given to steps in turn.
var stepColours = [...]int{36, 33, 35, 32, 34, 96, 93, 95, 92, 94}

// paint colours text where the outlet takes colours.
func (o *outlet) paint(colour int, text string) string {
	if !o.colour || colour == 0 {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, text)
}
