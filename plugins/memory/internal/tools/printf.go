package tools

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

func printf(t *tool) int {
	args := t.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		t.die(2, "usage: printf FORMAT [ARGUMENT]...")
	}
	format, args := args[0], args[1:]
	f := &formatter{t: t}
	for {
		s, used, stop := f.format(format, args)
		t.out.WriteString(s)
		args = args[used:]
		if stop || used == 0 || len(args) == 0 {
			break
		}
	}
	return t.status
}

// formatter does printf's formats. A bad argument is complained of and counts
// as zero; a bad directive ends the tool.
type formatter struct{ t *tool }

// format does the format once, and says how many arguments it used, and
// whether \c ends all output.
func (f *formatter) format(format string, args []string) (text string, used int, stop bool) {
	var b strings.Builder
	next := func() (string, bool) {
		if used == len(args) {
			return "", false
		}
		used++
		return args[used-1], true
	}
	for i := 0; i < len(format); {
		c := format[i]
		if c == '\\' {
			n := escapeLen(format[i:])
			s, stop := unescape(format[i:i+n], octalPlain)
			if strings.HasPrefix(s, `\"`) || strings.HasPrefix(s, `\'`) {
				s = s[1:]
			}
			b.WriteString(s)
			if stop {
				return b.String(), used, true
			}
			i += n
			continue
		}
		if c != '%' {
			b.WriteByte(c)
			i++
			continue
		}
		if i++; i < len(format) && format[i] == '%' {
			b.WriteByte('%')
			i++
			continue
		}
		var d directive
		d.prec = -1
		for i < len(format) && strings.IndexByte("-+ #0'", format[i]) >= 0 {
			d.flags += string(format[i])
			i++
		}
		number := func() int {
			if i < len(format) && format[i] == '*' {
				i++
				arg, _ := next()
				return f.bounded(f.integer(arg))
			}
			from := i
			for i < len(format) && isDigit(format[i], 10) {
				i++
			}
			n, err := strconv.Atoi("0" + format[from:i])
			if err != nil {
				n = math.MaxInt32
			}
			return f.bounded(int64(n))
		}
		if d.width = number(); d.width < 0 {
			d.flags, d.width = d.flags+"-", -d.width
		}
		if i < len(format) && format[i] == '.' {
			i++
			d.prec = number()
		}
		for i < len(format) && strings.IndexByte("hlLqjzt", format[i]) >= 0 && !(format[i] == 'q') {
			i++
		}
		if i == len(format) {
			f.t.die(1, "%s: the format ends within a directive", quote(format))
		}
		d.verb = format[i]
		i++
		arg, given := "", false
		if end := strings.Index(format[i:], ")T"); d.verb == '(' && end >= 0 {
			layout := format[i : i+end]
			i += end + len(")T")
			arg, given = next()
			at := time.Now()
			if n := f.integer(arg); given && n >= 0 { // -1: now; -2, when the shell began, is taken for that, too
				at = time.Unix(n, 0)
			}
			if layout == "" {
				layout = "%X"
			}
			b.WriteString(d.pad(strftime(layout, at.In(f.t.zone()))))
			continue
		}
		if strings.IndexByte("diouxXeEfFgGaAcsbq", d.verb) < 0 {
			f.t.out.WriteString(b.String())
			f.t.die(1, "%%%c: invalid directive", d.verb)
		}
		arg, given = next()
		s, stop := f.convert(d, arg, given)
		b.WriteString(s)
		if stop {
			return b.String(), used, true
		}
	}
	return b.String(), used, false
}

// maxWidth bounds what one directive can make.
const maxWidth = 1 << 20

func (f *formatter) bounded(n int64) int {
	if n > maxWidth || n < -maxWidth {
		f.t.die(1, "a width or precision is over %d", maxWidth)
	}
	return int(n)
}

// escapeLen is how many bytes of s, which starts with a backslash, one escape takes.
func escapeLen(s string) int {
	if len(s) < 2 {
		return 1
	}
	n, most, base := 2, 0, 8
	switch c := s[1]; {
	case isDigit(c, 8):
		most = 2
	case c == 'x':
		most, base = 2, 16
	case c == 'u':
		most, base = 4, 16
	case c == 'U':
		most, base = 8, 16
	}
	for ; most > 0 && n < len(s) && isDigit(s[n], base); most-- {
		n++
	}
	return n
}

type directive struct {
	flags       string
	width, prec int // prec is -1 if there is none
	verb        byte
}

func (d directive) has(flag string) bool { return strings.Contains(d.flags, flag) }

func (d directive) pad(s string) string {
	n := d.width - utf8.RuneCountInString(s)
	if n <= 0 {
		return s
	}
	if d.has("-") {
		return s + strings.Repeat(" ", n)
	}
	return strings.Repeat(" ", n) + s
}

