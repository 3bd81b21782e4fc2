package tools

import (
	"io"
	"strings"
)

// There is one user in a container, and one machine that tells nothing of the real one.
const (
	machineName = "localhost"
	machineArch = "wasm32" // what programs must be made for
)

// ownerName is the name of a user or group, which only root has.
func ownerName(id uint32) string { return (&listing{}).owner(id) }

func id(t *tool) int {
	given, args := t.options("ugGnrz", map[string]rune{"user": 'u', "group": 'g', "groups": 'G', "name": 'n', "real": 'r'}, 1)
	if len(args) > 1 || len(args) == 1 && args[0] != "root" && args[0] != "0" {
		t.die(1, "%s: no such user", quote(strings.Join(args, " ")))
	}
	what, name := rune(0), false
	for _, o := range given {
		switch o.flag {
		case 'u', 'g', 'G':
			what = o.flag
		case 'n':
			name = true
		case 'z':
			t.die(1, "-z is not supported")
		}
	}
	switch {
	case what == 0 && name:
		t.die(1, "cannot print only names in default format")
	case what == 0:
		t.printf("uid=0(root) gid=0(root) groups=0(root)\n")
	case name:
		t.printf("root\n")
	default:
		t.printf("0\n")
	}
	return 0
}

func whoami(t *tool) int {
	t.printf("root\n")
	return 0
}

func uname(t *tool) int {
	given, _ := t.options("asnrvmpio", map[string]rune{"all": 'a', "kernel-name": 's', "nodename": 'n', "kernel-release": 'r', "kernel-version": 'v', "machine": 'm',
		"processor": 'p', "hardware-platform": 'i', "operating-system": 'o'}, 1)
	facts := []struct {
		flag rune
		text string
	}{{'s', "Linux"}, {'n', machineName}, {'r', "1.0.0-slipway"}, {'v', "#1 memory"}, {'m', machineArch}, {'p', "unknown"}, {'i', "unknown"}, {'o', "Slipway"}}
	want := make(map[rune]bool)
	for _, o := range given {
		want[o.flag] = true
	}
	if len(want) == 0 {
		want['s'] = true
	}
	var words []string
	for _, f := range facts {
		if want[f.flag] || want['a'] && f.text != "unknown" {
			words = append(words, f.text)
		}
	}
	t.printf("%s\n", strings.Join(words, " "))
	return 0
}

func arch(t *tool) int {
	t.printf("%s\n", machineArch)
	return 0
}

func hostname(t *tool) int {
	if len(t.Args) > 0 && !strings.HasPrefix(t.Args[0], "-") {
		t.die(1, "the name cannot be changed")
	}
	t.printf("%s\n", machineName)
	return 0
}

// nproc is 1: scripts run no faster with more of them at once.
func nproc(t *tool) int {
	given, _ := t.options("\x01\x02:", map[string]rune{"all": 1, "ignore": 2}, 1)
	for _, o := range given {
		if o.flag == 2 {
			t.count(o, 0)
		}
	}
	t.printf("1\n")
	return 0
}

func getconf(t *tool) int {
	if len(t.Args) != 1 {
		t.die(2, "one variable is needed")
	}
	value, ok := map[string]string{"_NPROCESSORS_ONLN": "1", "_NPROCESSORS_CONF": "1", "PAGE_SIZE": "4096", "PAGESIZE": "4096", "ARG_MAX": "2097152",
		"PATH_MAX": "4096", "NAME_MAX": "255", "LONG_BIT": "64"}[t.Args[0]]
	if !ok {
		t.die(2, "unrecognized variable %s", quote(t.Args[0]))
	}
	t.printf("%s\n", value)
	return 0
}

// tty says that there is no terminal.
func tty(t *tool) int {
	given, _ := t.options("s", map[string]rune{"silent": 's', "quiet": 's'}, 2)
	if len(given) == 0 {
		t.printf("not a tty\n")
	}
	return 1
}

// syncTool has nothing to do: there is no disk.
func syncTool(*tool) int { return 0 }

func which(t *tool) int {
	given, args := t.options("as", nil, 2)
	silent := false
	for _, o := range given {
		silent = silent || o.flag == 's'
	}
	status := 0
	if len(args) == 0 {
		status = 1
	}
	for _, name := range args {
		where, ok := "", false
		if t.Find != nil {
			where, ok = t.Find(name)
		}
		if !ok {
			status = 1
			continue
		}
		if !silent {
			t.printf("%s\n", where)
		}
	}
	return status
}

