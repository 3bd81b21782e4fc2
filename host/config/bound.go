package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// The parsers of HCL recurse as deep as a file nests, and a stack that is used up ends the program. So files are bounded before.
const (
	maxFile  = 256 << 10
	maxDepth = 2000
)

// bound says what is too much about a file, or nothing. It looks at bytes, strings and comments included, since only the
// parser could tell them apart; what people write stays far below.
func bound(src []byte) string {
	if len(src) > maxFile {
		return fmt.Sprintf("It has more than %d bytes.", maxFile)
	}
	var brackets, signs, conditions int
	for _, c := range src {
		switch c {
		case '(', '[', '{':
			brackets++
		case ')', ']', '}':
			brackets = max(0, brackets-1)
		case '!', '-':
			signs++
		case '?':
			conditions++
		case ' ', '\t', '\r', '\n':
			continue
		}
		if c != '!' && c != '-' {
			signs = 0
		}
		if max(brackets, signs, conditions) > maxDepth {
			return fmt.Sprintf("It nests deeper than %d levels.", maxDepth)
		}
	}
	return ""
}

// plain tells whether an expression is made of values and calls only. The rest of HCL's language is not for configurations, and loops
// and far numbers could take for ever: so it is looked at before it is evaluated.
func plain(expr hcl.Expression) bool {
	native, ok := expr.(hclsyntax.Expression)
	if !ok { // of JSON, where strings are templates
		v, diags := expr.Value(nil)
		if diags.HasErrors() || v.IsNull() || !v.IsKnown() {
			return true
		}
		if v.Type() == cty.Number {
			return isNear(v)
		}
		if v.Type() != cty.String {
			return true
		}
		native, diags = hclsyntax.ParseTemplate([]byte(v.AsString()), "", hcl.InitialPos)
		if diags.HasErrors() {
			return true // as evaluation will say
		}
	}
	fine := true
	_ = hclsyntax.VisitAll(native, func(n hclsyntax.Node) hcl.Diagnostics {
		switch e := n.(type) {
		case *hclsyntax.LiteralValueExpr:
			fine = fine && (e.Val.Type() != cty.Number || isNear(e.Val))
		case *hclsyntax.UnaryOpExpr, *hclsyntax.ParenthesesExpr, *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr, *hclsyntax.FunctionCallExpr,
			*hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr, *hclsyntax.ObjectConsKeyExpr,
			*hclsyntax.ScopeTraversalExpr: // whose evaluation says that there are no variables
		case hclsyntax.Expression:
			fine = false
		}
		return nil
	})
	return fine
}

// isNear tells whether a number can be written out in reasonable time.
func isNear(v cty.Value) bool {
	if v.IsNull() {
		return true
	}
	exp := v.AsBigFloat().MantExp(nil)
	return exp > -5000 && exp < 5000
}
