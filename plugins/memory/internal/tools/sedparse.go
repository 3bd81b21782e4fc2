package tools

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// sedAddress selects lines.
type sedAddress struct {
	kind byte // n: line, $: last, r: regexp, ~: first and step, 0: before the first, +: count, m: multiple
	n    int64
	step int64
	re   *regexp.Regexp // nil with kind r: the last one used
}

// sedCommand is one command of a sed program.
type sedCommand struct {
	from, to *sedAddress
	negate   bool
	name     byte
	text     string // of a, i, c; the label of :, b, t, T; the file of r, w
	jump     int    // where b, t, T and the end of a block go
	code     int    // of q, Q, or the width of l
	re       *regexp.Regexp
	repl     []sedPart
	nth      int
	global   bool
	print    bool
	file     string // of s///w
	table    map[rune]rune

	// While a range is open.
	active bool
	until  int64 // the last line of it, for + and m and n
}

// sedPart is a piece of a replacement.
type sedPart struct {
	text  string
	group int  // -1: text
	mode  byte // U, L, u, l or E: a change of case
}

type sedParser struct {
	in       string
	at       int
	extended bool
	commands []*sedCommand
	blocks   []int
}

func parseSed(script string, extended bool) ([]*sedCommand, error) {
	p := &sedParser{in: script, extended: extended}
	for {
		p.space(" \t\n;")
		if p.at >= len(p.in) {
			break
		}
		if p.in[p.at] == '#' {
			p.line()
			continue
		}
		if err := p.command(); err != nil {
			return nil, fmt.Errorf("-e expression, char %d: %w", p.at, err)
		}
	}
	if len(p.blocks) > 0 {
		return nil, errors.New("a { is not closed")
	}
	return p.commands, nil
}

// link finds what the branches of a program go to.
func link(commands []*sedCommand) error {
	labels := make(map[string]int)
	for i, c := range commands {
		if c.name != ':' {
			continue
		}
		if _, twice := labels[c.text]; twice {
			return fmt.Errorf("the label %q is there twice", c.text)
		}
		labels[c.text] = i
	}
	for _, c := range commands {
		if strings.IndexByte("btT", c.name) < 0 {
			continue
		}
		c.jump = len(commands)
		if c.text == "" {
			continue
		}
		to, ok := labels[c.text]
		if !ok {
			return fmt.Errorf("there is no label %q", c.text)
		}
		c.jump = to
	}
	return nil
}

func (p *sedParser) space(set string) {
	for p.at < len(p.in) && strings.IndexByte(set, p.in[p.at]) >= 0 {
		p.at++
	}
}

// line takes the rest of the line.
func (p *sedParser) line() string {
	rest := p.in[p.at:]
	i := strings.IndexByte(rest, '\n')
	if i < 0 {
		i = len(rest)
	}
	p.at = min(p.at+i+1, len(p.in))
	return rest[:i]
}

func (p *sedParser) peek() byte {
	if p.at >= len(p.in) {
		return 0
	}
	return p.in[p.at]
}

func (p *sedParser) command() (err error) {
	c := &sedCommand{}
	if c.from, err = p.address(); err != nil {
		return err
	}
	p.space(" \t")
	if c.from != nil && p.peek() == ',' {
		p.at++
		p.space(" \t")
		if c.to, err = p.address(); err != nil {
			return err
		}
		if c.to == nil {
			return errors.New("the second address is missing")
		}
	}
	if c.from != nil && c.from.kind == '0' && (c.to == nil || c.to.kind != 'r') {
		return errors.New("address 0 needs a regular expression as the second address")
	}
	p.space(" \t")
	for p.peek() == '!' {
		c.negate = true
		p.at++
		p.space(" \t")
	}
	if p.at >= len(p.in) {
		return errors.New("a command is missing")
	}
	c.name = p.in[p.at]
	p.at++
	p.commands = append(p.commands, c)
	switch c.name {
	case '{':
		p.blocks = append(p.blocks, len(p.commands)-1)
		return nil
	case '}':
		if len(p.blocks) == 0 {
			return errors.New("a } closes nothing")
		}
		if c.from != nil {
			return errors.New("} takes no address")
		}
		p.commands[p.blocks[len(p.blocks)-1]].jump = len(p.commands) - 1
		p.blocks = p.blocks[:len(p.blocks)-1]
	case '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
	case 'q', 'Q', 'l':
		if c.to != nil && c.name != 'l' {
			return errors.New("q and Q take one address at most")
		}
		p.space(" \t")
		from := p.at
		p.space("0123456789")
		c.code, _ = strconv.Atoi(p.in[from:p.at])
	case ':':
		if c.from != nil {
			return errors.New(": takes no address")
		}
		p.space(" \t")
		c.text = p.label()
		if c.text == "" {
			return errors.New(": needs a label")
		}
	case 'b', 't', 'T':
		p.space(" \t")
		c.text = p.label()
	case 'a', 'i', 'c':
		return p.text(c)
	case 'r', 'w':
		p.space(" \t")
		if c.text = p.line(); c.text == "" {
			return errors.New("a file name is missing")
		}
		return nil
	case 's':
		if err := p.substitute(c); err != nil {
			return err
		}
	case 'y':
		if err := p.translate(c); err != nil {
			return err
		}
	default:
		return fmt.Errorf("the command %q is not supported", c.name)
	}
	return p.endCommand()
}

