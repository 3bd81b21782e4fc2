package tools

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// du sums up sizes. What a file takes is its size in whole blocks of 4 KiB.
func du(t *tool) int {
	given, args := t.options("shkmacbd:B:xLlc0", map[string]rune{"summarize": 's', "human-readable": 'h', "all": 'a', "total": 'c', "bytes": 'b',
		"apparent-size": 1, "max-depth": 'd', "block-size": 'B', "one-file-system": 'x'}, 1)
	d := &diskUsage{tool: t, depth: -1, unit: 1024, seen: make(map[string]bool)}
	for _, o := range given {
		switch o.flag {
		case 's':
			d.depth = 0
		case 'h':
			d.readable = true
		case 'k':
			d.unit = 1024
		case 'm':
			d.unit = 1 << 20
		case 'a':
			d.all = true
		case 'c':
			d.total = true
		case 'b':
			d.unit, d.apparent = 1, true
		case 1:
			d.apparent = true
		case 'd':
			d.depth = t.count(o, 0)
		case 'B':
			n, err := parseSize(o.value)
			if err != nil || n < 1 {
				t.die(1, "invalid block size %s", quote(o.value))
			}
			d.unit = n
		case 'L', '0':
			t.die(1, "-%c is not supported", o.flag)
		}
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	sum := int64(0)
	for _, name := range args {
		info, err := t.FS.Lstat(t.Dir, name)
		if err != nil {
			t.complain("cannot access %s: %s", quote(name), reason(err))
			continue
		}
		sum += d.of(name, info, 0)
	}
	if d.total {
		d.print(sum, "total")
	}
	return t.status
}

type diskUsage struct {
	*tool
	depth                          int // -1: no limit
	unit                           int64
	readable, all, total, apparent bool
	seen                           map[string]bool
}

func (d *diskUsage) of(name string, info fs.FileInfo, depth int) int64 {
	d.check()
	if key := identity(info); key != "" && !info.IsDir() {
		if _, links, _, _ := ids(info); links > 1 && d.seen[key] {
			return 0
		}
		d.seen[key] = true
	}
	size := info.Size()
	if !d.apparent {
		size = (size + 4095) &^ 4095
		if info.Mode().Type() == fs.ModeSymlink {
			size = 0
		}
	}
	if !info.IsDir() {
		if d.all && (d.depth < 0 || depth <= d.depth) || depth == 0 {
			d.print(size, name)
		}
		return size
	}
	entries, err := d.FS.ReadDir(d.Dir, name)
	if err != nil {
		d.complain("cannot read directory %s: %s", quote(name), reason(err))
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += d.of(join(name, e.Name()), info, depth+1)
		}
	}
	if d.depth < 0 || depth <= d.depth {
		d.print(size, name)
	}
	return size
}

func (d *diskUsage) print(size int64, name string) {
	text := strconv.FormatInt((size+d.unit-1)/d.unit, 10)
	if d.readable {
		text = human(size)
	}
	d.printf("%s\t%s\n", text, name)
}

// chown changes owners, which are numbers, or root.
func chown(t *tool) int {
	given, args := t.options("Rhfvc", map[string]rune{"recursive": 'R', "no-dereference": 'h', "reference": 2, "quiet": 'f', "silent": 'f', "verbose": 'v'}, 1)
	recursive, itself := false, false
	for _, o := range given {
		switch o.flag {
		case 'R':
			recursive = true
		case 'h':
			itself = true
		case 2:
			t.die(1, "--reference is not supported")
		}
	}
	if len(args) < 2 {
		t.die(1, "missing operand")
	}
	uid, gid := t.owners(args[0])
	var one func(name string)
	one = func(name string) {
		t.check()
		info, err := t.FS.Lstat(t.Dir, name)
		if err == nil {
			change := t.FS.Chown
			if itself || recursive && info.Mode().Type() == fs.ModeSymlink {
				change = t.FS.Lchown
			}
			err = change(t.Dir, name, uid, gid)
		}
		if err != nil {
			t.complain("cannot access %s: %s", quote(name), reason(err))
			return
		}
		if !recursive || !info.IsDir() {
			return
		}
		entries, err := t.FS.ReadDir(t.Dir, name)
		if err != nil {
			t.complain("cannot read directory %s: %s", quote(name), reason(err))
		}
		for _, e := range entries {
			one(join(name, e.Name()))
		}
	}
	for _, name := range args[1:] {
		one(name)
	}
	return t.status
}

// owners parses OWNER, OWNER:GROUP or :GROUP; of chgrp, GROUP. -1 is none.
func (t *tool) owners(spec string) (uid, gid int) {
	id := func(s string) int {
		switch n, err := strconv.ParseUint(s, 10, 32); {
		case s == "":
			return -1
		case s == "root":
			return 0
		case err == nil:
			return int(n)
		}
		t.die(1, "invalid user or group: %s: only numbers and root are known", quote(spec))
		return -1
	}
	if t.Name == "chgrp" {
		return -1, id(spec)
	}
	user, group, _ := strings.Cut(spec, ":")
	return id(user), id(group)
}

func linkTool(t *tool) int {
	_, args := t.options("", nil, 1)
	if len(args) != 2 {
		t.die(1, "two operands are needed, not %d", len(args))
	}
	if err := t.FS.Link(t.Dir, args[0], args[1]); err != nil {
		t.die(1, "cannot create link %s to %s: %s", quote(args[1]), quote(args[0]), reason(err))
	}
	return 0
}

func unlink(t *tool) int {
	_, args := t.options("", nil, 1)
	if len(args) != 1 {
		t.die(1, "one operand is needed, not %d", len(args))
	}
	info, err := t.FS.Lstat(t.Dir, args[0])
	if err == nil && info.IsDir() {
		t.die(1, "cannot unlink %s: Is a directory", quote(path.Clean(args[0])))
	}
	if err == nil {
		err = t.FS.Remove(t.Dir, args[0])
	}
	if err != nil {
		t.die(1, "cannot unlink %s: %s", quote(args[0]), reason(err))
	}
	return 0
}
