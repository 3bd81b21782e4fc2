package tools

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
)

// sortKey is one -k.
type sortKey struct {
	fromField, fromChar, toField, toChar int // from 1; toField 0: the line's end, toChar 0: the field's
	fromBlank, toBlank                   bool
	order
}

// order is how keys are compared.
type order struct {
	numeric, general, human, version, month, reverse, fold, dictionary, printable, blanks bool
}

func (o order) plain() bool { return o == order{} || o == order{reverse: o.reverse} }

type sorter struct {
	*tool
	keys   []sortKey
	order  order
	sep    int // -1: between blanks
	stable bool
	unique bool
	end    byte
}

// sortLines sorts in memory: all of its input and about 40 bytes for each line.
func sortLines(t *tool) int {
	given, args := t.options("nrufbdhgVMisck:t:o:zmCS:T:", map[string]rune{"numeric-sort": 'n', "reverse": 'r', "unique": 'u', "ignore-case": 'f',
		"ignore-leading-blanks": 'b', "dictionary-order": 'd', "human-numeric-sort": 'h', "general-numeric-sort": 'g', "version-sort": 'V',
		"month-sort": 'M', "stable": 's', "check": 'c', "key": 'k', "field-separator": 't', "output": 'o', "zero-terminated": 'z', "merge": 'm',
		"ignore-nonprinting": 'i', "buffer-size": 'S', "temporary-directory": 'T'}, 2)
	s := &sorter{tool: t, sep: -1, end: '\n'}
	check, output := rune(0), ""
	for _, o := range given {
		switch o.flag {
		case 'u':
			s.unique = true
		case 's':
			s.stable = true
		case 'c', 'C':
			check = o.flag
		case 'k':
			s.keys = append(s.keys, s.key(o.value))
		case 't':
			sep := o.value
			if sep == `\0` {
				sep = "\x00"
			}
			if len(sep) != 1 {
				t.die(2, "the separator must be one byte, not %s", quote(o.value))
			}
			s.sep = int(sep[0])
		case 'o':
			output = o.value
		case 'z':
			s.end = 0
		case 'm', 'S', 'T':
			// Sorting again what is sorted is merging; there is nothing on disk.
		default:
			s.order.set(byte(o.flag))
		}
	}
	for i := range s.keys {
		if k := &s.keys[i]; k.order == (order{}) && !k.fromBlank && !k.toBlank {
			k.order = s.order
			k.fromBlank, k.toBlank = s.order.blanks, s.order.blanks
		}
	}
	if len(s.keys) == 0 && !(s.order.plain() && s.sep < 0) {
		s.keys = []sortKey{{fromField: 1, fromChar: 1, fromBlank: s.order.blanks, order: s.order}}
	}
	if check != 0 {
		return s.checks(args, check == 'c')
	}
	lines := s.read(args)
	slices.SortStableFunc(lines, func(a, b []byte) int {
		c := s.compare(a, b)
		if c == 0 && !s.stable && !s.unique {
			c = s.tie(a, b)
		}
		return c
	})
	if s.unique {
		lines = slices.CompactFunc(lines, func(a, b []byte) bool { return s.compare(a, b) == 0 })
	}
	if output == "" {
		for _, line := range lines {
			t.line(line, s.end)
		}
		return t.status
	}
	w, err := t.create(output, os.O_TRUNC)
	if err != nil {
		t.die(2, "cannot create %s: %s", output, reason(err))
	}
	defer w.Close()
	var b bytes.Buffer
	for i, line := range lines {
		b.Write(line)
		b.WriteByte(s.end)
		if b.Len() > 64<<10 || i == len(lines)-1 {
			if _, err := w.Write(b.Bytes()); err != nil {
				t.die(2, "cannot write %s: %s", output, reason(err))
			}
			b.Reset()
		}
	}
	return t.status
}

func (o *order) set(flag byte) bool {
	switch flag {
	case 'n':
		o.numeric = true
	case 'g':
		o.general = true
	case 'h':
		o.human = true
	case 'V':
		o.version = true
	case 'M':
		o.month = true
	case 'r':
		o.reverse = true
	case 'f':
		o.fold = true
	case 'd':
		o.dictionary = true
	case 'i':
		o.printable = true
	case 'b':
		o.blanks = true
	default:
		return false
	}
	return true
}

