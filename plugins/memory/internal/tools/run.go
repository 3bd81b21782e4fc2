package tools

import (
	"bytes"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// run runs another command with this tool's outputs.
func (t *tool) run(argv []string, env []string, in io.Reader) int {
	t.out.Flush()
	if t.Run == nil {
		t.complain("%s: commands cannot be run here", argv[0])
		return 126
	}
	status := t.Run(t.ctx, Command{Argv: argv, Env: env, Dir: t.Dir, Stdin: in, Stdout: t.Stdout, Stderr: t.Stderr})
	t.check()
	return status
}

func env(t *tool) int {
	given, args := t.options("+iu:0C:S:", map[string]rune{"ignore-environment": 'i', "unset": 'u', "null": '0', "chdir": 'C', "split-string": 'S'}, 125)
	var list []string
	if t.Env.List != nil {
		list = t.Env.List()
	}
	vars := make(map[string]string)
	var order []string
	set := func(kv string) {
		name, value, _ := strings.Cut(kv, "=")
		if _, ok := vars[name]; !ok {
			order = append(order, name)
		}
		vars[name] = value
	}
	clear := false
	end, dir := byte('\n'), t.Dir
	for _, o := range given {
		clear = clear || o.flag == 'i'
	}
	if len(args) > 0 && args[0] == "-" {
		clear, args = true, args[1:]
	}
	if !clear {
		for _, kv := range list {
			set(kv)
		}
	}
	for _, o := range given {
		switch o.flag {
		case 'u':
			delete(vars, o.value)
		case '0':
			end = 0
		case 'C':
			real, err := t.realpath(o.value, true)
			if err != nil || !t.isDir(real, false) {
				t.die(125, "cannot change directory to %s", quote(o.value))
			}
			dir = real
		case 'S':
			args = append(strings.Fields(o.value), args...)
		}
	}
	for len(args) > 0 && strings.Contains(args[0], "=") {
		set(args[0])
		args = args[1:]
	}
	out := make([]string, 0, len(order))
	for _, name := range order {
		if value, ok := vars[name]; ok {
			out = append(out, name+"="+value)
		}
	}
	if len(args) == 0 {
		for _, kv := range out {
			t.line([]byte(kv), end)
		}
		return t.status
	}
	t.Dir = dir
	return t.run(args, out, t.Stdin)
}

func printenv(t *tool) int {
	if len(t.Args) == 0 {
		return env(t)
	}
	for _, name := range t.Args {
		value, ok := "", false
		if t.Env.Lookup != nil {
			value, ok = t.Env.Lookup(name)
		}
		if !ok {
			t.status = 1
			continue
		}
		t.printf("%s\n", value)
	}
	return t.status
}

// words splits xargs' input: at blanks, with quotes and backslashes, or at a
// delimiter, without.
type words struct {
	*tool
	l     *lines
	delim int // -1: blanks; -2: lines, for -I
	rest  []byte
}

func (w *words) next() (word string, ok bool) {
	if w.delim >= 0 {
		line, _, ok := w.l.next()
		return string(line), ok
	}
	for {
		for len(w.rest) > 0 && (w.rest[0] == ' ' || w.rest[0] == '\t') {
			w.rest = w.rest[1:]
		}
		if len(w.rest) > 0 {
			break
		}
		line, _, ok := w.l.next()
		if !ok {
			return "", false
		}
		w.rest = bytes.Clone(line)
	}
	var b strings.Builder
	for len(w.rest) > 0 {
		c := w.rest[0]
		w.rest = w.rest[1:]
		switch {
		case c == '\\':
			if len(w.rest) > 0 {
				b.WriteByte(w.rest[0])
				w.rest = w.rest[1:]
				continue
			}
			// The newline itself is meant.
			b.WriteByte('\n')
			line, _, _ := w.l.next()
			w.rest = bytes.Clone(line)
		case c == '\'' || c == '"':
			i := bytes.IndexByte(w.rest, c)
			if i < 0 {
				w.die(1, "unmatched %s quote; by default quotes are special unless you use -0", map[byte]string{'\'': "single", '"': "double"}[c])
			}
			b.Write(w.rest[:i])
			w.rest = w.rest[i+1:]
		case (c == ' ' || c == '\t') && w.delim == -1:
			return b.String(), true
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// maxArgBytes bounds what xargs and find -exec + put into one command.
const maxArgBytes = 128 << 10

func xargs(t *tool) int {
	given, args := t.options("+n:I:0P:rd:L:ts:a:pxi::E:", map[string]rune{"max-args": 'n', "replace": 'i', "null": '0', "max-procs": 'P', "no-run-if-empty": 'r',
		"delimiter": 'd', "max-lines": 'L', "verbose": 't', "max-chars": 's', "arg-file": 'a', "exit": 'x'}, 1)
	most, parallel, replace, skipEmpty, verbose, size := 0, 1, "", false, false, maxArgBytes
	w := &words{tool: t, delim: -1}
	in := io.Reader(t.in)
	for _, o := range given {
		switch o.flag {
		case 'n', 'P', 's', 'L':
			n, err := strconv.Atoi(o.value)
			if err != nil || n < 0 || n == 0 && o.flag != 'P' {
				t.die(1, "invalid number %s for -%c", quote(o.value), o.flag)
			}
			switch o.flag {
			case 'n':
				most, replace = n, ""
			case 'P':
				if parallel = n; n == 0 {
					parallel = 2 * runtime.GOMAXPROCS(0)
				}
			case 's':
				size = n
			case 'L':
				t.die(1, "-L is not supported: use -n or -I")
			}
		case 'I', 'i':
			if replace = o.value; replace == "" {
				replace = "{}"
			}
			most = 0
		case '0':
			w.delim = 0
		case 'd':
			d, _ := unescape(o.value, octalEither)
			if len(d) != 1 {
				t.die(1, "the delimiter must be one character, not %s", quote(o.value))
			}
			w.delim = int(d[0])
		case 'r':
			skipEmpty = true
		case 't':
			verbose = true
		case 'a':
			r, err := t.open(o.value)
			if err != nil {
				t.die(1, "%s: %s", o.value, reason(err))
			}
			defer r.Close()
			in = r
		case 'p', 'E':
			t.die(1, "-%c is not supported", o.flag)
		}
	}
	if replace != "" && w.delim < 0 {
		w.delim = -2
	}
	end := byte('\n')
	if w.delim >= 0 {
		end = byte(w.delim)
	}
	w.l = newLines(in, end)
	if len(args) == 0 {
		args = []string{"echo"}
	}
	pool := newPool(t, parallel)
	defer pool.wait()
	start := func(argv []string) bool {
		if verbose {
			t.Stderr.Write([]byte(strings.Join(argv, " ") + "\n"))
		}
		return pool.run(argv)
	}
	if replace != "" {
		for {
			word, ok := w.next()
			if !ok {
				return pool.wait()
			}
			if w.delim == -2 {
				word = strings.TrimLeftFunc(word, unicode.IsSpace)
			}
			argv := make([]string, len(args))
			for i, arg := range args {
				argv[i] = strings.ReplaceAll(arg, replace, word)
			}
			if !start(argv) {
				return pool.wait()
			}
		}
	}
	base := 0
	for _, arg := range args {
		base += len(arg) + 1
	}
	var batch []string
	bytes, ran := base, false
	for {
		word, ok := w.next()
		full := len(batch) > 0 && (most > 0 && len(batch) == most || bytes+len(word)+1 > size)
		if full || !ok && (len(batch) > 0 || !ran && !skipEmpty) {
			ran = true
			if !start(append(args[:len(args):len(args)], batch...)) {
				return pool.wait()
			}
			batch, bytes = nil, base
		}
		if !ok {
			return pool.wait()
		}
		batch = append(batch, word)
		bytes += len(word) + 1
	}
}

// pool runs commands, a few at once, and keeps the status that xargs makes of theirs.
type pool struct {
	t     *tool
	slots chan struct{}
	wg    sync.WaitGroup

	mu     sync.Mutex
	status int
	stop   bool
}

func newPool(t *tool, parallel int) *pool {
	return &pool{t: t, slots: make(chan struct{}, min(max(parallel, 1), 64))}
}

// run runs a command, or begins to; false says that no more may follow.
func (p *pool) run(argv []string) bool {
	p.t.check()
	p.t.out.Flush()
	if p.t.Run == nil {
		p.t.die(126, "%s: commands cannot be run here", argv[0])
	}
	one := func() {
		status := p.t.Run(p.t.ctx, Command{Argv: argv, Dir: p.t.Dir, Stdout: p.t.Stdout, Stderr: p.t.Stderr})
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case status == 0:
		case status == 255:
			p.status, p.stop = 124, true
		case status == 126 || status == 127:
			p.status, p.stop = status, true
		case status > 128:
			p.status, p.stop = 125, true
		case p.status == 0:
			p.status = 123
		}
	}
	if cap(p.slots) == 1 {
		one()
		return p.goOn()
	}
	p.slots <- struct{}{}
	p.wg.Go(func() {
		defer func() { <-p.slots }()
		one()
	})
	return p.goOn()
}

func (p *pool) goOn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.stop
}

func (p *pool) wait() int {
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}
