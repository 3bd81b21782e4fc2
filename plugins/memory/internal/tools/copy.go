package tools

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// copying is what cp was asked for; mv uses it across mounts.
type copying struct {
	*tool
	recursive, force, preserve, noClobber, update, verbose bool
	follow, followTop                                      bool // symlinks to what they lead to
	links                                                  bool // make hard links instead
	symlinks                                               bool // make symlinks instead
	failed                                                 bool
	xattrs                                                 bool              // keep extended attributes
	linked                                                 map[string]string // copies of files with several names
}

func cp(t *tool) int {
	given, args := t.options("rRapfdPLHnuvTt:lsx", map[string]rune{"recursive": 'r', "archive": 'a', "preserve": 'p', "force": 'f',
		"no-dereference": 'P', "dereference": 'L', "no-clobber": 'n', "update": 'u', "verbose": 'v', "no-target-directory": 'T',
		"target-directory": 't', "link": 'l', "symbolic-link": 's'}, 1)
	c := &copying{tool: t, follow: true, followTop: true}
	noTarget, into := false, ""
	deref := false
	for _, o := range given {
		switch o.flag {
		case 'r', 'R':
			c.recursive = true
			if !deref {
				c.follow, c.followTop = false, false
			}
		case 'a':
			c.recursive, c.preserve, c.xattrs, c.follow, c.followTop = true, true, true, false, false
		case 'p':
			c.preserve = true
		case 'd', 'P':
			c.follow, c.followTop = false, false
		case 'L':
			c.follow, c.followTop, deref = true, true, true
		case 'H':
			c.followTop, deref = true, true
		case 'f':
			c.force = true
		case 'n':
			c.noClobber = true
		case 'u':
			c.update = true
		case 'v':
			c.verbose = true
		case 'l':
			c.links = true
		case 's':
			c.symlinks = true
		case 'T':
			noTarget = true
		case 't':
			into = o.value
		}
	}
	t.eachTarget(args, into, noTarget, func(from, to string) {
		c.copy(strings.TrimRight(from, "/"), from, to, true)
	})
	return t.status
}

// eachTarget calls f with the pairs that the operands of cp and mv mean.
func (t *tool) eachTarget(args []string, into string, noTarget bool, f func(from, to string)) {
	if into == "" {
		switch {
		case len(args) == 0:
			t.die(1, "missing file operand")
		case len(args) == 1:
			t.die(1, "missing destination file operand after %s", quote(args[0]))
		case noTarget && len(args) > 2:
			t.die(1, "extra operand %s", quote(args[2]))
		case noTarget || len(args) == 2 && !t.isDir(args[1], false):
			f(args[0], args[1])
			return
		}
		args, into = args[:len(args)-1], args[len(args)-1]
	}
	if !t.isDir(into, false) {
		t.die(1, "target %s is not a directory", quote(into))
	}
	for _, from := range args {
		base := path.Base(from)
		if base == "." || base == ".." || base == "/" {
			f(from, join(into, "."))
			continue
		}
		f(from, join(into, base))
	}
}

func (c *copying) bad(format string, args ...any) {
	c.failed = true
	c.complain(format, args...)
}

