package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// conditions puts into parentheses what binds more tightly: the interpreter's parser takes [[ ! a || b ]] for [[ ! ( a || b ) ]], and
// [[ a && b || c ]] for [[ a && ( b || c ) ]]. x is all of one [[ ]] or ( ).
func (rw *rewriter) conditions(x syntax.TestExpr) {
	type term struct {
		from, to int
		negated  bool
		and      bool // with the next
	}
	var terms []term
	mixed := [2]bool{}
	for from := -1; x != nil; {
		start, _ := span(x)
		if from < 0 {
			from = start
		}
		if u, ok := x.(*syntax.UnaryTest); ok && u.Op == syntax.TsNot {
			x = u.X
			continue
		}
		first, rest, and := x, syntax.TestExpr(nil), false
		if b, ok := x.(*syntax.BinaryTest); ok && (b.Op == syntax.AndTest || b.Op == syntax.OrTest) {
			first, rest, and = b.X, b.Y, b.Op == syntax.AndTest
			if and {
				mixed[0] = true
			} else {
				mixed[1] = true
			}
		}
		at, to := span(first)
		terms = append(terms, term{from, to, from < at, and})
		from, x = -1, rest
	}
	around := func(from, to int) {
		rw.groups = append(rw.groups, group{before: []edit{{from, from, "( "}}, after: []edit{{to, to, " )"}}})
	}
	for i := 0; i < len(terms) && mixed[0] && mixed[1]; i++ {
		from := i
		for terms[i].and {
			i++
		}
		if i > from {
			around(terms[from].from, terms[i].to)
		}
	}
	for _, t := range terms {
		if t.negated && len(terms) > 1 {
			around(t.from, t.to)
		}
	}
}

// sameFile asks the command [ whether two names are of one file: the interpreter would compare as the machine's files are.
func (rw *rewriter) sameFile(b *syntax.BinaryTest) {
	if b.Op != syntax.TsDevIno {
		return
	}
	x, y := rw.slice(b.X.Pos(), b.X.End()), rw.slice(b.Y.Pos(), b.Y.End())
	if strings.ContainsAny(x+y, "'\\") {
		rw.refuse(b, "%s -ef %s with quotes", x, y)
		return
	}
	from, to := span(b)
	bare := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, "") + `"` }
	rw.groups = append(rw.groups, group{within: []edit{{from, to, `"$([ ` + bare(x) + " -ef " + bare(y) + ` ] && echo same)" == same`}}})
}
