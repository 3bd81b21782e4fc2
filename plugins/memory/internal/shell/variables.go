package shell

import (
	"fmt"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// anchored rewrites ${x/#a/b} and ${x/%a/b}, which the interpreter takes for a pattern that begins with # or %.
func (rw *rewriter) anchored(pe *syntax.ParamExp) {
	if pe.Repl == nil || pe.Repl.All || pe.Repl.Orig == nil {
		return
	}
	pattern := rw.slice(pe.Repl.Orig.Pos(), pe.Repl.Orig.End())
	if pattern == "" || pattern[0] != '#' && pattern[0] != '%' {
		return
	}
	source := rw.slice(pe.Pos(), pe.End())
	anchor, pattern := pattern[:1], pattern[1:]
	name := pe.Param.Value
	if pe.Index != nil {
		index, ok := pe.Index.(*syntax.Word)
		if !ok || index.Lit() == "@" || index.Lit() == "*" {
			rw.refuse(pe, "%s of a whole array", source)
			return
		}
		name += "[" + rw.slice(index.Pos(), index.End()) + "]"
	}
	with := ""
	if pe.Repl.With != nil {
		with = rw.slice(pe.Repl.With.Pos(), pe.Repl.With.End())
	}
	if pe.Excl || pe.Length || name == "@" || name == "*" || strings.ContainsAny(pattern, " \t\n()|&;<>") || strings.ContainsAny(with, "\"'\\") {
		rw.refuse(pe, "%s", source)
		return
	}
	match, rest := pattern+"*", with+"${"+name+"##"+pattern+"}"
	if anchor == "%" {
		match, rest = "*"+pattern, "${"+name+"%%"+pattern+"}"+with
	}
	from, to := span(pe)
	rw.groups = append(rw.groups, group{within: []edit{{from, to, fmt.Sprintf(`$(if [[ ${%[1]s} == %[2]s ]]; then printf %%s "%[3]s"; else printf %%s "${%[1]s}"; fi)`, name, match, rest)}}})
}

// declares refuses what the interpreter would complain of and then go on without.
func (rw *rewriter) declares(d *syntax.DeclClause) {
	for _, a := range d.Args {
		if a.Name != nil || a.Value == nil {
			continue
		}
		flags := a.Value.Lit()
		switch {
		case !strings.HasPrefix(flags, "-"):
		case d.Variant.Value == "export" && strings.Contains(flags, "f"):
			from, to := span(d) // a child that misses the function says so
			rw.groups = append(rw.groups, group{within: []edit{{from, to, quote(direct+"fail") + ` 1 "export -f: the memory runtime's shell has no functions in the environment"`}}})
		case strings.ContainsAny(flags, "lu"):
			rw.refuse(d, "%s %s, variables that change what they are given", d.Variant.Value, flags)
		case strings.Contains(flags, "i"):
			rw.integers(d, a)
		}
	}
}

// integers takes the flag of variables whose values are arithmetic, and writes that out wherever the script gives them one.
func (rw *rewriter) integers(d *syntax.DeclClause, flag *syntax.Assign) {
	names := map[string]bool{}
	for _, a := range d.Args {
		if a.Name != nil {
			names[a.Name.Value] = true
		}
	}
	refuse := func() { rw.refuse(d, "%s -i with a value that is not plainly a number", d.Variant.Value) }
	syntax.Walk(rw.file, func(n syntax.Node) bool {
		a, ok := n.(*syntax.Assign)
		if !ok || a.Name == nil || !names[a.Name.Value] || a.Naked || rw.err != nil {
			return true
		}
		if a.Array != nil || a.Index != nil || a.Value == nil {
			refuse()
			return true
		}
		value := rw.slice(a.Value.Pos(), a.Value.End())
		_, err := strconv.Atoi(value)
		if strings.HasPrefix(value, "$((") || err == nil && !a.Append && (value == "0" || value[0] != '0') {
			return true // a number, or what an earlier pass has written
		}
		// One word may be a text's as well, of another variable with this name.
		if syntax.ValidName(value) || strings.ContainsAny(value, "\"'`{}[].,;\\") {
			refuse()
			return true
		}
		from, to := span(a)
		text := a.Name.Value + "=$((" + value + "))"
		if a.Append {
			text = a.Name.Value + "=$((" + a.Name.Value + "+(" + value + ")))"
		}
		rw.groups = append(rw.groups, group{within: []edit{{from, to, text}}})
		return true
	})
	from, to := span(flag)
	text := ""
	if rest := strings.ReplaceAll(flag.Value.Lit(), "i", ""); rest != "-" {
		text = rest
	}
	rw.groups = append(rw.groups, group{within: []edit{{from, to, text}}})
}
