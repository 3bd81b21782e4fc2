package shell

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The interpreter knows three descriptors, no process substitution and no PIPESTATUS. What scripts say of these is rewritten into commands
// of ours and files below /dev/fd, which descriptors.go serves:
//
//	exec 3>log            'slipway!fd' -x 3 '>' log
//	cmd 3>&1 >&3          if 'slipway!fd' 3 '>&' 1; then cmd >/dev/fd/3; 'slipway!unfd' 3 && :; else 'slipway!false'; fi
//	diff <(a) b           diff "$('slipway!sub' r; { ( a) && :; 'slipway!subbed'; } >"/dev/fd/$_SLIPWAY_SUB" &)" b
//	a | b                 { 'slipway!pipe'; { 'slipway!quiet'; ( 'slipway!loud'; a); 'slipway!stage' 0 && :; } | ...; 'slipway!piped' 2 && :; }
//
// What cannot be had is refused before anything runs: a script that went on without it would come to a wrong result.

// maxPasses bounds how often a script is rewritten: once, and again for what stands within something that was moved.
const maxPasses = 50

// rewriter finds what one pass changes.
type rewriter struct {
	name, text string
	file       *syntax.File
	first      bool // pass
	groups     []group
	stmts      []*syntax.Stmt // around the node
	staged     map[*syntax.Stmt]bool
	err        error
}

// group is a change that is made whole or not at all.
type group struct {
	before, after []edit // insertions at the ends of something, outermost first and last
	within        []edit // replacements
}

// rewrite changes a script that has been vetted until nothing is left to change.
func (e *Engine) rewrite(name, text string, file *syntax.File) (string, *syntax.File, error) {
	for pass := range maxPasses {
		rw := &rewriter{name: name, text: text, file: file, first: pass == 0, staged: make(map[*syntax.Stmt]bool)}
		rw.walk(file)
		if rw.err != nil {
			return "", nil, rw.err
		}
		if len(rw.groups) == 0 {
			return text, file, nil
		}
		text = apply(text, rw.edits())
		p, r := e.parser(text)
		var err error
		if file, err = p.Parse(r, name); err != nil {
			return "", nil, fmt.Errorf("%s: this cannot be run here: %w", name, err)
		}
	}
	return "", nil, fmt.Errorf("%s: %w: redirections within redirections", name, errNesting)
}

// edits are those of the groups that are in nobody's way, in order. What stands within a replacement waits for the next pass.
func (rw *rewriter) edits() []edit {
	var taken []edit
	for _, g := range rw.groups {
		taken = append(taken, g.within...)
	}
	inside := func(at int, self []edit) bool {
		return slices.ContainsFunc(taken, func(t edit) bool { return t.from < at && at < t.to && !slices.Contains(self, t) })
	}
	type placed struct {
		edit
		rank int
	}
	var all []placed
	for i, g := range rw.groups {
		if slices.ContainsFunc(slices.Concat(g.before, g.within, g.after), func(ed edit) bool { return inside(ed.from, g.within) || inside(ed.to, g.within) }) {
			continue
		}
		for _, ed := range g.after { // the innermost ends first, before anything begins
			all = append(all, placed{ed, -2*i - 2})
		}
		for _, ed := range g.before {
			all = append(all, placed{ed, 2*i + 1})
		}
		for _, ed := range g.within {
			rank := 2*len(rw.groups) + 2
			if ed.from == ed.to {
				rank = -2*i - 3
			}
			all = append(all, placed{ed, rank})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.rank, b.rank)) })
	out := make([]edit, len(all))
	for i, p := range all {
		out[i] = p.edit
	}
	return out
}

func (rw *rewriter) walk(file *syntax.File) {
	pipes := rw.first && strings.Contains(rw.text, "PIPESTATUS")
	names := rw.first && strings.Contains(rw.text, "FUNCNAME")
	var kinds []bool // whether a node is a statement
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			if kinds[len(kinds)-1] {
				rw.stmts = rw.stmts[:len(rw.stmts)-1]
			}
			kinds = kinds[:len(kinds)-1]
			return true
		}
		if rw.err != nil {
			return false
		}
		st, ok := n.(*syntax.Stmt)
		kinds = append(kinds, ok)
		switch n := n.(type) {
		case *syntax.Stmt:
			rw.stmts = append(rw.stmts, st)
			if pipes {
				rw.pipeline(n)
			}
			rw.redirects(n)
		case *syntax.ProcSubst:
			rw.substitution(n)
		case *syntax.ParamExp:
			rw.anchored(n)
		case *syntax.FuncDecl:
			if b, ok := n.Body.Cmd.(*syntax.Block); ok && names && n.Name != nil {
				at := int(b.Lbrace.Offset()) + 1
				rw.groups = append(rw.groups, group{before: []edit{{at, at, " local FUNCNAME=(" + quote(n.Name.Value) + ` "${FUNCNAME[@]:-main}");`}}})
			}
		case *syntax.DeclClause:
			rw.declares(n)
		case *syntax.TestClause:
			rw.conditions(n.X)
		case *syntax.ParenTest:
			rw.conditions(n.X)
		case *syntax.BinaryTest:
			rw.sameFile(n)
		}
		return true
	})
}

