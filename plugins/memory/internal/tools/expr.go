package tools

import (
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// exprs evaluates the words of expr.
type exprs struct {
	*tool
	words []string
	depth int
}

func expr(t *tool) int {
	e := &exprs{tool: t, words: trimDashes(t.Args)}
	if len(e.words) == 0 {
		t.die(2, "missing operand")
	}
	v := e.or(true)
	if len(e.words) > 0 {
		t.die(2, "syntax error: unexpected argument %s", quote(e.words[0]))
	}
	t.printf("%s\n", v)
	if zero(v) {
		return 1
	}
	return t.status
}

func trimDashes(args []string) []string {
	if len(args) > 0 && args[0] == "--" {
		return args[1:]
	}
	return args
}

// zero says whether a value is empty or the number 0.
func zero(v string) bool {
	return v == "" || strings.Trim(strings.TrimPrefix(v, "-"), "0") == "" && v != "-"
}

func (e *exprs) accept(ops ...string) string {
	if len(e.words) == 0 {
		return ""
	}
	for _, op := range ops {
		if e.words[0] == op {
			e.words = e.words[1:]
			return op
		}
	}
	return ""
}

// or and and only compute what decides; live is false for the rest, which is
// read all the same.
func (e *exprs) or(live bool) string {
	v := e.and(live)
	for e.accept("|") != "" {
		right := e.and(live && zero(v))
		if zero(v) {
			if v = right; zero(v) {
				v = "0"
			}
		}
	}
	return v
}

func (e *exprs) and(live bool) string {
	v := e.compare(live)
	for e.accept("&") != "" {
		right := e.compare(live && !zero(v))
		if zero(v) || zero(right) {
			v = "0"
		}
	}
	return v
}

func (e *exprs) compare(live bool) string {
	v := e.sum(live)
	for {
		op := e.accept("<", "<=", "=", "==", "!=", ">=", ">")
		if op == "" {
			return v
		}
		right := e.sum(live)
		c := strings.Compare(v, right)
		if x, ok := whole64(v); ok {
			if y, ok := whole64(right); ok {
				c = x.Cmp(y)
			}
		}
		truth := false
		switch op {
		case "<":
			truth = c < 0
		case "<=":
			truth = c <= 0
		case "=", "==":
			truth = c == 0
		case "!=":
			truth = c != 0
		case ">=":
			truth = c >= 0
		case ">":
			truth = c > 0
		}
		v = "0"
		if truth {
			v = "1"
		}
	}
}

// whole64 is v as a whole number, of any size.
func whole64(v string) (*big.Int, bool) {
	if d := strings.TrimPrefix(v, "-"); d == "" || !digits(d) || len(d) > 10_000 {
		return nil, false
	}
	return new(big.Int).SetString(v, 10)
}

func (e *exprs) number(v string, live bool) *big.Int {
	n, ok := whole64(v)
	if !ok {
		if !live {
			return big.NewInt(1)
		}
		e.die(2, "non-integer argument")
	}
	return n
}

func (e *exprs) sum(live bool) string {
	v := e.product(live)
	for {
		op := e.accept("+", "-")
		if op == "" {
			return v
		}
		x, y := e.number(v, live), e.number(e.product(live), live)
		if op == "+" {
			v = x.Add(x, y).String()
			continue
		}
		v = x.Sub(x, y).String()
	}
}

func (e *exprs) product(live bool) string {
	v := e.match(live)
	for {
		op := e.accept("*", "/", "%")
		if op == "" {
			return v
		}
		x, y := e.number(v, live), e.number(e.match(live), live)
		if op == "*" {
			v = x.Mul(x, y).String()
			continue
		}
		if y.Sign() == 0 {
			if live {
				e.die(2, "division by zero")
			}
			y = big.NewInt(1)
		}
		q, r := new(big.Int).QuoRem(x, y, new(big.Int))
		v = q.String()
		if op == "%" {
			v = r.String()
		}
	}
}

func (e *exprs) match(live bool) string {
	v := e.primary(live)
	for e.accept(":") != "" {
		v = e.matches(v, e.primary(live), live)
	}
	return v
}

// matches anchors a basic regular expression at the start of s. The result is
// the first group, or the number of characters that matched.
func (e *exprs) matches(s, pattern string, live bool) string {
	if !live {
		return ""
	}
	re, err := compile(`^\(`+strings.TrimPrefix(pattern, "^")+`\)`, syntaxOf{})
	if err != nil {
		e.die(2, "%v", err)
	}
	m := re.FindStringSubmatch(s)
	switch {
	case len(m) > 2 || m == nil && re.NumSubexp() > 1:
		if m == nil {
			return ""
		}
		return m[2]
	case m == nil:
		return "0"
	}
	return strconv.Itoa(utf8.RuneCountInString(m[0]))
}

func (e *exprs) take() string {
	if len(e.words) == 0 {
		e.die(2, "syntax error: missing argument")
	}
	w := e.words[0]
	e.words = e.words[1:]
	return w
}

func (e *exprs) primary(live bool) string {
	if e.depth++; e.depth > maxTestDepth {
		e.die(2, "the expression is nested too deeply")
	}
	defer func() { e.depth-- }()
	w := e.take()
	switch {
	case w == "(":
		v := e.or(live)
		if e.take() != ")" {
			e.die(2, "syntax error: ) expected")
		}
		return v
	case w == "+" && len(e.words) > 0:
		return e.take()
	case w == "length":
		return strconv.Itoa(utf8.RuneCountInString(e.primary(live)))
	case w == "match":
		s := e.primary(live)
		return e.matches(s, e.primary(live), live)
	case w == "index":
		s := []rune(e.primary(live))
		set := e.primary(live)
		for i, r := range s {
			if strings.ContainsRune(set, r) {
				return strconv.Itoa(i + 1)
			}
		}
		return "0"
	case w == "substr":
		s := []rune(e.primary(live))
		from, err1 := strconv.Atoi(e.primary(live))
		n, err2 := strconv.Atoi(e.primary(live))
		if err1 != nil || err2 != nil || from < 1 || n < 1 || from > len(s) {
			return ""
		}
		return string(s[from-1 : min(len(s), from-1+min(n, len(s)))])
	}
	return w
}
