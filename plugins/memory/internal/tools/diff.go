package tools

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// comparing is what diff was asked for.
type comparing struct {
	*tool
	style                                      byte // 'u', 'n' (normal), 'q' or 'e' (nothing)
	context                                    int
	recursive, newFile, text, reportSame, noCR bool
	ignoreCase, ignoreSpace, ignoreAmount      bool
	ignoreBlank                                bool
	labels, excluded, given                    []string
	differs                                    bool
}

func diff(t *tool) int {
	given, args := t.options("uU:V::qrNabwiBsL:x:tTpd\x04::", map[string]rune{"unified": 'V', "brief": 'q', "recursive": 'r', "new-file": 'N', "text": 'a',
		"ignore-space-change": 'b', "ignore-all-space": 'w', "ignore-case": 'i', "ignore-blank-lines": 'B', "report-identical-files": 's', "label": 'L',
		"exclude": 'x', "normal": 1, "strip-trailing-cr": 2, "minimal": 'd', "no-dereference": 3, "color": 4}, 2)
	c := &comparing{tool: t, style: 'n', context: 3}
	for _, o := range given {
		switch o.flag {
		case 'u', 'V':
			c.style = 'u'
			if o.value == "" {
				break
			}
			fallthrough
		case 'U':
			n, err := strconv.Atoi(o.value)
			if err != nil || n < 0 {
				t.die(2, "invalid context length %s", quote(o.value))
			}
			c.style, c.context = 'u', n
			c.given = append(c.given, "-U", o.value)
			continue
		case 'q':
			c.style = 'q'
		case 'r':
			c.recursive = true
		case 'N':
			c.newFile = true
		case 'a':
			c.text = true
		case 'b':
			c.ignoreAmount = true
		case 'w':
			c.ignoreSpace = true
		case 'i':
			c.ignoreCase = true
		case 'B':
			c.ignoreBlank = true
		case 's':
			c.reportSame = true
		case 'L':
			c.labels = append(c.labels, o.value)
		case 'x':
			c.excluded = append(c.excluded, o.value)
			c.given = append(c.given, "-x", o.value)
		case 2:
			c.noCR = true
		case 't', 'T', 'p', 3:
			t.die(2, "only the formats normal, unified (-u) and brief (-q) are supported")
		}
		if o.flag > ' ' && o.flag != 'L' && o.flag != 'x' && o.flag != 'V' {
			c.given = append(c.given, "-"+string(o.flag))
		}
	}
	if len(args) != 2 {
		t.die(2, "two files or directories are needed, not %d", len(args))
	}
	a, b := args[0], args[1]
	aDir, bDir := a != "-" && t.isDir(a, false), b != "-" && t.isDir(b, false)
	switch {
	case aDir && bDir:
		c.directories(a, b)
	case aDir:
		c.files(join(a, path.Base(b)), b, false)
	case bDir:
		c.files(a, join(b, path.Base(a)), false)
	default:
		c.files(a, b, false)
	}
	if t.status == 0 && c.differs {
		return 1
	}
	return t.status
}

// trouble complains of what makes the whole result doubtful.
func (c *comparing) trouble(name string, err error) {
	c.fail(name, err)
	c.status = 2
}

