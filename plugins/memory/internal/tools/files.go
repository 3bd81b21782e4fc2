package tools

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// join appends a name to a path without cleaning the path.
func join(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

func mkdir(t *tool) int {
	given, args := t.options("pvm:", map[string]rune{"parents": 'p', "verbose": 'v', "mode": 'm'}, 1)
	parents, verbose, perm := false, false, 0o777&^t.Umask
	explicit := false
	for _, o := range given {
		switch o.flag {
		case 'p':
			parents = true
		case 'v':
			verbose = true
		case 'm':
			perm, explicit = t.mode(o.value)(0o777)&settable, true
		}
	}
	if len(args) == 0 {
		t.die(1, "missing operand")
	}
	for _, name := range args {
		err := t.mkdir(name, parents, verbose, perm)
		if err == nil && explicit {
			err = t.FS.Chmod(t.Dir, name, perm)
		}
		if err != nil {
			t.complain("cannot create directory %s: %s", quote(name), reason(err))
		}
	}
	return t.status
}

func (t *tool) mkdir(name string, parents, verbose bool, perm fs.FileMode) error {
	if parents {
		if info, err := t.FS.Stat(t.Dir, name); err == nil && info.IsDir() {
			return nil
		}
		if dir := parent(name); dir != "." && dir != "/" && dir != name {
			if err := t.mkdir(dir, true, verbose, 0o777&^t.Umask); err != nil {
				return err
			}
		}
	}
	err := t.FS.Mkdir(t.Dir, name, perm)
	if parents && errors.Is(err, fs.ErrExist) {
		if info, serr := t.FS.Stat(t.Dir, name); serr == nil && info.IsDir() {
			return nil
		}
	}
	if err == nil && verbose {
		t.printf("%s: created directory %s\n", t.Name, quote(name))
	}
	return err
}

func rmdir(t *tool) int {
	given, args := t.options("pv", map[string]rune{"parents": 'p', "verbose": 'v', "ignore-fail-on-non-empty": 'i'}, 1)
	parents, lenient := false, false
	for _, o := range given {
		parents = parents || o.flag == 'p'
		lenient = lenient || o.flag == 'i'
	}
	if len(args) == 0 {
		t.die(1, "missing operand")
	}
	for _, name := range args {
		for {
			info, err := t.FS.Lstat(t.Dir, name)
			if err == nil && !info.IsDir() {
				err = syscall.ENOTDIR
			}
			if err == nil {
				err = t.FS.Remove(t.Dir, name)
			}
			if err != nil && !(lenient && errors.Is(err, syscall.ENOTEMPTY)) {
				t.complain("failed to remove %s: %s", quote(name), reason(err))
			}
			name = parent(name)
			if err != nil || !parents || name == "." || name == "/" {
				break
			}
		}
	}
	return t.status
}

func rm(t *tool) int {
	given, args := t.options("rRfdvi", map[string]rune{"recursive": 'r', "force": 'f', "dir": 'd', "verbose": 'v'}, 1)
	recursive, force, dirs, verbose := false, false, false, false
	for _, o := range given {
		switch o.flag {
		case 'r', 'R':
			recursive = true
		case 'f':
			force = true
		case 'd':
			dirs = true
		case 'v':
			verbose = true
		case 'i':
			t.die(1, "-i is not offered: nobody can be asked")
		}
	}
	if len(args) == 0 {
		if force {
			return 0
		}
		t.die(1, "missing operand")
	}
	var remove func(name string)
	remove = func(name string) {
		t.check()
		info, err := t.FS.Lstat(t.Dir, name)
		if err != nil {
			if !(force && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR))) {
				t.complain("cannot remove %s: %s", quote(name), reason(err))
			}
			return
		}
		if info.IsDir() && !recursive && !dirs {
			t.complain("cannot remove %s: Is a directory", quote(name))
			return
		}
		if info.IsDir() && recursive {
			list, err := t.FS.ReadDir(t.Dir, name)
			if err != nil {
				t.fail(name, err)
			}
			for _, e := range list {
				remove(join(name, e.Name()))
			}
		}
		if err := t.FS.Remove(t.Dir, name); err != nil {
			t.complain("cannot remove %s: %s", quote(name), reason(err))
			return
		}
		if verbose {
			t.printf("removed %s\n", quote(name))
		}
	}
	for _, name := range args {
		if base := path.Base(name); base == "." && path.Clean(name) == "." || strings.HasSuffix(name, "/.") || strings.HasSuffix(name, "/..") || name == ".." {
			t.complain("refusing to remove %s: skipping %s", quote("."), quote(name))
			continue
		}
		if path.Clean(join(t.Dir, name)) == "/" || path.Clean(name) == "/" {
			t.complain("refusing to remove the root directory")
			continue
		}
		remove(name)
	}
	return t.status
}

