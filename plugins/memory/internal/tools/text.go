package tools

import (
	"bytes"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// trSet is an operand of tr, expanded to bytes, as GNU's tr works on.
func (t *tool) trSet(s string) (set []byte, fill int) {
	fill = -1
	b := []byte(s)
	one := func() (byte, bool) {
		c := b[0]
		if c != '\\' || len(b) == 1 {
			b = b[1:]
			return c, false
		}
		if isDigit(b[1], 8) {
			n, v := 1, 0
			for n < len(b) && n < 4 && isDigit(b[n], 8) {
				v = v*8 + int(b[n]-'0')
				n++
			}
			b = b[n:]
			return byte(v), true
		}
		c = b[1]
		b = b[2:]
		if i := strings.IndexByte("abfnrtv", c); i >= 0 {
			return "\a\b\f\n\r\t\v"[i], true
		}
		return c, true
	}
	for len(b) > 0 {
		if name, _, ok := strings.Cut(strings.TrimPrefix(string(b), "[:"), ":]"); ok && bytes.HasPrefix(b, []byte("[:")) {
			members, known := byteClass(name)
			if !known {
				t.die(1, "invalid character class %s", quote(name))
			}
			set = append(set, members...)
			b = b[len(name)+4:]
			continue
		}
		if len(b) >= 4 && b[0] == '[' && b[2] == '*' {
			if count, _, ok := strings.Cut(string(b[3:]), "]"); ok && digits(count) {
				base := 10
				if strings.HasPrefix(count, "0") {
					base = 8
				}
				n, _ := strconv.ParseInt("0"+count, base, 32)
				if n == 0 {
					fill = len(set)
					set = append(set, b[1])
				}
				set = append(set, bytes.Repeat([]byte{b[1]}, int(min(n, 1<<16)))...)
				b = b[len(count)+4:]
				continue
			}
		}
		low, _ := one()
		if len(b) > 1 && b[0] == '-' {
			b = b[1:]
			high, _ := one()
			if high < low {
				t.die(1, "the ends of the range %q-%q are not in order", low, high)
			}
			for c := int(low); c <= int(high); c++ {
				set = append(set, byte(c))
			}
			continue
		}
		set = append(set, low)
	}
	return set, fill
}

func byteClass(name string) (members []byte, known bool) {
	for c := range 128 {
		if inClass(name, rune(c)) {
			members = append(members, byte(c))
		}
	}
	return members, members != nil
}

func tr(t *tool) int {
	given, args := t.options("+cCdst", map[string]rune{"complement": 'c', "delete": 'd', "squeeze-repeats": 's', "truncate-set1": 't'}, 1)
	var complement, remove, squeeze, truncate bool
	for _, o := range given {
		switch o.flag {
		case 'c', 'C':
			complement = true
		case 'd':
			remove = true
		case 's':
			squeeze = true
		case 't':
			truncate = true
		}
	}
	translates := !remove && (len(args) > 1)
	switch {
	case len(args) == 0:
		t.die(1, "missing operand")
	case len(args) > 2, len(args) == 2 && remove && !squeeze:
		t.die(1, "extra operand %s", quote(args[len(args)-1]))
	case len(args) == 1 && !remove && !squeeze, len(args) == 1 && remove && squeeze:
		t.die(1, "missing operand after %s", quote(args[0]))
	}
	first, _ := t.trSet(args[0])
	if complement {
		var in [256]bool
		for _, c := range first {
			in[c] = true
		}
		first = nil
		for c := range 256 {
			if !in[c] {
				first = append(first, byte(c))
			}
		}
	}
	var table [256]byte
	for c := range table {
		table[c] = byte(c)
	}
	var second []byte
	if len(args) == 2 {
		fill := -1
		second, fill = t.trSet(args[1])
		if translates {
			if fill >= 0 && len(second) < len(first)+1 {
				pad := bytes.Repeat(second[fill:fill+1], len(first)-len(second)+1)
				second = slices.Concat(second[:fill], pad, second[fill+1:])
			} else if fill >= 0 {
				second = slices.Delete(slices.Clone(second), fill, fill+1)
			}
			if len(second) == 0 && !truncate {
				t.die(1, "when not truncating set1, string2 must be non-empty")
			}
			if truncate {
				first = first[:min(len(first), len(second))]
			}
			for i, c := range first {
				table[c] = second[min(i, len(second)-1)]
			}
		}
	}
	var drop, squash [256]bool
	if remove {
		for _, c := range first {
			drop[c] = true
		}
	}
	if squeeze {
		set := first
		if len(args) == 2 {
			set = second
		}
		for _, c := range set {
			squash[c] = true
		}
	}
	buf := make([]byte, 64<<10)
	last := -1
	for {
		n, err := t.in.Read(buf)
		out := buf[:0]
		for _, c := range buf[:n] {
			if drop[c] {
				continue
			}
			c = table[c]
			if squash[c] && last == int(c) {
				continue
			}
			last = int(c)
			out = append(out, c)
		}
		t.out.Write(out)
		if t.out.Buffered() > 0 && n < len(buf) {
			t.out.Flush()
		}
		if err == io.EOF {
			return 0
		}
		if err != nil {
			t.die(1, "read error: %s", reason(err))
		}
	}
}

type cutRange struct{ low, high int }

// ranges parses a list such as 1,3-5,7-.
func (t *tool) ranges(list string) []cutRange {
	var rs []cutRange
	for part := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		low, high, ranged := strings.Cut(part, "-")
		r := cutRange{1, math.MaxInt}
		parse := func(s string) int {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 {
				t.die(1, "invalid list: %s", quote(list))
			}
			return n
		}
		if low != "" {
			r.low = parse(low)
		}
		switch {
		case !ranged:
			r.high = r.low
		case high != "":
			r.high = parse(high)
		case low == "":
			t.die(1, "invalid range with no endpoint: -")
		}
		if r.high < r.low {
			t.die(1, "invalid decreasing range")
		}
		rs = append(rs, r)
	}
	if len(rs) == 0 {
		t.die(1, "the list is empty")
	}
	return rs
}

