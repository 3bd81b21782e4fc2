package claim

import (
	"encoding/binary"
	"errors"
)

// frames checks that a zstd stream is whole by its outlines: frames of blocks, to the last byte. It takes no window and next to no time;
// the content is for whoever unpacks it to check.
type frames struct {
	state frameState
	need  int // bytes of the current piece that are missing
	part  []byte
	sum   bool
	any   bool
}

type frameState uint8

const (
	inMagic frameState = iota
	inDescriptor
	inHeader
	inBlockHeader
	inBlock
	inLastBlock
	inSum
	inSkipSize
	inSkip
)

var errFrames = errors.New("the zstd stream is damaged")

// add takes the next bytes.
func (f *frames) add(b []byte) error {
	for len(b) > 0 {
		switch f.state {
		case inBlock, inLastBlock, inSkip, inHeader, inSum: // content does not matter
			n := min(f.need, len(b))
			b, f.need = b[n:], f.need-n
			if f.need == 0 {
				f.next()
			}
			continue
		}
		want := 4 // a magic number or a size
		switch f.state {
		case inDescriptor:
			want = 1
		case inBlockHeader:
			want = 3
		}
		n := min(want-len(f.part), len(b))
		f.part = append(f.part, b[:n]...)
		b = b[n:]
		if len(f.part) < want {
			return nil
		}
		if err := f.head(); err != nil {
			return err
		}
		f.part = f.part[:0]
	}
	return nil
}

// head reads one of the small pieces.
func (f *frames) head() error {
	switch f.state {
	case inMagic:
		magic := binary.LittleEndian.Uint32(f.part)
		switch {
		case magic == 0xFD2FB528:
			f.state = inDescriptor
		case magic&^0xF == 0x184D2A50:
			f.state = inSkipSize
		default:
			return errFrames
		}
	case inDescriptor:
		d := f.part[0]
		single := d&0x20 != 0
		f.sum = d&0x04 != 0
		f.need = [4]int{0, 1, 2, 4}[d&3] + [4]int{0, 2, 4, 8}[d>>6]
		if single && d>>6 == 0 {
			f.need++
		}
		if !single {
			f.need++
		}
		f.state = inHeader
		if f.need == 0 {
			f.next()
		}
	case inSkipSize:
		f.need = int(binary.LittleEndian.Uint32(f.part))
		f.state = inSkip
		if f.need == 0 {
			f.next()
		}
	case inBlockHeader:
		h := uint32(f.part[0]) | uint32(f.part[1])<<8 | uint32(f.part[2])<<16
		f.need = int(h >> 3)
		switch h >> 1 & 3 {
		case 1: // one byte, repeated
			f.need = 1
		case 3:
			return errFrames
		}
		f.state = inBlock
		if h&1 != 0 {
			f.state = inLastBlock
		}
		if f.need == 0 {
			f.next()
		}
	}
	return nil
}

// next is what comes after a piece whose content does not matter.
func (f *frames) next() {
	switch f.state {
	case inHeader, inBlock:
		f.state = inBlockHeader
	case inLastBlock:
		f.state = inMagic
		f.any = true
		if f.sum {
			f.state, f.need = inSum, 4
		}
	case inSum, inSkip:
		f.state = inMagic
	}
}

// whole tells whether the stream may end here.
func (f *frames) whole() bool { return f.any && f.state == inMagic && len(f.part) == 0 }
