package tools

import (
	"slices"
	"strconv"
	"strings"
)

// fold breaks long lines.
func fold(t *tool) int {
	args := t.Args
	for i, arg := range args { // -80 means -w 80
		if len(arg) > 1 && arg[0] == '-' && digits(arg[1:]) {
			args = slices.Clone(args)
			args[i] = "-w" + arg[1:]
		}
	}
	given, names := t.parse(args, "bsw:", map[string]rune{"bytes": 'b', "spaces": 's', "width": 'w'}, 1)
	width, spaces := 80, false
	for _, o := range given {
		switch o.flag {
		case 's':
			spaces = true
		case 'w':
			width = t.count(o, 1)
		}
	}
	t.eachLine(names, '\n', func(line []byte, ended bool) {
		for len(line) > 0 {
			n, column, blank := 0, 0, -1
			for n < len(line) {
				switch line[n] {
				case '\t':
					column += 8 - column%8
				case '\b':
					column = max(column-1, 0)
				case '\r':
					column = 0
				default:
					column++
				}
				if column > width && n > 0 {
					break
				}
				if line[n] == ' ' || line[n] == '\t' {
					blank = n
				}
				n++
			}
			if n == len(line) {
				break
			}
			if spaces && blank >= 0 {
				n = blank + 1
			}
			t.line(line[:n], '\n')
			line = line[n:]
		}
		t.out.Write(line)
		if ended {
			t.out.WriteByte('\n')
		}
	})
	return t.status
}

// tabStops are where tabs go: every so many columns, or a list.
func (t *tool) tabStops(s string) func(column int) int {
	var stops []int
	for f := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 || len(stops) > 0 && n <= stops[len(stops)-1] {
			t.die(1, "tab sizes must be ascending numbers, not %s", quote(s))
		}
		stops = append(stops, n)
	}
	if len(stops) < 2 {
		every := 8
		if len(stops) == 1 {
			every = stops[0]
		}
		return func(column int) int { return column + every - column%every }
	}
	return func(column int) int {
		for _, stop := range stops {
			if stop > column {
				return stop
			}
		}
		return column + 1
	}
}

func expand(t *tool) int {
	given, args := t.options("it:", map[string]rune{"initial": 'i', "tabs": 't'}, 1)
	initial, next := false, t.tabStops("")
	for _, o := range given {
		if o.flag == 'i' {
			initial = true
		} else {
			next = t.tabStops(o.value)
		}
	}
	t.eachLine(args, '\n', func(line []byte, ended bool) {
		column, leading := 0, true
		for _, c := range line {
			if c == '\t' && (leading || !initial) {
				to := next(column)
				t.printf("%*s", to-column, "")
				column = to
				continue
			}
			leading = leading && c == ' '
			t.out.WriteByte(c)
			column++
		}
		if ended {
			t.out.WriteByte('\n')
		}
	})
	return t.status
}

func unexpand(t *tool) int {
	given, args := t.options("at:", map[string]rune{"all": 'a', "tabs": 't', "first-only": 1}, 1)
	all, next, first := false, t.tabStops(""), false
	for _, o := range given {
		switch o.flag {
		case 'a':
			all = true
		case 't':
			all, next = true, t.tabStops(o.value)
		case 1:
			first = true
		}
	}
	all = all && !first
	t.eachLine(args, '\n', func(line []byte, ended bool) {
		column, pending, leading := 0, 0, true // pending blanks end at column
		flush := func() {
			t.printf("%*s", pending, "")
			pending = 0
		}
		for _, c := range line {
			switch {
			case c == ' ' && (leading || all):
				column++
				pending++
				if next(column-1) == column && (pending > 1 || leading) {
					t.out.WriteByte('\t')
					pending = 0
				}
				continue
			case c == '\t' && (leading || all):
				column, pending = next(column), 0
				t.out.WriteByte('\t')
				continue
			}
			flush()
			leading = false
			t.out.WriteByte(c)
			column++
		}
		flush()
		if ended {
			t.out.WriteByte('\n')
		}
	})
	return t.status
}
