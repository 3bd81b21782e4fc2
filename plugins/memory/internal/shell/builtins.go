package shell

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// builtin is one of the shell's own, which replace the interpreter's.
type builtin func(u *unit, ctx context.Context, hc interp.HandlerContext, args []string) error

// ownBuiltin finds a builtin that is no tool.
func ownBuiltin(name string) builtin {
	switch name {
	case "command-v":
		return (*unit).commandV
	case "disown", "hash":
		return func(*unit, context.Context, interp.HandlerContext, []string) error { return nil }
	case "end":
		return func(_ *unit, _ context.Context, hc interp.HandlerContext, args []string) error {
			if len(args) == 1 {
				n, _ := strconv.Atoi(args[0])
				return status(n)
			}
			return status(hc.LastExitStatus)
		}
	case "exiting":
		return func(u *unit, _ context.Context, hc interp.HandlerContext, _ []string) error {
			if u.isMain(hc) {
				u.inExit.Store(true)
			}
			return status(hc.LastExitStatus)
		}
	case "fail":
		return func(_ *unit, _ context.Context, hc interp.HandlerContext, args []string) error {
			if len(args) != 2 {
				return status(2)
			}
			n, _ := strconv.Atoi(args[0])
			return refuse(hc, n, "%s", args[1])
		}
	case "fd":
		return (*unit).setDescriptor
	case "unfd":
		return (*unit).unsetDescriptors
	case "keep":
		return (*unit).keepOutput
	case "sub":
		return (*unit).substitute
	case "subbed":
		return func(u *unit, _ context.Context, _ interp.HandlerContext, _ []string) error {
			u.p.substituted(-1)
			return nil
		}
	case "pipe":
		return (*unit).beginPipeline
	case "stage":
		return (*unit).endStage
	case "piped":
		return (*unit).endPipeline
	case "sourced":
		return func(_ *unit, ctx context.Context, hc interp.HandlerContext, _ []string) error {
			code := hc.LastExitStatus
			if err := hc.Builtin(ctx, []string{"eval", `BASH_SOURCE=("${BASH_SOURCE[@]:1}")`}); err != nil {
				return err
			}
			return status(code)
		}
	case "function":
		return (*unit).foundFunction
	case "getopts":
		return (*unit).getopts
	case "job":
		return (*unit).startJob
	case "jobbed":
		return (*unit).endStart
	case "jobs":
		return func(*unit, context.Context, interp.HandlerContext, []string) error { return nil }
	case "kill":
		return (*unit).kill
	case "printf":
		return (*unit).printf
	case "pwd":
		return (*unit).pwd
	case "read":
		return (*unit).read
	case "trap":
		return (*unit).trap
	case "type":
		return (*unit).typeOf
	case "ulimit":
		return (*unit).ulimit
	case "umask":
		return (*unit).setUmask
	}
	return nil
}

// status is a command's end as the interpreter wants it.
func status(n int) error {
	if n == 0 {
		return nil
	}
	return interp.ExitStatus(uint8(n))
}

func refuse(hc interp.HandlerContext, n int, format string, args ...any) error {
	fmt.Fprintf(hc.Stderr, format+"\n", args...)
	return status(n)
}

// assign sets variables of the shell that calls, in the order given.
func assign(ctx context.Context, hc interp.HandlerContext, pairs ...string) error {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%s=%s\n", pairs[i], quote(pairs[i+1]))
	}
	return hc.Builtin(ctx, []string{"eval", b.String()})
}

func (u *unit) printf(ctx context.Context, hc interp.HandlerContext, args []string) error {
	if len(args) < 2 || args[0] != "-v" {
		return u.runBuiltin(ctx, hc, "printf", args)
	}
	if !syntax.ValidName(args[1]) {
		return refuse(hc, 2, "printf: %q: not a valid identifier", args[1])
	}
	var b bytes.Buffer
	to := hc
	to.Stdout = &b
	code := u.runTool(ctx, hc, "printf", args[2:], to)
	if err := assign(ctx, hc, args[1], b.String()); err != nil {
		return err
	}
	return status(code)
}

