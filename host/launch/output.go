package launch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-run/slipway/internal/printable"
)

// output reads what a process prints, and keeps up with it whatever it is. The first line on stdout is the handshake; any
// other is a stray one and logged as a warning. Lines on stderr are logged: those that hclog wrote, with their level and
// fields, any other as they are. Long ones are cut and too many dropped, which is said.
type output struct {
	log    *slog.Logger
	stdout bucket // of one reader each
	stderr bucket
	ring   ring
	plain  slog.Level // of lines that tell none

	first chan struct{} // closed when line is there, or stdout has ended without one
	line  []byte        // nil: there was none
}

func newOutput(log *slog.Logger) *output {
	return &output{log: log, first: make(chan struct{}), stdout: newBucket(), stderr: newBucket()}
}

// tail is what stderr said last.
func (o *output) tail() string { return clean(string(o.ring.bytes())) }

// lastWords reads a pipe to its end. Once its deadline has passed it gives what is in the pipe, and waits for nothing: what a process has
// written before its end is not lost on a machine that is slow to read it.
type lastWords struct {
	pipe *os.File
	late int // bytes read since
}

const mostPipe = 1 << 20 // a pipe of an unprivileged process holds no more

func (l *lastWords) Read(p []byte) (int, error) {
	if l.late == 0 {
		n, err := l.pipe.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err := l.pipe.SetReadDeadline(time.Time{}); err != nil {
			return 0, err
		}
	}
	if l.late >= mostPipe { // somebody goes on writing
		return 0, io.EOF
	}
	n, err := readNow(l.pipe, p)
	l.late += n
	return n, err
}

func (o *output) readStdout(r io.Reader) {
	seen := false
	eachLine(r, func(line []byte, cut int) {
		if !seen {
			seen = true
			o.line = append([]byte{}, line...)
			close(o.first)
			return
		}
		if o.admit(&o.stdout, "stdout") {
			o.log.Warn("plugin wrote to stdout, which is for the handshake only: let it log, or write to stderr",
				"line", clean(string(line)), "cut", cut)
		}
	})
	o.note(&o.stdout, "stdout")
	if !seen {
		close(o.first)
	}
}

func (o *output) readStderr(r io.Reader) {
	eachLine(io.TeeReader(r, &o.ring), func(line []byte, cut int) {
		if len(line) > 0 && o.admit(&o.stderr, "stderr") {
			o.logLine(line, cut)
		}
	})
	o.note(&o.stderr, "stderr")
}

// admit tells whether one more line may be logged, and says how many were not.
func (o *output) admit(b *bucket, stream string) bool {
	ok, report := b.take(time.Now())
	if report {
		o.note(b, stream)
	}
	return ok
}

func (o *output) note(b *bucket, stream string) {
	if n := b.forget(); n > 0 {
		o.log.Warn("plugin writes too much; lines were dropped", "stream", stream, "dropped", n)
	}
}

func (o *output) logLine(line []byte, cut int) {
	level, msg, attrs := slog.LevelInfo, "", []slog.Attr(nil)
	if entry, ok := parseEntry(line); ok && cut == 0 {
		level, msg, attrs = entry.level, entry.message, entry.attrs
	} else {
		msg = clean(string(line))
		level = o.levelOfPlain(msg)
		if cut > 0 {
			attrs = []slog.Attr{slog.Int("cut", cut)}
		}
	}
	o.log.LogAttrs(context.Background(), level, msg, attrs...)
}

// levelOfPlain knows the last words of a Go program, which are many lines: of a panic, or of goroutines that were asked for.
func (o *output) levelOfPlain(line string) slog.Level {
	switch {
	case strings.HasPrefix(line, panicPrefix), strings.HasPrefix(line, fatalPrefix):
		o.plain = slog.LevelError
	case strings.HasPrefix(line, dumpPrefix):
		o.plain = slog.LevelDebug // they are kept for the report
	}
	return o.plain
}

// How a Go program's last words begin.
const (
	panicPrefix = "panic: "
	fatalPrefix = "fatal error: "
	dumpPrefix  = "SIGQUIT: "
)

// entry is one line that hclog wrote.
type entry struct {
	level   slog.Level
	message string
	attrs   []slog.Attr // by name
}