func (p *sedParser) endCommand() error {
	p.space(" \t")
	switch p.peek() {
	case 0, '\n', ';', '}', '#':
		return nil
	}
	return errors.New("there is something after the command")
}

func (p *sedParser) label() string {
	from := p.at
	for p.at < len(p.in) && strings.IndexByte(" \t\n;}", p.in[p.at]) < 0 {
		p.at++
	}
	return p.in[from:p.at]
}

func (p *sedParser) number() int64 {
	from := p.at
	p.space("0123456789")
	n, err := strconv.ParseInt(p.in[from:p.at], 10, 62)
	if err != nil {
		return 1 << 60
	}
	return n
}

func (p *sedParser) address() (*sedAddress, error) {
	c := p.peek()
	switch {
	case c == '$':
		p.at++
		return &sedAddress{kind: '$'}, nil
	case c >= '0' && c <= '9':
		a := &sedAddress{kind: 'n', n: p.number()}
		if p.peek() == '~' {
			p.at++
			a.kind, a.step = '~', p.number()
			return a, nil
		}
		if a.n == 0 {
			a.kind = '0'
		}
		return a, nil
	case (c == '+' || c == '~') && p.at+1 < len(p.in) && isDigit(p.in[p.at+1], 10):
		p.at++
		kind := byte('+')
		if c == '~' {
			kind = 'm'
		}
		return &sedAddress{kind: kind, n: p.number()}, nil
	case c == '/' || c == '\\':
		if c == '\\' {
			p.at++
		}
		p.at++
		if p.at > len(p.in) || p.at == len(p.in) && c == '\\' {
			return nil, errors.New("an address is not closed")
		}
		text, err := p.delimited(p.in[p.at-1], true)
		if err != nil {
			return nil, err
		}
		s := syntaxOf{extended: p.extended, escapes: true}
		for p.peek() == 'I' || p.peek() == 'M' {
			s.fold, s.lines = s.fold || p.peek() == 'I', s.lines || p.peek() == 'M'
			p.at++
		}
		a := &sedAddress{kind: 'r'}
		if text != "" {
			if a.re, err = compile(text, s); err != nil {
				return nil, err
			}
		}
		return a, nil
	}
	return nil, nil
}

// delimited reads up to an unescaped delimiter. Escaped delimiters lose their
// backslash, which in a pattern makes them ordinary.
func (p *sedParser) delimited(delim byte, pattern bool) (string, error) {
	if delim == '\n' || delim == '\\' {
		return "", errors.New("newline and backslash cannot delimit")
	}
	var b strings.Builder
	set := false // within a bracket expression
	for p.at < len(p.in) {
		c := p.in[p.at]
		switch {
		case c == '\\' && p.at+1 < len(p.in):
			next := p.in[p.at+1]
			p.at += 2
			switch {
			case next == delim && pattern && strings.IndexByte(".*[]^$+?(){}|", delim) >= 0:
				b.WriteString("[" + strings.Replace(string(delim), "^", `\^`, 1) + "]")
			case next == delim:
				b.WriteByte(delim)
			default:
				b.WriteByte('\\')
				b.WriteByte(next)
			}
			continue
		case c == delim && !set:
			p.at++
			return b.String(), nil
		case pattern && c == '[' && !set:
			set = p.closes(p.at)
			if set {
				// The first characters of a set may be ].
				b.WriteByte('[')
				p.at++
				if p.peek() == '^' {
					b.WriteByte('^')
					p.at++
				}
				if p.peek() == ']' {
					b.WriteByte(']')
					p.at++
				}
				continue
			}
		case set && c == '[' && p.at+1 < len(p.in) && strings.IndexByte(":.=", p.in[p.at+1]) >= 0:
			if end := strings.Index(p.in[p.at+2:], p.in[p.at+1:p.at+2]+"]"); end >= 0 {
				b.WriteString(p.in[p.at : p.at+end+4])
				p.at += end + 4
				continue
			}
		case set && c == ']':
			set = false
		}
		b.WriteByte(c)
		p.at++
	}
	return "", errors.New("a delimiter is missing")
}

// closes says whether the set that begins at i is closed on the same line.
func (p *sedParser) closes(i int) bool {
	rest := p.in[i+1:]
	rest = strings.TrimPrefix(rest, "^")
	rest = strings.TrimPrefix(rest, "]")
	end := strings.IndexByte(rest, ']')
	return end >= 0 && strings.IndexByte(rest[:end], '\n') < 0
}

// text reads the text of a, i and c: on the same line, or after a backslash
// and a newline. A backslash at the end of a line goes on.
func (p *sedParser) text(c *sedCommand) error {
	p.space(" \t")
	if p.peek() == '\\' {
		// Text on the same line keeps its leading blanks.
		p.at++
		rest := strings.TrimLeft(p.in[p.at:], " \t")
		if strings.HasPrefix(rest, "\n") {
			p.at = len(p.in) - len(rest) + 1
		}
		if p.at >= len(p.in) {
			return nil
		}
	}
	if p.at >= len(p.in) {
		return errors.New("a, i and c need text")
	}
	var b strings.Builder
	for p.at < len(p.in) {
		ch := p.in[p.at]
		p.at++
		if ch == '\\' && p.at < len(p.in) {
			b.WriteByte(p.in[p.at])
			p.at++
			continue
		}
		if ch == '\n' {
			break
		}
		b.WriteByte(ch)
	}
	b.WriteByte('\n')
	c.text = b.String()
	return nil
}