// copy copies from to to; shown is from as it was given.
func (c *copying) copy(from, shown, to string, top bool) {
	c.check()
	if from == "" {
		from = "/"
	}
	if _, ok := Device(c.Dir, from); ok && top {
		c.stream(from, to)
		return
	}
	if _, ok := Descriptor(c.Dir, from); ok && top {
		c.stream(from, to)
		return
	}
	stat := c.FS.Lstat
	if c.follow || top && (c.followTop || strings.HasSuffix(shown, "/")) {
		stat = c.FS.Stat
	}
	src, err := stat(c.Dir, from)
	if err != nil {
		c.bad("cannot stat %s: %s", quote(shown), reason(err))
		return
	}
	if src.IsDir() && !c.recursive {
		c.bad("-r not specified; omitting directory %s", quote(shown))
		return
	}
	dst, err := c.FS.Lstat(c.Dir, to)
	exists := err == nil
	if exists && (c.noClobber && !src.IsDir() || c.update && !src.ModTime().After(dst.ModTime())) {
		return
	}
	if exists && !src.IsDir() && c.same(from, to) && src.Mode()&fs.ModeSymlink == 0 {
		c.bad("%s and %s are the same file", quote(from), quote(to))
		return
	}
	if c.verbose {
		c.printf("%s -> %s\n", quote(from), quote(to))
	}
	switch {
	case src.IsDir():
		c.directory(from, to, src)
		return
	case exists && dst.IsDir():
		c.bad("cannot overwrite directory %s with non-directory %s", quote(to), quote(from))
		return
	case c.links:
		err = c.replace(to, exists, func() error { return c.FS.Link(c.Dir, from, to) })
	case c.symlinks:
		err = c.replace(to, exists, func() error { return c.FS.Symlink(c.Dir, from, to) })
	case src.Mode()&fs.ModeSymlink != 0:
		var target string
		if target, err = c.FS.Readlink(c.Dir, from); err == nil {
			err = c.replace(to, true, func() error { return c.FS.Symlink(c.Dir, target, to) })
		}
		if err == nil && c.preserve {
			c.owner(src, to)
			err = c.attributes(from, to)
		}
	default:
		err = c.regular(from, to, src, exists)
	}
	if err != nil {
		c.bad("cannot copy %s to %s: %s", quote(from), quote(to), reason(err))
	}
}

// replace makes what make makes where something may be in the way.
func (c *copying) replace(to string, remove bool, make func() error) error {
	err := make()
	if !remove || !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := c.FS.Remove(c.Dir, to); err != nil {
		return err
	}
	return make()
}

func (c *copying) directory(from, to string, src fs.FileInfo) {
	if inside(c.tool, from, to) {
		c.bad("cannot copy a directory, %s, into itself, %s", quote(from), quote(to))
		return
	}
	// Writable until its content is there.
	err := c.FS.Mkdir(c.Dir, to, src.Mode().Perm()|0o700)
	made := err == nil
	if errors.Is(err, fs.ErrExist) && c.isDir(to, false) {
		err = nil
	}
	if err != nil {
		c.bad("cannot create directory %s: %s", quote(to), reason(err))
		return
	}
	list, err := c.FS.ReadDir(c.Dir, from)
	if err != nil {
		c.bad("cannot read %s: %s", quote(from), reason(err))
	}
	for _, e := range list {
		c.copy(join(from, e.Name()), join(from, e.Name()), join(to, e.Name()), false)
	}
	if c.preserve {
		c.owner(src, to)
		if err := c.attributes(from, to); err != nil {
			c.bad("cannot copy the attributes of %s to %s: %s", quote(from), quote(to), reason(err))
		}
		c.FS.Chmod(c.Dir, to, src.Mode()&settable)
		c.FS.Chtimes(c.Dir, to, src.ModTime())
		return
	}
	if made {
		c.FS.Chmod(c.Dir, to, src.Mode().Perm()&^c.Umask)
	}
}

// inside says whether to lies in the directory from.
func inside(t *tool, from, to string) bool {
	a, err := t.realpath(from, true)
	if err != nil {
		return false
	}
	b, err := t.realpath(to, false)
	if err != nil {
		return false
	}
	return a == b || strings.HasPrefix(b, strings.TrimSuffix(a, "/")+"/")
}

