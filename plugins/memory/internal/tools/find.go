package tools

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// found is a file that find looks at.
type found struct {
	path string
	name string
	info fs.FileInfo
	deep int
}

type finder struct {
	*tool
	words      []string
	maxDepth   int // -1: none
	minDepth   int
	depthFirst bool
	follow     bool
	prints     bool // the expression has an action
	pruned     bool
	quit       bool
	batches    []*findBatch
	now        time.Time
	nested     int
}

// findBatch is one -exec … +.
type findBatch struct {
	argv  []string
	paths []string
	bytes int
}

type predicate func(f *found) bool

func find(t *tool) int {
	f := &finder{tool: t, maxDepth: -1, now: time.Now()}
	args := t.Args
	for len(args) > 0 && (args[0] == "-L" || args[0] == "-P" || args[0] == "-H") {
		f.follow = args[0] == "-L"
		args = args[1:]
	}
	var roots []string
	for len(args) > 0 && !(len(args[0]) > 1 && args[0][0] == '-') && args[0] != "!" && args[0] != "(" && args[0] != ")" && args[0] != "," {
		roots = append(roots, args[0])
		args = args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	f.words = args
	matches := func(*found) bool { return true }
	if len(f.words) > 0 {
		matches = f.or()
		if len(f.words) > 0 {
			t.die(1, "there is a %s that opens nothing", quote(f.words[0]))
		}
	}
	if !f.prints {
		expr := matches
		matches = func(x *found) bool {
			if expr(x) {
				t.printf("%s\n", x.path)
			}
			return true
		}
	}
	for _, root := range roots {
		if !f.quit {
			f.walk(root, matches)
		}
	}
	for _, b := range f.batches {
		f.flush(b)
	}
	return t.status
}

func (f *finder) walk(root string, matches predicate) {
	stat := f.FS.Lstat
	if f.follow {
		stat = f.FS.Stat
	}
	info, err := stat(f.Dir, root)
	if err != nil && f.follow {
		info, err = f.FS.Lstat(f.Dir, root)
	}
	if err != nil {
		f.complain("%s: %s", quote(root), reason(err))
		return
	}
	name := path.Base(root)
	f.visit(&found{root, name, info, 0}, matches)
}

func (f *finder) visit(x *found, matches predicate) {
	f.check()
	try := func() bool {
		f.pruned = false
		if x.deep >= f.minDepth {
			matches(x)
		}
		return f.pruned && !f.depthFirst
	}
	if !f.depthFirst && try() {
		return
	}
	if x.info.IsDir() && (f.maxDepth < 0 || x.deep < f.maxDepth) && !f.quit {
		list, err := f.FS.ReadDir(f.Dir, x.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.complain("%s: %s", quote(x.path), reason(err))
		}
		for _, e := range list {
			if f.quit {
				return
			}
			p := join(x.path, e.Name())
			info, err := e.Info()
			if f.follow {
				if i, serr := f.FS.Stat(f.Dir, p); serr == nil {
					info = i
				}
				if x.deep > 1000 {
					f.complain("%s: the tree is too deep, or a loop of links", quote(p))
					return
				}
			}
			if err == nil {
				f.visit(&found{p, e.Name(), info, x.deep + 1}, matches)
			}
		}
	}
	if f.depthFirst && !f.quit {
		try()
	}
}

func (f *finder) accept(words ...string) bool {
	if len(f.words) == 0 {
		return false
	}
	for _, w := range words {
		if f.words[0] == w {
			f.words = f.words[1:]
			return true
		}
	}
	return false
}

func (f *finder) or() predicate {
	left := f.and()
	for f.accept("-o", "-or") {
		a, b := left, f.and()
		left = func(x *found) bool { return a(x) || b(x) }
	}
	return left
}

func (f *finder) and() predicate {
	left := f.not()
	for len(f.words) > 0 && f.words[0] != "-o" && f.words[0] != "-or" && f.words[0] != ")" {
		f.accept("-a", "-and")
		a, b := left, f.not()
		left = func(x *found) bool { return a(x) && b(x) }
	}
	return left
}

func (f *finder) not() predicate {
	if f.nested++; f.nested > maxTestDepth {
		f.die(1, "the expression is nested too deeply")
	}
	defer func() { f.nested-- }()
	if f.accept("!", "-not") {
		p := f.not()
		return func(x *found) bool { return !p(x) }
	}
	if f.accept("(") {
		p := f.or()
		if !f.accept(")") {
			f.die(1, "a ( is not closed")
		}
		return p
	}
	return f.primary()
}

func (f *finder) value(op string) string {
	if len(f.words) == 0 {
		f.die(1, "missing argument to %s", quote(op))
	}
	w := f.words[0]
	f.words = f.words[1:]
	return w
}

func (f *finder) primary() predicate {
	op := f.value("an operator")
	yes := func(*found) bool { return true }
	switch op {
	case "-true":
		return yes
	case "-false":
		return func(*found) bool { return false }
	case "-name", "-iname":
		glob := f.value(op)
		return func(x *found) bool { return matchGlob(glob, x.name, op == "-iname") }
	case "-path", "-wholename", "-ipath", "-iwholename":
		glob := f.value(op)
		return func(x *found) bool { return matchGlob(glob, x.path, op[1] == 'i') }
	case "-regex", "-iregex":
		re, err := compile("^("+f.value(op)+")$", syntaxOf{extended: true, fold: op == "-iregex"})
		if err != nil {
			f.die(1, "%v", err)
		}
		return func(x *found) bool { return re.MatchString(x.path) }
	case "-regextype":
		if kind := f.value(op); !strings.HasSuffix(kind, "extended") && kind != "egrep" {
			f.die(1, "-regextype %s is not supported: use posix-extended", quote(kind))
		}
		return yes
	case "-type":
		kinds := strings.ReplaceAll(f.value(op), ",", "")
		if kinds == "" || strings.Trim(kinds, "fdlbcps") != "" {
			f.die(1, "unknown argument to -type: %s", kinds)
		}
		return func(x *found) bool { return strings.IndexByte(kinds, kindOf(x.info.Mode())) >= 0 }
	case "-maxdepth":
		f.maxDepth = int(f.count(op, f.value(op)))
		return yes
	case "-mindepth":
		f.minDepth = int(f.count(op, f.value(op)))
		return yes
	case "-depth":
		f.depthFirst = true
		return yes
	case "-xdev", "-mount", "-noleaf":
		return yes
	case "-newer", "-anewer", "-cnewer":
		info, err := f.FS.Stat(f.Dir, f.value(op))
		if err != nil {
			f.die(1, "%v", err)
		}
		at := info.ModTime()
		return func(x *found) bool { return x.info.ModTime().After(at) }
	case "-mtime", "-mmin":
		unit := 24 * time.Hour
		if op == "-mmin" {
			unit = time.Minute
		}
		matches := f.compare(op)
		return func(x *found) bool { return matches(int64(f.now.Sub(x.info.ModTime()) / unit)) }
	case "-size":
		return f.size(op)
	case "-empty":
		return func(x *found) bool {
			if x.info.IsDir() {
				list, err := f.FS.ReadDir(f.Dir, x.path)
				return err == nil && len(list) == 0
			}
			return x.info.Mode().IsRegular() && x.info.Size() == 0
		}
	case "-perm":
		return f.permissions(f.value(op))
	case "-executable":
		return func(x *found) bool { return x.info.IsDir() || x.info.Mode()&0o111 != 0 }
	case "-links":
		matches := f.compare(op)
		return func(x *found) bool {
			_, n, _, _ := ids(x.info)
			return matches(int64(n))
		}
	case "-print", "-print0":
		f.prints = true
		end := byte('\n')
		if op == "-print0" {
			end = 0
		}
		return func(x *found) bool {
			f.line([]byte(x.path), end)
			return true
		}
	case "-printf":
		f.prints = true
		format := f.value(op)
		return func(x *found) bool {
			f.printFormat(format, x)
			return true
		}
	case "-prune":
		return func(*found) bool {
			f.pruned = true
			return true
		}
	case "-quit":
		f.prints = true
		return func(*found) bool {
			f.quit = true
			return true
		}
	case "-delete":
		f.prints, f.depthFirst = true, true
		return func(x *found) bool {
			if x.path == "." {
				return true
			}
			if err := f.FS.Remove(f.Dir, x.path); err != nil {
				f.complain("cannot delete %s: %s", quote(x.path), reason(err))
				return false
			}
			return true
		}
	case "-exec", "-execdir":
		return f.exec(op)
	}
	f.die(1, "unknown predicate %s", quote(op))
	return nil
}

func kindOf(m fs.FileMode) byte {
	switch m.Type() {
	case fs.ModeDir:
		return 'd'
	case fs.ModeSymlink:
		return 'l'
	case fs.ModeDevice | fs.ModeCharDevice:
		return 'c'
	}
	return 'f'
}

func (f *finder) count(op, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		f.die(1, "invalid argument %s to %s", quote(s), op)
	}
	return n
}

