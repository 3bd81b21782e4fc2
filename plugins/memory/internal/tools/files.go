package tools

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// mode parses a mode, octal or symbolic, as chmod takes it. It returns a
// function of the old mode.
func (t *tool) mode(s string) func(old fs.FileMode) fs.FileMode {
	if n, err := strconv.ParseUint(s, 8, 16); err == nil && n <= 0o7777 {
		return func(old fs.FileMode) fs.FileMode {
			bits := fromUnix(uint32(n))
			if old.IsDir() && len(s) <= 4 { // as GNU's: a directory keeps these unless named
				bits |= old & (fs.ModeSetuid | fs.ModeSetgid)
			}
			return bits
		}
	}
	changes := make([]func(fs.FileMode, bool) fs.FileMode, 0, 1)
	for clause := range strings.SplitSeq(s, ",") {
		change, ok := t.symbolic(clause)
		if !ok {
			t.die(1, "invalid mode: %s", quote(s))
		}
		changes = append(changes, change)
	}
	return func(old fs.FileMode) fs.FileMode {
		dir, m := old.IsDir(), old
		for _, change := range changes {
			m = change(m, dir)
		}
		return m
	}
}

const settable = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

func fromUnix(n uint32) fs.FileMode {
	m := fs.FileMode(n) & fs.ModePerm
	if n&0o4000 != 0 {
		m |= fs.ModeSetuid
	}
	if n&0o2000 != 0 {
		m |= fs.ModeSetgid
	}
	if n&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}

func toUnix(m fs.FileMode) uint32 {
	n := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		n |= 0o4000
	}
	if m&fs.ModeSetgid != 0 {
		n |= 0o2000
	}
	if m&fs.ModeSticky != 0 {
		n |= 0o1000
	}
	return n
}

// symbolic parses one clause such as u+x or go=rX.
func (t *tool) symbolic(clause string) (func(m fs.FileMode, dir bool) fs.FileMode, bool) {
	who, umask := fs.FileMode(0), fs.FileMode(0)
	i := 0
	for ; i < len(clause); i++ {
		j := strings.IndexByte("ugoa", clause[i])
		if j < 0 {
			break
		}
		who |= []fs.FileMode{0o700 | fs.ModeSetuid, 0o070 | fs.ModeSetgid, 0o007 | fs.ModeSticky, settable}[j]
	}
	if who == 0 {
		who, umask = settable, t.Umask
	}
	if i == len(clause) {
		return nil, false
	}
	type action struct {
		op    byte
		perms string
	}
	var actions []action
	for i < len(clause) {
		op := clause[i]
		if op != '+' && op != '-' && op != '=' {
			return nil, false
		}
		from := i + 1
		for i++; i < len(clause) && strings.IndexByte("rwxXstugo", clause[i]) >= 0; i++ {
		}
		actions = append(actions, action{op, clause[from:i]})
	}
	return func(m fs.FileMode, dir bool) fs.FileMode {
		for _, a := range actions {
			bits := fs.FileMode(0)
			for _, c := range a.perms {
				switch c {
				case 'r':
					bits |= 0o444
				case 'w':
					bits |= 0o222
				case 'x':
					bits |= 0o111
				case 'X':
					if dir || m&0o111 != 0 {
						bits |= 0o111
					}
				case 's':
					bits |= fs.ModeSetuid | fs.ModeSetgid
				case 't':
					bits |= fs.ModeSticky
				case 'u', 'g', 'o':
					p := m.Perm() >> map[rune]int{'u': 6, 'g': 3, 'o': 0}[c] & 7
					bits |= p | p<<3 | p<<6
				}
			}
			bits &= who &^ umask
			switch a.op {
			case '+':
				m |= bits
			case '-':
				m &^= bits
			case '=':
				keep := fs.FileMode(0)
				if dir {
					keep = fs.ModeSetuid | fs.ModeSetgid
				}
				m = m&^(who&^keep) | bits
			}
		}
		return m
	}, true
}

