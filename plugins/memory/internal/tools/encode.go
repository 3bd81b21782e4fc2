package tools

import (
	"bufio"
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"io"
	"strconv"
)

func base64Tool(t *tool) int {
	return t.encode(
		func(w io.Writer) io.WriteCloser { return base64.NewEncoder(base64.StdEncoding, w) },
		func(r io.Reader) io.Reader { return base64.NewDecoder(base64.StdEncoding, r) },
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
}

func base32Tool(t *tool) int {
	return t.encode(
		func(w io.Writer) io.WriteCloser { return base32.NewEncoder(base32.StdEncoding, w) },
		func(r io.Reader) io.Reader { return base32.NewDecoder(base32.StdEncoding, r) },
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567=")
}

func (t *tool) encode(encoder func(io.Writer) io.WriteCloser, decoder func(io.Reader) io.Reader, alphabet string) int {
	given, args := t.options("diw:", map[string]rune{"decode": 'd', "ignore-garbage": 'i', "wrap": 'w'}, 1)
	decode, garbage, width := false, false, 76
	for _, o := range given {
		switch o.flag {
		case 'd':
			decode = true
		case 'i':
			garbage = true
		case 'w':
			n, err := strconv.Atoi(o.value)
			if err != nil || n < 0 {
				t.die(1, "invalid wrap size: %s", quote(o.value))
			}
			width = n
		}
	}
	if len(args) > 1 {
		t.die(1, "extra operand %s", quote(args[1]))
	}
	t.each(args, func(name string, r io.Reader) {
		if decode {
			keep := ""
			if garbage {
				keep = alphabet
			}
			if _, err := io.Copy(t.out, onlyReader{decoder(sieve{r, keep})}); err != nil {
				t.die(1, "invalid input")
			}
			return
		}
		w := &wrapped{w: t.out, width: width}
		e := encoder(w)
		_, err := io.Copy(onlyWriter{e}, onlyReader{r})
		if err != nil {
			t.fail(name, err)
			return
		}
		e.Close()
		w.end()
	})
	return t.status
}

// wrapped breaks what it writes into lines.
type wrapped struct {
	w         *bufio.Writer
	width, at int
}

func (w *wrapped) Write(p []byte) (int, error) {
	for _, c := range p {
		if w.width > 0 && w.at == w.width {
			w.w.WriteByte('\n')
			w.at = 0
		}
		w.w.WriteByte(c)
		w.at++
	}
	return len(p), nil
}

func (w *wrapped) end() {
	if w.width > 0 && w.at > 0 {
		w.w.WriteByte('\n')
	}
}

// sieve drops ends of lines, and all that is not in keep, if that is not empty.
type sieve struct {
	r    io.Reader
	keep string
}

func (s sieve) Read(p []byte) (int, error) {
	for {
		n, err := s.r.Read(p)
		kept := p[:0]
		for _, c := range p[:n] {
			if c != '\n' && c != '\r' && (s.keep == "" || bytes.IndexByte([]byte(s.keep), c) >= 0) {
				kept = append(kept, c)
			}
		}
		if len(kept) > 0 || err != nil {
			return len(kept), err
		}
	}
}

// cksum prints the POSIX checksum.
func cksum(t *tool) int {
	_, args := t.options("", nil, 1)
	var table [256]uint32
	for i := range table {
		crc := uint32(i) << 24
		for range 8 {
			if crc&(1<<31) != 0 {
				crc = crc<<1 ^ 0x04c11db7
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	named := len(args) > 0
	t.each(args, func(name string, r io.Reader) {
		crc, size := uint32(0), int64(0)
		add := func(c byte) { crc = crc<<8 ^ table[byte(crc>>24)^c] }
		b := bufio.NewReaderSize(r, 64<<10)
		for {
			c, err := b.ReadByte()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.fail(name, err)
				return
			}
			add(c)
			size++
		}
		for n := size; n > 0; n >>= 8 {
			add(byte(n))
		}
		t.printf("%d %d", ^crc, size)
		if named {
			t.printf(" %s", name)
		}
		t.printf("\n")
	})
	return t.status
}
