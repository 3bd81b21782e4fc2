package tools

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// archiving is what tar was asked for.
type archiving struct {
	*tool
	mode             byte // c, t or x
	file, dir        string
	zip              byte // z, Z for zstd, or 0
	verbose, keepAll bool // keepAll: modes without the umask, and owners
	stdout, noTime   bool
	auto             bool
	strip            int
	exclude          []string
	uid, gid         int // -1: as they are
	mtime            time.Time
	deref            bool

	links map[string]string // files with several names, by what they are
	times []struct {
		name string
		at   time.Time
	}
}

func tarTool(t *tool) int {
	args := t.Args
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") { // the old way: tar xzf FILE
		args = oldOptions(args)
	}
	a := &archiving{tool: t, uid: -1, gid: -1, links: make(map[string]string)}
	given, names := t.parse(args, "cxtf:C:zvOpmkT:hjJa\x02:\x03:\x04:\x05:\x06:\x07:\x0c:", map[string]rune{
		"create": 'c', "extract": 'x', "get": 'x', "list": 't', "file": 'f', "directory": 'C', "gzip": 'z', "gunzip": 'z', "ungzip": 'z', "zstd": 1,
		"verbose": 'v', "to-stdout": 'O', "preserve-permissions": 'p', "same-permissions": 'p', "touch": 'm', "exclude": 2, "strip-components": 3,
		"files-from": 'T', "dereference": 'h', "owner": 4, "group": 5, "mtime": 6, "sort": 7, "numeric-owner": 8, "no-same-owner": 9, "same-owner": 10,
		"no-same-permissions": 11, "format": 12, "null": 13, "overwrite": 14, "keep-old-files": 'k', "auto-compress": 'a',
	}, 2)
	var from []string
	for _, o := range given {
		a.option(o, &from)
	}
	if a.mode == 0 {
		t.die(2, "one of the options -c, -t and -x is needed")
	}
	for _, list := range from {
		r, err := t.open(list)
		if err != nil {
			t.die(2, "%s: %s", list, reason(err))
		}
		content, err := whole(r)
		r.Close()
		if err != nil {
			t.die(2, "%s: %s", list, reason(err))
		}
		for name := range strings.FieldsFuncSeq(string(content), func(r rune) bool { return r == '\n' || r == 0 }) {
			names = append(names, name)
		}
	}
	var err error
	if a.mode == 'c' {
		err = a.create(names)
	} else {
		err = a.read(names)
	}
	if err != nil {
		t.die(2, "%s", reason(err))
	}
	return t.status
}

// oldOptions gives letters without a dash theirs, and each that takes a value its own.
func oldOptions(args []string) []string {
	letters, rest := args[0], args[1:]
	var spread []string
	for _, c := range letters {
		spread = append(spread, "-"+string(c))
		if strings.ContainsRune("fCT", c) && len(rest) > 0 {
			spread = append(spread, rest[0])
			rest = rest[1:]
		}
	}
	return append(spread, rest...)
}

func (a *archiving) option(o option, from *[]string) {
	switch o.flag {
	case 'c', 'x', 't':
		if a.mode != 0 && a.mode != byte(o.flag) {
			a.die(2, "only one of the options -c, -t and -x can be given")
		}
		a.mode = byte(o.flag)
	case 'f':
		a.file = o.value
	case 'C':
		if a.dir != "" {
			a.die(2, "only one -C is supported")
		}
		a.dir = o.value
	case 'a':
		a.auto = true
	case 'z':
		a.zip = 'z'
	case 1:
		a.zip = 'Z'
	case 'v':
		a.verbose = true
	case 'O':
		a.stdout = true
	case 'p':
		a.keepAll = true
	case 'm':
		a.noTime = true
	case 'h':
		a.deref = true
	case 'T':
		*from = append(*from, o.value)
	case 'k', 'j', 'J':
		a.die(2, "-%c is not supported", o.flag)
	case 2:
		a.exclude = append(a.exclude, o.value)
	case 3:
		n, err := strconv.Atoi(o.value)
		if err != nil || n < 0 {
			a.die(2, "invalid number of components %s", quote(o.value))
		}
		a.strip = n
	case 4, 5:
		value, _, _ := strings.Cut(o.value, ":")
		n, err := strconv.Atoi(strings.TrimPrefix(value, "+"))
		if value == "root" {
			n, err = 0, nil
		}
		if err != nil || n < 0 {
			a.die(2, "invalid owner %s: only numbers and root are known", quote(o.value))
		}
		if o.flag == 4 {
			a.uid = n
		} else {
			a.gid = n
		}
	case 6:
		at, err := a.parseTime(o.value)
		if err != nil {
			a.die(2, "invalid time %s", quote(o.value))
		}
		a.mtime = at
	case 7:
		if o.value != "name" && o.value != "none" {
			a.die(2, "the order %s is not known", quote(o.value))
		} // a directory's names are always in order
	case 12:
		if !slices.Contains([]string{"gnu", "pax", "posix", "ustar"}, o.value) {
			a.die(2, "the format %s is not supported", quote(o.value))
		}
	}
}