func touch(t *tool) int {
	given, args := t.options("cd:t:r:amh", map[string]rune{"no-create": 'c', "date": 'd', "reference": 'r'}, 1)
	when, create := time.Now(), true
	for _, o := range given {
		switch o.flag {
		case 'c':
			create = false
		case 'd':
			at, err := parseDate(o.value, time.Now(), t.zone())
			if err != nil {
				t.die(1, "invalid date %s: %v", quote(o.value), err)
			}
			when = at
		case 't':
			at, ok := stamp(o.value, t.zone())
			if !ok {
				t.die(1, "invalid date format %s", quote(o.value))
			}
			when = at
		case 'r':
			info, err := t.FS.Stat(t.Dir, o.value)
			if err != nil {
				t.die(1, "failed to get attributes of %s: %s", quote(o.value), reason(err))
			}
			when = info.ModTime()
		}
	}
	if len(args) == 0 {
		t.die(1, "missing file operand")
	}
	for _, name := range args {
		err := t.FS.Chtimes(t.Dir, name, when)
		if errors.Is(err, fs.ErrNotExist) {
			if !create {
				continue
			}
			f, cerr := t.FS.Open(t.Dir, name, os.O_WRONLY|os.O_CREATE, 0o666&^t.Umask)
			if err = cerr; err == nil {
				f.Close()
				err = t.FS.Chtimes(t.Dir, name, when)
			}
		}
		if err != nil {
			t.complain("cannot touch %s: %s", quote(name), reason(err))
		}
	}
	return t.status
}

// stamp parses [[CC]YY]MMDDhhmm[.ss].
func stamp(s string, zone *time.Location) (time.Time, bool) {
	s, sec, dotted := strings.Cut(s, ".")
	if !dotted {
		sec = "00"
	}
	switch len(s) {
	case 8:
		s = strconv.Itoa(time.Now().In(zone).Year()) + s
	case 10:
		century := "20"
		if s >= "69" {
			century = "19"
		}
		s = century + s
	}
	at, err := time.ParseInLocation("20060102150405", s+sec, zone)
	return at, err == nil
}

func ln(t *tool) int {
	given, args := t.options("sfnvTt:r", map[string]rune{"symbolic": 's', "force": 'f', "no-dereference": 'n', "verbose": 'v',
		"no-target-directory": 'T', "target-directory": 't', "relative": 'r'}, 1)
	symbolic, force, noFollow, noTarget, verbose, relative, into := false, false, false, false, false, false, ""
	for _, o := range given {
		switch o.flag {
		case 's':
			symbolic = true
		case 'f':
			force = true
		case 'n':
			noFollow = true
		case 'T':
			noTarget, noFollow = true, true
		case 'v':
			verbose = true
		case 'r':
			relative = true
		case 't':
			into = o.value
		}
	}
	if len(args) == 0 {
		t.die(1, "missing file operand")
	}
	link := func(target, name string) {
		if relative && symbolic {
			target = t.relative(target, parent(name))
		}
		make := func() error {
			if symbolic {
				return t.FS.Symlink(t.Dir, target, name)
			}
			return t.FS.Link(t.Dir, target, name)
		}
		err := make()
		if force && errors.Is(err, fs.ErrExist) && !(!symbolic && t.same(target, name)) {
			if err = t.FS.Remove(t.Dir, name); err == nil {
				err = make()
			}
		}
		if err != nil {
			t.complain("failed to create link %s -> %s: %s", quote(name), quote(target), reason(err))
			return
		}
		if verbose {
			t.printf("%s -> %s\n", quote(name), quote(target))
		}
	}
	targets := args
	switch {
	case into != "":
	case len(args) == 1:
		into = "."
	case noTarget && len(args) != 2:
		t.die(1, "-T takes exactly two operands")
	case noTarget || len(args) == 2 && !t.isDir(args[1], noFollow):
		link(args[0], args[1])
		return t.status
	default:
		targets, into = args[:len(args)-1], args[len(args)-1]
		if !t.isDir(into, false) {
			t.die(1, "target %s is not a directory", quote(into))
		}
	}
	for _, target := range targets {
		link(target, join(into, path.Base(target)))
	}
	return t.status
}

func (t *tool) isDir(name string, noFollow bool) bool {
	stat := t.FS.Stat
	if noFollow {
		stat = t.FS.Lstat
	}
	info, err := stat(t.Dir, name)
	return err == nil && info.IsDir()
}

// same says whether two paths are one file.
func (t *tool) same(a, b string) bool {
	x, err := t.FS.Stat(t.Dir, a)
	if err != nil {
		return false
	}
	y, err := t.FS.Stat(t.Dir, b)
	return err == nil && identity(x) == identity(y) && identity(x) != ""
}
