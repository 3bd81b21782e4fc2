package tree

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// archive/tar reads sparse files but does not write them, so their entries are made here, in GNU tar's PAX format 1.0: a map of the
// parts that have data, and then those parts.

const (
	tarBlock  = 512
	paxSparse = "GNU.sparse."
	minHoles  = 4 << 10 // less is not worth a map
	maxParts  = 4 << 10 // readers bound the map's length
)

// part is a piece of a file that has data.
type part struct{ from, to int64 }

// parts are the pieces of a regular file that have data, in whole blocks of tar, and how much is in holes beside them.
func (in *inode) parts() (parts []part, holes int64) {
	holes = in.size
	for key := uint64(0); ; {
		at, c, ok := in.data.next(key)
		if !ok {
			return parts, holes
		}
		key = at + 1
		from := int64(at) * chunkSize
		to := min(in.size, (from+int64(len(c.buf))+tarBlock-1)&^(tarBlock-1))
		if to <= from {
			continue
		}
		last := len(parts) - 1
		if last >= 0 && (parts[last].to == from || last == maxParts-2) {
			holes -= to - parts[last].to
			parts[last].to = to
			continue
		}
		holes -= to - from
		parts = append(parts, part{from, to})
	}
}

// sparse writes an entry of a file with holes.
func (w *tarWriter) sparse(h *tar.Header, in *inode, parts []part) error {
	if n := len(parts); n == 0 || parts[n-1].to < in.size {
		parts = append(parts, part{in.size, in.size}) // where the file ends
	}
	var list bytes.Buffer
	size := int64(0)
	fmt.Fprintf(&list, "%d\n", len(parts))
	for _, p := range parts {
		fmt.Fprintf(&list, "%d\n%d\n", p.from, p.to-p.from)
		size += p.to - p.from
	}
	list.Write(padding(int64(list.Len())))
	size += int64(list.Len())

	records := maps.Clone(h.PAXRecords)
	if records == nil {
		records = make(map[string]string)
	}
	maps.Copy(records, map[string]string{
		paxSparse + "major": "1", paxSparse + "minor": "0", paxSparse + "name": h.Name, paxSparse + "realsize": strconv.FormatInt(in.size, 10),
		"size": strconv.FormatInt(size, 10), "uid": strconv.Itoa(h.Uid), "gid": strconv.Itoa(h.Gid), "mtime": paxTime(h.ModTime),
	})
	var pax bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(records)) {
		pax.WriteString(paxRecord(key, records[key]))
	}
	if err := w.tw.Flush(); err != nil { // the end of the entry before
		return err
	}
	for _, b := range [][]byte{
		tarHeader(tar.TypeXHeader, "PaxHeaders/sparse", 0o644, int64(pax.Len())), pax.Bytes(), padding(int64(pax.Len())),
		tarHeader(tar.TypeReg, "GNUSparseFile/sparse", h.Mode, size), // the record has the name
		list.Bytes(),
	} {
		if _, err := w.out.Write(b); err != nil {
			return err
		}
	}
	buf := make([]byte, chunkSize)
	for _, p := range parts {
		for at := p.from; at < p.to; {
			n := min(int64(len(buf)), p.to-at)
			readAt(&in.data, buf[:n], at)
			if _, err := w.out.Write(buf[:n]); err != nil {
				return err
			}
			at += n
		}
	}
	_, err := w.out.Write(padding(size))
	return err
}

// padding is what comes behind n bytes.
func padding(n int64) []byte { return make([]byte, -n&(tarBlock-1)) }

// paxRecord is "length key=value\n", where the length counts its own digits.
func paxRecord(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	n := len(rest)
	for digits := 0; digits != len(strconv.Itoa(n)); {
		digits = len(strconv.Itoa(n))
		n = len(rest) + digits
	}
	return strconv.Itoa(n) + rest
}

// paxTime is a decimal number of seconds.
func paxTime(t time.Time) string {
	sec, nsec := t.Unix(), t.Nanosecond()
	if nsec == 0 {
		return strconv.FormatInt(sec, 10)
	}
	sign := ""
	if sec < 0 {
		sign, sec, nsec = "-", -(sec + 1), 1e9-nsec
	}
	return strings.TrimRight(fmt.Sprintf("%s%d.%09d", sign, sec, nsec), "0")
}

// tarHeader is a header block whose owner, time and, from 8 GiB on, size are in records.
func tarHeader(kind byte, name string, mode, size int64) []byte {
	b := make([]byte, tarBlock)
	if size >= 1<<33 {
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

// isSparse says whether an entry's holes are told by its archive.
func isSparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, paxSparse) {
			return true
		}
	}
	return false
}

// withoutZeros cuts zeros off the end of b. It is quick where b has nothing else.
func withoutZeros(b, zeros []byte) []byte {
	if bytes.Equal(b, zeros[:len(b)]) {
		return nil
	}
	return bytes.TrimRight(b, "\x00")
}