func (a *archiving) parseTime(s string) (time.Time, error) {
	if strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") { // that of a file
		info, err := a.stat(s)
		if err != nil {
			return time.Time{}, err
		}
		return info.ModTime(), nil
	}
	return parseDate(s, time.Now(), a.zone())
}

// at is a path of the archive as one of the container.
func (a *archiving) at(name string) string {
	if a.dir == "" || path.IsAbs(name) {
		return name
	}
	return join(a.dir, name)
}

func (a *archiving) excluded(name string) bool {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	for _, p := range a.exclude {
		p = strings.TrimSuffix(strings.TrimPrefix(p, "./"), "/")
		// A pattern may match the name from any of its parts on.
		for rest := name; ; {
			if ok, _ := path.Match(p, rest); ok {
				return true
			}
			_, after, more := strings.Cut(rest, "/")
			if !more {
				break
			}
			rest = after
		}
		if !strings.Contains(p, "/") {
			if ok, _ := path.Match(p, path.Base(name)); ok {
				return true
			}
		}
	}
	return false
}

func (a *archiving) create(names []string) error {
	if len(names) == 0 {
		a.die(2, "an empty archive is not made: name something")
	}
	w := io.Writer(a.out)
	if a.file != "" && a.file != "-" {
		f, err := a.tool.create(a.file, os.O_TRUNC)
		if err != nil {
			return errors.New(a.file + ": " + reason(err))
		}
		defer f.Close()
		w = f
	}
	switch {
	case a.auto && (strings.HasSuffix(a.file, ".gz") || strings.HasSuffix(a.file, ".tgz")):
		a.zip = 'z'
	case a.auto && strings.HasSuffix(a.file, ".zst"):
		a.zip = 'Z'
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	packed, err := a.zipper(buffered)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(packed)
	for _, name := range names {
		if a.dir != "" && !a.isDir(a.dir, false) {
			a.die(2, "%s: Cannot open: No such file or directory", a.dir)
		}
		if err := a.add(tw, name); err != nil {
			return err
		}
	}
	for _, end := range []func() error{tw.Close, packed.Close, buffered.Flush} {
		if err := end(); err != nil {
			return err
		}
	}
	return nil
}

func (a *archiving) zipper(w io.Writer) (io.WriteCloser, error) {
	switch a.zip {
	case 'z':
		return gzip.NewWriter(w), nil
	case 'Z':
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return nopWriteCloser{w}, nil
}

func (a *archiving) add(tw *tar.Writer, name string) error {
	a.check()
	if a.excluded(name) {
		return nil
	}
	look := a.FS.Lstat
	if a.deref {
		look = a.FS.Stat
	}
	info, err := look(a.Dir, a.at(name))
	if err != nil {
		a.complain("%s: Cannot stat: %s", name, reason(err))
		a.status = 2
		return nil
	}
	stored := strings.TrimLeft(name, "/")
	if stored == "" {
		stored = "./"
	}
	inode, links, uid, gid := ids(info)
	h := &tar.Header{Name: stored, Mode: int64(toUnix(info.Mode())), Uid: int(uid), Gid: int(gid), ModTime: info.ModTime().Truncate(time.Second), Format: tar.FormatGNU}
	if a.uid >= 0 {
		h.Uid = a.uid
	}
	if a.gid >= 0 {
		h.Gid = a.gid
	}
	if !a.mtime.IsZero() {
		h.ModTime = a.mtime
	}
	if a.verbose {
		a.told(strings.TrimSuffix(name, "/"), info.IsDir())
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, strings.TrimSuffix(stored, "/")+"/"
	case mode.Type() == fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = a.FS.Readlink(a.Dir, a.at(name)); err != nil {
			return err
		}
	case !mode.IsRegular():
		a.complain("%s: only files, directories and symlinks can be packed", name)
		return nil
	default:
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
		if key := identity(info); links > 1 && key != "" && inode != 0 {
			if first, ok := a.links[key]; ok {
				h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
				return tw.WriteHeader(h)
			}
			a.links[key] = stored
		}
	}
	if h.Typeflag != tar.TypeReg {
		if err := tw.WriteHeader(h); err != nil || h.Typeflag != tar.TypeDir {
			return err
		}
		entries, err := a.FS.ReadDir(a.Dir, a.at(name))
		if err != nil {
			a.complain("%s: Cannot open: %s", name, reason(err))
			a.status = 2
			return nil
		}
		for _, e := range entries {
			if err := a.add(tw, join(name, e.Name())); err != nil {
				return err
			}
		}
		return nil
	}
	r, err := a.open(a.at(name))
	if err != nil {
		a.complain("%s: Cannot open: %s", name, reason(err))
		a.status = 2
		return nil
	}
	defer r.Close()
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(tw, onlyReader{r}, h.Size)
	return err
}

// told writes a name, to standard error if the archive goes to standard output.
func (a *archiving) told(name string, dir bool) {
	if dir {
		name += "/"
	}
	if a.mode == 'c' && (a.file == "" || a.file == "-") || a.stdout {
		io.WriteString(a.Stderr, name+"\n")
		return
	}
	a.printf("%s\n", name)
}
