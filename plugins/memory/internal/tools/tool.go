package tools

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

// tool is a call that runs.
type tool struct {
	*Call
	ctx    context.Context
	in     io.Reader
	out    *bufio.Writer // flushed when the tool ends
	status int           // what fail leaves
}

// exit ends a tool from anywhere in its own goroutine.
type exit struct{ status int }

// statusPipe is that of a program whose reader went away.
const statusPipe = 141

func newFunc(run func(*tool) int) Func {
	return func(ctx context.Context, c *Call) (status int) {
		t := &tool{Call: c, ctx: ctx}
		t.out = bufio.NewWriterSize(sink{t, c.Stdout}, 8<<10)
		t.in = source{t, c.Stdin}
		if in, ok := c.Stdin.(interface{ SetReadDeadline(time.Time) error }); ok {
			defer wake(ctx, in)()
		}
		defer func() {
			switch r := recover().(type) {
			case nil:
			case exit:
				status = r.status
			default:
				panic(r)
			}
		}()
		func() {
			// What was written before an exit is flushed, except after a failed write.
			defer func() {
				r := recover()
				if e, ok := r.(exit); ok && e.status != statusPipe {
					status = e.status
					return
				}
				if r != nil {
					panic(r)
				}
			}()
			status = run(t)
		}()
		t.out.Flush()
		return status
	}
}

// wake ends a read that waits when ctx ends. What it returns undoes that.
func wake(ctx context.Context, in interface{ SetReadDeadline(time.Time) error }) func() {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		in.SetReadDeadline(time.Unix(1, 0))
		close(woken)
	})
	return func() {
		if stop() {
			return
		}
		<-woken
		in.SetReadDeadline(time.Time{})
	}
}

// check ends the tool if its context has ended.
func (t *tool) check() {
	if t.ctx.Err() != nil {
		panic(exit{statusPipe})
	}
}

// source reads standard input and ends the tool with its context.
type source struct {
	t *tool
	r io.Reader
}

func (s source) Read(p []byte) (int, error) {
	s.t.check()
	if s.r == nil {
		return 0, io.EOF
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.t.check()
	}
	return n, err
}

// sink writes an output, and ends the tool where that fails: quietly if nobody
// reads any more.
type sink struct {
	t *tool
	w io.Writer
}

func (s sink) Write(p []byte) (int, error) {
	s.t.check()
	n, err := s.w.Write(p)
	if err == nil {
		return n, nil
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) && errno != syscall.EPIPE {
		fmt.Fprintf(s.t.Stderr, "%s: write error: %s\n", s.t.Name, reason(err))
		s.t.out.Reset(io.Discard)
		panic(exit{1})
	}
	panic(exit{statusPipe})
}

// complain writes a message and makes the tool's status at least 1.
func (t *tool) complain(format string, args ...any) {
	t.out.Flush()
	fmt.Fprintf(t.Stderr, "%s: %s\n", t.Name, fmt.Sprintf(format, args...))
	t.status = max(t.status, 1)
}

// fail complains of an error about a path.
func (t *tool) fail(path string, err error) { t.complain("%s: %s", path, reason(err)) }

// die complains and ends the tool.
func (t *tool) die(status int, format string, args ...any) {
	t.complain(format, args...)
	panic(exit{status})
}

// reason is an error without the operation and the path that it names.
func reason(err error) string {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	if le := (*os.LinkError)(nil); errors.As(err, &le) {
		err = le.Err
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		err = errno
	}
	s := err.Error()
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

func (t *tool) getenv(name string) string {
	if t.Env.Lookup == nil {
		return ""
	}
	v, _ := t.Env.Lookup(name)
	return v
}

// stat is FS.Stat; devices and descriptors are like /dev/null.
func (t *tool) stat(path string) (fs.FileInfo, error) {
	_, dev := Device(t.Dir, path)
	if _, fd := Descriptor(t.Dir, path); dev || fd {
		path = "/dev/null"
	}
	return t.FS.Stat(t.Dir, path)
}

// open opens a file to read; "-" is standard input.
func (t *tool) open(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(t.in), nil
	}
	if dev, ok := Device(t.Dir, path); ok {
		return t.openDevice(dev)
	}
	if name, ok := Descriptor(t.Dir, path); ok {
		f, err := t.descriptor(name, false)
		if err != nil {
			return nil, err
		}
		in, ok := f.(interface{ SetReadDeadline(time.Time) error })
		if !ok {
			return file{source{t, f}, f}, nil
		}
		return file{source{t, f}, awake{f, wake(t.ctx, in)}}, nil
	}
	f, err := t.FS.Open(t.Dir, path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, syscall.EISDIR
	}
	return file{source{t, f}, f}, nil
}

