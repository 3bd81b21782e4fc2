package shell

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// errNesting says that a script is nested, or a function recurses, too deeply.
var errNesting = errors.New("nested too deeply")

// guarded reads a script for the parser, and fails once the parser has
// recursed too far: a stack that overflows cannot be recovered from. Between
// two reads, the parser can go down by what one of them yields, no more.
type guarded struct {
	r      *strings.Reader
	frames int
}

func (g guarded) Read(p []byte) (int, error) {
	if g.r.Len() < int(g.r.Size()) && deeper(g.frames) {
		return 0, errNesting
	}
	return g.r.Read(p[:min(len(p), 512)])
}

// deeper says whether the goroutine's stack has more than so many frames.
func deeper(frames int) bool {
	var pc [1]uintptr
	return runtime.Callers(frames, pc[:]) > 0
}

// framesPerLevel is more than the parser takes for one level of nesting.
const framesPerLevel = 32

func (e *Engine) parser(text string) (*syntax.Parser, io.Reader) {
	return syntax.NewParser(syntax.Variant(syntax.LangBash)), guarded{strings.NewReader(text), e.opts.MaxNesting*framesPerLevel + 1000}
}

// parse checks a script against the limits and parses it, as rewritten for
// the shell with this process id. name is for messages and $0.
func (e *Engine) parse(name, text string, pid int64) (*syntax.File, error) {
	_, file, err := e.vet(name, text, pid)
	return file, err
}

// vet is parse, and also returns the rewritten text.
func (e *Engine) vet(name, text string, pid int64) (string, *syntax.File, error) {
	if len(text) > e.opts.MaxScriptBytes {
		return "", nil, fmt.Errorf("%s: the script has %d bytes, the limit is %d", name, len(text), e.opts.MaxScriptBytes)
	}
	p, r := e.parser(text)
	file, err := p.Parse(r, name)
	if err != nil {
		return "", nil, err
	}
	edits, deep := inspect(file, pid, e.opts.MaxNesting)
	if deep {
		return "", nil, fmt.Errorf("%s: %w: the limit is %d levels", name, errNesting, e.opts.MaxNesting)
	}
	if len(edits) > 0 {
		text = apply(text, edits)
		p, r = e.parser(text)
		if file, err = p.Parse(r, name); err != nil {
			return "", nil, fmt.Errorf("%s: this cannot be run here: %w", name, err)
		}
	}
	return e.rewrite(name, text, file)
}

// edit replaces a part of a script's text.
type edit struct {
	from, to int
	text     string
}

func apply(text string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var b strings.Builder
	at := 0
	for _, ed := range edits {
		if ed.from < at {
			continue // within one that was made
		}
		b.WriteString(text[at:ed.from])
		b.WriteString(ed.text)
		at = ed.to
	}
	b.WriteString(text[at:])
	return b.String()
}

// inspect finds what must be rewritten, and whether the nesting is over the limit.
func inspect(file *syntax.File, pid int64, limit int) (edits []edit, deep bool) {
	depth := 0
	var levels []bool
	var lengths []edit // for a script with associative arrays, whose lengths the interpreter takes to be 1
	maps := false
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			if levels[len(levels)-1] {
				depth--
			}
			levels = levels[:len(levels)-1]
			return true
		}
		if deep {
			return false
		}
		nests := isLevel(n)
		if nests {
			if depth++; depth > limit {
				deep = true
				return false
			}
		}
		levels = append(levels, nests)
		switch n := n.(type) {
		case *syntax.File:
			edits = append(edits, forgiven(n.Stmts)...)
		case *syntax.Block:
			edits = append(edits, forgiven(n.Stmts)...)
		case *syntax.Subshell:
			edits = append(edits, forgiven(n.Stmts)...)
		case *syntax.CmdSubst:
			edits = append(edits, forgiven(n.Stmts)...)
		case *syntax.IfClause:
			edits = append(edits, forgiven(n.Then)...)
		case *syntax.WhileClause:
			edits = append(edits, forgiven(n.Do)...)
		case *syntax.ForClause:
			edits = append(edits, forgiven(n.Do)...)
		case *syntax.CaseItem:
			edits = append(edits, forgiven(n.Stmts)...)
		case *syntax.FuncDecl:
			// A function that shadows a replaced builtin must be found where that is.
			if n.Name != nil && replaced(n.Name.Value) {
				at := int(n.Name.Pos().Offset())
				edits = append(edits, edit{at, at, overridable})
			}
		case *syntax.Stmt:
			if n.Background && n.Semicolon.IsValid() {
				from, to := int(n.Pos().Offset()), int(n.Semicolon.Offset())+1
				edits = append(edits, edit{from, from, quote(direct+"job") + "; "}, edit{to, to, " " + quote(direct+"jobbed") + "; "})
			}
		case *syntax.Word:
			if from, to, home, ok := tilde(n); ok {
				edits = append(edits, edit{from, to, home})
			}
		case *syntax.ParamExp:
			if ed, ok := processID(n, pid); ok {
				edits = append(edits, ed)
			}
			if ed, ok := arrayLength(n); ok {
				lengths = append(lengths, ed)
			}
		case *syntax.Redirect:
			// Without noclobber, which is not offered, >| is >.
			if n.Op == syntax.RdrClob {
				at := int(n.OpPos.Offset())
				edits = append(edits, edit{at, at + 2, ">"})
			}
		case *syntax.DeclClause:
			edits = append(edits, declaration(n)...)
			for _, a := range n.Args {
				if a.Name == nil && a.Value != nil && strings.HasPrefix(a.Value.Lit(), "-") && strings.Contains(a.Value.Lit(), "A") {
					maps = true
				}
			}
		}
		return true
	})
	if maps {
		edits = append(edits, lengths...)
	}
	return edits, deep
}

