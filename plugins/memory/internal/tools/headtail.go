package tools

import (
	"bytes"
	"io"
	"strconv"
	"strings"
)

// amount parses a count with the suffixes of head and tail.
func (t *tool) amount(s, what string) (n int64, sign byte) {
	digits := s
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		sign, digits = digits[0], digits[1:]
	}
	n, ok := sized(digits)
	if !ok {
		t.die(1, "invalid number of %s: %s", what, quote(s))
	}
	return n, sign
}

// sized parses digits with an optional multiplier b, k, K, M, G, kB, MB, KiB and so on.
func sized(s string) (int64, bool) {
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	unit := ""
	if end >= 0 {
		s, unit = s[:end], s[end:]
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, false
	}
	mul := int64(1)
	switch unit {
	case "":
	case "b":
		mul = 512
	case "k", "K", "KiB":
		mul = 1 << 10
	case "M", "MiB":
		mul = 1 << 20
	case "G", "GiB":
		mul = 1 << 30
	case "kB", "KB":
		mul = 1000
	case "MB":
		mul = 1000_000
	case "GB":
		mul = 1000_000_000
	default:
		return 0, false
	}
	if n > (1<<62)/mul {
		return 0, false
	}
	return n * mul, true
}

// numeric rewrites the old form -5 or +5, where it comes first, to -n 5.
func numeric(args []string, plus bool) []string {
	if len(args) == 0 || len(args[0]) < 2 {
		return args
	}
	first := args[0]
	if first[0] == '-' && isDigit(first[1], 10) {
		return append([]string{"-n", first[1:]}, args[1:]...)
	}
	if plus && first[0] == '+' && isDigit(first[1], 10) {
		return append([]string{"-n", first}, args[1:]...)
	}
	return args
}

var headTail = map[string]rune{"lines": 'n', "bytes": 'c', "quiet": 'q', "silent": 'q', "verbose": 'v', "zero-terminated": 'z', "follow": 'f'}

func head(t *tool) int {
	given, args := t.parse(numeric(t.Args, false), "n:c:qvz", headTail, 1)
	count, sign, bytewise, titles, end := int64(10), byte(0), false, len(args) > 1, byte('\n')
	for _, o := range given {
		switch o.flag {
		case 'n':
			count, sign = t.amount(o.value, "lines")
			bytewise = false
		case 'c':
			count, sign = t.amount(o.value, "bytes")
			bytewise = true
		case 'q':
			titles = false
		case 'v':
			titles = true
		case 'z':
			end = 0
		}
	}
	first := true
	t.each(args, func(name string, r io.Reader) {
		t.title(name, titles, &first)
		switch {
		case bytewise && sign == '-':
			t.allButBytes(r, count)
		case bytewise:
			io.Copy(onlyWriter{t.out}, io.LimitReader(r, count))
		default:
			t.headLines(r, count, sign == '-', end)
		}
		t.out.Flush()
	})
	return t.status
}

func (t *tool) title(name string, titles bool, first *bool) {
	if !titles {
		return
	}
	if !*first {
		t.out.WriteByte('\n')
	}
	*first = false
	if name == "-" {
		name = "standard input"
	}
	t.printf("==> %s <==\n", name)
}

func (t *tool) headLines(r io.Reader, count int64, allBut bool, end byte) {
	l := newLines(r, end)
	var held [][]byte
	for n := int64(0); allBut || n < count; n++ {
		line, ended, ok := l.next()
		if !ok {
			return
		}
		if allBut {
			held = append(held, withEnd(line, ended, end))
			if int64(len(held)) > count {
				t.out.Write(held[0])
				held = held[1:]
			}
			continue
		}
		t.out.Write(line)
		if ended {
			t.out.WriteByte(end)
		}
	}
}

func withEnd(line []byte, ended bool, end byte) []byte {
	line = bytes.Clone(line)
	if ended {
		line = append(line, end)
	}
	return line
}

func (t *tool) allButBytes(r io.Reader, count int64) {
	var held []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		held = append(held, buf[:n]...)
		if over := int64(len(held)) - count; over > 0 {
			t.out.Write(held[:over])
			held = append(held[:0], held[over:]...)
		}
		if err != nil {
			return
		}
	}
}

func tail(t *tool) int {
	given, args := t.parse(numeric(t.Args, true), "n:c:qvzf", headTail, 1)
	count, sign, bytewise, titles, end := int64(10), byte(0), false, len(args) > 1, byte('\n')
	for _, o := range given {
		switch o.flag {
		case 'n':
			count, sign = t.amount(o.value, "lines")
			bytewise = false
		case 'c':
			count, sign = t.amount(o.value, "bytes")
			bytewise = true
		case 'q':
			titles = false
		case 'v':
			titles = true
		case 'z':
			end = 0
		case 'f':
			t.die(1, "-f is not offered: follow the process that writes instead")
		}
	}
	first := true
	t.each(args, func(name string, r io.Reader) {
		t.title(name, titles, &first)
		switch {
		case bytewise && sign == '+':
			if _, err := io.CopyN(io.Discard, r, max(0, count-1)); err == nil {
				t.copy(name, r)
			}
		case bytewise:
			t.tailBytes(r, count)
		case sign == '+':
			t.tailFrom(r, count, end)
		default:
			t.tailLines(r, count, end)
		}
	})
	return t.status
}

func (t *tool) tailFrom(r io.Reader, from int64, end byte) {
	l := newLines(r, end)
	for n := int64(1); n < from; n++ {
		if _, _, ok := l.next(); !ok {
			return
		}
	}
	if l.err == nil {
		t.copy("input", l.r)
	}
}

func (t *tool) tailLines(r io.Reader, count int64, end byte) {
	l := newLines(r, end)
	var held [][]byte
	for {
		line, ended, ok := l.next()
		if !ok {
			break
		}
		if count == 0 {
			continue
		}
		held = append(held, withEnd(line, ended, end))
		if int64(len(held)) > count {
			held[0] = nil
			held = held[1:]
		}
	}
	for _, line := range held {
		t.out.Write(line)
	}
}

func (t *tool) tailBytes(r io.Reader, count int64) {
	var held []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		held = append(held, buf[:n]...)
		if over := int64(len(held)) - count; over > 0 {
			held = append(held[:0], held[over:]...)
		}
		if err != nil {
			break
		}
	}
	t.out.Write(held)
}
