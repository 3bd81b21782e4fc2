package tools

// install copies files and sets their modes.
func install(t *tool) int {
	given, args := t.options("dDm:o:g:vt:TcpsC", map[string]rune{"directory": 'd', "mode": 'm', "owner": 'o', "group": 'g', "verbose": 'v', "target-directory": 't',
		"no-target-directory": 'T', "preserve-timestamps": 'p', "strip": 's', "compare": 'C'}, 1)
	directories, parents, noTarget, keepTimes, into := false, false, false, false, ""
	mode, uid, gid := "755", -1, -1
	for _, o := range given {
		switch o.flag {
		case 'd':
			directories = true
		case 'D':
			parents = true
		case 'm':
			mode = o.value
		case 'o':
			uid, _ = t.owners(o.value)
		case 'g':
			uid2, _ := t.owners(o.value)
			gid = uid2
		case 't':
			into = o.value
		case 'T':
			noTarget = true
		case 'p':
			keepTimes = true
		case 's', 'C':
			t.die(1, "-%c is not supported", o.flag)
		}
	}
	perm := t.mode(mode)(0) & settable
	finish := func(name string) {
		err := t.FS.Chown(t.Dir, name, uid, gid)
		if err == nil {
			err = t.FS.Chmod(t.Dir, name, perm)
		}
		if err != nil {
			t.fail(name, err)
		}
	}
	if directories {
		if len(args) == 0 {
			t.die(1, "missing file operand")
		}
		for _, name := range args {
			if err := t.FS.MkdirAll(t.Dir, name, 0o755); err != nil {
				t.complain("cannot create directory %s: %s", quote(name), reason(err))
				continue
			}
			finish(name)
		}
		return t.status
	}
	if parents {
		dir := into
		if dir == "" && len(args) > 1 {
			dir = parent(args[len(args)-1])
		}
		if err := t.FS.MkdirAll(t.Dir, dir, 0o755); dir != "" && err != nil {
			t.die(1, "cannot create directory %s: %s", quote(dir), reason(err))
		}
	}
	t.eachTarget(args, into, noTarget, func(from, to string) {
		src, err := t.FS.Stat(t.Dir, from)
		if err != nil {
			t.complain("cannot stat %s: %s", quote(from), reason(err))
			return
		}
		if src.IsDir() {
			t.complain("omitting directory %s", quote(from))
			return
		}
		t.FS.Remove(t.Dir, to) // a new file, not the old one's other names
		c := &copying{tool: t, follow: true, followTop: true}
		if c.copy(from, from, to, true); c.failed {
			return
		}
		finish(to)
		if keepTimes {
			t.FS.Chtimes(t.Dir, to, src.ModTime())
		}
	})
	return t.status
}
