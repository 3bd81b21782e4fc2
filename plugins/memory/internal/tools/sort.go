package tools

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
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

func (k *sortKey) compare(a, b []byte) int {
	switch {
	case k.numeric:
		return compareNumbers(a, b)
	case k.general:
		return compareFloats(a, b)
	case k.human:
		x, y := humanUnit(a), humanUnit(b)
		return cmp.Or(cmp.Compare(x, y), compareNumbers(a, b))
	case k.version:
		return compareVersions(a, b)
	case k.month:
		return cmp.Compare(monthOf(a), monthOf(b))
	}
	if !k.fold && !k.dictionary && !k.printable {
		return bytes.Compare(a, b)
	}
	return bytes.Compare(k.shape(a), k.shape(b))
}

func (k *sortKey) shape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if k.dictionary && !(c == ' ' || c == '\t' || c >= 0x80 || isWord(rune(c)) && c != '_') || k.printable && (c < ' ' || c >= 0x7f) {
			continue
		}
		if k.fold && c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		out = append(out, c)
	}
	return out
}

// number splits the start of b: a sign, whole digits without leading zeros, and
// the digits of the fraction without trailing ones.
func number(b []byte) (negative bool, whole, fraction []byte) {
	for len(b) > 0 && blank(b[0]) {
		b = b[1:]
	}
	if len(b) > 0 && b[0] == '-' {
		negative, b = true, b[1:]
	}
	n := 0
	for n < len(b) && isDigit(b[n], 10) {
		n++
	}
	whole = bytes.TrimLeft(b[:n], "0")
	if b = b[n:]; len(b) > 0 && b[0] == '.' {
		for n = 1; n < len(b) && isDigit(b[n], 10); n++ {
		}
		fraction = bytes.TrimRight(b[1:n], "0")
	}
	if len(whole) == 0 && len(fraction) == 0 {
		negative = false
	}
	return negative, whole, fraction
}

// compareNumbers compares decimal numbers of any length.
func compareNumbers(a, b []byte) int {
	an, aw, af := number(a)
	bn, bw, bf := number(b)
	if an != bn {
		if an {
			return -1
		}
		return 1
	}
	c := cmp.Or(cmp.Compare(len(aw), len(bw)), bytes.Compare(aw, bw), bytes.Compare(af, bf))
	if an {
		return -c
	}
	return c
}

func compareFloats(a, b []byte) int {
	parse := func(b []byte) (float64, bool) {
		s := strings.TrimSpace(string(b))
		for end := len(s); end > 0; end-- {
			if v, err := strconv.ParseFloat(s[:end], 64); err == nil {
				return v, true
			}
		}
		return 0, false
	}
	x, xok := parse(a)
	y, yok := parse(b)
	if xok != yok {
		if !xok {
			return -1
		}
		return 1
	}
	return cmp.Compare(x, y)
}

// humanUnit is the power that a suffix such as K means, with the number's sign.
func humanUnit(b []byte) int {
	negative, whole, fraction := number(b)
	if len(whole) == 0 && len(fraction) == 0 {
		return 0
	}
	b = bytes.TrimLeft(b, " \t-0123456789.")
	unit := 0
	if len(b) > 0 {
		unit = strings.IndexByte("KMGTPEZY", byte(unicode.ToUpper(rune(b[0])))) + 1
	}
	if negative {
		return -unit
	}
	return unit
}

func monthOf(b []byte) int {
	b = bytes.TrimLeft(b, " \t")
	if len(b) < 3 {
		return 0
	}
	i := strings.Index("JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", strings.ToUpper(string(b[:3])))
	if i < 0 || i%3 != 0 {
		return 0
	}
	return i/3 + 1
}

// compareVersions compares runs of digits as numbers and the rest as text,
// where ~ comes before everything, even the end, and letters before the rest.
func compareVersions(a, b []byte) int {
	rank := func(s []byte) int {
		switch {
		case len(s) == 0 || isDigit(s[0], 10):
			return 0
		case s[0] == '~':
			return -1
		case unicode.IsLetter(rune(s[0])):
			return int(s[0])
		}
		return int(s[0]) + 256
	}
	for len(a) > 0 || len(b) > 0 {
		for len(a) > 0 && !isDigit(a[0], 10) || len(b) > 0 && !isDigit(b[0], 10) {
			if c := cmp.Compare(rank(a), rank(b)); c != 0 {
				return c
			}
			a, b = a[min(1, len(a)):], b[min(1, len(b)):]
		}
		i, j := 0, 0
		for i < len(a) && isDigit(a[i], 10) {
			i++
		}
		for j < len(b) && isDigit(b[j], 10) {
			j++
		}
		x, y := bytes.TrimLeft(a[:i], "0"), bytes.TrimLeft(b[:j], "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), bytes.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[i:], b[j:]
	}
	return 0
}

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