func (c *comparing) directories(a, b string) {
	names := func(dir string) map[string]fs.DirEntry {
		entries, err := c.FS.ReadDir(c.Dir, dir)
		if err != nil && !(c.newFile && errors.Is(err, fs.ErrNotExist)) {
			c.trouble(dir, err)
		}
		all := make(map[string]fs.DirEntry)
		for _, e := range entries {
			if !slices.ContainsFunc(c.excluded, func(p string) bool { ok, _ := path.Match(p, e.Name()); return ok }) {
				all[e.Name()] = e
			}
		}
		return all
	}
	inA, inB := names(a), names(b)
	var all []string
	for name := range inA {
		all = append(all, name)
	}
	for name := range inB {
		if inA[name] == nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	for _, name := range all {
		c.check()
		if inB[name] == nil && !c.newFile {
			c.only(a, name)
			continue
		}
		if inA[name] == nil && !c.newFile {
			c.only(b, name)
			continue
		}
		pa, pb := join(a, name), join(b, name)
		aDir, bDir := c.isDir(pa, false), c.isDir(pb, false)
		missing := inA[name] == nil || inB[name] == nil
		switch {
		case (aDir || bDir) && (aDir && bDir || missing):
			if c.recursive {
				c.directories(pa, pb)
			} else if !missing {
				c.printf("Common subdirectories: %s and %s\n", pa, pb)
			}
		case aDir || bDir:
			kind := map[bool]string{true: "directory", false: "regular file"}
			c.printf("File %s is a %s while file %s is a %s\n", pa, kind[aDir], pb, kind[bDir])
			c.differs = true
		default:
			c.files(pa, pb, true)
		}
	}
}

func (c *comparing) only(dir, name string) {
	c.printf("Only in %s: %s\n", strings.TrimSuffix(dir, "/"), name)
	c.differs = true
}

// side is one of the two files.
type side struct {
	name, label string
	lines       [][]byte
	cut         bool // the last line has no end
	binary      bool
}

func (c *comparing) read(name string) (side, bool) {
	s := side{name: name, label: name}
	when := "1970-01-01 00:00:00.000000000 +0000"
	if name != "-" {
		info, err := c.stat(name)
		if err == nil {
			when = info.ModTime().In(c.zone()).Format("2006-01-02 15:04:05.000000000 -0700")
		} else if !c.newFile || !errors.Is(err, fs.ErrNotExist) {
			c.trouble(name, err)
			return s, false
		}
		if err != nil {
			s.label += "\t" + when
			return s, true
		}
	}
	s.label += "\t" + when
	r, err := c.open(name)
	if err != nil {
		c.trouble(name, err)
		return s, false
	}
	defer r.Close()
	content, err := whole(r)
	if err != nil {
		c.trouble(name, err)
		return s, false
	}
	s.binary = !c.text && bytes.IndexByte(content[:min(len(content), 32<<10)], 0) >= 0
	s.cut = len(content) > 0 && content[len(content)-1] != '\n'
	for len(content) > 0 {
		line, rest, _ := bytes.Cut(content, []byte{'\n'})
		s.lines = append(s.lines, line)
		content = rest
	}
	return s, true
}

// key is a line as it is compared.
func (c *comparing) key(s side, i int) string {
	line := s.lines[i]
	if c.noCR {
		line = bytes.TrimSuffix(line, []byte{'\r'})
	}
	text := string(line)
	switch {
	case c.ignoreSpace:
		text = strings.Join(strings.Fields(text), "")
	case c.ignoreAmount:
		lead := ""
		if strings.TrimLeft(text, " \t") != text && strings.TrimSpace(text) != "" {
			lead = " "
		}
		text = lead + strings.Join(strings.Fields(text), " ")
	}
	if c.ignoreCase {
		text = strings.ToLower(text)
	}
	if s.cut && i == len(s.lines)-1 && !c.ignoreSpace && !c.ignoreAmount {
		text += "\x00" // differs from the same line with an end
	}
	return text
}

func (c *comparing) files(a, b string, header bool) {
	left, ok := c.read(a)
	right, ok2 := c.read(b)
	if !ok || !ok2 {
		return
	}
	numbers := make(map[string]int)
	number := func(s side) []int {
		list := make([]int, len(s.lines))
		for i := range s.lines {
			key := c.key(s, i)
			n, ok := numbers[key]
			if !ok {
				n = len(numbers)
				numbers[key] = n
			}
			list[i] = n
		}
		return list
	}
	x, y := number(left), number(right)
	if slices.Equal(x, y) {
		if c.reportSame {
			c.printf("Files %s and %s are identical\n", a, b)
		}
		return
	}
	if c.style == 'q' || left.binary || right.binary {
		c.differs = true
		if c.style == 'q' {
			c.printf("Files %s and %s differ\n", a, b)
		} else {
			c.printf("Binary files %s and %s differ\n", a, b)
		}
		return
	}
	changes := compareLines(x, y, c.check).changes()
	if c.ignoreBlank {
		changes = slices.DeleteFunc(changes, func(ch change) bool {
			for _, line := range append(left.lines[ch.a0:ch.a1:ch.a1], right.lines[ch.b0:ch.b1]...) {
				if len(bytes.TrimSpace(line)) > 0 {
					return false
				}
			}
			return true
		})
	}
	if len(changes) == 0 {
		return
	}
	c.differs = true
	if header {
		c.printf("diff %s\n", strings.Join(append(slices.Clone(c.given), a, b), " "))
	}
	if c.style == 'u' {
		c.unified(left, right, changes)
		return
	}
	c.normal(left, right, changes)
}

// show writes lines of a side behind a mark.
func (c *comparing) show(mark string, s side, from, to int) {
	for i := from; i < to; i++ {
		c.out.WriteString(mark)
		c.line(s.lines[i], '\n')
		if s.cut && i == len(s.lines)-1 {
			io.WriteString(c.out, "\\ No newline at end of file\n")
		}
	}
}

func (c *comparing) normal(left, right side, changes []change) {
	span := func(from, to int) string {
		if to-from <= 1 {
			return strconv.Itoa(max(to, from))
		}
		return strconv.Itoa(from+1) + "," + strconv.Itoa(to)
	}
	for _, ch := range changes {
		switch {
		case ch.a0 == ch.a1:
			c.printf("%da%s\n", ch.a0, span(ch.b0, ch.b1))
		case ch.b0 == ch.b1:
			c.printf("%sd%d\n", span(ch.a0, ch.a1), ch.b0)
		default:
			c.printf("%sc%s\n", span(ch.a0, ch.a1), span(ch.b0, ch.b1))
		}
		c.show("< ", left, ch.a0, ch.a1)
		if ch.a0 < ch.a1 && ch.b0 < ch.b1 {
			c.printf("---\n")
		}
		c.show("> ", right, ch.b0, ch.b1)
	}
}

func (c *comparing) unified(left, right side, changes []change) {
	for i, label := range c.labels {
		if i == 0 {
			left.label = label
		} else if i == 1 {
			right.label = label
		}
	}
	c.printf("--- %s\n+++ %s\n", left.label, right.label)
	span := func(from, to int) string {
		switch to - from {
		case 0:
			return strconv.Itoa(from) + ",0"
		case 1:
			return strconv.Itoa(to)
		}
		return strconv.Itoa(from+1) + "," + strconv.Itoa(to-from)
	}
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].a0-changes[n-1].a1 <= 2*c.context {
			n++
		}
		hunk := changes[:n]
		changes = changes[n:]
		first, last := hunk[0], hunk[n-1]
		before := min(c.context, first.a0, first.b0)
		after := min(c.context, len(left.lines)-last.a1, len(right.lines)-last.b1)
		c.printf("@@ -%s +%s @@\n", span(first.a0-before, last.a1+after), span(first.b0-before, last.b1+after))
		at := first.a0 - before
		for _, ch := range hunk {
			c.show(" ", left, at, ch.a0)
			c.show("-", left, ch.a0, ch.a1)
			c.show("+", right, ch.b0, ch.b1)
			at = ch.a1
		}
		c.show(" ", left, at, last.a1+after)
	}
}