// statusPipe is that of a builtin whose output nobody reads any more.
const statusPipe = 141

// runBuiltin runs a tool that is a builtin elsewhere. If nobody reads its
// output any more, that ends the shell, as SIGPIPE would.
func (u *unit) runBuiltin(ctx context.Context, hc interp.HandlerContext, name string, args []string) error {
	code := u.runTool(ctx, hc, name, args, hc)
	if code == statusPipe {
		return hc.Builtin(ctx, []string{"exit", strconv.Itoa(code)})
	}
	return status(code)
}

// runTool runs a tool by its name alone, with the streams of to.
func (u *unit) runTool(ctx context.Context, hc interp.HandlerContext, name string, args []string, to interp.HandlerContext) int {
	ctx = context.WithValue(ctx, umaskKey{}, fs.FileMode(u.umask.Load()))
	x, ok := u.p.e.virtual(name)
	if !ok {
		fmt.Fprintf(hc.Stderr, "%s: unsupported builtin\n", name)
		return usage
	}
	caught := func(k killed) bool { return u.catches(hc, k) }
	c := command{args: args, dir: hc.Dir, ignored: caught, descriptors: u.descriptors(hc), streams: streams{hc.Stdin, to.Stdout, to.Stderr}}
	return u.p.run(ctx, x, c, false).Code
}

func (u *unit) pwd(ctx context.Context, hc interp.HandlerContext, args []string) error {
	return u.runBuiltin(ctx, hc, "pwd", args)
}

func (u *unit) setUmask(_ context.Context, hc interp.HandlerContext, args []string) error {
	symbolic := false
	for len(args) > 0 && (args[0] == "-S" || args[0] == "-p") {
		symbolic = args[0] == "-S"
		args = args[1:]
	}
	if len(args) == 0 {
		m := u.umask.Load()
		if !symbolic {
			fmt.Fprintf(hc.Stdout, "%04o\n", m)
			return nil
		}
		perms := fs.FileMode(0o777 &^ m).String()
		clear := strings.NewReplacer("-", "")
		fmt.Fprintf(hc.Stdout, "u=%s,g=%s,o=%s\n", clear.Replace(perms[1:4]), clear.Replace(perms[4:7]), clear.Replace(perms[7:]))
		return nil
	}
	n, err := strconv.ParseUint(args[0], 8, 12)
	if err != nil || n > 0o777 {
		return refuse(hc, 1, "umask: %s: give an octal number up to 777", args[0])
	}
	u.umask.Store(uint32(n))
	return nil
}

func (u *unit) ulimit(_ context.Context, hc interp.HandlerContext, args []string) error {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") && arg != "unlimited" && arg != "0" {
			return refuse(hc, 1, "ulimit: limits cannot be set here: use the container's")
		}
	}
	if len(args) == 0 || strings.HasPrefix(args[len(args)-1], "-") {
		fmt.Fprintln(hc.Stdout, "unlimited")
	}
	return nil
}

// kill signals the shell, its whole process, or a background job by its $!,
// which ends with its next command. Whether a job still runs cannot be asked.
func (u *unit) kill(_ context.Context, hc interp.HandlerContext, args []string) error {
	name := "TERM"
	if len(args) > 0 && args[0] == "-l" {
		for _, s := range signals {
			fmt.Fprintf(hc.Stdout, "%s ", s.name)
		}
		fmt.Fprintln(hc.Stdout)
		return nil
	}
	switch {
	case len(args) > 1 && (args[0] == "-s" || args[0] == "-n"):
		name, args = args[1], args[2:]
	case len(args) > 0 && args[0] == "--":
		args = args[1:]
	case len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-':
		name, args = args[0][1:], args[1:]
	}
	number, canonical, ok := signalNamed(name)
	if !ok && name != "0" {
		return refuse(hc, 1, "kill: %s: invalid signal specification", name)
	}
	if len(args) == 0 {
		return refuse(hc, 2, "kill: give a process id")
	}
	code := 0
	for _, arg := range trimDashes(args) {
		switch {
		case arg == "":
			fmt.Fprintln(hc.Stderr, "kill: a process id is empty")
			code = 1
		case arg == strconv.FormatInt(u.pid, 10):
			if name != "0" {
				u.signalSelf(killed{number, canonical})
			}
		case arg == "0" || arg == "-"+strconv.FormatInt(u.pid, 10):
			if name != "0" {
				u.p.signal(killed{number, canonical})
			}
		default:
			j := u.jobNamed(arg)
			switch {
			case j == nil:
				fmt.Fprintf(hc.Stderr, "kill: %s: no such process\n", arg)
				code = 1
			case name == "0":
				fmt.Fprintf(hc.Stderr, "kill: %s: whether a job runs cannot be asked: use wait\n", arg)
				code = 2
			case !harmless(canonical):
				u.jobKilled.Store(true)
				j.cancel(killed{number, canonical})
			}
		}
	}
	return status(code)
}

