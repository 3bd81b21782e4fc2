package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// unit is one shell: an interpreter, its subshells, and what it keeps for them.
type unit struct {
	p       *process
	pid     int64
	name    string // $0
	runner  *interp.Runner
	stdin   *os.File // nil: none
	ctx     context.Context
	cancel  context.CancelCauseFunc
	ignored func(killed) bool                 // by whoever started it
	outer   func(name string) (handle, error) // its descriptors from 3 on; nil: none

	umask  atomic.Uint32
	alarm  atomic.Bool // a signal waits, or one is ending the shell
	inExit atomic.Bool // the EXIT trap runs

	jobKilled atomic.Bool  // some job was
	epoch     atomic.Int64 // how many traps for signals have run

	mu       sync.Mutex
	traps    map[string]string // by signal name, EXIT or ERR; "" ignores
	pending  []killed
	taken    killed  // the last signal that a trap ran for
	dying    *killed // by a signal without a trap, while there is an EXIT trap to run
	override *int    // what exit in the EXIT trap said
	texts    map[string]string
	asked    map[string]bool // names that turned out to be functions
	texted   int
	jobs     []*job // by $!, from g1
	named    []*os.File
	staged   map[string]map[int]int // by pipeline and stage: the status
}

// usage is the status of a shell that was called wrongly or cannot parse.
const usage = 2

// shellArgs are a shell's own arguments, parsed.
type shellArgs struct {
	options []string // for interp.Params
	script  string   // -c
	inline  bool
	file    string
	stdin   bool
	name    string
	params  []string
}

func parseShellArgs(name string, args []string) (a shellArgs, err error) {
	a.name = name
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" || arg == "-" {
			args = args[1:]
			break
		}
		if len(arg) < 2 || arg[0] != '-' && arg[0] != '+' {
			break
		}
		args = args[1:]
		if strings.HasPrefix(arg, "--") {
			switch arg {
			case "--norc", "--noprofile", "--posix", "--login":
				continue
			}
			return a, fmt.Errorf("unknown option %s", arg)
		}
		for _, flag := range arg[1:] {
			switch flag {
			case 'c':
				a.inline = true
			case 's':
				a.stdin = true
			case 'e', 'u', 'x', 'f', 'a', 'n':
				a.options = append(a.options, arg[:1]+string(flag))
			case 'l', 'E', 'T', 'h', 'b', 'm', 'p', 'B':
				// These change nothing here.
			case 'o':
				if len(args) == 0 {
					return a, fmt.Errorf("option -o needs a value")
				}
				if !changesNothing(args[0]) {
					a.options = append(a.options, arg[:1]+"o", args[0])
				}
				args = args[1:]
			default:
				return a, fmt.Errorf("unknown option -%c", flag)
			}
		}
	}
	switch {
	case a.inline:
		if len(args) == 0 {
			return a, fmt.Errorf("option -c needs a value")
		}
		a.script, args = args[0], args[1:]
		if len(args) > 0 {
			a.name, args = args[0], args[1:]
		}
	case len(args) > 0 && !a.stdin:
		a.file, a.name, args = args[0], args[0], args[1:]
	default:
		a.stdin = true
	}
	a.params = args
	return a, nil
}

func (p *process) runShell(ctx context.Context, x Executable, c command, main bool) Result {
	refuse := func(code int, err error) Result {
		fmt.Fprintf(c.streams.err, "%s: %v\n", x.name, err)
		return Result{Code: code, Message: err.Error()}
	}
	a, err := parseShellArgs(x.name, c.args)
	if err != nil {
		return refuse(usage, err)
	}
	text := a.script
	switch {
	case a.file != "":
		text, err = p.readScript(c.dir, a.file)
	case a.stdin && !a.inline:
		text, err = p.readAll(c.streams.in)
		c.streams.in = nil
	}
	if err != nil {
		code := 126
		if errors.Is(err, fs.ErrNotExist) {
			code = 127
		}
		return refuse(code, err)
	}
	u := &unit{p: p, pid: 1, name: a.name, ignored: c.ignored, outer: c.descriptors, traps: make(map[string]string)}
	if !main {
		u.pid = p.e.pids.Add(1) + 1
	}
	u.umask.Store(uint32(umaskOf(ctx)))
	file, err := p.e.parse(a.name, text, u.pid)
	if err != nil {
		return refuse(usage, err)
	}
	file.Name = a.name
	file.Stmts = append(file.Stmts, atEnd())

	if f, ok := c.streams.in.(*os.File); ok && f != nil {
		u.stdin = f
	} else if !ok && c.streams.in != nil {
		f, stop, err := pump(c.streams.in)
		if err != nil {
			return refuse(126, err)
		}
		defer stop()
		u.stdin = f
	}
	// Background jobs may outlive the script: only a signal, or the process's end, cancels this.
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	if err := u.start(x, a, c); err != nil {
		u.cancel(nil)
		return refuse(usage, err)
	}
	if u.stdin != nil {
		defer wake(u.ctx, u.stdin)()
	}
	defer p.hear(c, u.signal)()
	return u.run(file, main)
}

