package tools

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// relative is target as seen from dir.
func (t *tool) relative(target, dir string) string {
	abs := func(p string) []string {
		if real, err := t.realpath(p, false); err == nil {
			p = real
		} else if !path.IsAbs(p) {
			p = join(t.Dir, p)
		}
		return strings.FieldsFunc(path.Clean(p), func(r rune) bool { return r == '/' })
	}
	to, from := abs(target), abs(dir)
	for len(to) > 0 && len(from) > 0 && to[0] == from[0] {
		to, from = to[1:], from[1:]
	}
	p := path.Join(append(strings.Split(strings.Repeat("..,", len(from)), ","), to...)...)
	if p == "" {
		return "."
	}
	return p
}

func (t *tool) realpath(p string, exists bool) (string, error) {
	return realpath(t.FS, t.Dir, p, exists)
}

// Realpath is the path of what p leads to, free of symlinks and dots. It must exist.
func Realpath(ns *tree.Namespace, dir, p string) (string, error) { return realpath(ns, dir, p, true) }

// realpath resolves every symlink. If exists is false the last name may be missing.
func realpath(ns *tree.Namespace, dir, p string, exists bool) (string, error) {
	if !path.IsAbs(p) {
		p = join(dir, p)
	}
	done, rest := "/", strings.Split(p, "/")
	for hops := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, name)
		info, err := ns.Lstat("/", next)
		if err != nil {
			if !exists && errors.Is(err, fs.ErrNotExist) && strings.Trim(strings.Join(rest, ""), "/") == "" {
				return next, nil
			}
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if !info.IsDir() && len(rest) > 0 {
				return "", syscall.ENOTDIR
			}
			done = next
			continue
		}
		if hops++; hops > 40 {
			return "", syscall.ELOOP
		}
		target, err := ns.Readlink("/", next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			done = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}

func readlink(t *tool) int {
	given, args := t.options("femnz", map[string]rune{"canonicalize": 'f', "canonicalize-existing": 'e', "no-newline": 'n', "zero": 'z'}, 1)
	real, exists, end := t.Name == "realpath", false, "\n"
	for _, o := range given {
		switch o.flag {
		case 'f':
			real = true
		case 'e':
			real, exists = true, true
		case 'm':
			t.die(1, "-m is not offered: use -f")
		case 'n':
			end = ""
		case 'z':
			end = "\x00"
		}
	}
	if len(args) == 0 {
		t.die(1, "missing operand")
	}
	for _, name := range args {
		var p string
		var err error
		if real {
			p, err = t.realpath(name, exists)
		} else {
			p, err = t.FS.Readlink(t.Dir, name)
		}
		if err != nil {
			t.status = 1
			if t.Name == "realpath" {
				t.fail(name, err)
			}
			continue
		}
		t.printf("%s%s", p, end)
	}
	return t.status
}
