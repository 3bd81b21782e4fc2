package tools

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cycle runs the program once. again says that the next cycle keeps the
// pattern space.
func (s *sedRun) cycle() (again bool) {
	for pc := 0; pc < len(s.commands); pc++ {
		c := s.commands[pc]
		if pc == 0 {
			s.check()
		}
		if c.name == '}' || c.name == ':' {
			continue
		}
		if s.selects(c) == c.negate {
			if c.name == '{' {
				pc = c.jump
			}
			continue
		}
		switch c.name {
		case '=':
			s.put([]byte(fmt.Sprint(s.line)), true)
		case 'F':
			s.put([]byte(s.name), true)
		case 'a':
			s.queue = append(s.queue, func() { s.write(c.text) })
		case 'i':
			s.write(c.text)
		case 'c':
			if c.to == nil || c.negate || !c.active {
				s.write(c.text)
			}
			s.finish(false)
			return false
		case 'b':
			pc = s.jump(c)
		case 't', 'T':
			if s.changed == (c.name == 't') {
				s.changed = false
				pc = s.jump(c)
				break
			}
			s.changed = false
		case 'd':
			s.finish(false)
			return false
		case 'D':
			i := bytes.IndexByte(s.pattern, '\n')
			if i < 0 {
				s.finish(false)
				return false
			}
			s.pattern = append([]byte(nil), s.pattern[i+1:]...)
			s.finish(false)
			return true
		case 'g':
			s.pattern = append(s.pattern[:0], s.hold...)
		case 'G':
			s.pattern = append(append(s.pattern, '\n'), s.hold...)
		case 'h':
			s.hold = append(s.hold[:0], s.pattern...)
		case 'H':
			s.hold = append(append(s.hold, '\n'), s.pattern...)
		case 'x':
			s.pattern, s.hold = s.hold, s.pattern
		case 'z':
			s.pattern = s.pattern[:0]
		case 'l':
			s.write(s.visibleLine(c.code))
		case 'n':
			if s.isLast() {
				s.quits = true
				s.finish(true)
				return false
			}
			s.finish(true)
			l, _ := s.take()
			s.pattern, s.ended = l.text, l.ended
		case 'N':
			if s.isLast() {
				s.quits = true
				s.finish(true)
				return false
			}
			s.flush()
			l, _ := s.take()
			s.pattern, s.ended = append(append(s.pattern, '\n'), l.text...), l.ended
		case 'p':
			s.put(s.pattern, s.ended)
		case 'P':
			head, _, _ := bytes.Cut(s.pattern, []byte{'\n'})
			s.put(head, true)
		case 'q', 'Q':
			s.quits, s.code = true, c.code
			s.finish(c.name == 'q')
			return false
		case 'r':
			s.queue = append(s.queue, func() { s.insert(c.text) })
		case 'w':
			s.writeFile(c.text, s.pattern)
		case 's':
			s.substitute(c)
		case 'y':
			s.translate(c)
		}
	}
	s.finish(true)
	return false
}

func (s *sedRun) jump(c *sedCommand) int {
	s.check()
	return c.jump - 1
}

func (s *sedRun) write(text string) {
	if s.missing {
		s.to.Write([]byte{s.end})
		s.missing = false
	}
	io.WriteString(s.to, text)
}

// insert appends a file; one that cannot be read is nothing.
func (s *sedRun) insert(name string) {
	r, err := s.open(name)
	if err != nil {
		return
	}
	defer r.Close()
	b, err := whole(r)
	if err == nil && len(b) > 0 {
		s.write(string(b))
		s.missing = false
	}
}

func (s *sedRun) writeFile(name string, line []byte) {
	w := s.files[name]
	if name == "/dev/stdout" {
		s.put(line, true)
		return
	}
	if _, err := w.Write(append(slices.Clip(line), s.end)); err != nil {
		s.die(4, "cannot write %s: %s", name, reason(err))
	}
}

// selects says whether the addresses of a command select this line.
func (s *sedRun) selects(c *sedCommand) bool {
	if c.from == nil {
		return true
	}
	if c.to == nil {
		return s.at(c.from)
	}
	if c.active {
		switch c.to.kind {
		case 'r':
			c.active = !s.match(c.to.re)
		case '$':
			c.active = !s.isLast()
		default:
			if s.line > c.until {
				// The range ended on a line that this command did not see.
				c.active = false
				return s.opens(c)
			}
			c.active = s.line < c.until
		}
		return true
	}
	return s.opens(c)
}

