package job

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"
	"time"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/slipway-run/slipway/sdk"
)

const howToEscape = "Nothing is computed in a job file. For a literal ${ in a string, such as a shell's, write $${; for %{ write %%{."

// reader takes literal values out of blocks and gathers all that is wrong with them.
type reader struct {
	diags hcl.Diagnostics
}

func (r *reader) content(body hcl.Body, attrs []string, blocks ...hcl.BlockHeaderSchema) *hcl.BodyContent {
	schema := &hcl.BodySchema{Blocks: blocks}
	for _, a := range attrs {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: a})
	}
	content, diags := body.Content(schema)
	r.diags = append(r.diags, diags...)
	return content
}

func (r *reader) wrong(at hcl.Range, summary, format string, args ...any) {
	r.diags = append(r.diags, &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: at.Ptr(),
	})
}

func (r *reader) missing(c *hcl.BodyContent, name string) {
	r.wrong(c.MissingItemRange, "Missing required argument", "The argument %q is required.", name)
}

// literal gives the value of an expression without variables, functions, operators and templates; false if it is not one.
func (r *reader) literal(expr hcl.Expression) (cty.Value, bool) {
	if interpolates(expr) {
		r.wrong(expr.Range(), "Interpolation", "%s", howToEscape)
		return cty.NilVal, false
	}
	if isLiteral(expr) {
		if v, diags := expr.Value(nil); !diags.HasErrors() && v.IsKnown() {
			return v, true
		}
	}
	r.wrong(expr.Range(), "Not a literal value", "A literal value is needed here. Nothing is computed in a job file; text needs quotes.")
	return cty.NilVal, false
}

