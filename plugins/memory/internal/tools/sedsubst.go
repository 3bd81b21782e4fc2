package tools

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

func (p *sedParser) substitute(c *sedCommand) error {
	if p.at >= len(p.in) {
		return errors.New("s has no pattern")
	}
	delim := p.in[p.at]
	p.at++
	pattern, err := p.delimited(delim, true)
	if err != nil {
		return err
	}
	replacement, err := p.delimited(delim, false)
	if err != nil {
		return err
	}
	s := syntaxOf{extended: p.extended, escapes: true}
flags:
	for p.at < len(p.in) {
		switch f := p.in[p.at]; {
		case f == 'g':
			c.global = true
		case f == 'p':
			c.print = true
		case f == 'i' || f == 'I':
			s.fold = true
		case f == 'm' || f == 'M':
			s.lines = true
		case f >= '1' && f <= '9':
			c.nth = int(p.number())
			continue
		case f == 'w':
			p.at++
			p.space(" \t")
			c.file = p.line()
			if c.file == "" {
				return errors.New("a file name is missing")
			}
			p.at-- // what ends the line ends the command
			if p.in[p.at] != '\n' {
				p.at++
			}
			break flags
		case f == 'e':
			return errors.New("the flag e of s is not supported")
		default:
			break flags
		}
		p.at++
	}
	if pattern != "" {
		if c.re, err = compile(pattern, s); err != nil {
			return err
		}
	}
	c.repl, err = parseReplacement(replacement)
	if err != nil {
		return err
	}
	for _, part := range c.repl {
		if c.re != nil && part.group > c.re.NumSubexp() {
			return fmt.Errorf("there is no group \\%d in the pattern", part.group)
		}
	}
	return nil
}

func parseReplacement(s string) ([]sedPart, error) {
	var parts []sedPart
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			parts = append(parts, sedPart{text: b.String(), group: -1})
			b.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '&' {
			flush()
			parts = append(parts, sedPart{group: 0})
			continue
		}
		if c != '\\' || i+1 == len(s) {
			b.WriteByte(c)
			continue
		}
		i++
		switch c = s[i]; {
		case c >= '0' && c <= '9':
			flush()
			parts = append(parts, sedPart{group: int(c - '0')})
		case strings.IndexByte("ULulE", c) >= 0:
			flush()
			parts = append(parts, sedPart{group: -1, mode: c})
		case strings.IndexByte("ntfrva", c) >= 0:
			b.WriteByte("\n\t\f\r\v\a"[strings.IndexByte("ntfrva", c)])
		case c == 'x' && i+2 < len(s) && isDigit(s[i+1], 16) && isDigit(s[i+2], 16):
			n, _ := strconv.ParseUint(s[i+1:i+3], 16, 8)
			b.WriteByte(byte(n))
			i += 2
		case c == 'c' || c == 'd' || c == 'o':
			return nil, fmt.Errorf(`\%c in a replacement is not supported`, c)
		default:
			b.WriteByte(c)
		}
	}
	flush()
	return parts, nil
}

func (p *sedParser) translate(c *sedCommand) error {
	if p.at >= len(p.in) {
		return errors.New("y has no characters")
	}
	delim := p.in[p.at]
	p.at++
	var sides [2][]rune
	for i := range sides {
		text, err := p.delimited(delim, false)
		if err != nil {
			return err
		}
		for len(text) > 0 {
			r, n := utf8.DecodeRuneInString(text)
			text = text[n:]
			if r == '\\' && text != "" {
				r, n = utf8.DecodeRuneInString(text)
				text = text[n:]
				switch r {
				case 'n':
					r = '\n'
				case 't':
					r = '\t'
				case '\\':
				default:
					return fmt.Errorf(`\%c in y is not supported`, r)
				}
			}
			sides[i] = append(sides[i], r)
		}
	}
	if len(sides[0]) != len(sides[1]) {
		return errors.New("the two strings of y differ in length")
	}
	c.table = make(map[rune]rune)
	for i, r := range sides[0] {
		if _, ok := c.table[r]; !ok {
			c.table[r] = sides[1][i]
		}
	}
	return nil
}