func cut(t *tool) int {
	given, args := t.options("b:c:f:d:sn\x01:z", map[string]rune{"bytes": 'b', "characters": 'c', "fields": 'f', "delimiter": 'd',
		"only-delimited": 's', "output-delimiter": 1, "complement": 2, "zero-terminated": 'z'}, 1)
	kind, list, delim, between, only, complement, end := rune(0), "", byte('\t'), "", false, false, byte('\n')
	haveBetween := false
	for _, o := range given {
		switch o.flag {
		case 'b', 'c', 'f':
			if kind != 0 {
				t.die(1, "only one type of list may be specified")
			}
			kind, list = o.flag, o.value
		case 'd':
			if len(o.value) > 1 {
				t.die(1, "the delimiter must be a single character")
			}
			delim = 0
			if o.value != "" {
				delim = o.value[0]
			}
		case 1:
			between, haveBetween = o.value, true
		case 2:
			complement = true
		case 's':
			only = true
		case 'z':
			end = 0
		}
	}
	if kind == 0 {
		t.die(1, "give a list of bytes, characters or fields")
	}
	ranges := t.ranges(list)
	selected := func(n int) bool {
		for _, r := range ranges {
			if n >= r.low && n <= r.high {
				return !complement
			}
		}
		return complement
	}
	if !haveBetween && kind == 'f' {
		between = string([]byte{delim})
	}
	t.eachLine(args, end, func(line []byte, _ bool) {
		if kind == 'f' && bytes.IndexByte(line, delim) < 0 {
			if !only {
				t.line(line, end)
			}
			return
		}
		first, previous := true, 0
		put := func(n int, part []byte) {
			if !selected(n) {
				return
			}
			if !first && (kind == 'f' || previous != n-1) {
				t.out.WriteString(between)
			}
			first, previous = false, n
			t.out.Write(part)
		}
		switch kind {
		case 'f':
			n := 0
			for part := range bytes.SplitSeq(line, []byte{delim}) {
				n++
				put(n, part)
			}
		default: // -c is -b, as GNU's
			for i := range line {
				put(i+1, line[i:i+1])
			}
		}
		t.out.WriteByte(end)
	})
	return t.status
}

func rev(t *tool) int {
	t.eachLine(t.Args, '\n', func(line []byte, ended bool) {
		for len(line) > 0 {
			_, n := utf8.DecodeLastRune(line)
			t.out.Write(line[len(line)-n:])
			line = line[:len(line)-n]
		}
		if ended {
			t.out.WriteByte('\n')
		}
	})
	return t.status
}

func paste(t *tool) int {
	given, args := t.options("sd:z", map[string]rune{"serial": 's', "delimiters": 'd', "zero-terminated": 'z'}, 1)
	serial, delims, end := false, "\t", byte('\n')
	for _, o := range given {
		switch o.flag {
		case 's':
			serial = true
		case 'd':
			delims, _ = unescape(o.value, octalEither)
		case 'z':
			end = 0
		}
	}
	if len(args) == 0 {
		args = []string{"-"}
	}
	glue := func(i int) {
		if delims != "" {
			if c := delims[i%len(delims)]; c != 0 {
				t.out.WriteByte(c)
			}
		}
	}
	var sources []*lines
	var shared *lines
	for _, name := range args {
		if name == "-" && shared != nil {
			sources = append(sources, shared)
			continue
		}
		r, err := t.open(name)
		if err != nil {
			t.die(1, "%s: %s", name, reason(err))
		}
		defer r.Close()
		l := newLines(r, end)
		if name == "-" {
			shared = l
		}
		sources = append(sources, l)
	}
	if serial {
		for _, l := range sources {
			for i := 0; ; i++ {
				line, _, ok := l.next()
				if !ok {
					break
				}
				if i > 0 {
					glue(i - 1)
				}
				t.out.Write(line)
			}
			t.out.WriteByte(end)
		}
		return t.status
	}
	for {
		var row [][]byte
		some := false
		for _, l := range sources {
			line, _, ok := l.next()
			some = some || ok
			row = append(row, bytes.Clone(line))
		}
		if !some {
			return t.status
		}
		for i, cell := range row {
			if i > 0 {
				glue(i - 1)
			}
			t.out.Write(cell)
		}
		t.out.WriteByte(end)
	}
}

func tac(t *tool) int {
	t.each(t.Args, func(name string, r io.Reader) {
		l := newLines(r, '\n')
		var held [][]byte
		for {
			line, ended, ok := l.next()
			if !ok {
				break
			}
			held = append(held, withEnd(line, ended, '\n'))
		}
		for _, line := range slices.Backward(held) {
			t.out.Write(line)
		}
	})
	return t.status
}