// arrayLength counts the elements of an array by its keys.
func arrayLength(pe *syntax.ParamExp) (edit, bool) {
	word, ok := pe.Index.(*syntax.Word)
	if !pe.Length || !ok || pe.Param == nil || word.Lit() != "@" && word.Lit() != "*" {
		return edit{}, false
	}
	text := fmt.Sprintf(`$(set -- ${%[1]s[@]+"${!%[1]s[@]}"}; echo $#)`, pe.Param.Value)
	return edit{int(pe.Pos().Offset()), int(pe.End().Offset()), text}, true
}

func isLevel(n syntax.Node) bool {
	switch n.(type) {
	case *syntax.Subshell, *syntax.Block, *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.FuncDecl,
		*syntax.BinaryCmd, *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ParamExp, *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.ParenArithm,
		*syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.BinaryTest, *syntax.UnaryTest, *syntax.ParenTest, *syntax.ArrayExpr, *syntax.ExtGlob,
		*syntax.TimeClause, *syntax.CoprocClause:
		return true
	}
	return false
}

// tilde finds ~user at the start of a word, which the interpreter would look
// up on the machine.
func tilde(w *syntax.Word) (from, to int, home string, ok bool) {
	if len(w.Parts) == 0 {
		return 0, 0, "", false
	}
	lit, ok := w.Parts[0].(*syntax.Lit)
	if !ok || len(lit.Value) < 2 || lit.Value[0] != '~' || lit.Value[1] == '/' {
		return 0, 0, "", false
	}
	user, _, _ := strings.Cut(lit.Value[1:], "/")
	from = int(lit.Pos().Offset())
	if user == "root" && (len(w.Parts) == 1 || strings.Contains(lit.Value, "/")) {
		return from, from + len("~root"), "/root", true
	}
	return from, from, `\`, true
}

// processID replaces $$ and $PPID, which the interpreter takes from the machine.
func processID(pe *syntax.ParamExp, pid int64) (edit, bool) {
	if pe.Param == nil || pe.Param.Value != "$" && pe.Param.Value != "PPID" {
		return edit{}, false
	}
	value := fmt.Sprint(pid)
	if pe.Param.Value == "PPID" {
		value = "1"
	}
	from, to := int(pe.Pos().Offset()), int(pe.End().Offset())
	switch {
	case pe.Length:
		value = fmt.Sprint(len(value))
	case pe.Excl:
		value = ""
	}
	return edit{from, to, value}, true
}

// declaration turns a declare whose arguments are only known at run time, or
// one of a name reference, into a command that checks them first.
func declaration(d *syntax.DeclClause) []edit {
	risky := d.Variant.Value == "nameref"
	for _, a := range d.Args {
		if a.Array != nil || a.Index != nil {
			return nil
		}
		if a.Name != nil {
			continue
		}
		if lit := a.Value.Lit(); lit == "" || strings.HasPrefix(lit, "-") && strings.Contains(lit, "n") || strings.ContainsAny(lit, "=~") {
			risky = true
		}
	}
	if !risky {
		return nil
	}
	at, _ := span(d.Variant)
	edits := []edit{{at, at, overridable + "declare "}}
	for _, a := range d.Args {
		if a.Name == nil || a.Value == nil {
			continue
		}
		// As an argument of a command, the value would be split.
		for _, part := range a.Value.Parts {
			switch part.(type) {
			case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp:
				from, to := span(part)
				edits = append(edits, edit{from, from, `"`}, edit{to, to, `"`})
			}
		}
	}
	return edits
}