// start makes the interpreter.
func (u *unit) start(x Executable, a shellArgs, c command) error {
	env := newEnviron(c.env)
	if a.file != "" {
		env.list("BASH_SOURCE", a.file)
	}
	if x.name == "bash" {
		env.bash()
	}
	var stdin io.Reader
	if u.stdin != nil {
		stdin = u.stdin
	}
	r, err := interp.New(
		interp.Env(env),
		func(r *interp.Runner) error { r.Dir = c.dir; return nil },
		interp.StdIO(stdin, c.streams.out, c.streams.err),
		interp.CallHandler(u.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return u.exec }),
		interp.OpenHandler(u.open),
		interp.ReadDirHandler2(u.readDir),
		interp.StatHandler(u.stat),
		interp.AccessHandler(u.access),
		interp.Params(slices.Concat(a.options, []string{"--"}, a.params)...),
	)
	if err != nil {
		return err
	}
	r.Reset()
	env.armed.Store(false)
	u.runner = r
	return nil
}

// run runs the script and what it leaves behind that belongs to it.
func (u *unit) run(file *syntax.File, main bool) Result {
	err := u.runner.Run(u.ctx, file)
	defer u.closeNamed()
	u.mu.Lock()
	dying, override := u.dying, u.override
	u.mu.Unlock()
	if k := (killed{}); errors.As(context.Cause(u.ctx), &k) {
		return Result{Code: k.status(), Signal: k.name}
	}
	if dying != nil {
		return Result{Code: dying.status(), Signal: dying.name}
	}
	if u.ctx.Err() != nil {
		return Result{Code: 137, Signal: "KILL"}
	}
	cut := main && u.wait()
	if override != nil {
		return Result{Code: *override, Cut: cut}
	}
	if status := interp.ExitStatus(0); errors.As(err, &status) {
		return Result{Code: int(status), Cut: cut}
	}
	if err != nil {
		return Result{Code: usage, Message: fmt.Sprintf("%s: %v", u.name, err), Cut: cut}
	}
	return Result{Cut: cut}
}

// wait waits for the background jobs that the shell knows, as long as the
// process may linger, and says whether it had to stop them. What it does not
// know, linger sees.
func (u *unit) wait() (cut bool) {
	ctx, cancel := context.WithTimeout(u.ctx, u.p.e.opts.Linger)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.runner.Run(u.ctx, waitAll())
	}()
	select {
	case <-done:
		return false
	case <-ctx.Done():
	}
	select { // after a pause of the machine both have come, and what has ended is not cut
	case <-done:
		return false
	default:
	}
	u.cancel(errEnded)
	<-done
	return true
}

func waitAll() syntax.Command { return call("wait") }

// atEnd is a last command that lets a trap run, and keeps the status.
func atEnd() *syntax.Stmt {
	return &syntax.Stmt{Cmd: &syntax.BinaryCmd{
		Op: syntax.AndStmt,
		X:  &syntax.Stmt{Cmd: call(direct + "end")},
		Y:  &syntax.Stmt{Cmd: call(":")},
	}}
}

func call(name string) *syntax.CallExpr {
	return &syntax.CallExpr{Args: []*syntax.Word{{Parts: []syntax.WordPart{&syntax.Lit{Value: name}}}}}
}

// isMain says whether a handler was called by the shell itself, not by a subshell.
func (u *unit) isMain(hc interp.HandlerContext) bool {
	return reflect.ValueOf(hc).FieldByName("runner").Pointer() == reflect.ValueOf(u.runner).Pointer()
}

func (p *process) readScript(dir, name string) (string, error) {
	f, err := p.ns.Open(dir, name, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return p.readAll(f)
}

// readAll reads a script, up to the limit and a little more.
func (p *process) readAll(r io.Reader) (string, error) {
	if f, ok := r.(*os.File); r == nil || ok && f == nil {
		return "", nil
	}
	if in, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok {
		stop := context.AfterFunc(p.ctx, func() { in.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	var b strings.Builder
	_, err := io.Copy(&b, io.LimitReader(r, int64(p.e.opts.MaxScriptBytes)+1))
	return b.String(), err
}
