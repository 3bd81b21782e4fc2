package rpc

import (
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

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

func (s *sum) trailer() *pb.Trailer { return &pb.Trailer{Bytes: s.bytes, Crc32C: proto.Uint32(s.crc)} }

func (s *sum) check(t *pb.Trailer) error {
	if t.Bytes == s.bytes && (t.Crc32C == nil || *t.Crc32C == s.crc) {
		return nil
	}
	return sdk.NewInternal(nil, "the stream was damaged: %d bytes with checksum %08x came, %d with %08x were sent", s.bytes, s.crc, t.Bytes, t.GetCrc32C())
}

// chunkWriter cuts what is written into chunks. One buffer fills while the others are being sent, and a chunk is sent as soon
// as send has returned from the one before, however full it is: nothing that was written waits for more. How many bytes
// are on their way is for send to bound.
type chunkWriter struct {
	send func(mem.Buffer) error // the bytes are send's
	pool mem.BufferPool
	sum  sum
	done chan struct{} // closed when the sending goroutine has ended

	mu     sync.Mutex
	change sync.Cond
	fill   *[]byte // nil: nothing was written since the last chunk
	closed bool
	err    error
}

func newChunkWriter(pool mem.BufferPool, send func(mem.Buffer) error) *chunkWriter {
	w := &chunkWriter{send: send, pool: pool, sum: newSum(), done: make(chan struct{})}
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
		w.sum.add(chunk.ReadOnlyData())
		if err := w.send(chunk); err != nil {
			w.fail(err)
		}
	}
}

func (w *chunkWriter) next() mem.Buffer {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.fill == nil && !w.closed && w.err == nil {
		w.change.Wait()
	}
	if w.err != nil || w.fill == nil {
		return nil
	}
	full := w.fill
	w.fill = nil
	w.change.Broadcast()
	if len(*full) > frameSize {
		return mem.NewBuffer(full, w.pool)
	}
	// Many small chunks may be on their way, and none is to hold a large buffer.
	defer w.pool.Put(full)
	return mem.Copy(*full, w.pool)
}

// usable is the reason why nothing can be written any more.
func (w *chunkWriter) usable() error {
	if w.err == nil && w.closed {
		return fmt.Errorf("write after the end of the stream: %w", io.ErrClosedPipe)
	}
	return w.err
}

// Write blocks while the buffer is full. It fails once the receiver is gone.
func (w *chunkWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for {
		if err := w.usable(); err != nil {
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
		if w.fill == nil {
			w.fill = w.pool.Get(chunkSize)
			*w.fill = (*w.fill)[:0]
		}
		have := len(*w.fill)
		if have == chunkSize {
			w.change.Wait()
			continue
		}
		part := p[n:min(n+chunkSize-have, len(p))]
		*w.fill = append(*w.fill, part...)
		n += len(part)
		if have == 0 {
			w.change.Broadcast()
		}
	}
}

// ReadFrom writes what r gives until its end. Large pieces are read into what is sent, without a copy in between.
func (w *chunkWriter) ReadFrom(r io.Reader) (int64, error) {
	total := int64(0)
	buf := w.pool.Get(chunkSize)
	defer func() { w.pool.Put(buf) }()
	for {
		*buf = (*buf)[:chunkSize]
		n, err := r.Read(*buf)
		*buf = (*buf)[:n]
		var broken error
		if n > frameSize {
			broken = w.hand(buf)
			if broken == nil {
				buf = w.pool.Get(chunkSize)
			}
		} else {
			_, broken = w.Write(*buf)
		}
		if broken != nil {
			return total, broken
		}
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// hand makes a full buffer the next chunk, which is the writer's then unless there is an error.
func (w *chunkWriter) hand(full *[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.fill != nil && w.usable() == nil {
		w.change.Wait()
	}
	if err := w.usable(); err != nil {
		return err
	}
	w.fill = full
	w.change.Broadcast()
	return nil
}

// finish sends what is left and gives the trailer. It must be called once, by the owner; no write succeeds after it. Whoever notices
// the receiver's end may still call fail.
func (w *chunkWriter) finish() (*pb.Trailer, error) {
	w.end(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
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
	if w.fill != nil {
		w.pool.Put(w.fill)
		w.fill = nil
	}
}

// chunkReader puts a stream of chunks together again. It yields io.EOF only after a trailer that fits.
type chunkReader struct {
	recv func() (frame, error)
	sum  sum

	mu     sync.Mutex      // a reader may outlive its call
	rest   mem.BufferSlice // of the last chunk
	err    error           // sticky
	closed bool
}

func newChunkReader(recv func() (frame, error)) *chunkReader {
	return &chunkReader{recv: recv, sum: newSum()}
}

// fetch receives until there are bytes in rest.
func (r *chunkReader) fetch() error {
	for {
		if ready, err := r.ready(); ready || err != nil {
			return err
		}
		data, err := r.step()
		r.mu.Lock()
		if r.closed {
			data.Free()
		} else {
			r.rest, r.err = data, err
		}
		r.mu.Unlock()
	}
}

// ready tells whether there are bytes in rest, or why there will be none.
func (r *chunkReader) ready() (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false, errLateRead()
	}
	if len(r.rest) > 0 {
		return true, nil
	}
	return false, r.err
}

func errLateRead() error { return fmt.Errorf("read after the end of the call: %w", io.ErrClosedPipe) }

func (r *chunkReader) step() (mem.BufferSlice, error) {
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
	}
	if n := f.data.Len(); n > maxChunkSize {
		f.data.Free()
		return nil, sdk.NewInternal(nil, "a chunk of %d bytes came; at most %d are taken", n, maxChunkSize)
	}
	for _, b := range f.data {
		r.sum.add(b.ReadOnlyData())
	}
	return f.data, nil
}

// take gives the first buffer of rest, which is the caller's then; nil if there is none.
func (r *chunkReader) take() mem.Buffer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rest) == 0 {
		return nil
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// Read is for one goroutine at a time.
func (r *chunkReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := r.fetch(); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, errLateRead()
	}
	n := 0
	for n < len(p) && len(r.rest) > 0 {
		var part int
		part, r.rest[0] = mem.ReadUnsafe(p[n:], r.rest[0])
		if n += part; r.rest[0] == nil {
			r.rest = r.rest[1:]
		}
	}
	return n, nil
}

// WriteTo spares io.Copy its buffer. What w gets is only for the time of its Write, as ever.
func (r *chunkReader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		err := r.fetch()
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		for b := r.take(); b != nil; b = r.take() {
			data := b.ReadOnlyData()
			n, err := w.Write(data)
			if err == nil && n < len(data) {
				err = io.ErrShortWrite
			}
			b.Free()
			total += int64(n)
			if err != nil {
				return total, err
			}
		}
	}
}

// failure is why the stream cannot have been read to its end; nil if nothing says so yet.
func (r *chunkReader) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == io.EOF {
		return nil
	}
	return r.err
}

// drain reads the rest: an archive may end before its stream does.
func (r *chunkReader) drain() error {
	_, err := r.WriteTo(io.Discard)
	return err
}

// close frees what was not read and makes every later read fail. It may be called while another goroutine reads.
func (r *chunkReader) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.rest.Free()
	r.rest = nil
}
