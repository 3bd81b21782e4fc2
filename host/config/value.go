package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/slipway-run/slipway/internal/printable"
	"github.com/slipway-run/slipway/sdk"
)

// reader takes settings out of blocks and gathers all that is wrong with them.
type reader struct {
	diags     hcl.Diagnostics
	secrets   []hcl.Range
	envInSafe bool // env() only in sensitive fields; else everywhere
}

// content is a block's content, complaining of what is neither a field nor one of the other blocks.
func (r *reader) content(body hcl.Body, fields []sdk.Field, blocks ...hcl.BlockHeaderSchema) *hcl.BodyContent {
	schema := &hcl.BodySchema{Blocks: blocks}
	for _, f := range fields {
		if isBlock(f) {
			schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: f.Name})
			continue
		}
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: f.Name})
	}
	content, diags := body.Content(schema)
	r.diags = append(r.diags, diags...)
	return content
}

func isBlock(f sdk.Field) bool { return f.Type == sdk.TypeBlock || f.Type == sdk.TypeBlocks }

// settings gives a block's values by name: string, bool, int64, float64, []string, map[string]string, and maps such as this one
// for blocks. Durations and sizes are checked strings. What is not set and has no default is not there.
func (r *reader) settings(content *hcl.BodyContent, fields []sdk.Field) map[string]any {
	values := make(map[string]any)
	for _, f := range fields {
		if isBlock(f) {
			r.blocks(values, content, f)
			continue
		}
		if attr, ok := content.Attributes[f.Name]; ok {
			if f.Sensitive {
				r.keepSecret(attr.Expr)
			}
			v, ok := r.value(f, attr.Expr)
			if v != nil {
				values[f.Name] = v
			}
			if v != nil || !ok {
				continue
			}
		}
		if f.Default != "" {
			r.fill(values, f, content.MissingItemRange)
			continue
		}
		if f.Required {
			r.missing("argument", f, content.MissingItemRange)
		}
	}
	return values
}

// keepSecret hides the values that an expression is made of, but not names of keys and of environment variables.
func (r *reader) keepSecret(expr hcl.Expression) {
	if _, diags := hcl.ExprCall(expr); !diags.HasErrors() {
		return
	}
	parts, diags := hcl.ExprList(expr)
	if pairs, none := hcl.ExprMap(expr); diags.HasErrors() && !none.HasErrors() {
		for _, p := range pairs {
			parts = append(parts, p.Value)
		}
		diags = nil
	}
	if diags.HasErrors() {
		r.secrets = append(r.secrets, expr.Range())
		return
	}
	for _, e := range parts {
		r.keepSecret(e)
	}
}

func (r *reader) missing(what string, f sdk.Field, at hcl.Range) {
	detail := fmt.Sprintf("The %s %q is required.", what, f.Name)
	if f.Doc != "" {
		detail = fmt.Sprintf("The %s %q is required: %s", what, f.Name, printable.Message(f.Doc)) // a plugin's words
	}
	r.wrong(at, "Missing required "+what, "%s", detail)
}

func (r *reader) blocks(values map[string]any, content *hcl.BodyContent, f sdk.Field) {
	inner := slices.Clone(f.Block)
	for i := range inner {
		inner[i].Sensitive = inner[i].Sensitive || f.Sensitive
	}
	var all []map[string]any
	var first *hcl.Block
	for _, b := range content.Blocks.OfType(f.Name) {
		if f.Type == sdk.TypeBlock && first != nil {
			r.wrong(b.DefRange, "Duplicate block", "There is a block %q already at %s; there can be one.", f.Name, place(first.DefRange))
			continue
		}
		first = b
		all = append(all, r.settings(r.content(b.Body, inner), inner))
	}
	if first == nil {
		if f.Required {
			r.missing("block", f, content.MissingItemRange)
		}
		return
	}
	if f.Type == sdk.TypeBlock {
		values[f.Name] = all[0]
		return
	}
	values[f.Name] = all
}

// fill sets a field to its default, which can only be wrong by the plugin's fault.
func (r *reader) fill(values map[string]any, f sdk.Field, at hcl.Range) {
	expr := hcl.StaticExpr(cty.StringVal(f.Default), at)
	if f.Type == sdk.TypeStrings || f.Type == sdk.TypeMap {
		parsed, diags := hclsyntax.ParseExpression([]byte(f.Default), "default", hcl.InitialPos)
		if !diags.HasErrors() {
			expr = parsed
		}
	}
	var own reader
	v, ok := own.value(f, expr)
	if !ok || v == nil {
		r.wrong(at, "Broken schema", "The plugin's own default for %q is not a %s: that is a defect of the plugin.", f.Name, f.Type)
		return
	}
	values[f.Name] = v
}

// value is nil without an error for null, which is the same as leaving the setting out.
func (r *reader) value(f sdk.Field, expr hcl.Expression) (v any, ok bool) {
	switch f.Type {
	case sdk.TypeStrings:
		return r.list(f, expr)
	case sdk.TypeMap:
		return r.table(f, expr)
	}
	v, ok = r.scalar(f, expr, strconv.Quote(f.Name))
	return v, ok
}

