package shell

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/slipway-run/slipway/plugins/memory/internal/tools"
)

// The names that replaced builtins are called by. A function of the script that
// has the name of such a builtin is defined, and so found, by the first; the
// second is for what no function may shadow.
const (
	overridable = "slipway:"
	direct      = "slipway!"
)

// own finds the name of a replaced builtin.
func own(name string) (string, bool) {
	if !strings.HasPrefix(name, "slipway") {
		return "", false
	}
	if s, ok := strings.CutPrefix(name, overridable); ok {
		return s, true
	}
	return strings.CutPrefix(name, direct)
}

// replaced says which builtins of the interpreter are not used, because they
// reach for the machine, panic, or lack what scripts need.
func replaced(name string) bool {
	switch name {
	case "[", "disown", "echo", "getopts", "hash", "jobs", "kill", "printf", "pwd", "read", "test", "trap", "type", "ulimit", "umask":
		return true
	}
	return false
}

// maxFrames bounds recursion, of functions and of eval: about 1,500 calls.
const maxFrames = 20_000

// call implements interp.CallHandlerFunc: it sees every simple command before
// it runs, and may exchange it.
func (u *unit) call(ctx context.Context, args []string) ([]string, error) {
	if u.p.crowded.Load() {
		return nil, errCommands
	}
	if err := u.p.halt.wait(ctx); err != nil {
		return nil, err
	}
	// Measuring costs as much as the stack is deep: now and then is enough.
	if rand.Uint32()%64 == 0 && deeper(maxFrames) {
		return nil, fmt.Errorf("%s: %w: a function or eval calls itself too often", args[0], errNesting)
	}
	hc := interp.HandlerCtx(ctx)
	if u.alarm.Load() {
		if other := u.alarmed(hc, args); other != nil {
			return other, nil
		}
	}
	if k, ok := u.outlived(hc); ok {
		return []string{"exit", strconv.Itoa(k.status())}, nil
	}
	if k, ok := u.killedJob(hc); ok {
		return []string{"exit", strconv.Itoa(k.status())}, nil
	}
	return u.rewrite(hc, args, false), nil
}

// fails is a command that fails with a message.
func fails(status int, format string, args ...any) []string {
	return []string{direct + "fail", strconv.Itoa(status), fmt.Sprintf(format, args...)}
}

// rewrite vets a command. plain says that functions are not meant.
func (u *unit) rewrite(hc interp.HandlerContext, args []string, plain bool) []string {
	name := args[0]
	if replaced(name) {
		return u.replace(hc, args, plain)
	}
	switch name {
	case "command":
		return u.peelCommand(hc, args)
	case "builtin":
		return u.peelBuiltin(hc, args)
	case overridable + "declare", direct + "declare":
		return declare(args[1:])
	case direct + "source":
		if len(args) > 1 {
			return append([]string{"source", sourced + args[1]}, args[2:]...)
		}
	case direct + "quiet":
		return []string{"eval", "case $- in *e*) " + quietVariable + "=e; set +e ;; *) " + quietVariable + "= ;; esac"}
	case direct + "loud":
		return []string{"eval", "case $" + quietVariable + " in e) set -e ;; esac"}
	case "eval":
		text, _, err := u.p.e.vet("eval", strings.Join(trimDashes(args[1:]), " "), u.pid)
		if err != nil {
			return fails(1, "eval: %v", err)
		}
		return []string{"eval", text}
	case "source", ".":
		return u.source(hc, args)
	case "alias":
		return u.alias(args)
	case "shift":
		return shift(args)
	case direct + "shift":
		if n, err := strconv.Atoi(args[len(args)-1]); err == nil && n >= 0 {
			return []string{"shift", args[len(args)-1]}
		}
		return fails(1, "shift: a count must not be negative")
	case "unset":
		return unset(args)
	case "set":
		return append([]string{"set"}, ignoreOptions(args[1:])...)
	case "shopt":
		return ignoreShopt(args)
	case "cd":
		return u.cd(hc, args)
	case "exit":
		u.exits(hc, args)
	}
	return args
}

