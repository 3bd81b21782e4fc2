package tools

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"unicode"
	"unicode/utf8"
)

func cat(t *tool) int {
	given, args := t.options("AbeEnstTuv", map[string]rune{"number": 'n', "number-nonblank": 'b', "squeeze-blank": 's',
		"show-ends": 'E', "show-tabs": 'T', "show-nonprinting": 'v', "show-all": 'A'}, 1)
	var number, nonblank, squeeze, ends, tabs, control bool
	for _, o := range given {
		switch o.flag {
		case 'n':
			number = true
		case 'b':
			nonblank = true
		case 's':
			squeeze = true
		case 'E':
			ends = true
		case 'T':
			tabs = true
		case 'v':
			control = true
		case 'A':
			ends, tabs, control = true, true, true
		case 'e':
			ends, control = true, true
		case 't':
			tabs, control = true, true
		}
	}
	if !number && !nonblank && !squeeze && !ends && !tabs && !control {
		t.each(args, t.copy)
		return t.status
	}
	n, blanks, fresh := 0, 0, true
	t.eachLine(args, '\n', func(line []byte, ended bool) {
		if fresh {
			if len(line) == 0 {
				blanks++
			} else {
				blanks = 0
			}
			if squeeze && blanks > 1 {
				return
			}
			if nonblank && len(line) > 0 || number && !nonblank {
				n++
				t.printf("%6d\t", n)
			}
		}
		for _, c := range line {
			t.visible(c, tabs, control)
		}
		fresh = ended
		if !ended {
			return
		}
		if ends {
			t.out.WriteByte('$')
		}
		t.out.WriteByte('\n')
	})
	return t.status
}

// visible writes a byte in caret notation where that is asked for.
func (t *tool) visible(c byte, tabs, control bool) {
	switch {
	case c == '\t' && tabs:
		t.out.WriteString("^I")
		return
	case c == '\t' || !control:
		t.out.WriteByte(c)
		return
	}
	if c >= 0x80 {
		t.out.WriteString("M-")
		c -= 0x80
	}
	switch {
	case c < ' ':
		t.out.WriteByte('^')
		t.out.WriteByte(c + '@')
	case c == 0x7f:
		t.out.WriteString("^?")
	default:
		t.out.WriteByte(c)
	}
}

func tee(t *tool) int {
	given, args := t.options("ai", map[string]rune{"append": 'a', "ignore-interrupts": 'i'}, 1)
	flag := os.O_TRUNC
	for _, o := range given {
		if o.flag == 'a' {
			flag = os.O_APPEND
		}
	}
	type target struct {
		name string
		w    io.WriteCloser
	}
	var targets []target
	defer func() {
		for _, g := range targets {
			g.w.Close()
		}
	}()
	for _, name := range args {
		w, err := t.create(name, flag)
		if err != nil {
			t.fail(name, err)
			continue
		}
		targets = append(targets, target{name, w})
	}
	out := sink{t, t.Stdout}
	buf := make([]byte, 64<<10)
	for {
		n, err := t.in.Read(buf)
		if n > 0 {
			for i := 0; i < len(targets); i++ {
				if _, err := targets[i].w.Write(buf[:n]); err != nil {
					t.fail(targets[i].name, err)
					targets[i].w.Close()
					targets = append(targets[:i], targets[i+1:]...)
					i--
				}
			}
			out.Write(buf[:n])
		}
		if err == io.EOF {
			return t.status
		}
		if err != nil {
			t.fail("standard input", err)
			return t.status
		}
	}
}

type counts struct{ lines, words, chars, bytes, longest int64 }

func wc(t *tool) int {
	given, args := t.options("lwcmL", map[string]rune{"lines": 'l', "words": 'w', "bytes": 'c', "chars": 'm', "max-line-length": 'L'}, 1)
	want := make(map[rune]bool)
	for _, o := range given {
		want[o.flag] = true
	}
	if len(want) == 0 {
		want['l'], want['w'], want['c'] = true, true, true
	}
	type row struct {
		c    counts
		name string
	}
	var rows []row
	var total counts
	// Only counting bytes and lines needs no look at the words.
	quick := !want['w'] && !want['m'] && !want['L']
	t.each(args, func(name string, r io.Reader) {
		c, err := count(r, quick)
		if err != nil {
			t.fail(name, err)
		}
		if len(args) == 0 {
			name = ""
		}
		rows = append(rows, row{c, name})
		total = counts{total.lines + c.lines, total.words + c.words, total.chars + c.chars, total.bytes + c.bytes, max(total.longest, c.longest)}
	})
	if len(args) > 1 {
		rows = append(rows, row{total, "total"})
	}
	// As GNU's: columns are as wide as the largest count can be, one number alone is not padded.
	width := 1
	if len(rows) > 1 || len(want) > 1 {
		width = len(strconv.FormatInt(total.bytes, 10))
		for _, arg := range args {
			if info, err := t.stat(arg); arg == "-" || err == nil && !info.Mode().IsRegular() {
				width = max(width, 7)
			}
		}
		if len(args) == 0 {
			width = 7
		}
	}
	for _, row := range rows {
		sep := ""
		for _, col := range []struct {
			flag rune
			n    int64
		}{{'l', row.c.lines}, {'w', row.c.words}, {'m', row.c.chars}, {'c', row.c.bytes}, {'L', row.c.longest}} {
			if want[col.flag] {
				t.printf("%s%*d", sep, width, col.n)
				sep = " "
			}
		}
		if row.name != "" {
			t.printf(" %s", row.name)
		}
		t.out.WriteByte('\n')
	}
	return t.status
}

func count(r io.Reader, quick bool) (c counts, err error) {
	buf := make([]byte, 64<<10)
	have, inWord, column := 0, false, int64(0)
	for {
		n, err := r.Read(buf[have:])
		c.bytes += int64(n)
		b := buf[:have+n]
		have = 0
		if quick {
			c.lines += int64(bytes.Count(b, []byte{'\n'}))
		}
		for !quick && len(b) > 0 {
			if !utf8.FullRune(b) && err == nil {
				have = copy(buf, b)
				break
			}
			ch, size := utf8.DecodeRune(b)
			b = b[size:]
			if ch != utf8.RuneError || size > 1 {
				c.chars++
			}
			switch {
			case ch == '\n' || ch == '\r' || ch == '\f':
				if ch == '\n' {
					c.lines++
				}
				c.longest, column = max(c.longest, column), 0
			case ch == '\t':
				column += 8 - column%8
			case unicode.IsPrint(ch):
				column++
			}
			if unicode.IsSpace(ch) {
				inWord = false
			} else if !inWord && (unicode.IsGraphic(ch) || ch == utf8.RuneError) {
				c.words++
				inWord = true
			}
		}
		if err != nil {
			c.longest = max(c.longest, column)
			if errors.Is(err, io.EOF) {
				return c, nil
			}
			return c, err
		}
	}
}
