package tools

import "strings"

// option is one that was given.
type option struct {
	flag  rune
	value string
}

// options parses the arguments as getopt_long does. short has the flags, each
// followed by ":" if it takes a value and by "::" if it takes one only attached to
// it; a leading "+" ends options at the first operand. long maps long names to flags. An unknown option ends the tool with
// the status bad.
func (t *tool) options(short string, long map[string]rune, bad int) (given []option, operands []string) {
	return t.parse(t.Args, short, long, bad)
}

func (t *tool) parse(args []string, short string, long map[string]rune, bad int) (given []option, operands []string) {
	strict := strings.HasPrefix(short, "+")
	short = strings.TrimPrefix(short, "+")
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			return given, append(operands, args...)
		case strings.HasPrefix(arg, "--"):
			name, value, has := strings.Cut(arg[2:], "=")
			flag := t.longFlag(name, long, bad)
			takes, optional := takesValue(short, flag)
			if takes && !has && !optional {
				if len(args) == 0 {
					t.die(bad, "option --%s needs a value", name)
				}
				value, args = args[0], args[1:]
			}
			if has && !takes {
				t.die(bad, "option --%s takes no value", name)
			}
			given = append(given, option{flag, value})
		case len(arg) > 1 && arg[0] == '-':
			rest := arg[1:]
			for rest != "" {
				flag := rune(rest[0])
				rest = rest[1:]
				if flag == ':' || !strings.ContainsRune(short, flag) {
					t.die(bad, "invalid option -- %s", quote(string(flag)))
				}
				takes, optional := takesValue(short, flag)
				if !takes {
					given = append(given, option{flag, ""})
					continue
				}
				if rest == "" && !optional {
					if len(args) == 0 {
						t.die(bad, "option -%c needs a value", flag)
					}
					rest, args = args[0], args[1:]
				}
				given = append(given, option{flag, rest})
				rest = ""
			}
		case strict:
			return given, append(append(operands, arg), args...)
		default:
			operands = append(operands, arg)
		}
	}
	return given, operands
}

func takesValue(short string, flag rune) (takes, optional bool) {
	i := strings.IndexRune(short, flag)
	if i < 0 {
		return false, false
	}
	rest := short[i+1:]
	return strings.HasPrefix(rest, ":"), strings.HasPrefix(rest, "::")
}

// longFlag finds a long option by its name or an unambiguous start of it.
func (t *tool) longFlag(name string, long map[string]rune, bad int) rune {
	if flag, ok := long[name]; ok {
		return flag
	}
	var found rune
	for full, flag := range long {
		if !strings.HasPrefix(full, name) || flag == found {
			continue
		}
		if found != 0 {
			t.die(bad, "option --%s is ambiguous", name)
		}
		found = flag
	}
	if found == 0 {
		t.die(bad, "unrecognized option '--%s'", name)
	}
	return found
}
