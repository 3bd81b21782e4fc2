package tools

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// count parses an option's value that must be a number of at least least.
func (t *tool) count(o option, least int) int {
	n, err := strconv.Atoi(o.value)
	if err != nil || n < least {
		t.die(1, "invalid number %s for -%c", quote(o.value), o.flag)
	}
	return n
}

// nl numbers lines.
func nl(t *tool) int {
	given, args := t.options("b:w:s:v:i:n:h:f:pl:d:", map[string]rune{"body-numbering": 'b', "number-width": 'w', "number-separator": 's',
		"starting-line-number": 'v', "line-increment": 'i', "number-format": 'n'}, 1)
	body, width, separator, next, step, format := "t", 6, "\t", 1, 1, "rn"
	for _, o := range given {
		switch o.flag {
		case 'b':
			if body = o.value; body != "a" && body != "t" && body != "n" {
				t.die(1, "invalid body numbering style: %s; a, t and n are supported", quote(body))
			}
		case 'w':
			width = t.count(o, 1)
		case 's':
			separator = o.value
		case 'v':
			next = t.count(o, -1<<31)
		case 'i':
			step = t.count(o, -1<<31)
		case 'n':
			format = o.value
		default:
			t.die(1, "-%c is not supported", o.flag)
		}
	}
	verb, ok := map[string]string{"ln": "%-*d", "rn": "%*d", "rz": "%0*d"}[format]
	if !ok {
		t.die(1, "invalid line numbering format: %s", quote(format))
	}
	t.eachLine(args, '\n', func(line []byte, _ bool) {
		if body == "a" || body == "t" && len(line) > 0 {
			t.printf(verb+"%s", width, next, separator)
			next += step
		} else {
			t.printf("%*s", width+len(separator), "")
		}
		t.line(line, '\n')
	})
	return t.status
}

// splitFile writes its input into pieces.
func splitFile(t *tool) int {
	given, args := t.options("l:b:a:dn:C:t:x", map[string]rune{"lines": 'l', "bytes": 'b', "suffix-length": 'a', "numeric-suffixes": 'd', "additional-suffix": 1,
		"verbose": 2}, 1)
	lines, size, length, numeric := 1000, int64(0), 2, false
	for _, o := range given {
		switch o.flag {
		case 'l':
			lines = t.count(o, 1)
		case 'b':
			n, err := parseSize(o.value)
			if err != nil || n < 1 {
				t.die(1, "invalid number of bytes: %s", quote(o.value))
			}
			size = n
		case 'a':
			length = t.count(o, 1)
		case 'd':
			numeric = true
		default:
			t.die(1, "only -l, -b, -a and -d are supported")
		}
	}
	if len(args) > 2 {
		t.die(1, "extra operand %s", quote(args[2]))
	}
	prefix := "x"
	if len(args) == 2 {
		prefix = args[1]
	}
	n := 0
	piece := func() io.WriteCloser {
		base, first := 26, byte('a')
		if numeric {
			base, first = 10, '0'
		}
		suffix := make([]byte, length)
		rest := n
		for i := length - 1; i >= 0; i-- {
			suffix[i] = first + byte(rest%base)
			rest /= base
		}
		if rest > 0 {
			t.die(1, "output file suffixes exhausted")
		}
		n++
		w, err := t.create(prefix+string(suffix), os.O_TRUNC)
		if err != nil {
			t.die(1, "%s: %s", prefix+string(suffix), reason(err))
		}
		return w
	}
	t.each(args[:min(len(args), 1)], func(name string, r io.Reader) {
		b := bufio.NewReaderSize(r, 64<<10)
		for {
			if _, err := b.Peek(1); err != nil {
				if err != io.EOF {
					t.fail(name, err)
				}
				return
			}
			w := piece()
			out := bufio.NewWriterSize(w, 64<<10)
			var err error
			if size > 0 {
				_, err = io.CopyN(out, b, size)
			} else {
				for i := 0; i < lines && err == nil; {
					var part []byte
					part, err = b.ReadSlice('\n')
					out.Write(part)
					if err == nil {
						i++
					} else if err == bufio.ErrBufferFull {
						err = nil
					}
				}
			}
			ferr := out.Flush()
			if cerr := w.Close(); ferr == nil {
				ferr = cerr
			}
			if ferr != nil {
				t.die(1, "%s", reason(ferr))
			}
			if err != nil && err != io.EOF {
				t.fail(name, err)
				return
			}
		}
	})
	return t.status
}

