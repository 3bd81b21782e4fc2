package shell

import "mvdan.cc/sh/v3/syntax"

// Under errexit a command that fails ends the script, but not if another one depends on it: in
//
//	if a; then b && c; fi
//	d
//
// a b that fails means only that c is not run. The interpreter then takes the status of the if for a failure of its own. So where
// that status is of no use to anybody, because another command follows that does not ask for it, the list is rewritten as
// "if b; then c; fi", which ends well without b, and with c as c does. What this does not reach are lists at the very end of a
// function, subshell or script, whose status is its own.

// forgiven are the edits for one list of commands.
func forgiven(list []*syntax.Stmt) (edits []edit) {
	for i, st := range list[:max(len(list)-1, 0)] {
		if !asksStatus(list[i+1]) {
			edits = append(edits, forgive(st)...)
		}
	}
	return edits
}

// forgive rewrites the lists at the end of a compound command.
func forgive(st *syntax.Stmt) (edits []edit) {
	if st.Negated || st.Background || st.Coprocess {
		return nil
	}
	last := func(list []*syntax.Stmt) {
		if len(list) == 0 {
			return
		}
		end := list[len(list)-1]
		b, ok := end.Cmd.(*syntax.BinaryCmd)
		switch {
		case !ok:
			edits = append(edits, forgive(end)...)
		case b.Op == syntax.AndStmt && !end.Background && !hasHereDoc(b):
			from, op, to := int(b.Pos().Offset()), int(b.OpPos.Offset()), int(b.End().Offset())
			edits = append(edits, edit{from, from, "if "}, edit{op, op + len("&&"), "; then"}, edit{to, to, "; fi"})
			edits = append(edits, forgive(b.Y)...)
		case b.Op == syntax.OrStmt:
			edits = append(edits, forgive(b.Y)...)
		}
	}
	switch c := st.Cmd.(type) {
	case *syntax.Block:
		last(c.Stmts)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			last(c.Then)
		}
	case *syntax.WhileClause:
		last(c.Do)
	case *syntax.ForClause:
		last(c.Do)
	case *syntax.CaseClause:
		for _, item := range c.Items {
			last(item.Stmts)
		}
	}
	return edits
}

// asksStatus says whether a command makes use of the status of the one before.
func asksStatus(st *syntax.Stmt) (asks bool) {
	if call, ok := st.Cmd.(*syntax.CallExpr); ok && len(call.Args) == 1 {
		if name := call.Args[0].Lit(); name == "return" || name == "exit" {
			return true
		}
	}
	syntax.Walk(st, func(n syntax.Node) bool {
		if pe, ok := n.(*syntax.ParamExp); ok && pe.Param != nil && pe.Param.Value == "?" {
			asks = true
		}
		return !asks
	})
	return asks
}

// hasHereDoc says whether there is text behind a command that belongs to it.
func hasHereDoc(n syntax.Node) (has bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if r, ok := n.(*syntax.Redirect); ok && r.Hdoc != nil {
			has = true
		}
		return !has
	})
	return has
}
