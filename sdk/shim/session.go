package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

const (
	readBytes   = 64 << 10  // read at once, of a relay and of a stream of data
	replyBytes  = 4 << 10   // of other streams
	windowBytes = 512 << 10 // that a container may send ahead on a stream

	openTimeout   = 30 * time.Second // for a stream to be accepted
	streamLinger  = 10 * time.Second // for the other end of a stream to close it, too
	writeTimeout  = 10 * time.Second // for a frame to go out
	loggedPerMux  = 8                // lines of yamux's own
	streamBacklog = 256              // streams that were not accepted yet
)

// past is a deadline that has been.
var past = time.Unix(1, 0)

// session is the yamux session of one relay.
type session struct {
	hello wire.Hello
	mux   *yamux.Session
	guard *guard

	mu     sync.Mutex
	over   bool
	broken error          // the first thing that a call found to be wrong
	own    sync.WaitGroup // the calls' goroutines
}

func newSession(x *running, hello wire.Hello, keepAlive time.Duration) (*session, error) {
	s := &session{hello: hello, guard: &guard{r: x.r}}
	var err error
	s.mux, err = yamux.Client(wire.JoinFrames(struct {
		io.Reader
		io.Writer
		io.Closer
	}{s.guard, x.in, closer(x.close)}), &yamux.Config{
		AcceptBacklog: streamBacklog, EnableKeepAlive: true, KeepAliveInterval: keepAlive, ConnectionWriteTimeout: min(writeTimeout, keepAlive),
		MaxStreamWindowSize: windowBytes, StreamOpenTimeout: openTimeout, StreamCloseTimeout: streamLinger,
		Logger: &quiet{log: x.d.o.Log.With("container", string(x.container))},
	})
	return s, err
}

type closer func()

func (c closer) Close() error { c(); return nil }

// close ends the session, and so its calls, and waits for their goroutines.
func (s *session) close() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.mux.Close()
	s.own.Wait()
}

// discard ends a session that is broken, with why, or that no call can use any longer. The relay cleans up.
func (s *session) discard(why error) {
	s.mu.Lock()
	if s.broken == nil {
		s.broken = why
	}
	s.mu.Unlock()
	s.mux.Close()
}

// why tells what ended the session.
func (s *session) why() error {
	if err := s.guard.broken.Load(); err != nil {
		return *err
	}
	s.mu.Lock()
	err := s.broken
	s.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = s.mux.AcceptStream() // none can come, and it is closed: this only tells why
	for _, theirs := range []error{yamux.ErrInvalidVersion, yamux.ErrInvalidMsgType, yamux.ErrRecvWindowExceeded, yamux.ErrUnexpectedFlag, yamux.ErrDuplicateStream} {
		if errors.Is(err, theirs) {
			return fmt.Errorf("%w: %w", wire.ErrProtocol, err)
		}
	}
	return err
}

// cut is the error of a call on a session that has ended.
func (s *session) cut(sent bool) error {
	why := s.why()
	if errors.Is(why, wire.ErrProtocol) {
		return why
	}
	return &cutError{cause: why, sent: sent}
}

// lives asks the other end: one whose session is over, as that of a relay that was cut, ends its streams before ours is seen to be over, and
// answers nothing any more.
func (s *session) lives() bool {
	_, err := s.mux.Ping()
	return err == nil
}

// talk is a call's stream. What is said on it is said on a goroutine of the session's, for yamux may hold it up for a while where a
// container does not read; the caller's goroutine only makes the callbacks, and leaves as soon as its context ends.
type talk struct {
	*wire.Conn
	session   *session
	stream    *yamux.Stream
	ctx       context.Context
	callbacks chan func()
	ran       chan error
}

// call sends a request and has converse do the rest. Its error is a *cutError, a callerError, one of converse's own, or one of ctx.
func (s *session) call(ctx context.Context, req wire.Request, converse func(*talk) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &talk{session: s, ctx: ctx, callbacks: make(chan func()), ran: make(chan error, 1)}
	done := make(chan error, 1)
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return s.cut(false)
	}
	s.own.Go(func() { t.run(req, converse, done) })
	s.mu.Unlock()
	for {
		select {
		case f := <-t.callbacks:
			f()
		case err := <-done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *talk) run(req wire.Request, converse func(*talk) error, done chan<- error) {
	stream, err := t.session.mux.OpenStream()
	if err != nil {
		done <- t.judge(err, false)
		return
	}
	defer stream.Close()
	stop := context.AfterFunc(t.ctx, func() { _ = stream.SetDeadline(past) })
	defer stop()
	t.stream = stream
	size := replyBytes
	if req.Verb == wire.VerbFollow || req.Verb == wire.VerbRead {
		size = readBytes
	}
	t.Conn = wire.NewConn(bufio.NewReaderSize(stream, size), stream)
	if err = t.WriteMessage(wire.KindRequest, req); errors.Is(err, wire.ErrTooLarge) {
		// Only very many very short arguments can do that, more than a kernel takes.
		err = sdk.NewInvalid(sdk.ReasonTooLarge, "the request takes %v", err)
	} else if err == nil {
		err = converse(t)
	}
	done <- t.judge(err, true)
}

// judge says what it means that a call ended with err: whatever is not the caller's, the contract's or a breach of the protocol comes
// of the relay.
func (t *talk) judge(err error, sent bool) error {
	s := t.session
	_, own := errors.AsType[callerError](err)
	_, answer := errors.AsType[*sdk.Error](err)
	switch {
	case err == nil || own || answer || t.ctx.Err() != nil:
		return err
	case errors.Is(err, wire.ErrProtocol):
		s.discard(err)
		return err
	case errors.Is(err, yamux.ErrTimeout):
		return errSlow
	case s.mux.IsClosed():
	case (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, yamux.ErrConnectionReset)) && s.lives():
		err = fmt.Errorf("%w: a call ends in the midst of it", wire.ErrProtocol)
		s.discard(err)
		return err
	default:
		s.discard(nil)
	}
	return s.cut(sent)
}

// hand has the caller's goroutine run a callback.
func (t *talk) hand(f func() error) error {
	run := func() {
		err := context.Canceled // should it panic
		defer func() { t.ran <- err }()
		err = f()
	}
	select {
	case t.callbacks <- run:
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
	if err := <-t.ran; err != nil {
		return callerError{err}
	}
	return nil
}

// patience is how long the next frames may take to come; zero is for ever.
func (t *talk) patience(d time.Duration) {
	var deadline time.Time
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	_ = t.stream.SetReadDeadline(deadline)
	if t.ctx.Err() != nil { // which set another
		_ = t.stream.SetReadDeadline(past)
	}
}

// quiet logs the first lines that yamux has to say on a session: a container could have it say as many as it likes.
type quiet struct {
	log  *slog.Logger
	said atomic.Int32
}

func (q *quiet) Printf(format string, args ...any) {
	if q.said.Add(1) <= loggedPerMux {
		q.log.Debug(wire.Text(fmt.Sprintf(format, args...)))
	}
}
func (q *quiet) Print(args ...any)   { q.Printf("%s", fmt.Sprint(args...)) }
func (q *quiet) Println(args ...any) { q.Print(args...) }