func (f *formatter) convert(d directive, arg string, given bool) (text string, stop bool) {
	cut := func(s string) string {
		if d.prec >= 0 && d.prec < len(s) {
			return s[:d.prec]
		}
		return s
	}
	switch d.verb {
	case 's':
		return d.pad(cut(arg)), false
	case 'b':
		s, stop := unescape(arg, octalEither)
		return d.pad(cut(s)), stop
	case 'q':
		if !given {
			return d.pad("''"), false
		}
		return d.pad(ShellQuote(arg)), false
	case 'c':
		if arg == "" {
			return d.pad(""), false
		}
		return d.pad(arg[:1]), false
	case 'd', 'i':
		n := f.integer(arg)
		if n < 0 {
			return d.digits("-", strconv.FormatUint(uint64(-n), 10)), false
		}
		sign := ""
		switch {
		case d.has("+"):
			sign = "+"
		case d.has(" "):
			sign = " "
		}
		return d.digits(sign, strconv.FormatInt(n, 10)), false
	case 'o', 'u', 'x', 'X':
		n := uint64(f.integer(arg))
		base := map[byte]int{'o': 8, 'u': 10, 'x': 16, 'X': 16}[d.verb]
		s, sign := strconv.FormatUint(n, base), ""
		if d.verb == 'X' {
			s = strings.ToUpper(s)
		}
		if d.has("#") && n != 0 {
			sign = map[byte]string{'o': "0", 'x': "0x", 'X': "0X"}[d.verb]
		}
		return d.digits(sign, s), false
	}
	return f.float(d, arg), false
}

// digits pads an integer.
func (d directive) digits(sign, s string) string {
	if d.prec == 0 && s == "0" {
		s = ""
	}
	s = strings.Repeat("0", max(0, d.prec-len(s))) + s
	if d.has("0") && !d.has("-") && d.prec < 0 {
		s = strings.Repeat("0", max(0, d.width-len(sign)-len(s))) + s
	}
	return d.pad(sign + s)
}

func (f *formatter) float(d directive, arg string) string {
	n := 0.0
	if arg != "" {
		v, err := strconv.ParseFloat(strings.TrimLeft(arg, " \t\n"), 64)
		switch {
		case quoted(arg):
			v = float64(f.integer(arg))
		case err != nil && !math.IsInf(v, 0):
			f.t.complain("%s: expected a numeric value", quote(arg))
		}
		n = v
	}
	// Go's verbs are C's but for %a, and for infinities with the flag 0.
	verb := d.verb
	switch verb {
	case 'F':
		verb = 'f'
	case 'a':
		verb = 'x'
	case 'A':
		verb = 'X'
	}
	flags := strings.ReplaceAll(d.flags, "'", "")
	if math.IsInf(n, 0) || math.IsNaN(n) {
		s := strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(n, 'g', -1, 64), "+"))
		if d.verb <= 'Z' {
			s = strings.ToUpper(s)
		}
		if d.has("+") && s[0] != '-' {
			s = "+" + s
		}
		return d.pad(s)
	}
	prec := d.prec
	if prec < 0 && verb != 'x' && verb != 'X' {
		prec = 6
	}
	if prec < 0 {
		return fmt.Sprintf("%"+flags+strconv.Itoa(d.width)+string(verb), n)
	}
	if prec == 0 && (verb == 'g' || verb == 'G') {
		prec = 1
	}
	width := ""
	if d.width > 0 {
		width = strconv.Itoa(d.width)
	}
	return fmt.Sprintf("%"+flags+width+"."+strconv.Itoa(prec)+string(verb), n)
}

// quoted says whether a numeric argument is a character after a quote.
func quoted(arg string) bool { return len(arg) > 1 && (arg[0] == '\'' || arg[0] == '"') }

func (f *formatter) integer(arg string) int64 {
	if arg == "" {
		return 0
	}
	if quoted(arg) {
		r, n := utf8.DecodeRuneInString(arg[1:])
		if r == utf8.RuneError && n <= 1 {
			return int64(arg[1])
		}
		return int64(r)
	}
	s := strings.TrimLeft(arg, " \t\n")
	n, err := strconv.ParseInt(s, 0, 64)
	if err == nil && !strings.ContainsAny(s, "_bBoO") {
		return n
	}
	if u, uerr := strconv.ParseUint(s, 0, 64); uerr == nil && !strings.ContainsAny(s, "_bBoO") {
		return int64(u)
	}
	f.t.complain("%s: expected a numeric value", quote(arg))
	// As much of it as is a number counts.
	for end := len(s); end > 0; end-- {
		if n, err := strconv.ParseInt(s[:end], 0, 64); err == nil && !strings.ContainsAny(s[:end], "_bBoO") {
			return n
		}
	}
	return 0
}

// ShellQuote returns s so that a shell reads it back as one word.
func ShellQuote(s string) string {
	if s == "" {
		return "''"
	}
	plain, control := true, false
	for _, r := range s {
		switch {
		case r < ' ' || r == 0x7f || r == utf8.RuneError:
			plain, control = false, true
		case strings.ContainsRune("%+,-./:=@_^", r), r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r > 0x7f:
		default:
			plain = false
		}
	}
	if plain {
		return s
	}
	if !control {
		return backslashed(s)
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(s); i++ {
		c := s[i]
		if j := strings.IndexByte("\a\b\x1b\f\n\r\t\v\\'", c); j >= 0 {
			b.WriteByte('\\')
			b.WriteByte(`abEfnrtv\'`[j])
			continue
		}
		if r, n := utf8.DecodeRuneInString(s[i:]); c >= 0x80 && r != utf8.RuneError {
			b.WriteString(s[i : i+n])
			i += n - 1
			continue
		}
		if c < ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "\\%03o", c)
			continue
		}
		b.WriteByte(c)
	}
	b.WriteByte('\'')
	return b.String()
}

func backslashed(s string) string {
	var b strings.Builder
	for _, r := range s {
		if !(strings.ContainsRune("%+,-./:=@_^", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 0x7f) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