func (rw *rewriter) refuse(n syntax.Node, format string, args ...any) {
	if rw.err == nil {
		rw.err = fmt.Errorf("%s: line %d: %s: the memory runtime's shell has no such thing", rw.name, n.Pos().Line(), fmt.Sprintf(format, args...))
	}
}

func (rw *rewriter) slice(from, to syntax.Pos) string { return rw.text[from.Offset():to.Offset()] }

func span(n syntax.Node) (from, to int) { return int(n.Pos().Offset()), int(n.End().Offset()) }

// stmtStart is where a command begins: the first of a pipeline that is negated says that it begins with the pipeline.
func stmtStart(st *syntax.Stmt) int {
	start := int(st.Position.Offset())
	if st.Negated {
		return start
	}
	switch c := st.Cmd.(type) {
	case nil:
	case *syntax.BinaryCmd:
		return stmtStart(c.X)
	default:
		start, _ = span(c)
		if len(st.Redirs) > 0 {
			first, _ := span(st.Redirs[0])
			start = min(start, first)
		}
	}
	return start
}

// stmtEnd is where a command ends on its line: the text of its here-documents comes later.
func stmtEnd(st *syntax.Stmt) int {
	end := int(st.Position.Offset())
	switch c := st.Cmd.(type) {
	case nil:
	case *syntax.BinaryCmd:
		end = stmtEnd(c.Y)
	case *syntax.TimeClause:
		end = int(c.End().Offset())
		if c.Stmt != nil {
			end = stmtEnd(c.Stmt)
		}
	case *syntax.FuncDecl:
		end = stmtEnd(c.Body)
	default:
		_, end = span(c)
	}
	for _, r := range st.Redirs {
		_, to := span(r.Word)
		end = max(end, to)
	}
	return end
}

// redirects rewrites those of one command that name descriptors from 3 on.
func (rw *rewriter) redirects(st *syntax.Stmt) {
	var g group
	var set, high []string
	touched := map[string]bool{} // of 1 and 2, what stands to the left
	parts := []string{}          // of an exec, in order
	for _, r := range st.Redirs {
		n := "1"
		if r.N != nil {
			n = r.N.Value
		}
		text, changed := rw.redirect(r)
		if rw.err != nil {
			return
		}
		if n == "0" || n == "1" || n == "2" {
			touched[n] = touched[n] || r.Op != syntax.RdrIn && r.Op != syntax.DplIn
			if r.Op == syntax.RdrAll || r.Op == syntax.AppAll {
				touched["2"] = true
			}
			if c, ok := st.Cmd.(*syntax.CallExpr); ok && n != "2" && r.N == nil && strings.HasPrefix(text, "</dev/fd/") && len(c.Args) > 0 && c.Args[0].Lit() == "read" {
				// As a file it would be read ahead.
				from, _ := span(r)
				_, to := span(r.Word)
				_, at := span(c.Args[0])
				g.within = append(g.within, edit{from, to, ""}, edit{at, at, " -u " + strings.TrimPrefix(text, "</dev/fd/")})
				continue
			}
			if changed {
				from, _ := span(r)
				_, to := span(r.Word)
				g.within = append(g.within, edit{from, to, text})
			}
			parts = append(parts, "exec "+text)
			continue
		}
		if word := r.Word.Lit(); (r.Op == syntax.DplOut || r.Op == syntax.DplIn) && touched[word] {
			if !isExec(st) {
				rw.refuse(r, "%s behind another redirection of %s", rw.slice(r.Pos(), r.Word.End()), word)
				return
			}
		}
		if strings.HasPrefix(n, "{") && !isExec(st) {
			rw.refuse(r, "%s without exec", rw.slice(r.Pos(), r.Word.End()))
			return
		}
		from, _ := span(r)
		_, to := span(r.Word)
		g.within = append(g.within, edit{from, to, ""})
		set, high = append(set, quote(direct+"fd")+" "+text), append(high, n)
		parts = append(parts, quote(direct+"fd")+" -x "+text)
	}
	switch {
	case len(g.within) == 0:
		return
	case isExec(st) && len(set) > 0:
		from, _ := span(st.Cmd)
		g.within = []edit{{from, stmtEnd(st), "{ " + strings.Join(parts, "; ") + "; }"}}
	case len(set) > 0:
		from, end := stmtStart(st), stmtEnd(st)
		g.before = []edit{{from, from, "if " + strings.Join(set, " && ") + "; then "}}
		if st.Cmd == nil {
			g.before[0].text += ":"
		}
		g.after = []edit{{end, end, "; " + quote(direct+"unfd") + " " + strings.Join(high, " ") + " && :; else " + quote(direct+"false") + "; fi"}}
	}
	rw.groups = append(rw.groups, g)
}