// tsort orders what pairs say of who comes first.
func tsort(t *tool) int {
	_, args := t.options("", nil, 1)
	var names []string
	after, before := make(map[string][]string), make(map[string]int)
	add := func(name string) {
		if _, ok := before[name]; !ok {
			names = append(names, name)
			before[name] = 0
		}
	}
	t.each(args, func(name string, r io.Reader) {
		content, err := whole(r)
		if err != nil {
			t.fail(name, err)
			return
		}
		words := strings.Fields(string(content))
		if len(words)%2 != 0 {
			t.die(1, "%s: input contains an odd number of tokens", name)
		}
		for i := 0; i < len(words); i += 2 {
			add(words[i])
			add(words[i+1])
			if words[i] != words[i+1] {
				after[words[i]] = append(after[words[i]], words[i+1])
				before[words[i+1]]++
			}
		}
	})
	var ready []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		if before[name] == 0 {
			ready = append(ready, name)
		}
	}
	done := make(map[string]bool)
	for len(done) < len(names) {
		if len(ready) == 0 { // a loop: go on with its first name
			i := slices.IndexFunc(names, func(n string) bool { return !done[n] && before[n] > 0 })
			t.complain("input contains a loop:")
			io.WriteString(t.Stderr, t.Name+": "+names[i]+"\n")
			before[names[i]] = 0
			ready = append(ready, names[i])
		}
		name := ready[0]
		ready = ready[1:]
		if done[name] {
			continue
		}
		done[name] = true
		t.printf("%s\n", name)
		for _, next := range slices.Backward(after[name]) { // as others do it; any order would be right
			if before[next]--; before[next] == 0 {
				ready = append(ready, next)
			}
		}
	}
	return t.status
}

// shuf puts lines into a random order.
func shuf(t *tool) int {
	given, args := t.options("n:ei:ro:z", map[string]rune{"head-count": 'n', "echo": 'e', "input-range": 'i', "repeat": 'r', "output": 'o', "zero-terminated": 'z'}, 1)
	most, echoed, end, span := -1, false, byte('\n'), ""
	for _, o := range given {
		switch o.flag {
		case 'n':
			most = t.count(o, 0)
		case 'e':
			echoed = true
		case 'i':
			span = o.value
		case 'z':
			end = 0
		default:
			t.die(1, "-%c is not supported", o.flag)
		}
	}
	var lines [][]byte
	switch {
	case span != "":
		low, high, _ := strings.Cut(span, "-")
		from, err := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err != nil || err2 != nil || to-from >= 1<<24 {
			t.die(1, "invalid input range: %s", quote(span))
		}
		for n := from; n <= to; n++ {
			lines = append(lines, strconv.AppendInt(nil, int64(n), 10))
		}
	case echoed:
		for _, arg := range args {
			lines = append(lines, []byte(arg))
		}
	default:
		t.eachLine(args, end, func(line []byte, _ bool) { lines = append(lines, bytes.Clone(line)) })
	}
	rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	if most >= 0 {
		lines = lines[:min(most, len(lines))]
	}
	for _, line := range lines {
		t.line(line, end)
	}
	return t.status
}

// stringsTool prints what is text in files that are not.
func stringsTool(t *tool) int {
	given, args := t.options("an:t:f", map[string]rune{"all": 'a', "bytes": 'n', "radix": 't', "print-file-name": 'f'}, 1)
	least, named := 4, false
	for _, o := range given {
		switch o.flag {
		case 'n':
			least = t.count(o, 1)
		case 'f':
			named = true
		case 't':
			t.die(1, "-t is not supported")
		}
	}
	t.each(args, func(name string, r io.Reader) {
		b := bufio.NewReaderSize(r, 64<<10)
		var run []byte
		flush := func() {
			if len(run) >= least {
				if named {
					fmt.Fprintf(t.out, "%s: ", name)
				}
				t.line(run, '\n')
			}
			run = run[:0]
		}
		for {
			c, err := b.ReadByte()
			if err != nil {
				flush()
				if err != io.EOF {
					t.fail(name, err)
				}
				return
			}
			if c == '\t' || c < 0x80 && unicode.IsPrint(rune(c)) {
				run = append(run, c)
				continue
			}
			flush()
		}
	})
	return t.status
}
