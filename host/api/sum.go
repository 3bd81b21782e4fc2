package api

import (
	"hash/crc32"
	"io"

	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/sdk"
)

// summing counts and sums what passes a stream.
type summing struct {
	bytes int64
	crc   uint32
	table *crc32.Table
}

func newSumming() *summing { return &summing{table: crc32.MakeTable(crc32.Castagnoli)} }

func (s *summing) add(b []byte) {
	s.bytes += int64(len(b))
	s.crc = crc32.Update(s.crc, s.table, b)
}

func (s *summing) sum() *pb.Sum { return &pb.Sum{Bytes: s.bytes, Crc32C: s.crc} }

// check wants what was told to be what came.
func (s *summing) check(told *pb.Sum) error {
	if told.GetBytes() == s.bytes && told.GetCrc32C() == s.crc {
		return nil
	}
	return sdk.NewInternal(nil, "the stream is damaged: %d bytes with sum %08x came of %d with %08x", s.bytes, s.crc, told.GetBytes(), told.GetCrc32C())
}

// chunk is how much of a tree one message takes.
const chunk = 256 << 10

// chunks cuts what is written into messages.
type chunks struct {
	*summing
	send func([]byte) error
}

func (c chunks) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		b := p[:min(len(p), chunk)]
		c.add(b)
		if err := c.send(b); err != nil {
			return n, err
		}
		n += len(b)
		p = p[len(b):]
	}
	return n, nil
}

// pieces reads messages as one stream. It is at its end only when the sum has come, and is right.
type pieces struct {
	*summing
	next func() (data []byte, sum *pb.Sum, err error) // io.EOF: no more
	rest []byte
	err  error
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.rest) == 0 && p.err == nil {
		data, sum, err := p.next()
		p.add(data)
		p.rest = data
		switch {
		case err == io.EOF:
			p.err = io.ErrUnexpectedEOF
		case err != nil:
			p.err = err
		case sum != nil:
			if p.err = p.check(sum); p.err == nil {
				p.err = io.EOF
			}
		}
	}
	if len(p.rest) > 0 {
		n := copy(b, p.rest)
		p.rest = p.rest[n:]
		return n, nil
	}
	return 0, p.err
}
