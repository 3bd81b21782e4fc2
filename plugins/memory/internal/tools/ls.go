package tools

import (
	"cmp"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

type listing struct {
	*tool
	all, almost, long, dirs, recursive, human, reverse, inode, classify, slash, follow, numeric, iso bool
	order                                                                                            rune // 0 by name, t, S, U or v
}

type item struct {
	name string
	path string
	info fs.FileInfo
}

func ls(t *tool) int {
	given, args := t.options("aAldRhrtSUi1FpLnCvXgoGcu", map[string]rune{"all": 'a', "almost-all": 'A', "directory": 'd', "recursive": 'R',
		"human-readable": 'h', "reverse": 'r', "inode": 'i', "classify": 'F', "dereference": 'L', "numeric-uid-gid": 'n', "full-time": 'Z'}, 2)
	l := &listing{tool: t}
	for _, o := range given {
		switch o.flag {
		case 'a':
			l.all = true
		case 'A':
			l.almost = true
		case 'l', 'g', 'o':
			l.long = true
		case 'n':
			l.long, l.numeric = true, true
		case 'Z':
			l.long, l.iso = true, true
		case 'd':
			l.dirs = true
		case 'R':
			l.recursive = true
		case 'h':
			l.human = true
		case 'r':
			l.reverse = true
		case 't', 'S', 'U':
			l.order = o.flag
		case 'v', 'X':
			t.die(2, "-%c is not offered", o.flag)
		case 'i':
			l.inode = true
		case 'F':
			l.classify = true
		case 'p':
			l.slash = true
		case 'L':
			l.follow = true
		}
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	var files, dirs []item
	for _, arg := range args {
		info, err := t.FS.Stat(t.Dir, arg)
		if err != nil || (l.long || l.dirs) && !l.follow && !strings.HasSuffix(arg, "/") {
			info, err = t.FS.Lstat(t.Dir, arg)
		}
		if err != nil {
			t.complain("cannot access %s: %s", quote(arg), reason(err))
			t.status = 2
			continue
		}
		if info.IsDir() && !l.dirs {
			dirs = append(dirs, item{arg, arg, info})
			continue
		}
		files = append(files, item{arg, arg, info})
	}
	l.sort(files)
	l.sort(dirs)
	l.print(files)
	titles := len(args) > 1 || l.recursive
	for i, d := range dirs {
		if i > 0 || len(files) > 0 {
			t.out.WriteByte('\n')
		}
		l.dir(d.path, titles)
	}
	return t.status
}

func (l *listing) dir(dir string, title bool) {
	l.check()
	if title {
		l.printf("%s:\n", dir)
	}
	list, err := l.FS.ReadDir(l.Dir, dir)
	if err != nil {
		l.complain("cannot open directory %s: %s", quote(dir), reason(err))
		l.status = 2
		return
	}
	var items []item
	add := func(name string) {
		p := join(dir, name)
		stat := l.FS.Lstat
		if l.follow {
			stat = l.FS.Stat
		}
		if info, err := stat(l.Dir, p); err == nil {
			items = append(items, item{name, p, info})
		}
	}
	if l.all {
		add(".")
		add("..")
	}
	for _, e := range list {
		if l.all || l.almost || !strings.HasPrefix(e.Name(), ".") {
			add(e.Name())
		}
	}
	l.sort(items)
	if l.long {
		blocks := int64(0)
		for _, it := range items {
			if it.info.Mode().IsRegular() {
				blocks += (it.info.Size() + 4095) / 4096 * 4
			}
		}
		l.printf("total %d\n", blocks)
	}
	l.print(items)
	if !l.recursive {
		return
	}
	for _, it := range items {
		if it.info.IsDir() && it.name != "." && it.name != ".." {
			l.out.WriteByte('\n')
			l.dir(it.path, true)
		}
	}
}

func (l *listing) sort(items []item) {
	if l.order == 'U' {
		return
	}
	slices.SortStableFunc(items, func(a, b item) int {
		c := 0
		switch l.order {
		case 't':
			c = b.info.ModTime().Compare(a.info.ModTime())
		case 'S':
			c = cmp.Compare(b.info.Size(), a.info.Size())
		}
		c = cmp.Or(c, cmp.Compare(a.name, b.name))
		if l.reverse {
			return -c
		}
		return c
	})
}

func (l *listing) print(items []item) {
	var links, owners, groups, sizes, inodes int
	for _, it := range items {
		ino, n, uid, gid := ids(it.info)
		links = max(links, len(strconv.FormatUint(n, 10)))
		owners = max(owners, len(l.owner(uid)))
		groups = max(groups, len(l.owner(gid)))
		sizes = max(sizes, len(l.size(it.info.Size())))
		inodes = max(inodes, len(strconv.FormatUint(ino, 10)))
	}
	for _, it := range items {
		ino, n, uid, gid := ids(it.info)
		if l.inode {
			l.printf("%*d ", inodes, ino)
		}
		if l.long {
			l.printf("%s %*d %-*s %-*s %*s %s ", modeString(it.info.Mode()), links, n, owners, l.owner(uid), groups, l.owner(gid),
				sizes, l.size(it.info.Size()), l.time(it.info.ModTime()))
		}
		l.out.WriteString(it.name)
		if l.long && it.info.Mode()&fs.ModeSymlink != 0 {
			target, _ := l.FS.Readlink(l.Dir, it.path)
			l.printf(" -> %s\n", target)
			continue
		}
		switch m := it.info.Mode(); {
		case m.IsDir() && (l.classify || l.slash):
			l.out.WriteByte('/')
		case m&fs.ModeSymlink != 0 && l.classify:
			l.out.WriteByte('@')
		case m.IsRegular() && m&0o111 != 0 && l.classify:
			l.out.WriteByte('*')
		}
		l.out.WriteByte('\n')
	}
}

func (l *listing) owner(id uint32) string {
	if id == 0 && !l.numeric {
		return "root"
	}
	return strconv.FormatUint(uint64(id), 10)
}

func (l *listing) size(n int64) string {
	if !l.human {
		return strconv.FormatInt(n, 10)
	}
	return human(n)
}

// human is a size in powers of 1024, rounded up.
func human(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	v, unit := float64(n), 0
	for v >= 1024 && unit < 6 {
		v, unit = v/1024, unit+1
	}
	tenths := int64(v*10 + 0.999999)
	if tenths < 100 {
		return strconv.FormatFloat(float64(tenths)/10, 'f', 1, 64) + " KMGTPE"[unit:unit+1]
	}
	return strconv.FormatInt((tenths+9)/10, 10) + " KMGTPE"[unit:unit+1]
}

func (l *listing) time(at time.Time) string {
	at = at.In(l.zone())
	if l.iso {
		return at.Format("2006-01-02 15:04:05.000000000 -0700")
	}
	if age := time.Since(at); age > 182*24*time.Hour || age < -time.Minute {
		return at.Format("Jan _2  2006")
	}
	return at.Format("Jan _2 15:04")
}

// modeString is a mode as ls -l has it.
func modeString(m fs.FileMode) string {
	b := []byte("?rwxrwxrwx")
	switch m.Type() {
	case 0:
		b[0] = '-'
	case fs.ModeDir:
		b[0] = 'd'
	case fs.ModeSymlink:
		b[0] = 'l'
	case fs.ModeDevice | fs.ModeCharDevice:
		b[0] = 'c'
	}
	for i := range 9 {
		if m&(1<<(8-i)) == 0 {
			b[i+1] = '-'
		}
	}
	special := func(bit fs.FileMode, at int, c byte) {
		if m&bit == 0 {
			return
		}
		if b[at] == '-' {
			c -= 'a' - 'A'
		}
		b[at] = c
	}
	special(fs.ModeSetuid, 3, 's')
	special(fs.ModeSetgid, 6, 's')
	special(fs.ModeSticky, 9, 't')
	return string(b)
}