// compare parses +N, -N or N.
func (f *finder) compare(op string) func(int64) bool { return f.compareValue(op, f.value(op)) }

func (f *finder) compareValue(op, s string) func(int64) bool {
	sign := s[:min(1, len(s))]
	if sign == "+" || sign == "-" {
		s = s[1:]
	}
	want := f.count(op, s)
	return func(n int64) bool {
		switch sign {
		case "+":
			return n > want
		case "-":
			return n < want
		}
		return n == want
	}
}

func (f *finder) size(op string) predicate {
	s := f.value(op)
	unit := int64(512)
	if s != "" {
		if i := strings.IndexByte("cwbkMG", s[len(s)-1]); i >= 0 {
			unit = []int64{1, 2, 512, 1 << 10, 1 << 20, 1 << 30}[i]
			s = s[:len(s)-1]
		}
	}
	matches := f.compareValue(op, s)
	return func(x *found) bool { return matches((x.info.Size() + unit - 1) / unit) }
}

func (f *finder) permissions(s string) predicate {
	kind := byte(0)
	if s != "" && (s[0] == '-' || s[0] == '/') {
		kind, s = s[0], s[1:]
	}
	var want fs.FileMode
	if n, err := strconv.ParseUint(s, 8, 16); err == nil {
		want = fromUnix(uint32(n))
	} else {
		want = f.mode(s)(0) & settable
	}
	return func(x *found) bool {
		m := x.info.Mode() & settable
		switch kind {
		case '-':
			return m&want == want
		case '/':
			return want == 0 || m&want != 0
		}
		return m == want
	}
}

