package tools

import (
	"fmt"
	"io/fs"
	"strconv"
)

// stat prints what -c asks for; without it, a few lines.
func stat(t *tool) int {
	given, args := t.options("c:Lt", map[string]rune{"format": 'c', "printf": 1, "dereference": 'L'}, 1)
	format, follow := "", false
	for _, o := range given {
		switch o.flag {
		case 'c':
			format = o.value
		case 'L':
			follow = true
		case 't', 1:
			t.die(1, "only -c is supported")
		}
	}
	if len(args) == 0 {
		t.die(1, "missing operand")
	}
	if format == "" {
		format = "  File: %N\n  Size: %s\t%F\nAccess: (%a/%A)\tUid: %u\tGid: %g\tLinks: %h\nModify: %y"
	}
	for _, name := range args {
		look := t.FS.Lstat
		if follow {
			look = t.FS.Stat
		}
		info, err := look(t.Dir, name)
		if err != nil {
			t.complain("cannot stat %s: %s", quote(name), reason(err))
			continue
		}
		t.statFormat(format, name, info)
		t.out.WriteByte('\n')
	}
	return t.status
}

func (t *tool) statFormat(format, name string, info fs.FileInfo) {
	inode, links, uid, gid := ids(info)
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			t.out.WriteByte(format[i])
			continue
		}
		i++
		var s string
		switch format[i] {
		case '%':
			s = "%"
		case 'n':
			s = name
		case 'N':
			s = quote(name)
			if info.Mode()&fs.ModeSymlink != 0 {
				target, _ := t.FS.Readlink(t.Dir, name)
				s += " -> " + quote(target)
			}
		case 's':
			s = strconv.FormatInt(info.Size(), 10)
		case 'b':
			s = strconv.FormatInt((info.Size()+511)/512, 10)
		case 'B':
			s = "512"
		case 'a':
			s = fmt.Sprintf("%o", toUnix(info.Mode()))
		case 'A':
			s = modeString(info.Mode())
		case 'F':
			s = map[byte]string{'f': "regular file", 'd': "directory", 'l': "symbolic link", 'c': "character special file"}[kindOf(info.Mode())]
			if info.Mode().IsRegular() && info.Size() == 0 {
				s = "regular empty file"
			}
		case 'h':
			s = strconv.FormatUint(links, 10)
		case 'i':
			s = strconv.FormatUint(inode, 10)
		case 'u', 'g':
			id := uid
			if format[i] == 'g' {
				id = gid
			}
			s = strconv.FormatUint(uint64(id), 10)
		case 'U', 'G':
			id := uid
			if format[i] == 'G' {
				id = gid
			}
			if s = strconv.FormatUint(uint64(id), 10); id == 0 {
				s = "root"
			}
		case 'X', 'Y', 'Z':
			s = strconv.FormatInt(info.ModTime().Unix(), 10)
		case 'x', 'y', 'z':
			s = info.ModTime().In(t.zone()).Format("2006-01-02 15:04:05.000000000 -0700")
		default:
			t.die(1, "the directive %%%c is not supported", format[i])
		}
		t.out.WriteString(s)
	}
}
