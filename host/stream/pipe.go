package stream

import (
	"io"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

const (
	lowWater = 64 << 10  // an empty pipe gives nothing before this much or the end is there: no tiny pieces
	capacity = 512 << 10 // that the buffer grows to
)

// pipe is a bounded buffer between one writer and one reader. An io.Pipe hands over each write on its own and makes both
// sides wait for each other every time; here they meet once per many KiB.
type pipe struct {
	max  int64       // bytes to accept; 0: any number
	told func(error) // is called with the first failure, before whoever waits for the pipe hears of it

	mu       sync.Mutex
	filled   sync.Cond // lowWater or more are there, or the end
	emptied  sync.Cond // half of the buffer is free, or the end
	buf      []byte    // a ring
	from, n  int       // unread are n bytes from there
	in, out  int64     // totals
	finished bool      // the writer has written all
	eof      bool      // the reader was told so
	err      error     // why nothing moves any more; the first one stays
}

func newPipe(max int64, told func(error)) *pipe {
	p := &pipe{max: max, told: told}
	p.filled.L, p.emptied.L = &p.mu, &p.mu
	return p
}

type (
	writeEnd struct{ p *pipe }
	readEnd  struct{ p *pipe }
)

// Write takes all of b or fails.
func (w writeEnd) Write(b []byte) (int, error) {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && p.finished {
		return 0, io.ErrClosedPipe
	}
	done := 0
	for done < len(b) {
		p.makeRoom(len(b) - done)
		if p.err != nil {
			return done, p.err
		}
		if p.max > 0 && p.in >= p.max {
			// A source that overlooks this error must not pass for one that has written all.
			p.stop(&SideError{Side: Source, Err: sdk.NewInvalid(sdk.ReasonTooLarge, "the archive has more than %d bytes", p.max)})
			return done, p.err
		}
		piece := b[done:]
		if p.max > 0 && int64(len(piece)) > p.max-p.in {
			piece = piece[:p.max-p.in]
		}
		n := p.put(piece)
		done += n
		p.in += int64(n)
		if p.n >= lowWater {
			p.filled.Signal()
		}
	}
	return done, p.err
}

// makeRoom grows the buffer for want more bytes as far as it may, then waits until a byte or more is free. It returns early if the
// pipe fails.
func (p *pipe) makeRoom(want int) {
	size := max(len(p.buf), lowWater)
	for size < p.n+want && size < capacity {
		size *= 2
	}
	if size > len(p.buf) {
		grown := make([]byte, size)
		p.n, p.from = p.peek(grown), 0
		p.buf = grown
	}
	if p.n < len(p.buf) {
		return
	}
	for p.n > len(p.buf)/2 && p.err == nil {
		p.emptied.Wait()
	}
}

func (p *pipe) put(b []byte) int {
	to := (p.from + p.n) % len(p.buf)
	end := len(p.buf)
	if to < p.from {
		end = p.from
	}
	n := copy(p.buf[to:end], b)
	if to >= p.from {
		n += copy(p.buf[:p.from], b[n:])
	}
	p.n += n
	return n
}

func (p *pipe) peek(b []byte) int {
	if p.n == 0 {
		return 0
	}
	first := p.buf[p.from:min(p.from+p.n, len(p.buf))]
	n := copy(b, first)
	if n == len(first) {
		n += copy(b[n:], p.buf[:p.n-n])
	}
	return n
}

// Read gives what is there, after it waited for something worth giving.
func (r readEnd) Read(b []byte) (int, error) {
	p := r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(b) == 0 {
		return 0, p.err
	}
	if p.n == 0 {
		for p.n < lowWater && !p.finished && p.err == nil {
			p.filled.Wait()
		}
	}
	if p.err != nil {
		return 0, p.err
	}
	if p.n == 0 {
		p.eof = true
		return 0, io.EOF
	}
	n := p.peek(b)
	p.from = (p.from + n) % len(p.buf)
	p.n -= n
	if p.n == 0 {
		p.from = 0
	}
	p.out += int64(n)
	if p.n <= len(p.buf)/2 {
		p.emptied.Signal()
	}
	return n, nil
}

func (p *pipe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop(err)
}

func (p *pipe) stop(err error) {
	if p.err == nil {
		p.err = err
		p.told(err)
	}
	p.filled.Broadcast()
	p.emptied.Broadcast()
}

func (p *pipe) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = true
	p.filled.Broadcast()
}

func (p *pipe) cause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *pipe) drained() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.eof
}

func (p *pipe) taken() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}

// standing tells how much has moved, and which side has to act next.
func (p *pipe) standing() (moved int64, awaited Side) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n >= lowWater || p.finished {
		return p.in + p.out, Destination
	}
	return p.in + p.out, Source
}
