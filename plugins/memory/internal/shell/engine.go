package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/slipway-run/slipway/plugins/memory/internal/tools"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// Options are limits; zero means the default.
type Options struct {
	MaxScriptBytes int           // of one script, here-documents included; default 1 MiB
	MaxNesting     int           // of one script's constructs; default 1,000
	MaxCommands    int           // that run at once in one process; default 1,024
	Linger         time.Duration // how long background jobs may write once the script has ended; default 2 s

	// Foreign is for executable files that are neither scripts nor tools. Nil:
	// there are none.
	Foreign Foreign
	// OnlyForeign leaves nothing but these: no shell, no tools, no scripts.
	OnlyForeign bool
}

// Foreign is another kind of program, with files of its own format.
type Foreign interface {
	// Known says whether an executable file that begins with head, at most 256
	// bytes of it, is such a program.
	Known(head []byte) bool
	// Run runs the one at the absolute path. When ctx ends it must return soon,
	// with nothing left that can write or change a file; the result means
	// nothing then. Stdin, if it is not nil, is ended by SetReadDeadline where
	// it has that. Signals are not set.
	Run(ctx context.Context, ns *tree.Namespace, path string, cmd Command) Result
}

// Engine finds and runs processes. It is safe for concurrent use.
type Engine struct {
	opts  Options
	tools map[string]tools.Func
	pids  atomic.Int64
}

// New returns an engine. It holds nothing that must be closed.
func New(opts Options) *Engine {
	if opts.MaxScriptBytes <= 0 {
		opts.MaxScriptBytes = 1 << 20
	}
	if opts.MaxNesting <= 0 {
		opts.MaxNesting = 1000
	}
	if opts.MaxCommands <= 0 {
		opts.MaxCommands = 1024
	}
	if opts.Linger <= 0 {
		opts.Linger = 2 * time.Second
	}
	return &Engine{opts: opts, tools: tools.Table()}
}

// Why something cannot be run. Errors of Resolve wrap one of them, or that of
// reading the file, and name the path.
var (
	ErrNotFound      = errors.New("no such program")
	ErrNotExecutable = errors.New("not executable")
)

// Executable is something that Run can run. The zero value is none.
type Executable struct {
	name string     // of the tool or shell that runs
	tool tools.Func // nil: the shell, or foreign
	args []string   // that come before the process's own: of a script, its interpreter's and its path
	path string     // where it was found

	foreign bool // Options.Foreign runs the file at path, an absolute one
}

// Path is where the executable was found: a file of the tree, or /usr/bin/NAME.
func (x Executable) Path() string { return x.path }

// virtual finds a program that exists without a file.
func (e *Engine) virtual(name string) (Executable, bool) {
	x := Executable{name: name, path: "/usr/bin/" + name}
	if e.opts.OnlyForeign {
		return Executable{}, false
	}
	if name == "sh" || name == "bash" {
		x.path = "/bin/" + name
		return x, true
	}
	x.tool = e.tools[name]
	return x, x.tool != nil
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Resolve finds what name means in the directory dir, with the PATH of env
// (which has "name=value" entries, the last of a name wins). A name with a
// slash is a file of the tree, or /bin/NAME or /usr/bin/NAME of a tool or
// shell. Any other is sought along PATH in the tree, then among the tools.
//
// A file must have an executable bit, and be of the format of Options.Foreign,
// or have a first line #!INTERPRETER, where that is a tool or shell by either of
// its paths, or /usr/bin/env with its name.
func (e *Engine) Resolve(ns *tree.Namespace, name, dir string, env []string) (Executable, error) {
	search := defaultPath
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = v
		}
	}
	return e.resolve(ns, name, dir, search)
}

func (e *Engine) resolve(ns *tree.Namespace, name, dir, search string) (Executable, error) {
	if name == "" {
		return Executable{}, fmt.Errorf("%q: %w", name, ErrNotFound)
	}
	if strings.Contains(name, "/") {
		x, err := e.file(ns, name, dir)
		if err == nil {
			return x, nil
		}
		clean := path.Clean(absolute(dir, name))
		if d := path.Dir(clean); d == "/bin" || d == "/usr/bin" {
			if x, ok := e.virtual(path.Base(clean)); ok {
				return x, nil
			}
		}
		return Executable{}, err
	}
	var unfit error
	for elem := range strings.SplitSeq(search, ":") {
		x, err := e.file(ns, path.Join(dirOr(elem), name), dir)
		if err == nil {
			return x, nil
		}
		if unfit == nil && errors.Is(err, ErrNotExecutable) {
			unfit = err
		}
	}
	if x, ok := e.virtual(name); ok {
		return x, nil
	}
	if unfit != nil {
		return Executable{}, unfit
	}
	return Executable{}, fmt.Errorf("%s: %w", name, ErrNotFound)
}

func dirOr(elem string) string {
	if elem == "" {
		return "."
	}
	return elem
}

func absolute(dir, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(dir, name)
}

// errFormat says that an executable file is of no known format.
var errFormat = fmt.Errorf("%w: it is neither a program of a known format nor a script of a known interpreter", ErrNotExecutable)

func (e *Engine) file(ns *tree.Namespace, name, dir string) (Executable, error) {
	bad := func(err error) (Executable, error) { return Executable{}, fmt.Errorf("%s: %w", name, err) }
	info, err := ns.Stat(dir, name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return bad(ErrNotFound)
	case err != nil:
		return Executable{}, err
	case info.IsDir():
		return bad(fmt.Errorf("%w: it is a directory", ErrNotExecutable))
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return bad(fmt.Errorf("%w: permission denied", ErrNotExecutable))
	}
	f, err := ns.Open(dir, name, os.O_RDONLY, 0)
	if err != nil {
		return Executable{}, err
	}
	defer f.Close()
	head, _ := bufio.NewReaderSize(f, 256).Peek(256)
	if e.opts.Foreign != nil && e.opts.Foreign.Known(head) {
		return Executable{name: name, path: absolute(dir, name), foreign: true}, nil
	}
	line, _, _ := strings.Cut(string(head), "\n")
	spec, ok := strings.CutPrefix(strings.TrimSpace(line), "#!")
	if !ok {
		return bad(errFormat)
	}
	interpreter, arg, _ := strings.Cut(strings.TrimSpace(spec), " ")
	arg = strings.TrimSpace(arg)
	if path.Base(interpreter) == "env" {
		if rest, split := strings.CutPrefix(arg, "-S"); split {
			arg = strings.TrimSpace(rest)
			interpreter, arg, _ = strings.Cut(arg, " ")
		} else {
			interpreter, arg = arg, ""
		}
		interpreter = "/usr/bin/" + interpreter
	}
	if d := path.Dir(interpreter); d != "/bin" && d != "/usr/bin" && d != "/usr/local/bin" {
		return bad(errFormat)
	}
	x, known := e.virtual(path.Base(interpreter))
	if !known {
		return bad(errFormat)
	}
	x.path = absolute(dir, name)
	if arg != "" {
		x.args = append(x.args, strings.Fields(arg)...)
	}
	x.args = append(x.args, name)
	return x, nil
}