// isExec says whether a command is exec with nothing but redirections, which stay.
func isExec(st *syntax.Stmt) bool {
	c, ok := st.Cmd.(*syntax.CallExpr)
	return ok && len(c.Args) == 1 && len(c.Assigns) == 0 && c.Args[0].Lit() == "exec"
}

// redirect is one redirection as it is written here, and whether that is another way. One of a descriptor from 3 on becomes the arguments
// of fd.
func (rw *rewriter) redirect(r *syntax.Redirect) (text string, changed bool) {
	source := rw.slice(r.Pos(), r.Word.End())
	word := rw.slice(r.Word.Pos(), r.Word.End())
	n, high := "", false
	if r.N != nil {
		n = r.N.Value
		high = n != "0" && n != "1" && n != "2"
	}
	dup := r.Op == syntax.DplOut || r.Op == syntax.DplIn
	number, err := strconv.Atoi(r.Word.Lit())
	switch {
	case r.Op == syntax.RdrInOut:
		rw.refuse(r, "%s (<>)", source)
	case dup && strings.HasSuffix(r.Word.Lit(), "-") && r.Word.Lit() != "-":
		rw.refuse(r, "%s, which moves a descriptor", source)
	case high && r.Hdoc != nil || high && (r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc):
		rw.refuse(r, "%s: a here-document for a descriptor from 3 on", source)
	case high:
		return n + " " + quote(r.Op.String()) + " " + word, true
	case dup && (err != nil && r.Word.Lit() == "" || number > 2 || number == 0 && r.Op == syntax.DplIn && err == nil):
		op := ">"
		if r.Op == syntax.DplIn {
			op = "<"
		}
		return n + op + "/dev/fd/" + word, true
	case r.Op == syntax.DplOut && n == "" && err != nil && r.Word.Lit() != "-":
		return "&>" + word, true // >& file
	}
	return source, false
}

// substitution makes of <(a) the name of a pipe that a writes to meanwhile.
func (rw *rewriter) substitution(ps *syntax.ProcSubst) {
	from, to := int(ps.OpPos.Offset()), int(ps.Rparen.Offset())+1
	open := `"$(` + quote(direct+"sub") + " r; { ( "
	rest := " && :; " + quote(direct+"subbed") + `; } >"/dev/fd/$_SLIPWAY_SUB" &)"`
	g := group{}
	switch ps.Op {
	case syntax.CmdIn:
	case syntax.CmdOut:
		open = `"$(` + quote(direct+"sub") + " w; { ( "
		rest = " && :; " + quote(direct+"subbed") + `; } <"/dev/fd/$_SLIPWAY_SUB" >"/dev/fd/$_SLIPWAY_OUT" &)"`
		// What it prints goes where the command's own output would, which is not where its name goes.
		st := rw.stmts[len(rw.stmts)-1]
		at, end := stmtStart(st), stmtEnd(st)
		g.before, g.after = []edit{{at, at, "{ " + quote(direct+"keep") + "; "}}, []edit{{end, end, "; }"}}
	default:
		rw.refuse(ps, "%s)", ps.Op)
		return
	}
	g.within = []edit{{from, from + 2, open}, {to, to, rest}}
	rw.groups = append(rw.groups, g)
}

// pipeline has the stages of a pipeline note their status.
func (rw *rewriter) pipeline(st *syntax.Stmt) {
	if !isPipe(st.Cmd) || rw.staged[st] || st.Background {
		return
	}
	var stages []*syntax.Stmt
	for s := st; ; {
		b := s.Cmd.(*syntax.BinaryCmd)
		rw.staged[b.X], rw.staged[b.Y] = true, true
		stages = append(stages, b.Y)
		if s = b.X; !isPipe(s.Cmd) {
			stages = append(stages, s)
			break
		}
	}
	slices.Reverse(stages)
	at, end := stmtStart(st), stmtEnd(st)
	rw.groups = append(rw.groups, group{
		before: []edit{{at, at, "{ " + quote(direct+"pipe") + "; "}},
		after:  []edit{{end, end, "; " + quote(direct+"piped") + " " + strconv.Itoa(len(stages)) + " && :; }"}},
	})
	for i, s := range stages {
		at, end := stmtStart(s), stmtEnd(s)
		rw.groups = append(rw.groups, group{
			before: []edit{{at, at, "{ " + quote(direct+"quiet") + "; ( " + quote(direct+"loud") + "; "}},
			after:  []edit{{end, end, "); " + quote(direct+"stage") + " " + strconv.Itoa(i) + " && :; }"}},
		})
	}
}

func isPipe(c syntax.Command) bool {
	b, ok := c.(*syntax.BinaryCmd)
	return ok && (b.Op == syntax.Pipe || b.Op == syntax.PipeAll)
}
