package tools

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

type greper struct {
	*tool
	re                                                             *regexp.Regexp
	needle                                                         []byte // instead of re, if it is one plain string
	word, invert, count, files, without, number, quiet, only, text bool
	names, recursive, follow, silent                               bool
	limit                                                          int64 // -1: none
	before, after                                                  int64
	include, exclude, excludeDir                                   []string
	matched                                                        bool
	printed                                                        bool // with context: something has been
}

func grep(t *tool) int {
	given, args := t.options("EFGPivclLnqrRsowxhHae:f:m:A:B:C:Uyz\x01:\x02:\x03:\x04::", map[string]rune{
		"extended-regexp": 'E', "fixed-strings": 'F', "basic-regexp": 'G', "ignore-case": 'i', "invert-match": 'v', "count": 'c',
		"files-with-matches": 'l', "files-without-match": 'L', "line-number": 'n', "quiet": 'q', "silent": 'q', "recursive": 'r',
		"dereference-recursive": 'R', "no-messages": 's', "only-matching": 'o', "word-regexp": 'w', "line-regexp": 'x', "no-filename": 'h',
		"with-filename": 'H', "text": 'a', "regexp": 'e', "file": 'f', "max-count": 'm', "after-context": 'A', "before-context": 'B', "context": 'C',
		"include": 1, "exclude": 2, "exclude-dir": 3, "color": 4, "colour": 4, "perl-regexp": 'P', "line-buffered": 'U',
	}, 2)
	g := &greper{tool: t, limit: -1}
	s := syntaxOf{extended: t.Name == "egrep"}
	fixed, line, havePattern, named, unnamed := t.Name == "fgrep", false, false, false, false
	var patterns []string
	for _, o := range given {
		switch o.flag {
		case 'E':
			s.extended, fixed = true, false
		case 'G':
			s.extended, fixed = false, false
		case 'F':
			fixed = true
		case 'P':
			t.die(2, "-P is not supported: use -E")
		case 'z':
			t.die(2, "-z is not supported")
		case 'i', 'y':
			s.fold = true
		case 'v':
			g.invert = true
		case 'c':
			g.count = true
		case 'l':
			g.files = true
		case 'L':
			g.without = true
		case 'n':
			g.number = true
		case 'q':
			g.quiet = true
		case 'r':
			g.recursive = true
		case 'R':
			g.recursive, g.follow = true, true
		case 's':
			g.silent = true
		case 'o':
			g.only = true
		case 'w':
			g.word = true
		case 'x':
			line = true
		case 'h':
			named, unnamed = false, true
		case 'H':
			named, unnamed = true, false
		case 'a':
			g.text = true
		case 'e':
			patterns, havePattern = append(patterns, strings.Split(o.value, "\n")...), true
		case 'f':
			patterns, havePattern = append(patterns, t.patterns(o.value)...), true
		case 1:
			g.include = append(g.include, o.value)
		case 2:
			g.exclude = append(g.exclude, o.value)
		case 3:
			g.excludeDir = append(g.excludeDir, o.value)
		case 'm':
			g.limit = t.positive(o.value)
		case 'A':
			g.after = t.positive(o.value)
		case 'B':
			g.before = t.positive(o.value)
		case 'C':
			g.after = t.positive(o.value)
			g.before = g.after
		}
	}
	if !havePattern {
		if len(args) == 0 {
			t.die(2, "give a pattern")
		}
		patterns, args = strings.Split(args[0], "\n"), args[1:]
	}
	if err := g.compile(patterns, s, fixed, line); err != nil {
		t.die(2, "%v", err)
	}
	if len(args) == 0 {
		args = []string{"-"}
		if g.recursive {
			args = []string{"."}
		}
	}
	g.names = (len(args) > 1 || g.recursive || named) && !unnamed
	for _, name := range args {
		if g.recursive && name != "-" {
			g.walk(name, true, len(args) == 1 && name == "." && !named && len(t.Args) > 0 && t.Args[len(t.Args)-1] != ".")
			continue
		}
		g.file(name, name)
	}
	switch {
	case t.status > 0 && !(g.quiet && g.matched):
		return 2
	case g.matched:
		return 0
	}
	return 1
}

func (t *tool) positive(s string) int64 {
	n, ok := sized(s)
	if !ok {
		t.die(2, "%s is not a number of lines", quote(s))
	}
	return n
}