// key parses F[.C][OPTS][,F[.C][OPTS]].
func (s *sorter) key(text string) sortKey {
	bad := func() { s.die(2, "invalid key: %s", quote(text)) }
	var k sortKey
	part := func(p string, start bool) (field, char int, blank bool) {
		digits := func() int {
			end := strings.IndexFunc(p, func(r rune) bool { return r < '0' || r > '9' })
			if end < 0 {
				end = len(p)
			}
			n, err := strconv.Atoi(p[:end])
			if err != nil {
				bad()
			}
			p = p[end:]
			return n
		}
		field = digits()
		if strings.HasPrefix(p, ".") {
			p = p[1:]
			char = digits()
			if start && char == 0 {
				bad()
			}
		} else if start {
			char = 1
		}
		for i := range len(p) {
			if p[i] == 'b' {
				blank = true
				continue
			}
			if !k.order.set(p[i]) {
				bad()
			}
		}
		if field == 0 {
			bad()
		}
		return field, char, blank
	}
	from, to, has := strings.Cut(text, ",")
	k.fromField, k.fromChar, k.fromBlank = part(from, true)
	if has {
		k.toField, k.toChar, k.toBlank = part(to, false)
	}
	return k
}

func (s *sorter) read(args []string) (all [][]byte) {
	var b bytes.Buffer
	if len(args) == 0 {
		args = []string{"-"}
	}
	for _, name := range args {
		r, err := s.open(name)
		if err != nil {
			s.die(2, "cannot read: %s: %s", name, reason(err))
		}
		_, err = b.ReadFrom(r)
		r.Close()
		if err != nil {
			s.die(2, "read failed: %s: %s", name, reason(err))
		}
		if n := b.Len(); n > 0 && b.Bytes()[n-1] != s.end {
			b.WriteByte(s.end)
		}
	}
	text := b.Bytes()
	all = make([][]byte, 0, bytes.Count(text, []byte{s.end}))
	for rest := text; len(rest) > 0; {
		i := bytes.IndexByte(rest, s.end)
		all = append(all, rest[:i:i])
		rest = rest[i+1:]
	}
	return all
}

func (s *sorter) checks(args []string, loud bool) int {
	name := "-"
	if len(args) > 1 {
		s.die(2, "extra operand %s: only one file can be checked", quote(args[1]))
	}
	if len(args) == 1 {
		name = args[0]
	}
	r, err := s.open(name)
	if err != nil {
		s.die(2, "cannot read: %s: %s", name, reason(err))
	}
	defer r.Close()
	l := newLines(r, s.end)
	var last []byte
	for n := 1; ; n++ {
		line, _, ok := l.next()
		if !ok {
			return 0
		}
		if n > 1 {
			c := s.compare(last, line)
			if c == 0 && !s.unique && !s.stable {
				c = s.tie(last, line)
			}
			if c > 0 || c == 0 && s.unique {
				if loud {
					s.complain("%s:%d: disorder: %s", name, n, line)
				}
				return 1
			}
		}
		last = append(last[:0], line...)
	}
}

func (s *sorter) tie(a, b []byte) int {
	if s.order.reverse {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}

func (s *sorter) compare(a, b []byte) int {
	if len(s.keys) == 0 {
		return s.tie(a, b)
	}
	for i := range s.keys {
		k := &s.keys[i]
		if c := k.compare(s.part(a, k), s.part(b, k)); c != 0 {
			if k.reverse {
				return -c
			}
			return c
		}
	}
	return 0
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

// field returns where field n begins and ends in line. Without a separator,
// a field begins with the blanks before it.
func (s *sorter) field(line []byte, n int) (from, to int) {
	at := 0
	for ; ; n-- {
		from = at
		if s.sep < 0 {
			for at < len(line) && blank(line[at]) {
				at++
			}
			for at < len(line) && !blank(line[at]) {
				at++
			}
			if n == 1 || at >= len(line) && from >= len(line) {
				return from, at
			}
			continue
		}
		i := bytes.IndexByte(line[at:], byte(s.sep))
		if n == 1 || i < 0 {
			if n > 1 {
				return len(line), len(line)
			}
			if i < 0 {
				return from, len(line)
			}
			return from, at + i
		}
		at += i + 1
	}
}

// part is the text of a key in line.
func (s *sorter) part(line []byte, k *sortKey) []byte {
	from, _ := s.field(line, k.fromField)
	if k.fromBlank {
		for from < len(line) && blank(line[from]) {
			from++
		}
	}
	from = min(from+k.fromChar-1, len(line))
	to := len(line)
	if k.toField > 0 {
		start, end := s.field(line, k.toField)
		to = end
		if k.toChar > 0 {
			if k.toBlank {
				for start < len(line) && blank(line[start]) {
					start++
				}
			}
			to = min(start+k.toChar, len(line))
		}
	}
	if to < from {
		return nil
	}
	return line[from:to]
}
