package host

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFaultPointsAreWalked: each point that is marked around a change is where some test kills the host, or stops it, and no list of points has one that is not marked.
func TestFaultPointsAreWalked(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	marked, walked := make(map[string]string), make(map[string]string) // where, by point
	var listed []string
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		test := strings.HasSuffix(file, "_test.go")
		ast.Inspect(tree, func(n ast.Node) bool {
			if !test {
				if call, ok := n.(*ast.CallExpr); ok && named(call.Fun, "fault") && len(call.Args) == 1 {
					marked[literal(call.Args[0])] = file
				}
				return true
			}
			points, list := pointsIn(n)
			for _, p := range points {
				walked[p] = file
			}
			if list {
				listed = append(listed, points...)
			}
			return true
		})
	}
	if len(marked) < 20 || len(listed) < 20 {
		t.Errorf("only these points were found: marked %v, in lists %q", marked, listed)
	}
	for point, file := range marked {
		if walked[point] == "" {
			t.Errorf("%s marks %q, and no test goes there", file, point)
		}
	}
	for _, point := range listed {
		if marked[point] == "" {
			t.Errorf("a list in %s has the point %q, which nothing marks", walked[point], point)
		}
	}
}

// pointsIn are the points to which a piece of a test goes: those of a list of them, those that it walks by their names, the one that a child process or a run is told to
// end at, and what a fault of Options compares with the point that it is called at. A word that is merely somewhere in a test is none. List tells whether it is a list.
func pointsIn(n ast.Node) (points []string, list bool) {
	switch n := n.(type) {
	case *ast.CompositeLit:
		if of, ok := n.Type.(*ast.ArrayType); ok && named(of.Elt, "point") {
			for _, e := range n.Elts {
				if e, ok := e.(*ast.CompositeLit); ok && len(e.Elts) > 0 {
					points = append(points, literal(e.Elts[0]))
				}
			}
			return points, true
		}
	case *ast.RangeStmt:
		names, ok := n.X.(*ast.CompositeLit)
		at, isName := n.Value.(*ast.Ident)
		if ok && isName && stopsAt(n.Body, at.Name) {
			for _, e := range names.Elts {
				points = append(points, literal(e))
			}
		}
	case *ast.KeyValueExpr:
		if named(n.Key, "Point") {
			points = append(points, literal(n.Value))
		}
	case *ast.CallExpr:
		if named(n.Fun, "runToPoint") && len(n.Args) > 2 {
			points = append(points, literal(n.Args[2]))
		}
	case *ast.FuncLit:
		return comparedIn(n), false
	}
	return points, false
}

// stopsAt tells whether a piece of a test has a host end at the point that a variable names.
func stopsAt(n ast.Node, variable string) (yes bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			yes = yes || named(n.Key, "Point") && named(n.Value, variable)
		case *ast.CallExpr:
			yes = yes || named(n.Fun, "runToPoint") && slices.ContainsFunc(n.Args, func(e ast.Expr) bool { return named(e, variable) })
		case *ast.FuncLit:
			yes = yes || slices.Contains(comparedIn(n), variable)
		}
		return true
	})
	return yes
}

// comparedIn are the texts, and the names of variables, with which a function that takes one text, as a fault does, compares that.
func comparedIn(f *ast.FuncLit) (with []string) {
	if params := f.Type.Params.List; len(params) != 1 || len(params[0].Names) != 1 || !named(params[0].Type, "string") || f.Type.Results != nil {
		return nil
	}
	param := f.Type.Params.List[0].Names[0].Name
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if c, ok := n.(*ast.BinaryExpr); ok && (c.Op == token.EQL || c.Op == token.NEQ) && named(c.X, param) {
			if v, ok := c.Y.(*ast.Ident); ok {
				with = append(with, v.Name)
			}
			with = append(with, literal(c.Y))
		}
		return true
	})
	return with
}

// named tells whether an expression is a name, or the choice of something with that name.
func named(e ast.Expr, name string) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == name
	case *ast.SelectorExpr:
		return e.Sel.Name == name
	}
	return false
}

// literal is the text that an expression is; "": it is something else.
func literal(e ast.Expr) string {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(l.Value)
	if err != nil {
		return ""
	}
	return text
}