func (e entry) String() string {
	s := e.level.String() + " " + e.message
	for _, a := range e.attrs {
		s += " " + a.String()
	}
	return s
}

// parseEntry is false unless the line is an object as hclog writes them, with the types that it gives to its own keys.
func parseEntry(line []byte) (entry, bool) {
	if line[0] != '{' {
		return entry{}, false
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return entry{}, false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return entry{}, false
	}
	msg, ok := fields["@message"].(string)
	if !ok {
		return entry{}, false
	}
	levelName, ok := fields["@level"].(string)
	if !ok {
		return entry{}, false
	}
	level, ok := levelOf(levelName)
	if !ok {
		return entry{}, false
	}
	if at, has := fields["@timestamp"]; has {
		if _, ok := at.(string); !ok {
			return entry{}, false
		}
	}
	e := entry{level: level, message: clean(msg)}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key == "@message" || key == "@level" || key == "@timestamp" {
			continue
		}
		e.attrs = append(e.attrs, slog.Any(attrKey(key), attrValue(fields[key])))
	}
	return e, true
}

func levelOf(hclog string) (slog.Level, bool) {
	switch hclog {
	case "trace":
		return slog.LevelDebug - 4, true
	case "debug":
		return slog.LevelDebug, true
	case "info":
		return slog.LevelInfo, true
	case "warn":
		return slog.LevelWarn, true
	case "error":
		return slog.LevelError, true
	}
	return 0, false
}

// attrKey keeps a plugin's fields from posing as the host's.
func attrKey(key string) string {
	switch key = strings.TrimPrefix(clean(key), "@"); key {
	case slog.TimeKey, slog.LevelKey, slog.MessageKey, slog.SourceKey, "plugin", "pid", "epoch":
		return "plugin." + key
	}
	return key
}

func attrValue(v any) any {
	switch v := v.(type) {
	case string:
		return clean(v)
	case map[string]any, []any:
		if b, err := json.Marshal(v); err == nil {
			return clean(string(b))
		}
	}
	return v
}

// clean keeps a plugin's bytes from steering a terminal.
func clean(s string) string {
	return printable.Lines(strings.TrimSuffix(strings.ReplaceAll(s, "\r\n", "\n"), "\r"))
}

// eachLine hands over each line without its end, at most maxLine bytes of it and how many were cut, until r ends or fails.
func eachLine(r io.Reader, do func(line []byte, cut int)) {
	b := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := b.ReadSlice('\n')
		cut := 0
		if errors.Is(err, bufio.ErrBufferFull) {
			line = bytes.Clone(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				var more []byte
				more, err = b.ReadSlice('\n')
				cut += len(more)
			}
			if err == nil {
				cut-- // the line feed
			}
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if err == nil || len(line) > 0 {
			do(line, cut)
		}
		if err != nil {
			return
		}
	}
}

// ring keeps the last tailSize bytes written to it.
type ring struct {
	mu  sync.Mutex
	buf []byte
}

func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, p[max(0, len(p)-tailSize):]...)
	if len(r.buf) > 2*tailSize {
		r.buf = append(r.buf[:0], r.last()...)
	}
	return len(p), nil
}

// last is what is kept. With mu held.
func (r *ring) last() []byte { return r.buf[max(0, len(r.buf)-tailSize):] }

func (r *ring) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.last())
}

// bucket is a token bucket over lines.
type bucket struct {
	tokens  float64
	at      time.Time // of the last take
	dropped int
	since   time.Time // of the first drop that is not reported yet
}

func newBucket() bucket { return bucket{tokens: logLinesBurst} }

// take tells whether a line is admitted, and whether it is time to report dropped ones: once a second.
func (b *bucket) take(now time.Time) (ok, report bool) {
	if !b.at.IsZero() {
		b.tokens = min(logLinesBurst, b.tokens+now.Sub(b.at).Seconds()*logLinesPerSecond)
	}
	b.at = now
	report = b.dropped > 0 && now.Sub(b.since) >= time.Second
	if b.tokens >= 1 {
		b.tokens--
		return true, report
	}
	if b.dropped == 0 {
		b.since = now
	}
	b.dropped++
	return false, report
}

// forget gives the number of lines dropped and starts to count anew.
func (b *bucket) forget() int {
	n := b.dropped
	b.dropped = 0
	return n
}