// signalSelf is a signal from the shell to itself.
func (u *unit) signalSelf(k killed) {
	if k.name == "KILL" {
		u.cancel(k)
		return
	}
	u.signal(k)
}

// getopts keeps its place within a cluster of flags in a variable, as a pair
// with OPTIND, so that it starts afresh when the script sets that.
func (u *unit) getopts(ctx context.Context, hc interp.HandlerContext, args []string) error {
	if len(args) < 2 {
		return refuse(hc, 2, "getopts: usage: getopts optstring name [arg ...]")
	}
	spec, name, args := args[0], args[1], args[2:]
	if !syntax.ValidName(name) {
		return refuse(hc, 2, "getopts: %q: not a valid identifier", name)
	}
	silent := strings.HasPrefix(spec, ":")
	index, _ := strconv.Atoi(hc.Env.Get("OPTIND").String())
	index = max(index, 1)
	at := 1
	if i, pos, ok := strings.Cut(hc.Env.Get("_SLIPWAY_GETOPTS").String(), ":"); ok && i == strconv.Itoa(index) {
		at, _ = strconv.Atoi(pos)
	}
	done := func() error {
		if err := assign(ctx, hc, name, "?", "OPTIND", strconv.Itoa(index), "_SLIPWAY_GETOPTS", ""); err != nil {
			return err
		}
		return status(1)
	}
	if index > len(args) {
		return done()
	}
	arg := args[index-1]
	if arg == "--" {
		index++
		return done()
	}
	if len(arg) < 2 || arg[0] != '-' {
		return done()
	}
	if at < 1 || at >= len(arg) {
		at = 1
	}
	r, size := utf8.DecodeRuneInString(arg[at:])
	flag := arg[at : at+size]
	at += size
	rest := arg[at:]
	value, result := "", flag
	known := strings.Index(strings.TrimPrefix(spec, ":"), flag)
	takes := known >= 0 && strings.HasPrefix(strings.TrimPrefix(spec, ":")[known+size:], ":")
	switch {
	case known < 0 || r == ':':
		result = "?"
		if silent {
			value = flag
		} else {
			fmt.Fprintf(hc.Stderr, "%s: illegal option -- %s\n", u.name, flag)
		}
	case takes && rest != "":
		value, rest = rest, ""
	case takes && index < len(args):
		value = args[index]
		index++
	case takes:
		result = "?"
		if silent {
			result, value = ":", flag
		} else {
			fmt.Fprintf(hc.Stderr, "%s: option requires an argument -- %s\n", u.name, flag)
		}
	}
	place := ""
	if rest == "" {
		index++
	} else {
		place = fmt.Sprintf("%d:%d", index, at)
	}
	pairs := []string{name, result, "OPTIND", strconv.Itoa(index), "_SLIPWAY_GETOPTS", place}
	if takes && result == flag || value != "" {
		pairs = append(pairs, "OPTARG", value)
	} else if err := hc.Builtin(ctx, []string{"unset", "OPTARG"}); err != nil {
		return err
	}
	return assign(ctx, hc, pairs...)
}
