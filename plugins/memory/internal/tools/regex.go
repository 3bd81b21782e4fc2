package tools

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// syntaxOf says how a POSIX regular expression is written.
type syntaxOf struct {
	extended bool
	escapes  bool // \n, \t and the like mean what they mean in sed
	fold     bool // ignore case
	lines    bool // ^ and $ match at lines within the text
}

var errBackReference = errors.New("back-references in patterns are not supported")

// compile translates a POSIX regular expression to Go's, leftmost-longest. What
// has no equal is an error.
func compile(pattern string, s syntaxOf) (*regexp.Regexp, error) {
	text, err := translate(pattern, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote(pattern), err)
	}
	flags := "(?s)"
	if s.fold {
		flags += "(?i)"
	}
	if s.lines {
		flags += "(?m)"
	}
	re, err := regexp.Compile(flags + text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote(pattern), err)
	}
	re.Longest()
	return re, nil
}

// translator turns one expression into RE2's syntax.
type translator struct {
	syntaxOf
	in    string
	at    int
	out   []byte
	open  []int // where the open groups begin in out
	alt   bool  // there is an alternative in the expression
	atom  int   // where the last atom begins in out; -1: a repetition would be literal
	quant bool  // the last atom has a repetition
	wordy bool  // the last atom certainly ends in a word character
}

func translate(pattern string, s syntaxOf) (string, error) {
	t := &translator{syntaxOf: s, in: pattern, atom: -1}
	for t.at < len(t.in) {
		if err := t.next(); err != nil {
			return "", err
		}
	}
	if len(t.open) > 0 {
		return "", errors.New("a group is not closed")
	}
	return string(t.out), nil
}

// special says whether the bytes at the current place are an operator, which
// basic syntax writes with a backslash and extended syntax without.
func (t *translator) special(op byte) bool {
	rest := t.in[t.at:]
	if t.extended {
		return rest[0] == op
	}
	return len(rest) > 1 && rest[0] == '\\' && rest[1] == op
}

func (t *translator) skipOp() {
	if !t.extended {
		t.at++
	}
	t.at++
}