func (f *finder) exec(op string) predicate {
	f.prints = true
	var argv []string
	for {
		w := f.value(op)
		if w == ";" {
			break
		}
		if w == "+" && len(argv) > 1 && argv[len(argv)-1] == "{}" {
			b := &findBatch{argv: argv[:len(argv)-1]}
			f.batches = append(f.batches, b)
			return func(x *found) bool {
				if b.bytes+len(x.path) > maxArgBytes {
					f.flush(b)
				}
				b.paths = append(b.paths, x.path)
				b.bytes += len(x.path) + 1
				return true
			}
		}
		argv = append(argv, w)
	}
	if len(argv) == 0 {
		f.die(1, "missing argument to %s", quote(op))
	}
	return func(x *found) bool {
		args, p := make([]string, len(argv)), x.path
		if op == "-execdir" {
			dir := f.Dir
			defer func() { f.Dir = dir }()
			p = "./" + x.name
			real, err := f.realpath(parent(x.path), true)
			if err != nil {
				return false
			}
			f.Dir = real
		}
		for i, arg := range argv {
			args[i] = strings.ReplaceAll(arg, "{}", p)
		}
		return f.run(args, nil, f.Stdin) == 0
	}
}

func (f *finder) flush(b *findBatch) {
	if len(b.paths) == 0 {
		return
	}
	argv := append(b.argv[:len(b.argv):len(b.argv)], b.paths...)
	b.paths, b.bytes = nil, 0
	if f.run(argv, nil, f.Stdin) != 0 {
		f.status = 1
	}
}

// printFormat does -printf's directives that scripts use.
func (f *finder) printFormat(format string, x *found) {
	text, _ := unescape(format, octalEither)
	for i := 0; i < len(text); i++ {
		if text[i] != '%' || i+1 == len(text) {
			f.out.WriteByte(text[i])
			continue
		}
		i++
		switch text[i] {
		case '%':
			f.out.WriteByte('%')
		case 'p':
			f.out.WriteString(x.path)
		case 'f':
			f.out.WriteString(x.name)
		case 'h':
			dir := "."
			if j := strings.LastIndexByte(x.path, '/'); j >= 0 {
				dir = x.path[:j]
			}
			f.out.WriteString(dir)
		case 's':
			f.printf("%d", x.info.Size())
		case 'm':
			f.printf("%o", toUnix(x.info.Mode()))
		case 'M':
			f.out.WriteString(modeString(x.info.Mode()))
		case 'y':
			f.out.WriteByte(kindOf(x.info.Mode()))
		case 'd':
			f.printf("%d", x.deep)
		case 'l':
			if x.info.Mode()&fs.ModeSymlink != 0 {
				target, _ := f.FS.Readlink(f.Dir, x.path)
				f.out.WriteString(target)
			}
		case 'P':
			rel := strings.SplitN(x.path, "/", strings.Count(x.path, "/")-x.deep+2)
			if x.deep > 0 {
				f.out.WriteString(rel[len(rel)-1])
			}
		default:
			f.die(1, "-printf %%%c is not supported", text[i])
		}
	}
}
