package tools

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// patching is what patch was asked for.
type patching struct {
	*tool
	strip                        int // -1: the last name alone
	reverse, dry, quiet, forward bool
	removeEmpty                  bool
	dir, output, target          string
	fuzz                         int
	failed                       int
}

// filePatch is what a patch says of one file.
type filePatch struct {
	old, new string
	hunks    []hunk
}

// hunk is a part of a unified diff: lines with their marks ' ', '-' and '+'.
type hunk struct {
	oldStart, newStart int
	oldCount, newCount int
	lines              [][]byte // with their ends, but for a last line that has none
}

func patch(t *tool) int {
	given, args := t.options("p:i:d:RNso:EfF:tub", map[string]rune{"strip": 'p', "input": 'i', "directory": 'd', "reverse": 'R', "forward": 'N', "silent": 's', "quiet": 's',
		"output": 'o', "remove-empty-files": 'E', "force": 'f', "batch": 't', "unified": 'u', "dry-run": 1, "fuzz": 'F'}, 2)
	p := &patching{tool: t, strip: -1, fuzz: 2}
	input := "-"
	for _, o := range given {
		switch o.flag {
		case 'p':
			p.strip = t.count(o, 0)
		case 'i':
			input = o.value
		case 'd':
			p.dir = o.value
		case 'R':
			p.reverse = true
		case 'N':
			p.forward = true
		case 's':
			p.quiet = true
		case 'o':
			p.output = o.value
		case 'E':
			p.removeEmpty = true
		case 'F':
			p.fuzz = t.count(o, 0)
		case 1:
			p.dry = true
		case 'b':
			t.die(2, "-b is not supported")
		}
	}
	if len(args) > 0 {
		p.target = args[0]
	}
	if len(args) > 1 {
		input = args[1]
	}
	r, err := t.open(input)
	if err != nil {
		t.die(2, "Can't open patch file %s : %s", input, reason(err))
	}
	defer r.Close()
	content, err := whole(r)
	if err != nil {
		t.die(2, "%s: %s", input, reason(err))
	}
	files, err := parsePatch(content)
	if err != nil {
		t.die(2, "**** %v", err)
	}
	if len(files) == 0 {
		t.die(2, "**** Only garbage was found in the patch input.")
	}
	for _, f := range files {
		t.check()
		p.apply(f)
	}
	if p.failed > 0 {
		return 1
	}
	return t.status
}

// parsePatch finds the unified diffs in a text, and passes over all else.
func parsePatch(content []byte) ([]filePatch, error) {
	var files []filePatch
	lines := bytes.SplitAfter(content, []byte{'\n'})
	for i := 0; i < len(lines); i++ {
		if bytes.HasPrefix(lines[i], []byte("--- ")) && i+2 < len(lines) && bytes.HasPrefix(lines[i+1], []byte("+++ ")) && bytes.HasPrefix(lines[i+2], []byte("@@ ")) {
			files = append(files, filePatch{old: patchName(lines[i]), new: patchName(lines[i+1])})
			i++
			continue
		}
		if len(files) == 0 || !bytes.HasPrefix(lines[i], []byte("@@ -")) {
			continue
		}
		h, err := hunkHeader(string(lines[i]))
		if err != nil {
			return nil, err
		}
		old, new := h.oldCount, h.newCount
		for i+1 < len(lines) && (old > 0 || new > 0) {
			i++
			line := lines[i]
			switch {
			case len(line) == 0:
				return nil, errors.New("unexpected end of file in patch")
			case line[0] == '-':
				old--
			case line[0] == '+':
				new--
			case line[0] == ' ':
				old, new = old-1, new-1
			case line[0] == '\n': // an empty line that lost its blank
				line = []byte(" \n")
				old, new = old-1, new-1
			case line[0] == '\\':
				h.cutEnd()
				continue
			default:
				return nil, errors.New("malformed patch at line " + strconv.Itoa(i+1) + ": " + strings.TrimRight(string(line), "\n"))
			}
			h.lines = append(h.lines, bytes.Clone(line))
		}
		if old != 0 || new != 0 {
			return nil, errors.New("unexpected end of file in patch")
		}
		if i+1 < len(lines) && bytes.HasPrefix(lines[i+1], []byte{'\\'}) {
			h.cutEnd()
			i++
		}
		f := &files[len(files)-1]
		f.hunks = append(f.hunks, h)
	}
	return files, nil
}

// cutEnd takes the end off the last line, as "\ No newline at end of file" says.
func (h *hunk) cutEnd() {
	if n := len(h.lines); n > 0 {
		h.lines[n-1] = bytes.TrimSuffix(h.lines[n-1], []byte{'\n'})
	}
}

