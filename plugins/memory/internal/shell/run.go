package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/slipway-run/slipway/plugins/memory/internal/tools"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// Command is what a process is started with.
type Command struct {
	Args []string // without the program's own name
	Env  []string // "name=value"; the last of a name wins
	Dir  string   // absolute; empty is "/"

	Name  string      // what the program is told it was called; empty: its path
	Umask fs.FileMode // for Options.Foreign; Run itself begins with 022

	// Stdin is read ahead, as a pipe is. Nil is at its end. A Read that waits
	// when the process ends is left behind in a goroutine of its own, and
	// nothing comes of what it returns: the caller ends it.
	Stdin io.Reader

	// Stdout and Stderr get one write at a time each, and none after Run has
	// returned. Nil throws away. A Write that waits must end when Run's ctx does;
	// with a method WriteContext, one that waits ends with its command, too.
	Stdout, Stderr io.Writer

	// Signals are names, with or without SIG. Each goes to everything that runs
	// in the process, as to a process group. After STOP none of its commands
	// begins and nothing is written, and signals other than KILL wait, until
	// CONT; what computes, or waits for its input, is not seen to halt. Nil:
	// there are none.
	Signals <-chan string
}

// Result is how a process ended.
type Result struct {
	Code    int    // the exit status; 128+n after signal n
	Signal  string // what ended it, without SIG; empty if it exited by itself
	Message string // why it did not run, or failed in a way that is not the script's
	Cut     bool   // background jobs were still writing after Options.Linger

	OutOfMemory bool  // it was ended because a limit of memory was reached; of Options.Foreign only
	PeakMemory  int64 // in bytes; 0: unknown
}

// Run runs a process to its end. When ctx ends the process is killed: Run
// returns once nothing of it can write or change a file any more, and the
// result is code 137 and signal KILL. What the script leaves in the background
// may go on for Options.Linger; then it is killed.
//
// A signal runs the script's trap for it. Without one it ends the process,
// unless it is harmless by default; KILL always does. A trap waits for a simple
// command: a loop of nothing but assignments never sees it.
//
// What happens in the process is a Result, never an error; a program that
// cannot even begin has a Message.
func (e *Engine) Run(ctx context.Context, ns *tree.Namespace, x Executable, cmd Command) Result {
	p := newProcess(ctx, e, ns)
	out, errw := newGate(p, cmd.Stdout), newGate(p, cmd.Stderr)
	defer func() {
		out.close()
		errw.close()
	}()
	defer p.end()

	c := command{name: cmd.Name, args: cmd.Args, env: cmd.Env, dir: cmd.Dir, streams: streams{out: out, err: errw}}
	if c.dir == "" {
		c.dir = "/"
	}
	if cmd.Stdin != nil {
		f, stop, err := pump(cmd.Stdin)
		if err != nil {
			return Result{Code: 126, Message: fmt.Sprintf("start %s: make its stdin: %v", x.name, err)}
		}
		defer stop()
		c.streams.in = f
	}

	ended, relayed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(relayed)
		p.relay(cmd.Signals, ended)
	}()
	r := p.run(p.ctx, x, c, true)
	if p.ctx.Err() == nil {
		r.Cut = p.linger() || r.Cut
	}
	close(ended)
	<-relayed
	if p.ctx.Err() != nil && r.Signal == "" {
		return Result{Code: 137, Signal: "KILL"}
	}
	return r
}

// relay passes signals on until ended.
func (p *process) relay(signals <-chan string, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case s, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			n, name, known := signalNamed(s)
			if !known {
				continue
			}
			if name == "KILL" {
				p.cancel()
				continue
			}
			for _, k := range p.halt.take(killed{n, name}) {
				p.signal(k)
			}
			if name == "CONT" {
				p.halt.end() // once all that waited has reached it
			}
		}
	}
}

// linger waits for background commands, and says whether they must be cut.
func (p *process) linger() bool {
	timer := time.NewTimer(p.e.opts.Linger)
	defer timer.Stop()
	over := false
	for _, quiet := range []func() <-chan struct{}{p.atRest, p.idle} {
		if !over {
			select {
			case <-quiet():
				continue
			case <-p.ctx.Done():
				return false
			case <-timer.C:
				over = true
			}
		}
		select { // after a pause of the machine both have come, and what has ended is not cut
		case <-quiet():
		default:
			return true
		}
	}
	return false
}

