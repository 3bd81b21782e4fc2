package tools

import (
	"bytes"
	"math"
	"path"
	"strconv"
	"strings"
	"time"
)

func echo(t *tool) int {
	args, newline, escapes := t.Args, true, false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && strings.Trim(args[0][1:], "neE") == "" {
		for _, flag := range args[0][1:] {
			switch flag {
			case 'n':
				newline = false
			default:
				escapes = flag == 'e'
			}
		}
		args = args[1:]
	}
	s := strings.Join(args, " ")
	if escapes {
		text, stop := unescape(s, octalZero)
		s, newline = text, newline && !stop
	}
	t.out.WriteString(s)
	if newline {
		t.out.WriteByte('\n')
	}
	return 0
}

// octal says how an octal escape is written.
type octal int

const (
	octalZero   octal = iota // \0nnn: echo -e
	octalPlain               // \nnn: formats
	octalEither              // printf %b
)

// unescape replaces backslash escapes. stop says that \c was met.
func unescape(s string, form octal) (text string, stop bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, false
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if j := strings.IndexByte(`abefnrtv\`, c); j >= 0 {
			b.WriteByte("\a\b\x1b\f\n\r\t\v\\"[j])
			continue
		}
		digits := func(from, most, base int) {
			n := 0
			for n < most && from+n < len(s) && isDigit(s[from+n], base) {
				n++
			}
			v, _ := strconv.ParseUint(s[from:from+n], base, 32)
			i = from + n - 1
			if c == 'u' || c == 'U' {
				b.WriteRune(rune(v))
				return
			}
			b.WriteByte(byte(v))
		}
		switch {
		case c == 'c':
			return b.String(), true
		case c == 'E':
			b.WriteByte(0x1b)
		case c == 'x' && i+1 < len(s) && isDigit(s[i+1], 16):
			digits(i+1, 2, 16)
		case c == 'u' && i+1 < len(s) && isDigit(s[i+1], 16):
			digits(i+1, 4, 16)
		case c == 'U' && i+1 < len(s) && isDigit(s[i+1], 16):
			digits(i+1, 8, 16)
		case c == '0' && form != octalPlain:
			if i+1 < len(s) && isDigit(s[i+1], 8) {
				digits(i+1, 3, 8)
				break
			}
			b.WriteByte(0)
		case isDigit(c, 8) && form != octalZero:
			digits(i, 3, 8)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), false
}

func isDigit(c byte, base int) bool {
	switch {
	case c >= '0' && c <= '9':
		return int(c-'0') < base
	case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		return base == 16
	}
	return false
}

func yes(t *tool) int {
	word := "y"
	if len(t.Args) > 0 {
		word = strings.Join(t.Args, " ")
	}
	block := bytes.Repeat([]byte(word+"\n"), max(1, 8192/(len(word)+1)))
	for {
		t.out.Write(block)
	}
}

func pwd(t *tool) int {
	given, _ := t.options("LP", map[string]rune{"logical": 'L', "physical": 'P'}, 1)
	dir := t.Dir
	physical := false
	for _, o := range given {
		physical = o.flag == 'P'
	}
	if physical {
		real, err := t.realpath(dir, true)
		if err != nil {
			t.fail(dir, err)
			return 1
		}
		dir = real
	}
	t.printf("%s\n", dir)
	return 0
}

func sleep(t *tool) int {
	if len(t.Args) == 0 {
		t.die(1, "missing operand")
	}
	var total time.Duration
	for _, arg := range t.Args {
		d, ok := seconds(arg)
		if !ok {
			t.die(1, "invalid time interval %s", quote(arg))
		}
		total += d
		if total < 0 {
			total = math.MaxInt64
		}
	}
	timer := time.NewTimer(total)
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0
	case <-t.ctx.Done():
		return statusPipe
	}
}

// seconds parses a number of seconds with an optional suffix s, m, h or d.
func seconds(s string) (time.Duration, bool) {
	unit := time.Second
	if s != "" {
		switch s[len(s)-1] {
		case 's':
			s = s[:len(s)-1]
		case 'm':
			unit, s = time.Minute, s[:len(s)-1]
		case 'h':
			unit, s = time.Hour, s[:len(s)-1]
		case 'd':
			unit, s = 24*time.Hour, s[:len(s)-1]
		}
	}
	if s == "inf" || s == "infinity" {
		return math.MaxInt64, true
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n < 0 || math.IsNaN(n) {
		return 0, false
	}
	if n*float64(unit) >= math.MaxInt64 {
		return math.MaxInt64, true
	}
	return time.Duration(n * float64(unit)), true
}

func basename(t *tool) int {
	given, args := t.options("+as:z", map[string]rune{"multiple": 'a', "suffix": 's', "zero": 'z'}, 1)
	many, suffix, end := false, "", byte('\n')
	for _, o := range given {
		switch o.flag {
		case 'a':
			many = true
		case 's':
			many, suffix = true, o.value
		case 'z':
			end = 0
		}
	}
	if len(args) == 0 {
		t.die(1, "missing operand")
	}
	if !many && len(args) > 2 {
		t.die(1, "extra operand %s", quote(args[2]))
	}
	if !many && len(args) == 2 {
		suffix, args = args[1], args[:1]
	}
	for _, arg := range args {
		base := arg
		if arg != "" {
			base = path.Base(arg)
		}
		if base != suffix {
			base = strings.TrimSuffix(base, suffix)
		}
		t.line([]byte(base), end)
	}
	return 0
}

func dirname(t *tool) int {
	given, args := t.options("z", map[string]rune{"zero": 'z'}, 1)
	end := byte('\n')
	if len(given) > 0 {
		end = 0
	}
	if len(args) == 0 {
		t.die(1, "missing operand")
	}
	for _, arg := range args {
		t.line([]byte(parent(arg)), end)
	}
	return 0
}

// parent is the directory part of a path, not cleaned.
func parent(p string) string {
	p = strings.TrimRight(p, "/")
	i := strings.LastIndexByte(p, '/')
	if p == "" && i < 0 {
		return "/"
	}
	if i < 0 {
		return "."
	}
	if p = strings.TrimRight(p[:i], "/"); p == "" {
		return "/"
	}
	return p
}

// seq prints numbers. Whole ones are counted exactly; others in float64.
func seq(t *tool) int {
	sep, format, wide := "\n", "", false
	args := t.Args
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && !isDigit(args[0][1], 10) && args[0][1] != '.' {
		arg := args[0]
		args = args[1:]
		value := func() string {
			if len(arg) > 2 {
				return arg[2:]
			}
			if len(args) == 0 {
				t.die(1, "option %s needs a value", arg)
			}
			v := args[0]
			args = args[1:]
			return v
		}
		switch {
		case arg == "--":
		case arg == "-w", arg == "--equal-width":
			wide = true
			continue
		case strings.HasPrefix(arg, "--separator="):
			sep = strings.TrimPrefix(arg, "--separator=")
			continue
		case strings.HasPrefix(arg, "--format="):
			format = strings.TrimPrefix(arg, "--format=")
			continue
		case arg[1] == 's':
			sep = value()
			continue
		case arg[1] == 'f':
			format = value()
			continue
		default:
			t.die(1, "invalid option %s", quote(arg))
		}
		break
	}
	if len(args) == 0 || len(args) > 3 {
		t.die(1, "give one to three numbers")
	}
	first, step, last := "1", "1", args[len(args)-1]
	if len(args) > 1 {
		first = args[0]
	}
	if len(args) == 3 {
		step = args[1]
	}
	places := 0
	num := func(s string, counts bool) float64 {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(n) {
			t.die(1, "invalid floating point argument: %s", quote(s))
		}
		if i := strings.IndexByte(s, '.'); i >= 0 && counts {
			places = max(places, len(s)-i-1)
		}
		return n
	}
	from, by, to := num(first, true), num(step, true), num(last, false)
	if by == 0 {
		t.die(1, "the increment must not be zero: %s", quote(step))
	}
	if format != "" && strings.Count(strings.ReplaceAll(format, "%%", ""), "%") != 1 {
		t.die(1, "format %s must have exactly one %% directive", quote(format))
	}
	width := 0
	if wide {
		places = max(places, len(last)-1-strings.LastIndexByte(last+".", '.'))
		width = max(len(strconv.FormatFloat(from, 'f', places, 64)), len(strconv.FormatFloat(to, 'f', places, 64)))
	}
	for i := 0.0; ; i++ {
		n := from + i*by
		if by > 0 && n > to+math.Abs(by)*1e-10 || by < 0 && n < to-math.Abs(by)*1e-10 {
			if i > 0 {
				t.out.WriteByte('\n')
			}
			return 0
		}
		if i > 0 {
			t.out.WriteString(sep)
		}
		s := strconv.FormatFloat(n, 'f', places, 64)
		if format != "" {
			s, _, _ = (&formatter{t: t}).format(format, []string{strconv.FormatFloat(n, 'g', -1, 64)})
		}
		if len(s) < width && n < 0 {
			s = "-" + strings.Repeat("0", width-len(s)) + s[1:]
		}
		t.out.WriteString(strings.Repeat("0", max(0, width-len(s))))
		t.out.WriteString(s)
	}
}
