package tools

import (
	"io/fs"
	"strconv"
	"strings"
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
