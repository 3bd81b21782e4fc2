package config

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/slipway-run/slipway/sdk"
)

// convertTo gives a Go value, or what was wanted. Text may stand for a number or a truth value, because that is what env() has;
// never the other way round.
func convertTo(t sdk.FieldType, v cty.Value) (got any, want string) {
	if !v.IsKnown() {
		return nil, "known"
	}
	switch t {
	case sdk.TypeString:
		if v.Type() == cty.String {
			return v.AsString(), ""
		}
		return nil, "a string in quotes"
	case sdk.TypeDuration:
		if v.Type() == cty.String {
			return v.AsString(), ""
		}
		return nil, `a duration in quotes, such as "1m30s"`
	case sdk.TypeBytes:
		if v.Type() == cty.String {
			return v.AsString(), ""
		}
		if n, ok := whole(v); ok && n >= 0 {
			return strconv.FormatInt(n, 10), ""
		}
		return nil, `a size, such as "64MiB"`
	case sdk.TypeBool:
		if b, err := convert.Convert(v, cty.Bool); err == nil && !b.IsNull() {
			return b.True(), ""
		}
		return nil, "true or false"
	case sdk.TypeInt:
		if n, ok := whole(v); ok {
			return n, ""
		}
		return nil, "a whole number of 64 bits"
	case sdk.TypeFloat:
		if n, ok := number(v); ok {
			if f, _ := n.Float64(); !math.IsInf(f, 0) {
				return f, ""
			}
		}
		return nil, "a number of 64 bits"
	}
	return nil, fmt.Sprintf("of the type %q, which this host does not know", t)
}

func number(v cty.Value) (*big.Float, bool) {
	n, err := convert.Convert(v, cty.Number)
	if err != nil || n.IsNull() {
		return nil, false
	}
	return n.AsBigFloat(), true
}

func whole(v cty.Value) (int64, bool) {
	n, ok := number(v)
	if !ok {
		return 0, false
	}
	i, acc := n.Int64()
	return i, acc == big.Exact
}

// notation says what is wrong with a duration or a size as it is written; empty: nothing.
func notation(t sdk.FieldType, s string) string {
	switch t {
	case sdk.TypeDuration:
		if _, err := time.ParseDuration(s); err != nil {
			if _, err := time.ParseDuration(digits.ReplaceAllLiteralString(s, "1")); err == nil {
				return "beyond what a duration can be, which is 2562047h or about 292 years"
			}
			return `not a duration: write numbers with h, m, s or ms, such as "1m30s"`
		}
	case sdk.TypeBytes:
		if _, err := sdk.ParseBytes(s); err != nil {
			if _, err := sdk.ParseBytes(digits.ReplaceAllLiteralString(s, "1")); err == nil {
				return "more than a size can be, which is 8388607TiB"
			}
			return `not a size: write a whole number with B, KiB, MiB, GiB or TiB, such as "64MiB"`
		}
	}
	return ""
}

// digits are made one digit each: what can be read then, and could not be before, was too large.
var digits = regexp.MustCompile(`[0-9]+`)

func describe(v cty.Value, hidden bool) string {
	t := v.Type()
	switch {
	case !hidden && t == cty.Number:
		return "the number " + v.AsBigFloat().Text('g', 20)
	case !hidden && t == cty.String:
		return fmt.Sprintf("the string %.80q", v.AsString())
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "true or false"
	case t == cty.String:
		return "a string"
	case t.IsTupleType() || t.IsListType():
		return "a list"
	case t.IsObjectType() || t.IsMapType():
		return "a map"
	}
	return t.FriendlyName()
}
