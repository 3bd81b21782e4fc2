package tools

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strings"
)

// sedRun runs a sed program over its input.
type sedRun struct {
	*tool
	commands []*sedCommand
	quiet    bool
	separate bool
	end      byte
	to       io.Writer // where output goes: standard output, or the file that -i makes

	input []string // files still to be read
	name  string   // of the file that is read
	src   *lines
	close func()
	next  *sedLine // read ahead, to know the last line
	line  int64

	pattern, hold []byte
	ended         bool // the pattern space's last line had its newline
	missing       bool // what was written last lacks its newline
	changed       bool // by s, for t
	last          *regexp.Regexp
	queue         []func() // what a and r append
	files         map[string]io.WriteCloser
	quits         bool
	code          int
}

type sedLine struct {
	text  []byte
	ended bool
}

func sed(t *tool) int {
	given, args := t.options("ne:f:i::Ersuz\x01", map[string]rune{"quiet": 'n', "silent": 'n', "expression": 'e', "file": 'f',
		"in-place": 'i', "regexp-extended": 'E', "separate": 's', "unbuffered": 'u', "null-data": 'z', "posix": 1, "debug": 2}, 1)
	s := &sedRun{tool: t, end: '\n', files: make(map[string]io.WriteCloser), to: t.out}
	var scripts []string
	haveScript, extended, inPlace, suffix := false, false, false, ""
	for _, o := range given {
		switch o.flag {
		case 'n':
			s.quiet = true
		case 'e':
			scripts, haveScript = append(scripts, o.value), true
		case 'f':
			scripts, haveScript = append(scripts, s.scriptFile(o.value)), true
		case 'i':
			inPlace, suffix = true, o.value
		case 'E', 'r':
			extended = true
		case 's':
			s.separate = true
		case 'z':
			s.end = 0
		}
	}
	if !haveScript {
		if len(args) == 0 {
			t.die(1, "give a script")
		}
		scripts, args = args[:1], args[1:]
	}
	script := strings.Join(scripts, "\n")
	if strings.HasPrefix(script, "#n\n") || script == "#n" {
		s.quiet = true
	}
	commands, err := parseSed(script, extended)
	if err != nil {
		t.die(1, "%v", err)
	}
	if err := link(commands); err != nil {
		t.die(4, "%v", err)
	}
	s.commands = commands
	defer s.closeFiles()
	for _, c := range commands {
		if c.name == 'w' {
			s.openFile(c.text)
		}
		if c.file != "" {
			s.openFile(c.file)
		}
	}
	if inPlace {
		for _, name := range args {
			if s.inPlace(name, suffix); s.quits {
				break
			}
		}
		return max(s.code, t.status)
	}
	if len(args) == 0 {
		args = []string{"-"}
	}
	groups := [][]string{args}
	if s.separate {
		groups = nil
		for _, name := range args {
			groups = append(groups, []string{name})
		}
	}
	for _, group := range groups {
		if s.run(group); s.quits {
			break
		}
	}
	if s.code == 0 && t.status > 0 {
		return 2
	}
	return s.code
}

func (s *sedRun) scriptFile(name string) string {
	r, err := s.open(name)
	if err != nil {
		s.die(4, "cannot open %s: %s", name, reason(err))
	}
	defer r.Close()
	b, err := whole(r)
	if err != nil {
		s.die(4, "cannot read %s: %s", name, reason(err))
	}
	return strings.TrimSuffix(string(b), "\n")
}

func (s *sedRun) openFile(name string) {
	if s.files[name] != nil {
		return
	}
	if name == "/dev/stdout" {
		s.files[name] = nopWriteCloser{s.out}
		return
	}
	w, err := s.create(name, os.O_TRUNC)
	if err != nil {
		s.die(4, "cannot open %s: %s", name, reason(err))
	}
	s.files[name] = w
}

func (s *sedRun) closeFiles() {
	for _, f := range s.files {
		f.Close()
	}
}

