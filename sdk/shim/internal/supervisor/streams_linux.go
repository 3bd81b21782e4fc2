package supervisor

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keeper"
)

// streams are the near ends of a process's stdin, stdout and stderr.
type streams struct {
	theirs  [3]*os.File // the far ends, until they are released
	in      *os.File    // nil: stdin is at its end
	outputs []*output
	tty     bool
	pumps   sync.WaitGroup
}

// openStreams makes pipes, or a terminal. After an error nothing is open.
func openStreams(spec sdk.ProcessSpec) (s *streams, err error) {
	s = &streams{tty: spec.TTY != nil}
	defer func() {
		if err != nil {
			s.release()
			s.close()
			s, err = nil, noRoom(spec.ID, err)
		}
	}()
	if s.tty {
		master, slave, err := openTTY(*spec.TTY)
		if err != nil {
			return s, err
		}
		s.theirs = [3]*os.File{slave, slave, slave}
		s.outputs = []*output{newOutput(master, sdk.Stdout)}
		s.outputs[0].held = true
		if s.in = master; !spec.Stdin {
			s.in = nil
			err = endTTY(master)
		}
		return s, err
	}
	near, far := make([]*os.File, 3), &s.theirs
	if far[0], near[0], err = os.Pipe(); err != nil {
		return s, err
	}
	if s.in = near[0]; !spec.Stdin {
		s.in = nil
		near[0].Close() // a reader sees its end at once, and no /dev/null is needed
	}
	for i, stream := range map[int]sdk.Stream{1: sdk.Stdout, 2: sdk.Stderr} {
		if near[i], far[i], err = os.Pipe(); err != nil {
			return s, err
		}
		s.outputs = append(s.outputs, newOutput(near[i], stream))
	}
	return s, nil
}

// release closes the far ends here, so that the near ones see when nobody else has them.
func (s *streams) release() {
	for i, f := range s.theirs {
		if f != nil {
			f.Close() // a terminal three times, which does no harm
			s.theirs[i] = nil
		}
	}
}

// close closes the near ends of streams that were never pumped.
func (s *streams) close() {
	if s.in != nil {
		s.in.Close()
	}
	for _, o := range s.outputs {
		o.file.Close()
	}
}

// pump moves what the process writes into the journal, and what the journal takes of stdin to the process.
func (s *streams) pump(ctx context.Context, j *keeper.Journal) {
	for _, o := range s.outputs {
		s.pumps.Go(func() { o.pump(ctx, j) })
	}
	if s.in != nil {
		s.pumps.Go(func() { s.feed(ctx, j) })
	}
}

// finish awaits the end of all output. What still comes after the deadline is not waited for: then what is in the pipes is the last, and
// cut is true if somebody still has one open. If nobody has, it is only this machine that was slow to read.
func (s *streams) finish(deadline time.Time) (cut bool) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for _, o := range s.outputs {
		o.release()
	}
	for _, o := range s.outputs {
		select {
		case <-o.journalled:
			continue
		case <-timer.C:
		}
		for _, o := range s.outputs {
			cut = o.cut() || cut
		}
		break
	}
	for _, o := range s.outputs {
		<-o.journalled
		cut = cut || o.lost
	}
	if s.in != nil && !s.tty {
		s.in.Close() // nobody will read it any more whom the contract knows
	}
	return cut
}

// wait awaits the end of all who hold the process's pipes.
func (s *streams) wait() { s.pumps.Wait() }

const stdinBytes = 16 << 10

// feed writes what the journal takes, until the end of either.
func (s *streams) feed(ctx context.Context, j *keeper.Journal) {
	defer j.CloseStdin()
	if !s.tty {
		defer s.in.Close()
	}
	buf := make([]byte, stdinBytes)
	var last byte = '\n'
	for {
		n, err := j.ReadStdin(ctx, buf)
		if n > 0 {
			last = buf[n-1]
			if _, err := s.in.Write(buf[:n]); err != nil {
				return // the process has closed its stdin, or is gone
			}
		}
		if err != nil {
			if err == io.EOF && s.tty && j.State() == sdk.ProcessRunning {
				if last != '\n' { // the first one ends the line
					_ = endTTY(s.in)
				}
				_ = endTTY(s.in)
			}
			return
		}
	}
}

// output is the near end of stdout or stderr.
type output struct {
	file       *os.File
	stream     sdk.Stream
	journalled chan struct{} // closed once all that belongs into the journal is there
	lost       bool          // once that is closed: the keeper was told to end, and there was no room for all

	mu    sync.Mutex
	limit int  // how many more bytes belong there; negative: all
	held  bool // a terminal's, whose leader has not ended: nobody may have it open and somebody open it again
}

func newOutput(f *os.File, stream sdk.Stream) *output {
	return &output{file: f, stream: stream, journalled: make(chan struct{}), limit: -1}
}

const outputBytes = 64 << 10

// buffers are for output that is there: one that waits has none.
var buffers = sync.Pool{New: func() any { return new([outputBytes]byte) }}

// pump journals what comes, up to the end or the cut, and throws the rest away so that no leftover is held up or killed by it.
func (o *output) pump(ctx context.Context, j *keeper.Journal) {
	defer o.file.Close()
	journalling := true
	stop := func() {
		if journalling {
			journalling = false
			close(o.journalled)
		}
	}
	defer stop()
	for {
		ended := o.readSome(func(p []byte) {
			if !journalling {
				return
			}
			if _, err := j.Write(ctx, o.stream, p); err != nil {
				o.lost = journalling
				stop()
			}
		})
		if ended {
			return
		}
		o.mu.Lock()
		if o.limit == 0 {
			stop()
		}
		o.mu.Unlock()
	}
}

// readSome waits for output and hands over what is there at once. It tells whether that was the end.
func (o *output) readSome(take func([]byte)) (ended bool) {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return true
	}
	var buf *[outputBytes]byte
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		if buf == nil {
			buf = buffers.Get().(*[outputBytes]byte)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		most := len(buf)
		if o.limit > 0 {
			most = min(most, o.limit)
		}
		for {
			n, failed = unix.Read(int(fd), buf[:most])
			if failed != unix.EINTR {
				break
			}
		}
		if failed == unix.EAGAIN || failed == unix.EIO && o.held {
			buffers.Put(buf)
			buf = nil
			return false
		}
		if o.limit > 0 && n > 0 {
			o.limit -= n
		}
		return true
	})
	if buf != nil {
		defer buffers.Put(buf)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // the cut
		_ = o.file.SetReadDeadline(time.Time{})
		return false
	}
	if err != nil || failed != nil || n <= 0 { // a terminal ends with EIO
		return true
	}
	take(buf[:n])
	return false
}

// release says that the leader has ended: a terminal that nobody has open has come to its end then. To close it earlier would hang up on a leader
// that has closed its own files and has not ended.
func (o *output) release() {
	o.mu.Lock()
	held := o.held
	o.held = false
	o.mu.Unlock()
	if held {
		_ = o.file.SetReadDeadline(time.Now()) // look again
	}
}

// cut makes what is in the pipe now the last that is journalled, and tells whether somebody still has it open.
func (o *output) cut() (open bool) {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return false // closed: it has come to its end
	}
	_ = raw.Control(func(fd uintptr) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.limit < 0 {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} // before the bytes are counted: who is gone writes no more
			for _, err := unix.Poll(fds, 0); err == unix.EINTR; _, err = unix.Poll(fds, 0) {
			}
			open = fds[0].Revents&unix.POLLHUP == 0
			o.limit, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		}
	})
	_ = o.file.SetReadDeadline(time.Now())
	return open
}