// run runs an executable. main says that it is the one that Run was asked for.
func (p *process) run(ctx context.Context, x Executable, c command, main bool) (r Result) {
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintf(c.streams.err, "%s: internal error\n", x.name)
			r = Result{Code: 2, Message: fmt.Sprintf("run %s: it panicked: %v\n%s", x.name, v, debug.Stack())}
		}
	}()
	c.args = append(x.args[:len(x.args):len(x.args)], c.args...)
	if x.tool == nil && !x.foreign {
		return p.runShell(ctx, x, c, main)
	}
	return p.runProgram(ctx, x, c)
}

// runProgram runs what takes no signals: each ends it that is neither harmless
// nor ignored.
func (p *process) runProgram(ctx context.Context, x Executable, c command) (r Result) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer p.hear(c, func(k killed) {
		if !harmless(k.name) && (c.ignored == nil || !c.ignored(k)) {
			cancel(k)
		}
	})()
	c.streams.out, c.streams.err = bound(ctx, c.streams.out), bound(ctx, c.streams.err)
	if x.foreign {
		r = p.runForeign(ctx, x, c)
	} else {
		r = Result{Code: p.runTool(ctx, x, c)}
	}
	if k := (killed{}); errors.As(context.Cause(ctx), &k) {
		return Result{Code: k.status(), Signal: k.name, PeakMemory: r.PeakMemory}
	}
	return r
}

func (p *process) runForeign(ctx context.Context, x Executable, c command) Result {
	cmd := Command{
		Args: c.args, Env: c.env, Dir: c.dir, Umask: umaskOf(ctx), Name: c.name,
		Stdin: c.streams.in, Stdout: c.streams.out, Stderr: c.streams.err,
	}
	if f, ok := c.streams.in.(*os.File); ok && f == nil {
		cmd.Stdin = nil
	}
	r := p.e.opts.Foreign.Run(ctx, p.ns, x.path, cmd)
	if r.Message != "" && ctx.Err() == nil {
		fmt.Fprintln(c.streams.err, r.Message)
	}
	return r
}

// runTool returns the tool's status.
func (p *process) runTool(ctx context.Context, x Executable, c command) int {
	call := &tools.Call{
		Name: x.name, Args: c.args, Dir: c.dir, FS: p.ns, Umask: umaskOf(ctx),
		Stdin: c.streams.in, Stdout: c.streams.out, Stderr: c.streams.err,
		Env: tools.Env{
			Lookup: func(name string) (string, bool) { return lookup(c.env, name) },
			List:   func() []string { return c.env },
		},
		Descriptor: p.toolDescriptor(c.descriptors),
		Find: func(name string) (string, bool) {
			found, err := p.e.resolve(p.ns, name, c.dir, pathOf(c.env))
			return found.path, err == nil
		},
		Run: func(ctx context.Context, cmd tools.Command) int {
			if cmd.Env == nil {
				cmd.Env = c.env
			}
			sub := command{signals: cmd.Signals, env: cmd.Env, dir: cmd.Dir, ignored: c.ignored, waiting: c.waiting, descriptors: c.descriptors, streams: streams{cmd.Stdin, cmd.Stdout, cmd.Stderr}}
			return p.exec(ctx, cmd.Argv, sub)
		},
	}
	return x.tool(ctx, call)
}

func lookup(env []string, name string) (value string, ok bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if v, found := strings.CutPrefix(env[i], name+"="); found {
			return v, true
		}
	}
	return "", false
}

func pathOf(env []string) string {
	if search, ok := lookup(env, "PATH"); ok {
		return search
	}
	return defaultPath
}

// exec finds and runs a command for another one, and returns its status.
func (p *process) exec(ctx context.Context, argv []string, c command) int {
	if err := p.enter(); err != nil {
		return 126
	}
	defer p.leave()
	c.name, c.args = argv[0], argv[1:]
	x, err := p.e.resolve(p.ns, argv[0], c.dir, pathOf(c.env))
	if err != nil {
		return p.unresolved(err, c)
	}
	return p.run(ctx, x, c, false).Code
}

// unresolved says why there is nothing to run.
func (p *process) unresolved(err error, c command) int {
	fmt.Fprintf(c.streams.err, "%v\n", err)
	if errors.Is(err, ErrNotFound) {
		return 127
	}
	return 126
}