func chmod(t *tool) int {
	// A mode such as -x looks like an option.
	var args []string
	modeArg := ""
	for _, arg := range t.Args {
		if len(arg) > 1 && arg[0] == '-' && modeArg == "" && strings.IndexByte("rwxXst", arg[1]) >= 0 {
			modeArg = arg
			continue
		}
		args = append(args, arg)
	}
	given, args := t.parse(args, "Rvfc", map[string]rune{"recursive": 'R', "verbose": 'v', "quiet": 'f', "silent": 'f', "changes": 'c'}, 1)
	recursive, quiet, verbose := false, false, false
	for _, o := range given {
		switch o.flag {
		case 'R':
			recursive = true
		case 'f':
			quiet = true
		case 'v':
			verbose = true
		}
	}
	if modeArg == "" {
		if len(args) == 0 {
			t.die(1, "missing operand")
		}
		modeArg, args = args[0], args[1:]
	}
	if len(args) == 0 {
		t.die(1, "missing operand after %s", quote(modeArg))
	}
	change := t.mode(modeArg)
	var apply func(name string, top bool)
	apply = func(name string, top bool) {
		t.check()
		info, err := t.FS.Lstat(t.Dir, name)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if !top {
				return
			}
			info, err = t.FS.Stat(t.Dir, name)
		}
		if err == nil {
			m := change(info.Mode())
			err = t.FS.Chmod(t.Dir, name, m&settable)
			if err == nil && verbose {
				t.printf("mode of %s is now %04o\n", quote(name), toUnix(m))
			}
		}
		if err != nil {
			if !quiet {
				t.complain("cannot access %s: %s", quote(name), reason(err))
			}
			t.status = 1
			return
		}
		if !recursive || !info.IsDir() {
			return
		}
		list, err := t.FS.ReadDir(t.Dir, name)
		if err != nil {
			t.fail(name, err)
		}
		for _, e := range list {
			apply(join(name, e.Name()), false)
		}
	}
	for _, name := range args {
		apply(name, true)
	}
	return t.status
}

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

func mktemp(t *tool) int {
	given, args := t.options("dp:qtu", map[string]rune{"directory": 'd', "tmpdir": 'p', "quiet": 'q', "dry-run": 'u'}, 1)
	dir, base, dry, explicit := false, "", false, false
	for _, o := range given {
		switch o.flag {
		case 'd':
			dir = true
		case 'p':
			base, explicit = o.value, true
		case 't':
			explicit = true
		case 'u':
			dry = true
		}
	}
	if len(args) > 1 {
		t.die(1, "too many templates")
	}
	template := "tmp.XXXXXXXXXX"
	if len(args) == 1 {
		template = args[0]
	} else {
		explicit = true
	}
	if explicit {
		if base == "" {
			base = t.getenv("TMPDIR")
		}
		if base == "" {
			base = "/tmp"
		}
		template = join(base, template)
	}
	start := strings.LastIndex(template, "XXX")
	if start < 0 {
		t.die(1, "too few X's in template %s", quote(template))
	}
	end := start + 3
	for start > 0 && template[start-1] == 'X' {
		start--
	}
	if strings.Contains(template[end:], "/") {
		t.die(1, "the suffix of the template %s must not contain a slash", quote(template))
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for range 100 {
		random := make([]byte, end-start)
		rand.Read(random)
		for i := range random {
			random[i] = letters[int(random[i])%len(letters)]
		}
		name := template[:start] + string(random) + template[end:]
		var err error
		switch {
		case dry:
		case dir:
			err = t.FS.Mkdir(t.Dir, name, 0o700)
		default:
			var f interface{ Close() error }
			if f, err = t.FS.Open(t.Dir, name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				f.Close()
			}
		}
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			t.die(1, "failed to create %s: %s", quote(template), reason(err))
		}
		t.printf("%s\n", name)
		return 0
	}
	t.die(1, "no free name for %s", quote(template))
	return 1
}