// unset refuses subscripts that hold commands, which would be parsed without
// any limit, and also means the functions that are kept by another name.
func unset(args []string) []string {
	out := args[:len(args):len(args)]
	for _, arg := range args[1:] {
		if _, sub, ok := strings.Cut(arg, "["); ok && (len(sub) > 1000 || strings.ContainsAny(sub, "`(")) {
			return fails(1, "unset: %q: this subscript is not supported", arg)
		}
		if replaced(arg) {
			out = append(out, overridable+arg)
		}
	}
	return out
}

// shift checks the count, which the interpreter takes as it is, against the
// number of parameters, which only the interpreter knows.
func shift(args []string) []string {
	count := "1"
	if args = trimDashes(args[1:]); len(args) > 0 {
		count = args[0]
	}
	n, err := strconv.Atoi(count)
	if err != nil || len(args) > 1 {
		return fails(1, "shift: give one number")
	}
	if n < 0 {
		return fails(1, "shift: %s: shift count out of range", count)
	}
	return []string{"eval", fmt.Sprintf("if [[ $# -ge %d ]]; then %s %d; else %s; fi", n, quote(direct+"shift"), n, quote(direct+"false"))}
}

func trimDashes(args []string) []string {
	if len(args) > 0 && args[0] == "--" {
		return args[1:]
	}
	return args
}

func (u *unit) replace(hc interp.HandlerContext, args []string, plain bool) []string {
	prefix := overridable
	if plain {
		prefix = direct
	}
	switch args[0] {
	case "test", "[":
		// These two need the shell's own state.
		for i, arg := range args[1:] {
			if arg == "-v" || arg == "-R" || arg == "-o" && (i == 0 || args[i] == "!" || args[i] == "(") {
				return args
			}
		}
	case "read":
		if simple, ok := simpleRead(args, separators(hc)); ok {
			return simple
		}
	case "type":
		return u.askFunctions(prefix+"type", args)
	case "getopts":
		if len(args) == 3 {
			return []string{"eval", direct + "getopts " + quoted(args[1:]) + ` "$@"`}
		}
	}
	return append([]string{prefix + args[0]}, args[1:]...)
}

// peelCommand vets what command runs, which is not shown to the handler again.
func (u *unit) peelCommand(hc interp.HandlerContext, args []string) []string {
	rest := args[1:]
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") && len(rest[0]) > 1 {
		flags := rest[0]
		rest = rest[1:]
		if flags == "--" {
			break
		}
		switch strings.ReplaceAll(flags[1:], "p", "") {
		case "":
		case "v":
			return u.askFunctions(direct+"command-v", append([]string{""}, trimDashes(rest)...))
		case "V":
			return u.askFunctions(direct+"type", append([]string{""}, trimDashes(rest)...))
		default:
			return fails(2, "command: invalid option %q", flags)
		}
	}
	if len(rest) == 0 {
		return []string{"true"}
	}
	inner := u.rewrite(hc, rest, true)
	if _, ok := own(inner[0]); ok {
		return inner
	}
	return append([]string{"command", "--"}, inner...)
}

func (u *unit) peelBuiltin(hc interp.HandlerContext, args []string) []string {
	rest := trimDashes(args[1:])
	if len(rest) == 0 {
		return []string{"true"}
	}
	if !interp.IsBuiltin(rest[0]) {
		return fails(1, "builtin: %s: not a shell builtin", rest[0])
	}
	inner := u.rewrite(hc, rest, true)
	if _, ok := own(inner[0]); ok || inner[0] == "command" {
		return inner
	}
	return append([]string{"builtin"}, inner...)
}

