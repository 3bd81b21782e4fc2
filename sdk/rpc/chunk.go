package rpc

import (
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// Sizes on the wire. They are the protocol's, see data.proto.
const (
	chunkSize    = 256 << 10 // what is sent
	maxChunkSize = 1 << 20   // what is taken
	maxMessage   = 4 << 20   // of any kind
)

// sum is the running checksum of a stream.
type sum struct {
	bytes int64
	crc   uint32
	table *crc32.Table
}

func newSum() sum { return sum{table: crc32.MakeTable(crc32.Castagnoli)} }

func (s *sum) add(p []byte) {
	s.bytes += int64(len(p))
	s.crc = crc32.Update(s.crc, s.table, p)
}

func (s *sum) trailer() *pb.Trailer { return &pb.Trailer{Bytes: s.bytes, Crc32C: s.crc} }

func (s *sum) check(t *pb.Trailer) error {
	if t.Bytes == s.bytes && t.Crc32C == s.crc {
		return nil
	}
	return sdk.NewInternal(nil, "the stream was damaged: %d bytes with checksum %08x came, %d with %08x were sent", s.bytes, s.crc, t.Bytes, t.Crc32C)
}

// buffers keeps chunk-sized buffers between streams.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return (*p)[:0]
	}
	return make([]byte, 0, chunkSize)
}

func (b *buffers) put(p []byte) { b.pool.Put(&p) }

// chunkWriter cuts what is written into chunks. One buffer fills while the other is being sent, and a chunk is sent as soon
// as the one before is out, however full it is: nothing that was written waits for more. Its send gets a buffer that is
// used again once send has returned, which holds because gRPC's own codec has copied it by then. A codec that passes
// buffers through has to change this type and chunkReader, nothing else.
type chunkWriter struct {
	send func([]byte) error
	pool *buffers
	sum  sum
	done chan struct{} // closed when the sending goroutine has ended

	mu     sync.Mutex
	change sync.Cond
	fill   []byte
	spare  []byte
	closed bool
	err    error
}

func newChunkWriter(pool *buffers, send func([]byte) error) *chunkWriter {
	w := &chunkWriter{send: send, pool: pool, sum: newSum(), done: make(chan struct{}), fill: pool.get(), spare: pool.get()}
	w.change.L = &w.mu
	go w.run()
	return w
}

// run sends until the writer is closed and empty, or has failed.
func (w *chunkWriter) run() {
	defer close(w.done)
	for {
		chunk := w.next()
		if chunk == nil {
			return
		}
		w.sum.add(chunk)
		err := w.send(chunk)
		w.mu.Lock()
		w.spare = chunk[:0]
		if err != nil && w.err == nil {
			w.err = err
		}
		w.change.Broadcast()
		w.mu.Unlock()
	}
}

func (w *chunkWriter) next() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.fill) == 0 && !w.closed && w.err == nil {
		w.change.Wait()
	}
	if w.err != nil || len(w.fill) == 0 {
		return nil
	}
	chunk := w.fill
	w.fill, w.spare = w.spare, nil
	w.change.Broadcast()
	return chunk
}

// Write blocks while both buffers are full. It fails once the receiver is gone.
func (w *chunkWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for {
		if w.err != nil {
			return n, w.err
		}
		if w.closed {
			return n, fmt.Errorf("write after the end of the stream: %w", io.ErrClosedPipe)
		}
		if n == len(p) {
			return n, nil
		}
		room := chunkSize - len(w.fill)
		if room == 0 {
			w.change.Wait()
			continue
		}
		part := p[n:min(n+room, len(p))]
		w.fill = append(w.fill, part...)
		n += len(part)
		w.change.Broadcast()
	}
}

// finish sends what is left and gives the trailer. It must be called once, by the owner; no write succeeds after it.
func (w *chunkWriter) finish() (*pb.Trailer, error) {
	w.end(nil)
	return w.sum.trailer(), w.err
}

// fail makes every later write fail, waiting for nothing.
func (w *chunkWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.change.Broadcast()
}

// abandon throws away what is left. It waits for the chunk that is being sent.
func (w *chunkWriter) abandon(err error) { w.end(err) }

func (w *chunkWriter) end(err error) {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.fail(err)
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spare != nil {
		w.pool.put(w.spare)
		w.pool.put(w.fill)
		w.spare, w.fill = nil, nil
	}
}

// chunkReader puts a stream of chunks together again. It yields io.EOF only after a trailer that fits.
type chunkReader struct {
	recv   func() (frame, error)
	sum    sum
	rest   []byte
	err    error // sticky
	closed atomic.Bool
}

func newChunkReader(recv func() (frame, error)) *chunkReader {
	return &chunkReader{recv: recv, sum: newSum()}
}

// next gives the bytes of the next chunk that is not empty. They are the caller's.
func (r *chunkReader) next() ([]byte, error) {
	if r.closed.Load() {
		return nil, fmt.Errorf("read after the end of the call: %w", io.ErrClosedPipe)
	}
	if len(r.rest) > 0 {
		data := r.rest
		r.rest = nil
		return data, nil
	}
	for r.err == nil {
		data, err := r.step()
		if err != nil {
			r.err = err
			break
		}
		if len(data) > 0 {
			return data, nil
		}
	}
	return nil, r.err
}

func (r *chunkReader) step() ([]byte, error) {
	f, err := r.recv()
	switch {
	case err == io.EOF:
		return nil, sdk.NewInternal(nil, "the stream broke off after %d bytes, without its trailer", r.sum.bytes)
	case err != nil:
		return nil, err
	case f.trailer != nil:
		if err := r.sum.check(f.trailer); err != nil {
			return nil, err
		}
		return nil, io.EOF
	case f.abort != nil:
		return nil, sdk.NewInternal(nil, "the sender's source failed after %d bytes: %s", r.sum.bytes, f.abort.Message)
	case len(f.data) > maxChunkSize:
		return nil, sdk.NewInternal(nil, "a chunk of %d bytes came; at most %d are taken", len(f.data), maxChunkSize)
	}
	r.sum.add(f.data)
	return f.data, nil
}

// Read is for one goroutine at a time.
func (r *chunkReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	data, err := r.next()
	if err != nil {
		return 0, err
	}
	n := copy(p, data)
	r.rest = data[n:]
	return n, nil
}

// WriteTo spares io.Copy its buffer.
func (r *chunkReader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		data, err := r.next()
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		n, err := w.Write(data)
		total += int64(n)
		if err == nil && n < len(data) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, err
		}
	}
}

// failure is why the stream cannot have been read to its end; nil if nothing says so yet.
func (r *chunkReader) failure() error {
	if r.err == io.EOF {
		return nil
	}
	return r.err
}

// drain reads the rest: an archive may end before its stream does.
func (r *chunkReader) drain() error {
	for {
		if _, err := r.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// close makes every later read fail. It may be called while another goroutine reads.
func (r *chunkReader) close() { r.closed.Store(true) }