type file struct {
	io.Reader
	io.Closer
}

// awake is an input whose Read ended with the tool's context until now.
type awake struct {
	io.Closer
	stop func()
}

func (a awake) Close() error {
	a.stop()
	return a.Closer.Close()
}

// create opens a file to write.
func (t *tool) create(path string, flag int) (io.WriteCloser, error) {
	if dev, ok := Device(t.Dir, path); ok {
		return t.createDevice(dev)
	}
	if name, ok := Descriptor(t.Dir, path); ok {
		return t.descriptor(name, true)
	}
	return t.FS.Open(t.Dir, path, os.O_WRONLY|os.O_CREATE|flag, 0o666&^t.Umask)
}

// each calls f with every input that args name, standard input if none does.
// Those that cannot be opened are complained of.
func (t *tool) each(args []string, f func(name string, r io.Reader)) {
	if len(args) == 0 {
		args = []string{"-"}
	}
	for _, name := range args {
		r, err := t.open(name)
		if err != nil {
			t.fail(name, err)
			continue
		}
		func() {
			defer r.Close()
			f(name, r)
		}()
	}
}

// copy copies to standard output, unbuffered.
func (t *tool) copy(name string, r io.Reader) {
	t.out.Flush()
	if _, err := io.CopyBuffer(onlyWriter{sink{t, t.Stdout}}, onlyReader{r}, make([]byte, 64<<10)); err != nil {
		t.fail(name, err)
	}
}

type onlyWriter struct{ io.Writer }
type onlyReader struct{ io.Reader }

// lines reads lines of any length.
type lines struct {
	r    *bufio.Reader
	end  byte
	long []byte
	err  error
}

func newLines(r io.Reader, end byte) *lines {
	return &lines{r: bufio.NewReaderSize(r, 32<<10), end: end}
}

// next returns a line without its end, and whether it had one. The line is
// valid until the next call.
func (l *lines) next() (line []byte, ended, ok bool) {
	if l.err != nil {
		return nil, false, false
	}
	l.long = l.long[:0]
	for {
		part, err := l.r.ReadSlice(l.end)
		if err == nil {
			part = part[:len(part)-1]
			if len(l.long) == 0 {
				return part, true, true
			}
			return append(l.long, part...), true, true
		}
		l.long = append(l.long, part...)
		if err != bufio.ErrBufferFull {
			l.err = err
			return l.long, false, len(l.long) > 0
		}
	}
}

// failed is what ended the input, if not its end.
func (l *lines) failed() error {
	if l.err == io.EOF {
		return nil
	}
	return l.err
}

// eachLine is each, by lines.
func (t *tool) eachLine(args []string, end byte, f func(line []byte, ended bool)) {
	t.each(args, func(name string, r io.Reader) {
		l := newLines(r, end)
		for {
			line, ended, ok := l.next()
			if !ok {
				break
			}
			f(line, ended)
		}
		if err := l.failed(); err != nil {
			t.fail(name, err)
		}
	})
}

// line writes a line.
func (t *tool) line(b []byte, end byte) {
	t.out.Write(b)
	t.out.WriteByte(end)
}

func (t *tool) printf(format string, args ...any) { fmt.Fprintf(t.out, format, args...) }

// quote is a name as messages have it.
func quote(s string) string {
	if strings.IndexFunc(s, unicode.IsControl) < 0 {
		return "'" + s + "'"
	}
	return fmt.Sprintf("%q", s)
}

// whole reads an input to its end.
func whole(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}