func (c *copying) regular(from, to string, src fs.FileInfo, exists bool) error {
	if c.preserve {
		if _, n, _, _ := ids(src); n > 1 {
			id := identity(src)
			if first, ok := c.linked[id]; ok {
				return c.replace(to, true, func() error { return c.FS.Link(c.Dir, first, to) })
			}
			if c.linked == nil {
				c.linked = make(map[string]string)
			}
			c.linked[id] = to
		}
	}
	in, err := c.open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	perm := src.Mode().Perm() &^ c.Umask
	out, err := c.FS.Open(c.Dir, to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil && exists && c.force {
		if c.FS.Remove(c.Dir, to) == nil {
			out, err = c.FS.Open(c.Dir, to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
		}
	}
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(onlyWriter{out}, onlyReader{in}, make([]byte, 256<<10))
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if c.preserve {
		c.owner(src, to)
		if err := c.attributes(from, to); err != nil {
			return err
		}
		c.FS.Chmod(c.Dir, to, src.Mode()&settable)
		return c.FS.Chtimes(c.Dir, to, src.ModTime())
	}
	return nil
}

func (c *copying) stream(from, to string) {
	in, err := c.open(from)
	if err == nil {
		defer in.Close()
		var out io.WriteCloser
		if out, err = c.create(to, os.O_TRUNC); err == nil {
			_, err = io.Copy(onlyWriter{out}, in)
			out.Close()
		}
	}
	if err != nil {
		c.bad("cannot copy %s to %s: %s", from, quote(to), reason(err))
	}
}

func (c *copying) attributes(from, to string) error {
	if !c.xattrs {
		return nil
	}
	return c.FS.CopyXattrs(c.Dir, from, to)
}

func (c *copying) owner(src fs.FileInfo, to string) {
	_, _, uid, gid := ids(src)
	c.FS.Lchown(c.Dir, to, int(uid), int(gid))
}

func mv(t *tool) int {
	given, args := t.options("fnuvTt:i", map[string]rune{"force": 'f', "no-clobber": 'n', "update": 'u', "verbose": 'v',
		"no-target-directory": 'T', "target-directory": 't'}, 1)
	noClobber, update, verbose, noTarget, into := false, false, false, false, ""
	for _, o := range given {
		switch o.flag {
		case 'f':
			noClobber = false
		case 'n':
			noClobber = true
		case 'u':
			update = true
		case 'v':
			verbose = true
		case 'T':
			noTarget = true
		case 't':
			into = o.value
		case 'i':
			t.die(1, "-i is not offered: nobody can be asked")
		}
	}
	t.eachTarget(args, into, noTarget, func(from, to string) {
		src, err := t.FS.Lstat(t.Dir, from)
		if err != nil {
			t.complain("cannot stat %s: %s", quote(from), reason(err))
			return
		}
		dst, err := t.FS.Lstat(t.Dir, to)
		if err == nil {
			switch {
			case noClobber, update && !src.ModTime().After(dst.ModTime()):
				return
			case identity(src) != "" && identity(src) == identity(dst):
				t.complain("%s and %s are the same file", quote(from), quote(to))
				return
			case dst.IsDir() && !src.IsDir():
				t.complain("cannot overwrite directory %s with non-directory", quote(to))
				return
			case !dst.IsDir() && src.IsDir():
				t.complain("cannot overwrite non-directory %s with directory %s", quote(to), quote(from))
				return
			}
		}
		if src.IsDir() && inside(t, from, to) {
			t.complain("cannot move %s to a subdirectory of itself, %s", quote(from), quote(to))
			return
		}
		err = t.FS.Rename(t.Dir, from, to)
		if errors.Is(err, syscall.EXDEV) {
			err = nil
			c := &copying{tool: t, recursive: true, preserve: true, xattrs: true, force: true}
			if dst != nil && dst.IsDir() {
				err = t.FS.Remove(t.Dir, to)
			}
			if err == nil {
				c.copy(from, from, to, true)
				if c.failed {
					return
				}
				err = t.FS.RemoveAll(t.Dir, from)
			}
		}
		if err != nil {
			t.complain("cannot move %s to %s: %s", quote(from), quote(to), reason(err))
			return
		}
		if verbose {
			t.printf("renamed %s -> %s\n", quote(from), quote(to))
		}
	})
	return t.status
}
