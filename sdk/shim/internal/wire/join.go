package wire

import (
	"encoding/binary"
	"io"
)

// muxHeader is the length of a yamux frame's header: version, type, flags, stream and length of the data (its specification).
const muxHeader = 12

// JoinFrames makes one write of the two that yamux makes of each frame with data, for one system call, and one wake-up of the reader, cost
// more than copying the bytes. All else, and errors, pass.
func JoinFrames(c io.ReadWriteCloser) io.ReadWriteCloser { return &joiner{ReadWriteCloser: c} }

type joiner struct {
	io.ReadWriteCloser
	frame []byte // a header whose data comes next; all of it in one goroutine, yamux's sender
}

func (j *joiner) Write(p []byte) (int, error) {
	if len(j.frame) == 0 && len(p) == muxHeader && p[1] == 0 && binary.BigEndian.Uint32(p[8:]) > 0 {
		j.frame = append(j.frame[:0], p...)
		return len(p), nil
	}
	if len(j.frame) == 0 {
		return j.ReadWriteCloser.Write(p)
	}
	j.frame = append(j.frame, p...)
	n, err := j.ReadWriteCloser.Write(j.frame)
	j.frame = j.frame[:0]
	return max(0, n-muxHeader), err
}
