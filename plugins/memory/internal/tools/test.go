package tools

import (
	"io/fs"
	"math/big"
	"strings"
	"time"
)

// tester evaluates the words of test. A word that ends an expression too early
// is an error, and so is one too many.
type tester struct {
	*tool
	words []string
}

func test(t *tool) int {
	words := t.Args
	if t.Name == "[" {
		if len(words) == 0 || words[len(words)-1] != "]" {
			t.die(2, "missing ]")
		}
		words = words[:len(words)-1]
	}
	e := &tester{t, words}
	if truth := e.evaluate(); !truth {
		return 1
	}
	return 0
}

// evaluate decides by the number of words, as POSIX says, so that operands that
// look like operators are safe.
func (e *tester) evaluate() bool {
	w := e.words
	switch len(w) {
	case 0:
		return false
	case 1:
		return w[0] != ""
	case 2:
		if w[0] == "!" {
			return w[1] == ""
		}
		if unary(w[0]) {
			return e.unary(w[0], w[1])
		}
		e.die(2, "%s: unary operator expected", w[0])
	case 3:
		switch {
		case binary(w[1]):
			return e.binary(w[0], w[1], w[2])
		case w[1] == "-a":
			return w[0] != "" && w[2] != ""
		case w[1] == "-o":
			return w[0] != "" || w[2] != ""
		case w[0] == "!":
			return !(&tester{e.tool, w[1:]}).evaluate()
		case w[0] == "(" && w[2] == ")":
			return w[1] != ""
		}
		e.die(2, "%s: binary operator expected", w[1])
	case 4:
		switch {
		case w[0] == "!":
			return !(&tester{e.tool, w[1:]}).evaluate()
		case w[0] == "(" && w[3] == ")":
			return (&tester{e.tool, w[1:3]}).evaluate()
		}
	}
	truth := e.or(0)
	if len(e.words) > 0 {
		e.die(2, "extra argument %s", quote(e.words[0]))
	}
	return truth
}

func (e *tester) peek() string {
	if len(e.words) == 0 {
		return ""
	}
	return e.words[0]
}

func (e *tester) take() string {
	if len(e.words) == 0 {
		e.die(2, "argument expected")
	}
	w := e.words[0]
	e.words = e.words[1:]
	return w
}

const maxTestDepth = 1000

func (e *tester) or(depth int) bool {
	truth := e.and(depth)
	for e.peek() == "-o" {
		e.take()
		right := e.and(depth)
		truth = truth || right
	}
	return truth
}

func (e *tester) and(depth int) bool {
	truth := e.primary(depth)
	for e.peek() == "-a" {
		e.take()
		right := e.primary(depth)
		truth = truth && right
	}
	return truth
}

func (e *tester) primary(depth int) bool {
	if depth > maxTestDepth {
		e.die(2, "the expression is nested too deeply")
	}
	w := e.take()
	switch {
	case len(e.words) >= 2 && binary(e.words[0]):
		op := e.take()
		return e.binary(w, op, e.take())
	case w == "!":
		return !e.primary(depth + 1)
	case w == "(":
		truth := e.or(depth + 1)
		if e.take() != ")" {
			e.die(2, ") expected")
		}
		return truth
	case unary(w) && len(e.words) > 0:
		return e.unary(w, e.take())
	}
	return w != ""
}

func unary(op string) bool {
	return len(op) == 2 && op[0] == '-' && strings.IndexByte("bcdefgGhkLnNOprsStuwxz", op[1]) >= 0
}

func binary(op string) bool {
	switch op {
	case "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef":
		return true
	}
	return false
}

func (e *tester) unary(op, arg string) bool {
	switch op {
	case "-n":
		return arg != ""
	case "-z":
		return arg == ""
	case "-t":
		return false
	}
	stat := e.FS.Stat
	if op == "-h" || op == "-L" {
		stat = e.FS.Lstat
	}
	name := arg
	_, fd := Descriptor(e.Dir, arg)
	if _, ok := Device(e.Dir, arg); ok || fd {
		name = "/dev/null"
	}
	info, err := stat(e.Dir, name)
	if err != nil || arg == "" {
		return false
	}
	m := info.Mode()
	_, _, uid, gid := ids(info)
	switch op {
	case "-e", "-r", "-w":
		return true
	case "-f":
		return m.IsRegular()
	case "-d":
		return m.IsDir()
	case "-h", "-L":
		return m&fs.ModeSymlink != 0
	case "-s":
		return info.Size() > 0
	case "-x":
		return m.IsDir() || m&0o111 != 0
	case "-c":
		return m&fs.ModeCharDevice != 0
	case "-b":
		return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0
	case "-p":
		return m&fs.ModeNamedPipe != 0
	case "-S":
		return m&fs.ModeSocket != 0
	case "-u":
		return m&fs.ModeSetuid != 0
	case "-g":
		return m&fs.ModeSetgid != 0
	case "-k":
		return m&fs.ModeSticky != 0
	case "-O":
		return uid == 0
	case "-G":
		return gid == 0
	}
	return false // -N: when a file was read is not kept
}

func (e *tester) binary(a, op, b string) bool {
	switch op {
	case "=", "==":
		return a == b
	case "!=":
		return a != b
	case "<":
		return a < b
	case ">":
		return a > b
	case "-ef":
		return e.same(a, b)
	case "-nt", "-ot":
		if op == "-ot" {
			a, b = b, a
		}
		x, ok := e.modified(a)
		y, has := e.modified(b)
		return ok && (!has || x.After(y))
	}
	c := e.integer(a).Cmp(e.integer(b))
	switch op {
	case "-eq":
		return c == 0
	case "-ne":
		return c != 0
	case "-lt":
		return c < 0
	case "-le":
		return c <= 0
	case "-gt":
		return c > 0
	}
	return c >= 0
}

func (e *tester) modified(name string) (time.Time, bool) {
	info, err := e.FS.Stat(e.Dir, name)
	if err != nil {
		return time.Time{}, false
	}
	return info.ModTime(), true
}

func (e *tester) integer(s string) *big.Int {
	n, ok := new(big.Int).SetString(strings.TrimPrefix(strings.TrimSpace(s), "+"), 10)
	if !ok || len(s) > 1000 || strings.Contains(s, "_") {
		e.die(2, "%s: integer expression expected", s)
	}
	return n
}