// isLiteral holds off what could take for ever to evaluate, such as loops in loops.
func isLiteral(expr hcl.Expression) bool {
	switch e := expr.(type) {
	case *hclsyntax.ObjectConsKeyExpr:
		return hcl.ExprAsKeyword(e) != "" || isLiteral(e.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return isLiteral(e.Expression)
	case *hclsyntax.UnaryOpExpr:
		return isLiteral(e.Val)
	case *hclsyntax.LiteralValueExpr, *hclsyntax.TemplateExpr: // which does not interpolate
		return true
	}
	return false
}

// interpolates tells whether a string has ${ or %{ in it.
func interpolates(expr hcl.Expression) bool {
	switch e := expr.(type) {
	case *hclsyntax.ObjectConsKeyExpr:
		return interpolates(e.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return interpolates(e.Expression)
	case *hclsyntax.UnaryOpExpr:
		return interpolates(e.Val)
	case *hclsyntax.TemplateWrapExpr:
		return true
	case *hclsyntax.TemplateExpr:
		for _, part := range e.Parts {
			if lit, ok := part.(*hclsyntax.LiteralValueExpr); !ok || lit.Val.Type() != cty.String {
				return true
			}
		}
	}
	return false
}

// str gives the text of a string literal. What names it in complaints.
func (r *reader) str(expr hcl.Expression, what string) (string, bool) {
	v, ok := r.literal(expr)
	if !ok {
		return "", false
	}
	if v.IsNull() || v.Type() != cty.String {
		r.wrong(expr.Range(), "Wrong type", "%s must be a string in quotes.", what)
		return "", false
	}
	s := v.AsString()
	if strings.Contains(s, "\x00") {
		r.wrong(expr.Range(), "Wrong value", "%s contains a NUL byte, which no program can be given.", what)
		return "", false
	}
	return s, true
}

// text fills into from an optional argument that must not be empty.
func (r *reader) text(c *hcl.BodyContent, name string, into *string) bool {
	attr, ok := c.Attributes[name]
	if !ok {
		return false
	}
	s, ok := r.str(attr.Expr, quoted(name))
	if !ok {
		return false
	}
	if s == "" {
		r.wrong(attr.Expr.Range(), "Wrong value", "%q is empty; leave the line out instead.", name)
		return false
	}
	*into = s
	return true
}

func (r *reader) flag(c *hcl.BodyContent, name string, into *bool) {
	attr, ok := c.Attributes[name]
	if !ok {
		return
	}
	v, ok := r.literal(attr.Expr)
	if !ok {
		return
	}
	if v.IsNull() || v.Type() != cty.Bool {
		r.wrong(attr.Expr.Range(), "Wrong type", "%q must be true or false.", name)
		return
	}
	*into = v.True()
}

// item is one string of a list, with its place.
type item struct {
	text string
	at   hcl.Range
}

func (r *reader) list(c *hcl.BodyContent, name string) []item {
	attr, ok := c.Attributes[name]
	if !ok {
		return nil
	}
	exprs, diags := hcl.ExprList(attr.Expr)
	if diags.HasErrors() {
		r.wrong(attr.Expr.Range(), "Wrong type", "%q must be a list of strings, such as [\"a\", \"b\"].", name)
		return nil
	}
	var items []item
	for i, e := range exprs {
		if s, ok := r.str(e, fmt.Sprintf("Element %d of %q", i+1, name)); ok {
			items = append(items, item{s, e.Range()})
		}
	}
	return items
}

// pair is one entry of a map: its key, and what stands for its value.
type pair struct {
	key   string
	at    hcl.Range
	value hcl.Expression
}

// pairs gives the entries of a map, each key once.
func (r *reader) pairs(c *hcl.BodyContent, name, example string) []pair {
	attr, ok := c.Attributes[name]
	if !ok {
		return nil
	}
	exprs, diags := hcl.ExprMap(attr.Expr)
	if diags.HasErrors() {
		r.wrong(attr.Expr.Range(), "Wrong type", "%q must be a map, such as %s.", name, example)
		return nil
	}
	places := make(map[string]hcl.Range)
	var pairs []pair
	for _, kv := range exprs {
		if interpolates(kv.Key) {
			r.wrong(kv.Key.Range(), "Interpolation", "%s", howToEscape)
			continue
		}
		var k cty.Value
		if isLiteral(kv.Key) {
			k, diags = kv.Key.Value(nil)
		}
		if k == cty.NilVal || diags.HasErrors() || k.IsNull() || k.Type() != cty.String {
			r.wrong(kv.Key.Range(), "Wrong key", "A key of %q that is not a plain name, such as a path with a slash, must be in quotes.", name)
			continue
		}
		key := k.AsString()
		if at, twice := places[key]; twice {
			r.wrong(kv.Key.Range(), "Duplicate key", "%q has the key %q already, at %s.", name, key, place(at))
			continue
		}
		places[key] = kv.Key.Range()
		pairs = append(pairs, pair{key, kv.Key.Range(), kv.Value})
	}
	return pairs
}

func (r *reader) duration(c *hcl.BodyContent, name string, into *time.Duration) {
	var s string
	if !r.text(c, name, &s) {
		return
	}
	d, err := time.ParseDuration(s)
	if _, short := time.ParseDuration(digits.ReplaceAllLiteralString(s, "1")); err != nil && short == nil && !strings.HasPrefix(s, "-") {
		r.wrong(c.Attributes[name].Expr.Range(), "Wrong value", "%q is more than a duration can be, which is 2562047h or about 292 years: it is %q.", name, s)
		return
	}
	if err != nil || d <= 0 {
		r.wrong(c.Attributes[name].Expr.Range(), "Wrong value", "%q must be a duration above nothing, such as \"10m\" or \"1h30m\", not %q.", name, s)
		return
	}
	*into = d
}

// size fills in a number of bytes above zero, written as "64MiB" or as a number.
func (r *reader) size(c *hcl.BodyContent, name string, into *int64) {
	r.number(c, name, "a size above zero, such as \"64MiB\"", into, func(s string) (int64, bool) {
		n, err := sdk.ParseBytes(s)
		return int64(n), err == nil
	}, 1)
}

// cpu fills in thousandths of a core, written as "500m", or as cores.
func (r *reader) cpu(c *hcl.BodyContent, name string, into *int64) {
	r.number(c, name, "cores above zero, such as 0.5 or \"500m\" (thousandths)", into, func(s string) (int64, bool) {
		if milli, ok := strings.CutSuffix(s, "m"); ok {
			return decimal(milli, 1)
		}
		return decimal(s, 1000)
	}, 1000)
}

func (r *reader) count(c *hcl.BodyContent, name string, into *int64) {
	r.number(c, name, "a whole number above zero", into, func(string) (int64, bool) { return 0, false }, 1)
}

// number fills in a whole number above zero: a number times unit, or a string by parse.
func (r *reader) number(c *hcl.BodyContent, name, want string, into *int64, parse func(string) (int64, bool), unit int64) {
	attr, ok := c.Attributes[name]
	if !ok {
		return
	}
	v, ok := r.literal(attr.Expr)
	if !ok {
		return
	}
	var n int64
	ok = false
	large := false
	switch {
	case v.IsNull():
	case v.Type() == cty.Number:
		n, ok = exactly(v.AsBigFloat(), unit)
		large = !ok && v.AsBigFloat().Cmp(big.NewFloat(float64(math.MaxInt64/unit))) > 0
	case v.Type() == cty.String:
		s := v.AsString()
		if n, ok = parse(s); !ok && !strings.Contains(s, ".") {
			_, large = parse(digits.ReplaceAllLiteralString(s, "1"))
		}
	}
	if large {
		r.wrong(attr.Expr.Range(), "Wrong value", "%q is larger than anything can be: it must be %s.", name, want)
		return
	}
	if !ok || n <= 0 {
		r.wrong(attr.Expr.Range(), "Wrong value", "%q must be %s.", name, want)
		return
	}
	*into = n
}

// digits are made one digit each: what can be read then, and could not be before, was too large.
var digits = regexp.MustCompile(`[0-9]+`)

func decimal(s string, unit int64) (int64, bool) {
	f, _, err := big.ParseFloat(s, 10, 128, big.ToNearestEven)
	if err != nil {
		return 0, false
	}
	return exactly(f, unit)
}

// exactly gives a decimal number times unit, if that is whole and above zero.
func exactly(f *big.Float, unit int64) (int64, bool) {
	if f.Cmp(big.NewFloat(1e-9)) < 0 || f.Cmp(big.NewFloat(1<<62)) > 0 {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(f.Text('g', 30)) // as it was written, which no binary fraction is
	if !ok {
		return 0, false
	}
	r.Mul(r, new(big.Rat).SetInt64(unit))
	if !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return r.Num().Int64(), true
}

func quoted(name string) string { return fmt.Sprintf("%q", name) }

// place is a range as people and editors write it.
func place(r hcl.Range) string {
	return fmt.Sprintf("%s:%d,%d", r.Filename, r.Start.Line, r.Start.Column)
}

// didYouMean is a sentence to append: the nearest name, else all there are.
func didYouMean(given string, known []string) string {
	const few = 100 // names: beyond, it would take long, and fill the screen
	known = known[:min(len(known), few)]
	best, near := "", 3
	for _, k := range known {
		if d := levenshtein.Distance(given, k, nil); d < near {
			best, near = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf(" Did you mean %q?", best)
	}
	if len(known) == 0 {
		return ""
	}
	return fmt.Sprintf(" There is %s.", strings.Join(known, ", "))
}