// quoted is words as a shell reads them back.
func quoted(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = quote(w)
	}
	return strings.Join(list, " ")
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// declare is a declaration with arguments that were not known before: it is
// vetted and run as one with constants.
func declare(args []string) []string {
	text, reference := args[0], args[0] == "nameref"
	for _, arg := range args[1:] {
		name, value, assigns := strings.Cut(arg, "=")
		switch {
		case strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "+"):
			if strings.Trim(arg[1:], "aAxrngfpFilut") != "" {
				return fails(2, "%s: invalid option %q", args[0], arg)
			}
			reference = reference || strings.Contains(arg, "n")
			text += " " + arg
		case !syntax.ValidName(strings.TrimSuffix(name, "+")):
			return fails(1, "%s: %q: not a valid identifier", args[0], arg)
		case assigns && reference && !syntax.ValidName(value):
			return fails(1, "%s: %q: invalid variable name for a name reference", args[0], value)
		case assigns:
			text += " " + name + "=" + quote(value)
		default:
			text += " " + name
		}
	}
	return []string{"eval", text}
}

// ignoreOptions drops from set's arguments what changes nothing here: error
// traps are inherited anyway, and there is no job control.
func ignoreOptions(args []string) []string {
	var kept []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" || arg == "-" || arg == "+" || len(arg) < 2 || arg[0] != '-' && arg[0] != '+' {
			return append(kept, args[i:]...)
		}
		flags := strings.Map(func(r rune) rune {
			if strings.ContainsRune("EThbmBHP", r) {
				return -1
			}
			return r
		}, arg[1:])
		if strings.HasSuffix(flags, "o") && i+1 < len(args) {
			if i++; !changesNothing(args[i]) {
				kept = append(kept, arg[:1]+flags, args[i])
				continue
			}
			flags = flags[:len(flags)-1]
		}
		if flags != "" {
			kept = append(kept, arg[:1]+flags)
		}
	}
	if kept == nil && len(args) > 0 {
		return []string{"-"} // nothing to set: without arguments, set would list
	}
	return kept
}

// changesNothing says which options of set -o mean nothing here.
func changesNothing(option string) bool {
	switch option {
	case "errtrace", "functrace", "hashall", "monitor", "notify", "posix", "braceexpand", "physical", "history", "interactive-comments", "vi", "emacs":
		return true
	}
	return false
}

// ignoreShopt drops what the interpreter does anyway.
func ignoreShopt(args []string) []string {
	var kept []string
	dropped := false
	for _, arg := range args {
		switch arg {
		case "inherit_errexit", "lastpipe", "checkwinsize", "cmdhist", "promptvars", "sourcepath", "interactive_comments":
			dropped = true
		default:
			kept = append(kept, arg)
		}
	}
	if dropped && len(kept) == 2 && kept[1] == "-s" {
		return []string{"true"}
	}
	return args
}

func (u *unit) cd(hc interp.HandlerContext, args []string) []string {
	physical, rest := false, args[1:]
	for len(rest) > 0 && len(rest[0]) > 1 && rest[0][0] == '-' {
		flag := rest[0]
		if flag != "--" && strings.Trim(flag[1:], "LPe") != "" {
			break
		}
		rest = rest[1:]
		if flag == "--" {
			break
		}
		physical = strings.Contains(flag, "P")
	}
	if physical && len(rest) == 1 && rest[0] != "-" {
		real, err := tools.Realpath(u.p.ns, hc.Dir, rest[0])
		if err != nil {
			return fails(1, "cd: %s: no such file or directory", rest[0])
		}
		rest = []string{real}
	}
	return append([]string{"cd"}, rest...)
}

func (u *unit) exits(hc interp.HandlerContext, args []string) {
	if len(args) != 2 || !u.inExit.Load() || !u.isMain(hc) {
		return
	}
	if n, err := strconv.Atoi(args[1]); err == nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		status := int(uint8(n))
		u.override = &status
	}
}

// alias vets the text of aliases: it is parsed without any limit.
func (u *unit) alias(args []string) []string {
	out := []string{"alias"}
	for _, arg := range args[1:] {
		name, text, ok := strings.Cut(arg, "=")
		if !ok {
			out = append(out, arg)
			continue
		}
		text, _, err := u.p.e.vet("alias", text, u.pid)
		if err != nil {
			return fails(1, "alias: %v", err)
		}
		out = append(out, name+"="+text)
	}
	return out
}