func patchName(line []byte) string {
	name := strings.TrimRight(string(line[4:]), "\r\n")
	name, _, _ = strings.Cut(name, "\t")
	return strings.TrimSpace(name)
}

// hunkHeader parses "@@ -1,2 +3,4 @@".
func hunkHeader(line string) (h hunk, err error) {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return h, errors.New("malformed patch: " + strings.TrimSpace(line))
	}
	span := func(s string) (start, count int, err error) {
		from, n, has := strings.Cut(s[1:], ",")
		count = 1
		if has {
			if count, err = strconv.Atoi(n); err != nil {
				return 0, 0, err
			}
		}
		start, err = strconv.Atoi(from)
		return start, count, err
	}
	var err2 error
	h.oldStart, h.oldCount, err = span(fields[1])
	h.newStart, h.newCount, err2 = span(fields[2])
	if err = errors.Join(err, err2); err != nil || h.oldCount < 0 || h.newCount < 0 {
		return h, errors.New("malformed patch: " + strings.TrimSpace(line))
	}
	return h, nil
}

func (h *hunk) reversed() hunk {
	r := hunk{oldStart: h.newStart, newStart: h.oldStart, oldCount: h.newCount, newCount: h.oldCount}
	for _, line := range h.lines {
		line = bytes.Clone(line)
		switch line[0] {
		case '-':
			line[0] = '+'
		case '+':
			line[0] = '-'
		}
		r.lines = append(r.lines, line)
	}
	return r
}

// side gives the lines before (without '+') or after (without '-').
func (h *hunk) side(drop byte) [][]byte {
	var lines [][]byte
	for _, line := range h.lines {
		if line[0] != drop {
			lines = append(lines, line[1:])
		}
	}
	return lines
}

// choose is the file that a patch is of, and whether it must not be there yet.
func (p *patching) choose(f filePatch) (name string, makes bool, err error) {
	if p.target != "" {
		return p.target, false, nil
	}
	var candidates []string
	for _, given := range []string{f.old, f.new} {
		if given == "/dev/null" {
			continue
		}
		parts := strings.Split(path.Clean(given), "/")
		n := p.strip
		if n < 0 {
			n = len(parts) - 1
		}
		if strings.HasPrefix(given, "/") && n > 0 {
			parts = parts[1:]
			n--
		}
		if n >= len(parts) {
			continue
		}
		stripped := strings.Join(parts[n:], "/")
		if path.IsAbs(stripped) || slices.Contains(strings.Split(stripped, "/"), "..") {
			return "", false, errors.New("ignoring potentially dangerous file name " + stripped)
		}
		candidates = append(candidates, stripped)
	}
	for _, c := range candidates {
		if _, err := p.FS.Stat(p.Dir, p.at(c)); err == nil {
			return c, false, nil
		}
	}
	if len(candidates) > 0 && (f.old == "/dev/null" || len(f.hunks) == 1 && f.hunks[0].oldStart == 0 && f.hunks[0].oldCount == 0) {
		return candidates[len(candidates)-1], true, nil
	}
	if len(candidates) == 0 {
		return "", false, errors.New("no file is named that is left after -p" + strconv.Itoa(p.strip))
	}
	return "", false, errors.New("can't find file to patch: " + candidates[0])
}

func (p *patching) at(name string) string {
	if p.dir == "" || path.IsAbs(name) {
		return name
	}
	return join(p.dir, name)
}

func (p *patching) say(format string, args ...any) {
	if !p.quiet {
		p.printf(format, args...)
	}
}

func (p *patching) apply(f filePatch) {
	if p.reverse {
		f.old, f.new = f.new, f.old
		for i := range f.hunks {
			f.hunks[i] = f.hunks[i].reversed()
		}
	}
	name, makes, err := p.choose(f)
	if err != nil {
		p.complain("%v", err)
		p.failed += len(f.hunks)
		return
	}
	verb := "patching"
	if p.dry {
		verb = "checking"
	}
	p.say("%s file %s\n", verb, name)
	var lines [][]byte
	perm := fs.FileMode(0o666 &^ p.Umask)
	if !makes {
		r, err := p.open(p.at(name))
		if err != nil {
			p.die(2, "%s: %s", name, reason(err))
		}
		content, err := whole(r)
		r.Close()
		if err != nil {
			p.die(2, "%s: %s", name, reason(err))
		}
		lines = bytes.SplitAfter(content, []byte{'\n'})
		if n := len(lines); len(lines[n-1]) == 0 {
			lines = lines[:n-1]
		}
		if info, err := p.FS.Stat(p.Dir, p.at(name)); err == nil {
			perm = info.Mode().Perm()
		}
	}
	var rejected []hunk
	offset, floor := 0, 0
	for i, h := range f.hunks {
		at, lead, trail := p.find(lines, h, offset, floor)
		if at < 0 {
			p.say("Hunk #%d FAILED at %d.\n", i+1, max(h.oldStart, 1))
			rejected = append(rejected, h)
			continue
		}
		expected := h.oldStart - 1
		if h.oldCount == 0 {
			expected = h.oldStart
		}
		if fuzz := max(lead, trail); fuzz > 0 || at != expected+offset {
			p.say("Hunk #%d succeeded at %d", i+1, at+1-lead)
			if fuzz > 0 {
				p.say(" with fuzz %d", fuzz)
			}
			p.say(" (offset %d line%s)", at-lead-expected, map[bool]string{false: "s"}[at-lead-expected == 1])
			p.say(".\n")
		}
		before, after := h.side('+'), h.side('-')
		before, after = before[lead:len(before)-trail], after[lead:len(after)-trail]
		lines = slices.Concat(lines[:at], after, lines[at+len(before):])
		offset = at - lead - expected + len(after) - len(before)
		floor = at + len(after)
	}
	p.store(name, f, lines, perm, rejected)
}

