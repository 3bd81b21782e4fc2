package config

import (
	"fmt"
	"os"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// fromEnv marks what came from the environment, which complaints must not show.
type fromEnv struct{}

// withEnv is the context in which env("NAME") gives a variable of slipway's own environment, and nothing else is known.
func withEnv() *hcl.EvalContext {
	env := function.New(&function.Spec{
		Params: []function.Parameter{{Name: "name", Type: cty.String, AllowMarked: true}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name, marks := args[0].Unmark()
			shown := fmt.Sprintf("the environment variable %q", name.AsString())
			if len(marks) > 0 {
				shown = "an environment variable"
			}
			text, ok := os.LookupEnv(name.AsString())
			if !ok {
				return cty.NilVal, fmt.Errorf("%s is not set", shown)
			}
			v := cty.StringVal(text)
			if v.AsString() != text || !utf8.ValidString(text) { // HCL would alter it
				return cty.NilVal, fmt.Errorf("%s is not normalised UTF-8 text", shown)
			}
			return v.Mark(fromEnv{}), nil
		},
	})
	return &hcl.EvalContext{Functions: map[string]function.Function{"env": env}}
}