func (t *translator) next() error {
	c := t.in[t.at]
	switch {
	case t.special('('):
		t.skipOp()
		t.open = append(t.open, len(t.out))
		t.out = append(t.out, '(')
		t.atom = -1
		return nil
	case t.special(')') && (len(t.open) > 0 || !t.extended):
		if len(t.open) == 0 {
			return errors.New("a group is closed that was not opened")
		}
		t.skipOp()
		t.atom = t.open[len(t.open)-1]
		t.open = t.open[:len(t.open)-1]
		t.out = append(t.out, ')')
		t.quant = false
		t.wordy = t.wordy && !t.alt
		return nil
	case t.special('|'):
		t.skipOp()
		t.out = append(t.out, '|')
		t.atom, t.alt = -1, true
		return nil
	case c == '*' && t.atom >= 0, t.special('+') && t.atom >= 0, t.special('?') && t.atom >= 0:
		if c == '\\' {
			t.at++
		}
		op := t.in[t.at]
		t.at++
		t.repeat(string(op))
		t.wordy = t.wordy && op == '+'
		return nil
	case t.special('{') && (t.atom >= 0 || !t.extended):
		return t.interval()
	case c == '[':
		return t.bracket()
	case c == '.':
		t.at++
		t.emit(".", false)
		return nil
	case c == '^' && t.startsHere():
		t.at++
		t.out = append(t.out, '^')
		if t.extended {
			return nil
		}
		t.atom = -1
		return nil
	case c == '$' && t.endsHere():
		t.at++
		t.out = append(t.out, '$')
		return nil
	case c == '\\':
		return t.escape()
	}
	r, n := utf8.DecodeRuneInString(t.in[t.at:])
	if r == utf8.RuneError && n == 1 {
		return errors.New("the pattern is not UTF-8")
	}
	t.at += n
	t.emit(regexp.QuoteMeta(string(r)), isWord(r))
	return nil
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

func (t *translator) emit(atom string, wordy bool) {
	t.atom, t.quant, t.wordy = len(t.out), false, wordy
	t.out = append(t.out, atom...)
}

// repeat puts a repetition on the last atom; one that has one already is grouped.
func (t *translator) repeat(op string) {
	if t.quant {
		last := string(t.out[t.atom:])
		t.out = append(append(append(t.out[:t.atom], "(?:"...), last...), ')')
	}
	t.out = append(t.out, op...)
	t.quant = true
}

// startsHere says whether ^ is an anchor: in basic syntax only where an
// expression begins.
func (t *translator) startsHere() bool {
	if t.extended {
		return true
	}
	before := t.in[:t.at]
	return before == "" || strings.HasSuffix(before, `\(`) || strings.HasSuffix(before, `\|`) || t.escapes && strings.HasSuffix(before, `\n`)
}

func (t *translator) endsHere() bool {
	if t.extended {
		return true
	}
	after := t.in[t.at+1:]
	return after == "" || strings.HasPrefix(after, `\)`) || strings.HasPrefix(after, `\|`) || t.escapes && strings.HasPrefix(after, `\n`)
}

func (t *translator) interval() error {
	from := t.at
	t.skipOp()
	closer := `\}`
	if t.extended {
		closer = "}"
	}
	body, _, ok := strings.Cut(t.in[t.at:], closer)
	low, high, ranged := strings.Cut(body, ",")
	if !ok || !digits(low) || !digits(high) || body == "" || low == "" && high == "" && !ranged {
		if t.extended {
			t.at = from + 1
			t.emit(`\{`, false)
			return nil
		}
		return errors.New(`the content of \{\} is not valid`)
	}
	if t.atom < 0 {
		return errors.New(`there is nothing to repeat before \{`)
	}
	t.at += len(body) + len(closer)
	if low == "" {
		low = "0"
	}
	lo, _ := strconv.Atoi(low)
	if hi, err := strconv.Atoi(high); ranged && high != "" && (err != nil || hi < lo) {
		return errors.New("the bounds of a repetition are not in order")
	}
	op := "{" + low
	if ranged {
		op += "," + high
	}
	t.repeat(op + "}")
	t.wordy = t.wordy && lo > 0
	return nil
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

func (t *translator) escape() error {
	if t.at+1 == len(t.in) {
		return errors.New("the pattern ends in a backslash")
	}
	c := t.in[t.at+1]
	t.at += 2
	switch c {
	case 'w':
		t.emit(`[\pL\pN_]`, true)
	case 'W':
		t.emit(`[^\pL\pN_]`, false)
	case 's', 'S':
		t.emit(`\`+string(rune(c)), false)
	case 'b', 'B':
		t.out = append(t.out, '\\', c)
	case '<':
		if !t.wordAhead() {
			return errors.New(`\< is only supported before a letter, digit or underscore`)
		}
		t.out = append(t.out, `\b`...)
	case '>':
		if !t.wordy {
			return errors.New(`\> is only supported after a letter, digit or underscore`)
		}
		t.out = append(t.out, `\b`...)
	case '`':
		t.out = append(t.out, `\A`...)
	case '\'':
		t.out = append(t.out, `\z`...)
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return errBackReference
	default:
		return t.literal(c)
	}
	return nil
}

func (t *translator) literal(c byte) error {
	if t.escapes {
		switch c {
		case 'n', 't', 'f', 'r', 'v', 'a':
			t.emit(`\`+string(rune(c)), false)
			return nil
		case 'x':
			if t.at+2 <= len(t.in) && isDigit(t.in[t.at], 16) && isDigit(t.in[t.at+1], 16) {
				t.emit(`\x`+t.in[t.at:t.at+2], false)
				t.at += 2
				return nil
			}
		case 'c', 'd', 'o':
			return fmt.Errorf(`\%c is not supported`, c)
		}
	}
	r, n := utf8.DecodeRuneInString(t.in[t.at-1:])
	if r == utf8.RuneError && n == 1 {
		return errors.New("the pattern is not UTF-8")
	}
	t.at += n - 1
	t.emit(regexp.QuoteMeta(string(r)), isWord(r))
	return nil
}

// wordAhead says whether what follows certainly begins with a word character,
// so that a boundary before it is the start of a word.
func (t *translator) wordAhead() bool {
	rest := t.in[t.at:]
	group := `\(`
	if t.extended {
		group = "("
	}
	for strings.HasPrefix(rest, group) {
		rest = rest[len(group):]
		if strings.Contains(t.in, "|") {
			return false
		}
	}
	sub := &translator{syntaxOf: t.syntaxOf, in: rest, atom: -1}
	if rest == "" || sub.next() != nil || !sub.wordy {
		return false
	}
	// It must not be optional.
	for _, op := range []string{"*", "?", `\?`, "{0", `\{0`, "{,", `\{,`} {
		if strings.HasPrefix(rest[sub.at:], op) {
			return false
		}
	}
	return true
}

// bracket translates a bracket expression.
func (t *translator) bracket() error {
	t.at++
	var b strings.Builder
	b.WriteByte('[')
	if strings.HasPrefix(t.in[t.at:], "^") {
		b.WriteByte('^')
		t.at++
	}
	wordy := b.Len() == 1
	for first := true; ; first = false {
		if t.at >= len(t.in) {
			return errors.New("a [ is not closed")
		}
		if t.in[t.at] == ']' && !first {
			t.at++
			break
		}
		if class, ok := strings.CutPrefix(t.in[t.at:], "[:"); ok {
			name, _, closed := strings.Cut(class, ":]")
			if !closed {
				return errors.New("a [: is not closed")
			}
			set, known := classes(name)
			if !known {
				return fmt.Errorf("there is no character class %q", name)
			}
			b.WriteString(set)
			t.at += len(name) + 4
			wordy = wordy && (name == "alpha" || name == "alnum" || name == "digit" || name == "upper" || name == "lower" || name == "xdigit")
			continue
		}
		low, err := t.member()
		if err != nil {
			return err
		}
		high := low
		if rest := t.in[t.at:]; len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			t.at++
			if high, err = t.member(); err != nil {
				return err
			}
			if high < low {
				return errors.New("the ends of a range are not in order")
			}
		}
		wordy = wordy && isWord(low) && isWord(high) && high-low < 26
		fmt.Fprintf(&b, `\x{%x}`, low)
		if high != low {
			fmt.Fprintf(&b, `-\x{%x}`, high)
		}
	}
	b.WriteByte(']')
	t.emit(b.String(), wordy)
	return nil
}

// member reads one character of a bracket expression.
func (t *translator) member() (rune, error) {
	rest := t.in[t.at:]
	for _, pair := range []string{"[.", "[="} {
		if strings.HasPrefix(rest, pair) {
			name, _, ok := strings.Cut(rest[2:], pair[1:]+"]")
			if !ok || utf8.RuneCountInString(name) != 1 {
				return 0, errors.New("only single characters are supported as collating elements")
			}
			t.at += len(name) + 4
			r, _ := utf8.DecodeRuneInString(name)
			return r, nil
		}
	}
	if t.escapes && len(rest) > 1 && rest[0] == '\\' {
		if i := strings.IndexByte("ntfrv", rest[1]); i >= 0 {
			t.at += 2
			return rune("\n\t\f\r\v"[i]), nil
		}
	}
	r, n := utf8.DecodeRuneInString(rest)
	if n == 0 {
		return 0, errors.New("a [ is not closed")
	}
	if r == utf8.RuneError && n == 1 {
		return 0, errors.New("the pattern is not UTF-8")
	}
	t.at += n
	return r, nil
}

func classes(name string) (string, bool) {
	switch name {
	case "alpha":
		return `\pL`, true
	case "digit":
		return `0-9`, true
	case "alnum":
		return `\pL\pN`, true
	case "upper":
		return `\p{Lu}`, true
	case "lower":
		return `\p{Ll}`, true
	case "space":
		return `\t-\r `, true
	case "blank":
		return `\t `, true
	case "punct":
		return `!-/:-@\[-` + "`" + `{-~`, true
	case "cntrl":
		return `\x00-\x1f\x7f`, true
	case "xdigit":
		return `0-9A-Fa-f`, true
	case "print":
		return `\pL\pM\pN\pP\pS `, true
	case "graph":
		return `\pL\pM\pN\pP\pS`, true
	}
	return "", false
}