func (r *reader) list(f sdk.Field, expr hcl.Expression) (any, bool) {
	items, diags := hcl.ExprList(expr)
	if diags.HasErrors() {
		return nil, r.isNull(f, expr, `a list of strings, such as ["a", "b"]`)
	}
	list, ok := make([]string, 0, len(items)), true
	f.Type = sdk.TypeString
	for i, e := range items {
		v, fine := r.scalar(f, e, fmt.Sprintf("element %d of %q", i+1, f.Name))
		s, isString := v.(string)
		if fine && !isString {
			r.wrong(e.Range(), "Wrong type", "Element %d of %q is null; it must be a string.", i+1, f.Name)
		}
		ok = ok && isString
		list = append(list, s)
	}
	if !ok {
		return nil, false
	}
	return list, true
}

func (r *reader) table(f sdk.Field, expr hcl.Expression) (any, bool) {
	pairs, diags := hcl.ExprMap(expr)
	if diags.HasErrors() {
		return nil, r.isNull(f, expr, `a map of strings, such as { NAME = "value" }`)
	}
	table, ok := make(map[string]string, len(pairs)), true
	places := make(map[string]hcl.Range, len(pairs))
	f.Type = sdk.TypeString
	for _, p := range pairs {
		key, isName := keyOf(p.Key)
		if !isName {
			r.wrong(p.Key.Range(), "Wrong key", "A key of %q must be a plain name, or a string in quotes.", f.Name)
			ok = false
			continue
		}
		if at, twice := places[key]; twice {
			r.wrong(p.Key.Range(), "Duplicate key", "%q has the key %q already, at %s.", f.Name, key, place(at))
			ok = false
			continue
		}
		places[key] = p.Key.Range()
		v, fine := r.scalar(f, p.Value, fmt.Sprintf("%q of %q", key, f.Name))
		s, isString := v.(string)
		if fine && !isString {
			r.wrong(p.Value.Range(), "Wrong type", "The value of %q in %q is null; it must be a string.", key, f.Name)
		}
		ok = ok && isString
		table[key] = s
	}
	if !ok {
		return nil, false
	}
	return table, true
}

func keyOf(expr hcl.Expression) (string, bool) {
	if !plain(expr) {
		return "", false
	}
	k, diags := expr.Value(nil)
	if diags.HasErrors() || k.IsNull() || !k.IsKnown() || k.Type() != cty.String {
		return "", false
	}
	return k.AsString(), true
}

// isNull complains unless the expression is a plain null.
func (r *reader) isNull(f sdk.Field, expr hcl.Expression, want string) bool {
	v, ok := r.eval(f, expr)
	if !ok {
		return false
	}
	if v.IsNull() {
		return true
	}
	r.wrong(expr.Range(), "Wrong type", "%q must be %s, not %s.", f.Name, want, describe(v, true))
	return false
}

func (r *reader) eval(f sdk.Field, expr hcl.Expression) (cty.Value, bool) {
	if !plain(expr) {
		r.wrong(expr.Range(), "Not a plain value", "Values are written out here, or taken from env(\"NAME\") where that is allowed; nothing is computed.")
		return cty.NilVal, false
	}
	v, diags := expr.Value(r.context(f))
	r.diags = append(r.diags, diags...)
	return v, !diags.HasErrors()
}

// scalar evaluates and checks one value. It is named what in complaints, which show the value only where it is no secret.
func (r *reader) scalar(f sdk.Field, expr hcl.Expression, what string) (any, bool) {
	v, ok := r.eval(f, expr)
	if !ok {
		return nil, false
	}
	v, marks := v.UnmarkDeep()
	if v.IsNull() {
		return nil, true
	}
	hidden := f.Sensitive || len(marks) > 0
	got, want := convertTo(f.Type, v)
	if got == nil {
		r.wrong(expr.Range(), "Wrong type", "The value of %s must be %s, not %s.", what, want, describe(v, hidden))
		return nil, false
	}
	s, isString := got.(string)
	shown := ""
	if !hidden {
		shown = strconv.Quote(s) + " "
	}
	if flaw := notation(f.Type, s); isString && flaw != "" {
		r.wrong(expr.Range(), "Wrong value", "The value %sof %s is %s.", shown, what, flaw)
		return nil, false
	}
	if len(f.OneOf) == 0 || slices.Contains(f.OneOf, fmt.Sprint(got)) {
		return got, true
	}
	hint := ""
	if !hidden {
		shown, hint = strconv.Quote(fmt.Sprint(got))+" ", didYouMean(fmt.Sprint(got), f.OneOf)
	}
	r.wrong(expr.Range(), "Wrong value", "The value %sof %s is not one of %s.%s", shown, what, printable.Message(strings.Join(f.OneOf, ", ")), printable.Message(hint))
	return nil, false
}

func (r *reader) context(f sdk.Field) *hcl.EvalContext {
	if r.envInSafe && !f.Sensitive {
		return nil
	}
	return withEnv()
}

func (r *reader) wrong(at hcl.Range, summary, format string, args ...any) {
	r.diags = append(r.diags, &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: at.Ptr(),
	})
}

// place is a range as people and editors write it.
func place(r hcl.Range) string {
	return fmt.Sprintf("%s:%d,%d", r.Filename, r.Start.Line, r.Start.Column)
}

// didYouMean is a sentence to append, or empty where nothing is near.
func didYouMean(given string, known []string) string {
	best, near := "", 3
	for _, k := range known {
		if d := levenshtein.Distance(given, k, nil); d < near {
			best, near = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}
