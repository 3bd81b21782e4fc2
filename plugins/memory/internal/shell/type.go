package shell

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// askFunctions is a command that first learns which of its operands are
// functions, which only the interpreter knows, and then runs name.
func (u *unit) askFunctions(name string, args []string) []string {
	u.mu.Lock()
	u.texted++
	token := strconv.Itoa(u.texted)
	u.mu.Unlock()
	var b strings.Builder
	for _, arg := range args[1:] {
		if !syntax.ValidName(arg) {
			continue
		}
		names := []string{arg}
		if replaced(arg) {
			names = nil // its function has a name that cannot be asked for
		}
		for _, n := range names {
			fmt.Fprintf(&b, "if declare -f %s >/dev/null; then %s %s %s; fi\n", quote(n), quote(direct+"function"), token, quote(arg))
		}
	}
	fmt.Fprintf(&b, "%s %s %s\n", quote(name), token, quoted(args[1:]))
	return []string{"eval", b.String()}
}

// foundFunction notes that a name is a function's.
func (u *unit) foundFunction(_ context.Context, _ interp.HandlerContext, args []string) error {
	if len(args) != 2 {
		return status(2)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.asked == nil {
		u.asked = make(map[string]bool)
	}
	u.asked[args[0]+":"+args[1]] = true
	return nil
}

// isFunction takes what foundFunction noted.
func (u *unit) isFunction(token, name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer delete(u.asked, token+":"+name)
	return u.asked[token+":"+name]
}

// kind says what a command name is.
func (u *unit) kind(hc interp.HandlerContext, token, name string) (kind, path string) {
	switch {
	case syntax.IsKeyword(name):
		return "keyword", ""
	case u.isFunction(token, name):
		return "function", ""
	case interp.IsBuiltin(name):
		return "builtin", ""
	}
	x, err := u.p.e.resolve(u.p.ns, name, hc.Dir, hc.Env.Get("PATH").String())
	if err != nil {
		return "", ""
	}
	return "file", x.path
}

func (u *unit) commandV(_ context.Context, hc interp.HandlerContext, args []string) error {
	code := 1
	for _, name := range args[1:] {
		kind, path := u.kind(hc, args[0], name)
		switch kind {
		case "":
			continue
		case "file":
			name = path
		}
		code = 0
		fmt.Fprintln(hc.Stdout, name)
	}
	return status(code)
}

func (u *unit) typeOf(_ context.Context, hc interp.HandlerContext, args []string) error {
	if len(args) == 0 {
		return nil
	}
	token, args := args[0], args[1:]
	mode := byte(0)
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		flag := args[0]
		args = args[1:]
		if flag == "--" {
			break
		}
		if len(flag) != 2 || !strings.Contains("tpPaf", flag[1:]) {
			return refuse(hc, 2, "type: invalid option %q", flag)
		}
		mode = flag[1]
	}
	code := 0
	for _, name := range args {
		kind, path := u.kind(hc, token, name)
		switch {
		case kind == "" && mode == 0, kind == "" && mode == 'a', kind == "" && mode == 'f':
			fmt.Fprintf(hc.Stderr, "%s: type: %s: not found\n", u.name, name)
			code = 1
		case kind == "":
			code = 1
		case mode == 't':
			fmt.Fprintln(hc.Stdout, kind)
		case mode == 'p' || mode == 'P':
			if kind == "file" {
				fmt.Fprintln(hc.Stdout, path)
			}
		case kind == "file":
			fmt.Fprintf(hc.Stdout, "%s is %s\n", name, path)
		case kind == "function":
			fmt.Fprintf(hc.Stdout, "%s is a function\n", name)
		default:
			fmt.Fprintf(hc.Stdout, "%s is a shell %s\n", name, kind)
		}
	}
	return status(code)
}
