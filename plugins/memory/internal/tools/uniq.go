package tools

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

func uniq(t *tool) int {
	given, args := t.parse(t.Args, "cduDif:s:w:z", map[string]rune{"count": 'c', "repeated": 'd', "unique": 'u', "all-repeated": 'D', "ignore-case": 'i',
		"skip-fields": 'f', "skip-chars": 's', "check-chars": 'w', "zero-terminated": 'z'}, 1)
	var count, repeated, single, all, fold bool
	var fields, skip, end = 0, 0, byte('\n')
	width := -1
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			t.die(1, "%s: invalid number", quote(s))
		}
		return n
	}
	for _, o := range given {
		switch o.flag {
		case 'c':
			count = true
		case 'd':
			repeated = true
		case 'u':
			single = true
		case 'D':
			all, repeated = true, true
		case 'i':
			fold = true
		case 'f':
			fields = number(o.value)
		case 's':
			skip = number(o.value)
		case 'w':
			width = number(o.value)
		case 'z':
			end = 0
		}
	}
	if len(args) > 2 {
		t.die(1, "extra operand %s", quote(args[2]))
	}
	in, out := io.Reader(t.in), io.Writer(t.out)
	if len(args) > 0 && args[0] != "-" {
		r, err := t.open(args[0])
		if err != nil {
			t.die(1, "%s: %s", args[0], reason(err))
		}
		defer r.Close()
		in = r
	}
	if len(args) > 1 && args[1] != "-" {
		w, err := t.create(args[1], os.O_TRUNC)
		if err != nil {
			t.die(1, "%s: %s", args[1], reason(err))
		}
		defer w.Close()
		out = &fileWriter{t, args[1], w}
	}
	key := func(line []byte) []byte {
		for range fields {
			line = bytes.TrimLeft(line, " \t")
			i := bytes.IndexAny(line, " \t")
			if i < 0 {
				i = len(line)
			}
			line = line[i:]
		}
		line = line[min(skip, len(line)):]
		if width >= 0 {
			line = line[:min(width, len(line))]
		}
		if fold {
			line = bytes.ToLower(line)
		}
		return line
	}
	put := func(line []byte, n int) {
		if repeated && n < 2 || single && n > 1 {
			return
		}
		if count {
			out.Write([]byte(leftPad(n, 7) + " "))
		}
		out.Write(append(slices.Clip(line), end))
	}
	l := newLines(in, end)
	var last, lastKey []byte
	n := 0
	for {
		line, _, ok := l.next()
		if !ok {
			break
		}
		if k := key(line); n > 0 && bytes.Equal(k, lastKey) {
			n++
			if all {
				if n == 2 {
					put(last, 2)
				}
				put(line, n)
			}
			continue
		}
		if n > 0 && !all {
			put(last, n)
		}
		last = append(last[:0], line...)
		lastKey = bytes.Clone(key(last))
		n = 1
	}
	if n > 0 && !all {
		put(last, n)
	}
	if err := l.failed(); err != nil {
		t.die(1, "%s", reason(err))
	}
	return 0
}

func leftPad(n, width int) string {
	s := strconv.Itoa(n)
	return strings.Repeat(" ", max(0, width-len(s))) + s
}

func comm(t *tool) int {
	given, args := t.options("123z", map[string]rune{"zero-terminated": 'z'}, 1)
	hide, end := [4]bool{}, byte('\n')
	for _, o := range given {
		if o.flag == 'z' {
			end = 0
			continue
		}
		hide[o.flag-'0'] = true
	}
	if len(args) != 2 {
		t.die(1, "give two files")
	}
	var in [2]*lines
	var line [2][]byte
	var ok [2]bool
	for i, name := range args {
		r, err := t.open(name)
		if err != nil {
			t.die(1, "%s: %s", name, reason(err))
		}
		defer r.Close()
		in[i] = newLines(r, end)
		line[i], _, ok[i] = in[i].next()
	}
	put := func(column int, text []byte) {
		if hide[column] {
			return
		}
		for c := 1; c < column; c++ {
			if !hide[c] {
				t.out.WriteByte('\t')
			}
		}
		t.line(text, end)
	}
	for ok[0] || ok[1] {
		c := 0
		switch {
		case !ok[0]:
			c = 1
		case !ok[1]:
			c = -1
		default:
			c = bytes.Compare(line[0], line[1])
		}
		switch {
		case c < 0:
			put(1, line[0])
		case c > 0:
			put(2, line[1])
		default:
			put(3, line[0])
		}
		if c <= 0 {
			line[0], _, ok[0] = in[0].next()
		}
		if c >= 0 {
			line[1], _, ok[1] = in[1].next()
		}
	}
	return t.status
}