// inPlace edits one file: the result takes its place once it is whole.
func (s *sedRun) inPlace(name, suffix string) {
	info, err := s.FS.Stat(s.Dir, name)
	if err != nil {
		s.complain("cannot read %s: %s", name, reason(err))
		s.status = 4
		return
	}
	if !info.Mode().IsRegular() {
		s.complain("cannot edit %s: not a regular file", name)
		s.status = 4
		return
	}
	var tmp string
	var f io.WriteCloser
	for n := 0; ; n++ {
		tmp = join(parent(name), fmt.Sprintf(".sed%d-%s", n, path.Base(name)))
		f, err = s.FS.Open(s.Dir, tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
		if !os.IsExist(err) {
			break
		}
	}
	if err != nil {
		s.die(4, "cannot edit %s: %s", name, reason(err))
	}
	done := false
	defer func() {
		if !done {
			f.Close()
			s.FS.Remove(s.Dir, tmp)
		}
	}()
	s.to, s.line, s.missing = &fileWriter{s.tool, name, f}, 0, false
	s.run([]string{name})
	if s.quits && s.src != nil {
		s.rest()
	}
	if err = f.Close(); err == nil {
		s.FS.Chmod(s.Dir, tmp, info.Mode()&settable)
		_, _, uid, gid := ids(info)
		s.FS.Lchown(s.Dir, tmp, int(uid), int(gid))
		if suffix != "" {
			backup := name + suffix
			if strings.Contains(suffix, "*") {
				backup = join(parent(name), strings.ReplaceAll(suffix, "*", path.Base(name)))
			}
			err = s.FS.Rename(s.Dir, name, backup)
		}
	}
	if err == nil {
		err = s.FS.Rename(s.Dir, tmp, name)
	}
	if err != nil {
		s.die(4, "cannot edit %s: %s", name, reason(err))
	}
	done = true
}

// rest copies what q left unread of a file that is edited in place.
func (s *sedRun) rest() {
	for {
		l, ok := s.take()
		if !ok {
			return
		}
		s.put(l.text, l.ended)
	}
}

// fileWriter ends the tool where a write fails.
type fileWriter struct {
	t    *tool
	name string
	w    io.Writer
}

func (f *fileWriter) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil {
		f.t.die(4, "cannot write %s: %s", f.name, reason(err))
	}
	return n, nil
}

// read opens files until there is a line.
func (s *sedRun) read() *sedLine {
	for {
		if s.src == nil {
			if len(s.input) == 0 {
				return nil
			}
			name := s.input[0]
			s.input = s.input[1:]
			r, err := s.open(name)
			if err != nil {
				s.complain("cannot read %s: %s", name, reason(err))
				s.status = 2
				continue
			}
			s.name, s.src, s.close = name, newLines(r, s.end), func() { r.Close() }
		}
		text, ended, ok := s.src.next()
		if ok {
			return &sedLine{bytes.Clone(text), ended}
		}
		if err := s.src.failed(); err != nil {
			s.complain("cannot read %s: %s", s.name, reason(err))
			s.status = 2
		}
		s.close()
		s.src = nil
	}
}

// take is the next line; it keeps one ahead.
func (s *sedRun) take() (*sedLine, bool) {
	l := s.next
	if l == nil {
		l = s.read()
	}
	if l == nil {
		return nil, false
	}
	s.next = s.read()
	s.line++
	s.changed = false
	return l, true
}

func (s *sedRun) isLast() bool { return s.next == nil }

func (s *sedRun) run(files []string) {
	s.input, s.next = files, nil
	defer func() {
		if s.src != nil {
			s.close()
			s.src = nil
		}
	}()
	for fresh := true; ; {
		if fresh {
			l, ok := s.take()
			if !ok {
				return
			}
			s.pattern, s.ended = l.text, l.ended
		}
		again := s.cycle()
		if s.quits {
			return
		}
		fresh = !again
	}
}

// put writes a line to the output.
func (s *sedRun) put(text []byte, ended bool) {
	if s.missing {
		s.to.Write([]byte{s.end})
	}
	s.to.Write(text)
	if ended {
		s.to.Write([]byte{s.end})
	}
	s.missing = !ended
}

// finish ends a cycle.
func (s *sedRun) finish(print bool) {
	if print && !s.quiet {
		s.put(s.pattern, s.ended)
	}
	s.flush()
}

func (s *sedRun) flush() {
	for _, f := range s.queue {
		f()
	}
	s.queue = s.queue[:0]
}