// find is where a hunk fits, with how many lines of context left out at its start and end; at is -1 if nowhere.
func (p *patching) find(lines [][]byte, h hunk, offset, floor int) (at, lead, trail int) {
	before := h.side('+')
	context := func(lines [][]byte) int {
		n := 0
		for n < len(lines) && lines[n][0] == ' ' {
			n++
		}
		return n
	}
	head := context(h.lines)
	reversed := slices.Clone(h.lines)
	slices.Reverse(reversed)
	tail := context(reversed)
	expected := h.oldStart - 1 + offset
	if h.oldCount == 0 {
		expected = h.oldStart + offset
	}
	for fuzz := 0; fuzz <= min(p.fuzz, max(head, tail)); fuzz++ {
		// Where one side has less context, it is because the file begins or ends there: that side is left for the last.
		lead, trail = min(max(fuzz+head-max(head, tail), 0), head), min(max(fuzz+tail-max(head, tail), 0), tail)
		part := before[lead : len(before)-trail]
		fits := func(at int) bool {
			if at < floor || at+len(part) > len(lines) || fuzz == 0 && head < tail && h.oldStart <= 1 && at != 0 {
				return false
			}
			for i, line := range part {
				if !bytes.Equal(lines[at+i], line) {
					return false
				}
			}
			return true
		}
		for d := range len(lines) + 1 {
			p.check()
			if from := expected + lead - d; fits(from) {
				return from, lead, trail
			}
			if from := expected + lead + d; fits(from) {
				return from, lead, trail
			}
		}
	}
	return -1, 0, 0
}

func (p *patching) store(name string, f filePatch, lines [][]byte, perm fs.FileMode, rejected []hunk) {
	p.failed += len(rejected)
	if len(rejected) > 0 {
		p.say("%d out of %d hunk%s FAILED", len(rejected), len(f.hunks), map[bool]string{false: "s"}[len(f.hunks) == 1])
		if p.dry {
			p.say("\n")
		} else {
			p.say(" -- saving rejects to file %s.rej\n", name)
		}
	}
	if p.dry {
		return
	}
	write := func(name string, content []byte) {
		w, err := p.FS.Open(p.Dir, p.at(name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
		if err == nil {
			_, err = w.Write(content)
			if cerr := w.Close(); err == nil {
				err = cerr
			}
		}
		if err != nil {
			p.die(2, "%s: %s", name, reason(err))
		}
	}
	if len(rejected) > 0 {
		var b bytes.Buffer
		io.WriteString(&b, "--- "+f.old+"\n+++ "+f.new+"\n")
		for _, h := range rejected {
			io.WriteString(&b, "@@ -"+strconv.Itoa(h.oldStart)+","+strconv.Itoa(h.oldCount)+" +"+strconv.Itoa(h.newStart)+","+strconv.Itoa(h.newCount)+" @@\n")
			for _, line := range h.lines {
				b.Write(line)
			}
		}
		write(name+".rej", b.Bytes())
	}
	content := bytes.Join(lines, nil)
	if p.output != "" {
		write(p.output, content)
		return
	}
	if len(content) == 0 && len(rejected) == 0 && (f.new == "/dev/null" || p.removeEmpty) {
		if err := p.FS.Remove(p.Dir, p.at(name)); err != nil {
			p.die(2, "%s: %s", name, reason(err))
		}
		return
	}
	if err := p.FS.MkdirAll(p.Dir, parent(p.at(name)), 0o777&^p.Umask); err != nil {
		p.die(2, "%s: %s", name, reason(err))
	}
	write(name, content)
}