// getopt puts a script's arguments into order, as util-linux has it.
func getopt(t *tool) int {
	given, args := t.options("+o:l:n:qQTuas:", map[string]rune{"options": 'o', "longoptions": 'l', "name": 'n', "quiet": 'q', "test": 'T', "unquoted": 'u', "alternative": 'a',
		"shell": 's'}, 2)
	short, long, name, quiet, test, unquoted, enhanced := "", map[string]string{}, "getopt", false, false, false, false
	for _, o := range given {
		switch o.flag {
		case 'o':
			short, enhanced = o.value, true
		case 'l':
			for l := range strings.SplitSeq(o.value, ",") {
				if plain := strings.TrimRight(l, ":"); plain != "" {
					long[plain] = strings.TrimPrefix(l, plain)
				}
			}
		case 'n':
			name = o.value
		case 'q':
			quiet = true
		case 'T':
			test = true
		case 'u':
			unquoted = true
		case 'Q', 'a':
			t.die(2, "-%c is not supported", o.flag)
		}
	}
	if test {
		return 4
	}
	if !enhanced {
		if len(args) == 0 {
			t.die(2, "missing optstring argument")
		}
		short, args, unquoted = args[0], args[1:], true
	}
	g := &ordering{tool: t, name: name, quiet: quiet, short: short, long: long}
	g.order(args)
	show := func(s string) string {
		if unquoted {
			return s
		}
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	for _, o := range g.options {
		t.printf(" %s", o.name)
		if o.hasValue {
			t.printf(" %s", show(o.value))
		}
	}
	t.printf(" --")
	for _, o := range g.operands {
		t.printf(" %s", show(o))
	}
	t.printf("\n")
	if g.bad {
		return 1
	}
	return 0
}

// ordering is getopt's work.
type ordering struct {
	*tool
	name  string
	quiet bool
	short string
	long  map[string]string

	options []struct {
		name, value string
		hasValue    bool
	}
	operands []string
	bad      bool
}

func (g *ordering) wrong(format string, name string) {
	g.bad = true
	if !g.quiet {
		g.out.Flush()
		io.WriteString(g.Stderr, g.name+": "+strings.Replace(format, "%s", name, 1)+"\n")
	}
}

func (g *ordering) add(name, value string, hasValue bool) {
	g.options = append(g.options, struct {
		name, value string
		hasValue    bool
	}{name, value, hasValue})
}

func (g *ordering) order(args []string) {
	inOrder := strings.HasPrefix(g.short, "+")
	short := strings.TrimLeft(g.short, "+-")
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			g.operands = append(g.operands, args...)
			return
		case strings.HasPrefix(arg, "--"):
			args = g.longOption(arg[2:], args)
		case strings.HasPrefix(arg, "-") && arg != "-":
			for rest := arg[1:]; rest != ""; {
				c := rest[:1]
				rest = rest[1:]
				i := strings.Index(short, c)
				if i < 0 || c == ":" {
					g.wrong("invalid option -- '%s'", c)
					continue
				}
				takes := len(short[i+1:]) - len(strings.TrimLeft(short[i+1:], ":"))
				switch {
				case takes == 0:
					g.add("-"+c, "", false)
					continue
				case rest != "" || takes == 2:
					g.add("-"+c, rest, true)
				case len(args) == 0:
					g.wrong("option requires an argument -- '%s'", c)
				default:
					g.add("-"+c, args[0], true)
					args = args[1:]
				}
				rest = ""
			}
		default:
			g.operands = append(g.operands, arg)
			if inOrder {
				g.operands = append(g.operands, args...)
				return
			}
		}
	}
}

func (g *ordering) longOption(arg string, args []string) []string {
	name, value, has := strings.Cut(arg, "=")
	full := ""
	for l := range g.long {
		if l == name {
			full = l
			break
		}
		if strings.HasPrefix(l, name) {
			if full != "" {
				g.wrong("option '--%s' is ambiguous", name)
				return args
			}
			full = l
		}
	}
	if full == "" {
		g.wrong("unrecognized option '--%s'", name)
		return args
	}
	switch takes := g.long[full]; {
	case takes == "" && has:
		g.wrong("option '--%s' doesn't allow an argument", full)
	case takes == "":
		g.add("--"+full, "", false)
	case has || takes == "::":
		g.add("--"+full, value, true)
	case len(args) == 0:
		g.wrong("option '--%s' requires an argument", full)
	default:
		g.add("--"+full, args[0], true)
		return args[1:]
	}
	return args
}
