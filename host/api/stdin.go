package api

import (
	"context"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/sdk"
)

// stdin is what clients write and a host reads, for one process. A client that goes away leaves it open: another goes on.
type stdin struct {
	users int // of leaveStdin; the server's mutex guards it

	mu      sync.Mutex
	buf     []byte
	taken   int64 // position after buf: all before it is in the host's hands
	end     bool  // buf is the last of it
	closed  bool  // nobody reads any more
	changed chan struct{}
}

// maxStdin is how much waits here for the process; a client with more waits.
const maxStdin = 64 << 10

// ReasonStdinEnded is why more stdin is refused: a client has said where it ends.
const ReasonStdinEnded sdk.Reason = "stdin-ended"

func newStdin() *stdin { return &stdin{changed: make(chan struct{})} }

// errStdinClosed ends the reading of a stdin whose process has ended.
var errStdinClosed = errors.New("the process has ended")

func (s *stdin) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Read waits for what clients write. It is for the host.
func (s *stdin) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		n, end, closed, changed := copy(p, s.buf), s.end, s.closed, s.changed
		if n > 0 {
			s.buf = s.buf[n:]
			s.wake()
		}
		s.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case closed:
			return 0, errStdinClosed
		case end:
			return 0, io.EOF
		}
		<-changed
	}
}

// write takes what comes after the position that it has, and waits while there is no room. It gives the position that it has come to. A
// client whose stdin is not what others have sent is told so: one that is shorter is Invalid, one that is longer FailedPrecondition with
// ReasonStdinEnded.
func (s *stdin) write(ctx context.Context, at int64, data []byte, end bool) (int64, error) {
	for {
		s.mu.Lock()
		if at > s.taken {
			defer s.mu.Unlock()
			return s.taken, invalid("stdin has come to %d and what was sent begins at %d: send all from there", s.taken, at)
		}
		if skip := min(s.taken-at, int64(len(data))); skip > 0 {
			data, at = data[skip:], at+skip
		}
		switch {
		case s.closed:
			defer s.mu.Unlock()
			return s.taken, nil
		case end && at+int64(len(data)) < s.taken:
			defer s.mu.Unlock()
			return s.taken, invalid("stdin has come to %d and is said to end at %d: another client sends another stdin", s.taken, at+int64(len(data)))
		case s.end && len(data) > 0:
			defer s.mu.Unlock()
			return s.taken, sdk.NewFailedPrecondition(ReasonStdinEnded, sdk.KindProcess, "", "stdin has ended at %d, and more was sent: another client has sent another stdin", s.taken)
		}
		if n := min(len(data), maxStdin-len(s.buf)); n > 0 {
			s.buf = append(s.buf, data[:n]...)
			s.taken += int64(n)
			data, at = data[n:], at+int64(n)
			s.wake()
		}
		if len(data) == 0 {
			defer s.mu.Unlock()
			if end {
				s.end = true
				s.wake()
			}
			return s.taken, nil
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// close ends it for both sides.
func (s *stdin) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake()
}

func runStdin(run string) string             { return "run:" + run }
func processStdin(owner, name string) string { return "process:" + owner + " " + name }

// closeStdin ends a stdin that nobody needs any more.
func (s *Server) closeStdin(key string, in *stdin) {
	in.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stdins[key] == in {
		delete(s.stdins, key)
	}
}

// WriteStdin takes what a client has for a process.
func (s processService) WriteStdin(ctx context.Context, from *connect.ClientStream[pb.WriteStdinRequest]) (*connect.Response[pb.WriteStdinResponse], error) {
	ctx, cancel := s.while(ctx)
	defer cancel()
	var in *stdin
	var taken int64
	for from.Receive() {
		msg := from.Msg()
		if in == nil {
			key := runStdin(msg.GetRun())
			if p := msg.GetProcess(); p != nil {
				key = processStdin(p.GetOwner(), processName(p.GetName()))
			}
			s.mu.Lock()
			in = s.stdins[key]
			s.mu.Unlock()
			if in == nil {
				return nil, answer(&sdk.Error{Class: sdk.NotFound, Kind: sdk.KindProcess, ID: msg.GetProcess().GetOwner() + msg.GetRun(),
					Message: "no such process or run is under way with a stdin"})
			}
		}
		var err error
		if taken, err = in.write(ctx, msg.GetPosition(), msg.GetData(), msg.GetEnd()); err != nil {
			return nil, answer(because(ctx, err))
		}
	}
	if err := from.Err(); err != nil {
		return nil, err
	}
	return connect.NewResponse(&pb.WriteStdinResponse{Taken: taken}), nil
}

// processName is a process's name, by default that of a step's.
func processName(name string) string {
	if name == "" {
		return host.MainProcess
	}
	return name
}
