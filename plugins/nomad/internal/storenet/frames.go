package storenet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Through a command bytes go in frames: a length of four bytes, big-endian, then so many. A frame of none is a sign of life. Both sides send
// them, for nobody else tells when the other has gone: Nomad ends a command whose caller was killed only once it writes, and tells its caller of a
// command's end only once stdin has ended, too. So the end has a frame of its own.
const (
	beatTime = 5 * time.Second
	silence  = 45 * time.Second // until the other side counts as gone
	maxFrame = 64 << 10
	endFrame = 1<<32 - 1 // in the place of a length
)

// framesOut writes frames. For several goroutines.
type framesOut struct {
	w io.Writer

	mu  sync.Mutex
	buf []byte
}

func (f *framesOut) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		part := p[n:min(len(p), n+maxFrame)]
		if err := f.frame(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

func (f *framesOut) frame(p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf = binary.BigEndian.AppendUint32(f.buf[:0], uint32(len(p)))
	f.buf = append(f.buf, p...)
	_, err := f.w.Write(f.buf)
	return err
}

// end sends the last frame.
func (f *framesOut) end() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.w.Write(binary.BigEndian.AppendUint32(nil, endFrame))
	return err
}

// beat sends signs of life until ctx ends or nobody takes them.
func (f *framesOut) beat(ctx context.Context) error {
	tick := time.NewTicker(beatTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := f.frame(nil); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// framesIn reads them. For one goroutine.
type framesIn struct {
	r    io.Reader
	gone func() // called when nothing has come for long while somebody reads; it has the Read end
	left int    // of the frame
	over bool   // the last frame has come
}

func (f *framesIn) Read(p []byte) (int, error) {
	if f.over {
		return 0, io.EOF
	}
	late := time.AfterFunc(silence, f.gone)
	defer late.Stop()
	var head [4]byte
	for f.left == 0 {
		if _, err := io.ReadFull(f.r, head[:]); err != nil {
			return 0, err
		}
		late.Reset(silence)
		n := binary.BigEndian.Uint32(head[:])
		if n == endFrame {
			f.over = true
			return 0, io.EOF
		}
		if n > maxFrame {
			return 0, fmt.Errorf("a frame of %d bytes came; at most %d are taken", n, maxFrame)
		}
		f.left = int(n)
	}
	n, err := f.r.Read(p[:min(len(p), f.left)])
	f.left -= n
	if err == io.EOF && f.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Tunnel is what the command in a store's task does: it carries bytes between its own streams, in frames, and a connection with the store, until either
// has ended. A Read of in that is under way then is left to itself.
func Tunnel(ctx context.Context, c net.Conn, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { c.Close() })()
	frames := &framesOut{w: out}
	var own sync.WaitGroup
	own.Go(func() {
		if err := frames.beat(ctx); err != nil {
			cancel(err)
		}
	})
	go func() {
		_, err := io.Copy(c, &framesIn{r: in, gone: func() { cancel(errors.New("nobody is at the other end any more")) }})
		if half, ok := c.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		}
		if err != nil {
			cancel(err)
		}
	}()
	_, err := io.Copy(frames, c)
	_ = frames.end() // if nobody takes it, nobody waits for it
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	own.Wait()
	return err
}
