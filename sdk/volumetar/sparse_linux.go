package volumetar

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// archive/tar reads sparse files but does not write them, so their entries are made here: GNU's PAX format 1.0, a map of the
// parts that have data, and then those parts.

const (
	blockSize = 512     // of tar
	maxParts  = 8 << 10 // of a file; readers bound them, too, by the length of the map
	maxOctal  = 1<<33 - 1
)

// extent is a part of a file.
type extent struct{ from, to int64 }

// dataOf tells which parts of a file have data, in whole blocks, and whether there are holes beside them.
func dataOf(fd int, st *unix.Stat_t) (parts []extent, holes bool, err error) {
	if st.Blocks*512 >= st.Size {
		return nil, false, nil
	}
	for at := int64(0); at < st.Size; {
		from, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			break // nothing but a hole is left
		}
		if err != nil {
			return nil, false, nil // a file system without holes, or that does not tell
		}
		to := st.Size
		if len(parts) < maxParts-1 {
			if to, err = unix.Seek(fd, from, unix.SEEK_HOLE); err != nil {
				return nil, false, err
			}
		}
		from, to = from&^(blockSize-1), min(st.Size, (to+blockSize-1)&^(blockSize-1))
		if from >= to {
			break // it shrank; whoever copies finds out
		}
		if n := len(parts); n > 0 && parts[n-1].to >= from {
			parts[n-1].to = to
		} else {
			parts = append(parts, extent{from, to})
		}
		at = to
	}
	whole := len(parts) == 1 && parts[0] == extent{0, st.Size}
	return parts, !whole, nil
}

// sparse packs a file with holes.
func (p *packing) sparse(h *tar.Header, parts []extent, fd int) error {
	size := int64(0)
	if n := len(parts); n == 0 || parts[n-1].to < h.Size {
		parts = append(parts, extent{h.Size, h.Size}) // tells GNU tar where the file ends
	}
	var list bytes.Buffer
	fmt.Fprintf(&list, "%d\n", len(parts))
	for _, e := range parts {
		fmt.Fprintf(&list, "%d\n%d\n", e.from, e.to-e.from)
		size += e.to - e.from
	}
	list.Write(make([]byte, padding(int64(list.Len()))))
	size += int64(list.Len())

	if err := p.tar.Flush(); err != nil {
		return err
	}
	records := maps.Clone(h.PAXRecords)
	if records == nil {
		records = make(map[string]string)
	}
	maps.Copy(records, map[string]string{
		paxSparse + "major": "1", paxSparse + "minor": "0", paxSparse + "name": h.Name, paxSparse + "realsize": strconv.FormatInt(h.Size, 10),
		"size": strconv.FormatInt(size, 10), "uid": strconv.Itoa(h.Uid), "gid": strconv.Itoa(h.Gid),
		"mtime": paxTime(h.ModTime.Unix(), h.ModTime.Nanosecond()),
	})
	var pax bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(records)) {
		pax.WriteString(paxRecord(key, records[key]))
	}
	if pax.Len() > 1<<20 {
		return fmt.Errorf("%w: its name and extended attributes are longer than readers take", tar.ErrFieldTooLong)
	}
	const name = "GNUSparseFile.0/file" // the record has the real one
	p.raw.Write(block(tar.TypeXHeader, "PaxHeaders.0/file", 0o644, int64(pax.Len())))
	p.raw.Write(pax.Bytes())
	p.raw.Write(make([]byte, padding(int64(pax.Len()))))
	p.raw.Write(block(tar.TypeReg, name, h.Mode, size))
	p.raw.Write(list.Bytes())
	for _, e := range parts {
		if err := p.copy(p.raw, fd, e); err != nil {
			return err
		}
	}
	_, err := p.raw.Write(make([]byte, padding(size))) // a bufio.Writer keeps its first error
	return err
}

func padding(n int64) int64 { return -n & (blockSize - 1) }

// paxRecord is "length key=value\n", whose length counts its own digits.
func paxRecord(key, value string) string {
	const around = len(" =\n")
	n := len(key) + len(value) + around
	n += len(strconv.Itoa(n + len(strconv.Itoa(n))))
	return strconv.Itoa(n) + " " + key + "=" + value + "\n"
}

// paxTime is a decimal number: seconds and, where there is one, a fraction.
func paxTime(sec int64, nsec int) string {
	if nsec == 0 {
		return strconv.FormatInt(sec, 10)
	}
	sign := ""
	if sec < 0 {
		sign, sec, nsec = "-", -(sec + 1), 1e9-nsec
	}
	return strings.TrimRight(fmt.Sprintf("%s%d.%09d", sign, sec, nsec), "0")
}

// block is a header whose owner, time and, beyond 8 GiB, size are told by records.
func block(kind byte, name string, mode, size int64) []byte {
	b := make([]byte, blockSize)
	if size > maxOctal {
		size = 0
	}
	copy(b, name)
	copy(b[100:], fmt.Sprintf("%07o\x00%07o\x00%07o\x00%011o\x00%011o\x00        ", mode, 0, 0, size, 0))
	b[156] = kind
	copy(b[257:], "ustar\x0000")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}
