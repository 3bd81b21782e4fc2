package testkit

import (
	"encoding/binary"
	"fmt"
)

// SparseBomb is a tar archive of 1.5 KiB with one file of so many bytes, all of them a hole, as GNU tar writes it.
func SparseBomb(name string, size int64) []byte {
	const block = 512
	b := make([]byte, 3*block) // its header, and the end
	copy(b, name)
	number := func(at int, n int64) { // in base 256, since octal digits end at 8 GiB
		b[at] = 0x80
		binary.BigEndian.PutUint64(b[at+4:], uint64(n))
	}
	copy(b[100:], "0000644\x00") // mode, owner, group
	copy(b[108:], "0000000\x00")
	copy(b[116:], "0000000\x00")
	copy(b[124:], "00000000000\x00") // what of it is in the archive
	copy(b[136:], "00000000000\x00") // time
	b[156] = 'S'
	copy(b[257:], "ustar  \x00")
	number(386, size) // nothing is at the end
	number(398, 0)
	number(483, size)
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b[:block] {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}