// opens says whether a range begins here.
func (s *sedRun) opens(c *sedCommand) bool {
	if c.from.kind == '0' {
		if s.line > 1 {
			return false
		}
		c.active = !s.match(c.to.re)
		return true
	}
	if !s.at(c.from) {
		return false
	}
	switch c.to.kind {
	case '+':
		c.until = s.line + c.to.n
	case 'm':
		c.until = s.line
		if c.to.n > 0 {
			c.until = (s.line + c.to.n - 1) / c.to.n * c.to.n
		}
	case 'n', '0':
		c.until = c.to.n
	case '$':
		c.active = !s.isLast()
		return true
	default:
		c.active = true
		return true
	}
	c.active = c.until > s.line
	return true
}

func (s *sedRun) at(a *sedAddress) bool {
	switch a.kind {
	case 'n':
		return s.line == a.n
	case '$':
		return s.isLast()
	case '~':
		if a.step <= 0 {
			return s.line == a.n
		}
		return s.line >= a.n && (s.line-a.n)%a.step == 0
	}
	return s.match(a.re)
}

// regexp is re, or the last one used if it is empty.
func (s *sedRun) regexp(re *regexp.Regexp) *regexp.Regexp {
	if re != nil {
		s.last = re
	}
	if s.last == nil {
		s.die(1, "there is no previous regular expression")
	}
	return s.last
}

func (s *sedRun) match(re *regexp.Regexp) bool { return s.regexp(re).Match(s.pattern) }

func (s *sedRun) substitute(c *sedCommand) {
	re := s.regexp(c.re)
	limit := max(c.nth, 1)
	if c.global {
		limit = -1
	}
	found := re.FindAllSubmatchIndex(s.pattern, limit)
	if len(found) < max(c.nth, 1) {
		return
	}
	var out []byte
	at := 0
	for _, m := range found[max(c.nth, 1)-1:] {
		out = append(out, s.pattern[at:m[0]]...)
		out = s.replace(out, c.repl, m)
		at = m[1]
	}
	s.pattern = append(out, s.pattern[at:]...)
	s.changed = true
	if c.print {
		s.put(s.pattern, s.ended)
	}
	if c.file != "" {
		s.writeFile(c.file, s.pattern)
	}
}

// replace appends what a match becomes.
func (s *sedRun) replace(out []byte, parts []sedPart, m []int) []byte {
	mode, once := byte('E'), byte(0)
	for _, part := range parts {
		switch part.mode {
		case 'U', 'L', 'E':
			mode, once = part.mode, 0
			continue
		case 'u', 'l':
			once = part.mode
			continue
		}
		text := []byte(part.text)
		if part.group >= 0 {
			text = nil
			if g := 2 * part.group; g < len(m) && m[g] >= 0 {
				text = s.pattern[m[g]:m[g+1]]
			}
		}
		if mode == 'U' {
			text = bytes.ToUpper(text)
		}
		if mode == 'L' {
			text = bytes.ToLower(text)
		}
		if once != 0 && len(text) > 0 {
			r, n := utf8.DecodeRune(text)
			change := unicode.ToUpper
			if once == 'l' {
				change = unicode.ToLower
			}
			out = utf8.AppendRune(out, change(r))
			text, once = text[n:], 0
		}
		out = append(out, text...)
	}
	return out
}

func (s *sedRun) translate(c *sedCommand) {
	out := make([]byte, 0, len(s.pattern))
	for rest := s.pattern; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if to, ok := c.table[r]; ok && (r != utf8.RuneError || n > 1) {
			out = utf8.AppendRune(out, to)
		} else {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	s.pattern = out
}

// visibleLine is what l prints: escapes, in lines of the width.
func (s *sedRun) visibleLine(width int) string {
	if width == 0 {
		width = 70
	}
	var b strings.Builder
	column := 0
	for _, c := range s.pattern {
		var e string
		switch i := strings.IndexByte("\\\a\b\f\n\r\t\v", c); {
		case i >= 0:
			e = `\` + `\abfnrtv`[i:i+1]
		case c < ' ' || c >= 0x7f:
			e = fmt.Sprintf(`\%03o`, c)
		default:
			e = string(rune(c))
		}
		if width > 1 && column+len(e) > width-1 {
			b.WriteString("\\\n")
			column = 0
		}
		b.WriteString(e)
		column += len(e)
	}
	b.WriteString("$\n")
	return b.String()
}