// patterns are the lines of a file.
func (t *tool) patterns(name string) []string {
	r, err := t.open(name)
	if err != nil {
		t.die(2, "%s: %s", name, reason(err))
	}
	defer r.Close()
	b, err := whole(r)
	if err != nil {
		t.die(2, "%s: %s", name, reason(err))
	}
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func (g *greper) compile(patterns []string, s syntaxOf, fixed, line bool) error {
	if fixed && len(patterns) == 1 && !s.fold && !g.word && !line && patterns[0] != "" {
		g.needle = []byte(patterns[0])
		return nil
	}
	alternatives := make([]string, 0, len(patterns))
	for _, p := range patterns {
		if fixed {
			alternatives = append(alternatives, regexp.QuoteMeta(p))
			continue
		}
		text, err := translate(p, s)
		if err == nil {
			_, err = regexp.Compile(text)
		}
		if err != nil {
			return &fs.PathError{Op: "pattern", Path: quote(p), Err: err}
		}
		alternatives = append(alternatives, "(?:"+text+")")
	}
	text := "(" + strings.Join(alternatives, "|") + ")"
	switch {
	case len(patterns) == 0:
		text = `([^\x00-\x{10FFFF}])`
	case line:
		text = "^" + text + "$"
	case g.word:
		text = `(?:^|[^\pL\pN_])` + text + `(?:[^\pL\pN_]|$)`
	}
	if s.fold {
		text = "(?i)" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return err
	}
	re.Longest()
	g.re = re
	return nil
}

// find is the first match in line at or after from.
func (g *greper) find(line []byte, from int) (start, end int, ok bool) {
	if g.needle != nil {
		i := bytes.Index(line[from:], g.needle)
		return from + i, from + i + len(g.needle), i >= 0
	}
	m := g.re.FindSubmatchIndex(line[from:])
	if m == nil {
		return 0, 0, false
	}
	return from + m[2], from + m[3], true
}

func (g *greper) matches(line []byte) bool {
	if g.needle != nil {
		return bytes.Contains(line, g.needle)
	}
	return g.re.Match(line)
}

func (g *greper) walk(name string, top, bare bool) {
	g.check()
	stat := g.FS.Lstat
	if top || g.follow {
		stat = g.FS.Stat
	}
	info, err := stat(g.Dir, name)
	if err != nil {
		g.miss(name, err)
		return
	}
	base := path.Base(name)
	if !info.IsDir() {
		if info.Mode().IsRegular() && g.wanted(base) {
			g.file(name, name)
		}
		return
	}
	if !top && anyGlob(g.excludeDir, base) {
		return
	}
	list, err := g.FS.ReadDir(g.Dir, name)
	if err != nil {
		g.miss(name, err)
		return
	}
	for _, e := range list {
		sub := join(name, e.Name())
		if bare && top {
			sub = e.Name()
		}
		g.walk(sub, false, bare)
	}
}

func (g *greper) wanted(base string) bool {
	return !anyGlob(g.exclude, base) && (len(g.include) == 0 || anyGlob(g.include, base))
}

func anyGlob(globs []string, name string) bool {
	for _, glob := range globs {
		if matchGlob(glob, name, false) {
			return true
		}
	}
	return false
}

func (g *greper) miss(name string, err error) {
	if g.silent {
		g.status = 2
		return
	}
	g.fail(name, err)
}

func (g *greper) file(name, shown string) {
	if name == "-" {
		shown = "(standard input)"
	}
	r, err := g.open(name)
	if err != nil {
		g.miss(name, err)
		return
	}
	defer r.Close()
	g.search(shown, r)
}

func (g *greper) search(shown string, r io.Reader) {
	l := newLines(r, '\n')
	var found, number, last int64
	var held [][]byte
	pending := int64(0)
	for g.limit != 0 {
		line, _, ok := l.next()
		if !ok {
			break
		}
		number++
		if g.matches(line) == g.invert {
			switch {
			case pending > 0 && g.shows():
				g.put(shown, number, '-', line)
				last = number
				pending--
			case g.before > 0 && g.shows():
				held = append(held, bytes.Clone(line))
				if int64(len(held)) > g.before {
					held = held[1:]
				}
			}
			continue
		}
		found++
		g.matched = true
		if g.quiet {
			panic(exit{0})
		}
		if g.files || g.without {
			break
		}
		if !g.count {
			if bytes.IndexByte(line, 0) >= 0 && !g.text {
				g.printf("Binary file %s matches\n", shown)
				return
			}
			from := number - int64(len(held))
			if (g.before > 0 || g.after > 0) && g.printed && (last == 0 || from > last+1) {
				g.out.WriteString("--\n")
			}
			for i, h := range held {
				g.put(shown, from+int64(i), '-', h)
			}
			held = nil
			g.show(shown, number, line)
			last, pending, g.printed = number, g.after, true
		}
		if g.limit > 0 && found >= g.limit {
			break
		}
	}
	// After the last match that counts, its context still follows.
	for ; pending > 0 && g.limit > 0 && found >= g.limit && g.shows(); pending-- {
		line, _, ok := l.next()
		if !ok {
			break
		}
		number++
		g.put(shown, number, '-', line)
	}
	if err := l.failed(); err != nil {
		g.miss(shown, err)
	}
	switch {
	case g.files && found > 0, g.without && found == 0:
		g.printf("%s\n", shown)
	case g.count && !g.files && !g.without:
		if g.names {
			g.printf("%s:", shown)
		}
		g.printf("%d\n", found)
	}
	g.out.Flush()
}

// shows says whether lines are printed at all.
func (g *greper) shows() bool {
	return !g.count && !g.files && !g.without && !g.quiet && !g.only
}

func (g *greper) show(shown string, number int64, line []byte) {
	if !g.only {
		g.put(shown, number, ':', line)
		return
	}
	if g.invert {
		return
	}
	for from := 0; from <= len(line); {
		start, end, ok := g.find(line, from)
		if !ok {
			return
		}
		if end > start {
			g.put(shown, number, ':', line[start:end])
			from = end
			continue
		}
		from = end + 1
	}
}

func (g *greper) put(shown string, number int64, sep byte, line []byte) {
	if g.names {
		g.out.WriteString(shown)
		g.out.WriteByte(sep)
	}
	if g.number {
		g.printf("%d%c", number, sep)
	}
	g.line(line, '\n')
}
