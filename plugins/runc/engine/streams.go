//go:build linux

package engine

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// streams carry bytes between a command and those who are no files.
type streams struct {
	stdin    io.Reader
	stdinEnd *os.File // where it is written; nil: nothing to copy
	outputs  []output
	theirs   []*os.File // runc's ends, closed here once it has them

	copying sync.WaitGroup // outputs; stdin's reader may be blocked for ever
	failed  chan struct{}  // closed by the first error of a caller's reader or writer
	once    sync.Once
	err     error // set before failed is closed
}

type output struct {
	from *os.File
	to   io.Writer
}

// newStreams gives cmd only files, so that os/exec copies nothing.
func newStreams(cmd *exec.Cmd, stdin io.Reader, stdout, stderr io.Writer) (s *streams, err error) {
	s = &streams{stdin: stdin, failed: make(chan struct{})}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	if f, ok := stdin.(*os.File); ok {
		cmd.Stdin = f
	} else if stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		cmd.Stdin, s.stdinEnd, s.theirs = r, w, append(s.theirs, r)
	}
	if cmd.Stdout, err = s.output(stdout); err != nil {
		return nil, err
	}
	cmd.Stderr, err = s.output(stderr)
	return s, err
}

func (s *streams) output(w io.Writer) (io.Writer, error) {
	if f, ok := w.(*os.File); ok || w == nil {
		if w == nil {
			return nil, nil
		}
		return f, nil
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.theirs = append(s.theirs, to)
	s.outputs = append(s.outputs, output{from: from, to: w})
	return to, nil
}

// copy begins once runc was started. It ends by itself at the ends of the pipes, or with abandon.
func (s *streams) copy() {
	s.closeTheirs()
	for _, o := range s.outputs {
		s.copying.Go(func() {
			kept := &keptWriter{w: o.to}
			_, _ = io.Copy(kept, o.from)
			s.fail(kept.err)
		})
	}
	if s.stdinEnd != nil {
		go s.feed()
	}
}

// feed ends when stdin does, or at the first read after the command has ended.
func (s *streams) feed() {
	kept := &keptReader{r: s.stdin}
	_, err := io.Copy(s.stdinEnd, kept)
	if kept.err != nil {
		s.fail(kept.err) // an end of stdin would be a lie: the command is killed, and the pipe closed after that
		return
	}
	if err == nil || errors.Is(err, syscall.EPIPE) {
		s.stdinEnd.Close()
	}
}

func (s *streams) fail(err error) {
	if err != nil {
		s.once.Do(func() {
			s.err = err
			close(s.failed)
		})
	}
}

// failure is the first error of a caller's reader or writer.
func (s *streams) failure() error {
	select {
	case <-s.failed:
		return s.err
	default:
		return nil
	}
}

// await waits until all output is with the caller's writers, or, once ctx has ended, for no more than the write under way.
func (s *streams) await(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.closeOutputs)
	defer stop()
	s.copying.Wait()
}

func (s *streams) closeOutputs() {
	for _, o := range s.outputs {
		o.from.Close()
	}
}

func (s *streams) closeTheirs() {
	for _, f := range s.theirs {
		f.Close()
	}
	s.theirs = nil
}

// abandon closes whatever is open.
func (s *streams) abandon() {
	s.closeTheirs()
	s.closeOutputs()
	if s.stdinEnd != nil {
		s.stdinEnd.Close()
	}
}

// keptReader tells errors of the source from those of the destination.
type keptReader struct {
	r   io.Reader
	err error
}

func (k *keptReader) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	if err != io.EOF {
		k.err = err
	}
	return n, err
}

// keptWriter does the same for a destination.
type keptWriter struct {
	w   io.Writer
	err error
}

func (k *keptWriter) Write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	k.err = err
	return n, err
}
