package tools

import (
	"bytes"
	encoding "encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// dumpFormat is one of the ways in which od writes a block.
type dumpFormat struct {
	kind  byte // a, c, d, f, o, u or x
	size  int  // bytes of one number
	width int  // columns of one number, the blank before it included
}

func od(t *tool) int {
	given, args := t.options("A:t:N:j:vw::bcdosxai", map[string]rune{"address-radix": 'A', "format": 't', "read-bytes": 'N', "skip-bytes": 'j',
		"output-duplicates": 'v', "width": 'w'}, 1)
	radix, limit, skip, all, width := byte('o'), int64(-1), int64(0), false, 16
	var formats []dumpFormat
	for _, o := range given {
		switch o.flag {
		case 'A':
			if len(o.value) != 1 || !strings.Contains("doxn", o.value) {
				t.die(1, "invalid output address radix %s; it must be one character from [doxn]", quote(o.value))
			}
			radix = o.value[0]
		case 't':
			formats = append(formats, t.dumpFormats(o.value)...)
		case 'N', 'j':
			n, err := parseNumber(o.value)
			if err != nil {
				t.die(1, "invalid argument %s to -%c", quote(o.value), o.flag)
			}
			if o.flag == 'N' {
				limit = n
			} else {
				skip = n
			}
		case 'v':
			all = true
		case 'w':
			width = 32
			if o.value != "" {
				n, err := strconv.Atoi(o.value)
				if err != nil || n < 1 || n > 4096 {
					t.die(1, "invalid width %s", quote(o.value))
				}
				width = n
			}
		default:
			formats = append(formats, t.dumpFormats(map[rune]string{'b': "o1", 'c': "c", 'd': "u2", 'o': "o2", 's': "d2", 'x': "x2", 'a': "a", 'i': "d4"}[o.flag])...)
		}
	}
	if len(formats) == 0 {
		formats = t.dumpFormats("o2")
	}
	var inputs []io.Reader
	t.each(args, func(name string, r io.Reader) {
		content := io.Reader(r)
		if name != "-" { // the inputs are one after the other, so each must stay open until its turn
			b, err := whole(r)
			if err != nil {
				t.fail(name, err)
				return
			}
			content = bytes.NewReader(b)
		}
		inputs = append(inputs, content)
	})
	if len(inputs) == 0 {
		return t.status
	}
	in := io.MultiReader(inputs...)
	if n, err := io.CopyN(io.Discard, in, skip); err != nil || n < skip {
		t.die(1, "cannot skip past end of combined input")
	}
	if limit >= 0 {
		in = io.LimitReader(in, limit)
	}
	t.dump(in, skip, radix, all, width, formats)
	return t.status
}

// parseNumber is parseSize for what may be octal or hexadecimal.
func parseNumber(s string) (int64, error) {
	if len(s) > 1 && s[0] == '0' {
		return strconv.ParseInt(s, 0, 64)
	}
	return parseSize(s)
}

func (t *tool) dumpFormats(spec string) (formats []dumpFormat) {
	whole := spec
	for spec != "" {
		f := dumpFormat{kind: spec[0], size: 4}
		spec = spec[1:]
		sizes := map[byte]int{'C': 1, 'S': 2, 'I': 4, 'L': 8}
		switch f.kind {
		case 'a', 'c':
			f.size, f.width = 1, 4
			formats = append(formats, f)
			continue
		case 'f':
			f.size, sizes = 8, map[byte]int{'F': 4, 'D': 8}
		case 'd', 'o', 'u', 'x':
		default:
			t.die(1, "invalid character '%c' in type string %s", f.kind, quote(whole))
		}
		if n := len(spec) - len(strings.TrimLeft(spec, "0123456789")); n > 0 {
			f.size, _ = strconv.Atoi(spec[:n])
			spec = spec[n:]
		} else if spec != "" && sizes[spec[0]] > 0 {
			f.size = sizes[spec[0]]
			spec = spec[1:]
		}
		columns := map[byte]map[int]int{
			'd': {1: 5, 2: 7, 4: 12, 8: 21}, 'o': {1: 4, 2: 7, 4: 12, 8: 23}, 'u': {1: 4, 2: 6, 4: 11, 8: 21}, 'x': {1: 3, 2: 5, 4: 9, 8: 17},
			'f': {4: 16, 8: 25},
		}
		if f.width = columns[f.kind][f.size]; f.width == 0 {
			t.die(1, "invalid type string %s: there is no %d-byte type of kind '%c'", quote(whole), f.size, f.kind)
		}
		if strings.HasPrefix(spec, "z") {
			t.die(1, "the suffix z is not supported")
		}
		formats = append(formats, f)
	}
	return formats
}

func (t *tool) dump(in io.Reader, at int64, radix byte, all bool, width int, formats []dumpFormat) {
	address := func() string {
		switch radix {
		case 'd':
			return fmt.Sprintf("%07d", at)
		case 'x':
			return fmt.Sprintf("%06x", at)
		case 'n':
			return ""
		}
		return fmt.Sprintf("%07o", at)
	}
	// Every format takes the columns of the widest.
	perByte := 0
	for _, f := range formats {
		perByte = max(perByte, (f.width+f.size-1)/f.size)
	}
	block, last := make([]byte, width), []byte(nil)
	starred := false
	for {
		n, err := io.ReadFull(in, block)
		if n == 0 {
			if err != io.EOF && err != io.ErrUnexpectedEOF {
				t.fail("input", err)
			}
			break
		}
		if !all && n == width && last != nil && bytes.Equal(last, block) {
			if !starred {
				t.printf("*\n")
			}
			starred = true
			at += int64(n)
			continue
		}
		starred = false
		last = append(last[:0], block[:n]...)
		clear(block[n:])
		for i, f := range formats {
			lead := address()
			if i > 0 {
				lead = strings.Repeat(" ", len(lead))
			}
			t.printf("%s", lead)
			columns := f.width
			if len(formats) > 1 {
				columns = perByte * f.size
			}
			for j := 0; j < n; j += f.size {
				item := make([]byte, f.size)
				copy(item, block[j:min(len(block), j+f.size)])
				t.printf("%*s", columns, f.text(item))
			}
			t.printf("\n")
		}
		at += int64(n)
		if err != nil {
			break
		}
	}
	if radix != 'n' {
		t.printf("%s\n", address())
	}
}

// text is one number or character.
func (f dumpFormat) text(b []byte) string {
	switch f.kind {
	case 'a':
		names := "nul soh stx etx eot enq ack bel  bs  ht  nl  vt  ff  cr  so  si dle dc1 dc2 dc3 dc4 nak syn etb can  em sub esc  fs  gs  rs  us  sp"
		c := b[0] & 0x7f
		switch {
		case c <= ' ':
			return strings.Fields(names)[c]
		case c == 0x7f:
			return "del"
		}
		return string(rune(c))
	case 'c':
		if i := strings.IndexByte("\x00\a\b\t\n\v\f\r", b[0]); i >= 0 {
			return []string{`\0`, `\a`, `\b`, `\t`, `\n`, `\v`, `\f`, `\r`}[i]
		}
		if b[0] < ' ' || b[0] > '~' {
			return fmt.Sprintf("%03o", b[0])
		}
		return string(rune(b[0]))
	}
	var full [8]byte
	copy(full[:], b)
	n := encoding.LittleEndian.Uint64(full[:])
	switch f.kind {
	case 'd':
		shift := 64 - 8*f.size
		return strconv.FormatInt(int64(n<<shift)>>shift, 10)
	case 'u':
		return strconv.FormatUint(n, 10)
	case 'x':
		return fmt.Sprintf("%0*x", 2*f.size, n)
	case 'f':
		if f.size == 4 {
			return strconv.FormatFloat(float64(math.Float32frombits(uint32(n))), 'g', -1, 32)
		}
		return strconv.FormatFloat(math.Float64frombits(n), 'g', -1, 64)
	}
	return fmt.Sprintf("%0*o", map[int]int{1: 3, 2: 6, 4: 11, 8: 22}[f.size], n)
}
