package config

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/sdk"
)

// Decode checks a plugin's or worker's own settings against the schema that the plugin told, and gives them as the JSON object that
// the plugin gets: durations and sizes as strings, defaults filled in, without what is not set. A nested block that is not in
// the file is not in the object either, whatever defaults its fields have. Null is the same as leaving a setting out. In values,
// env("NAME") gives a variable of this process's environment, which must be set.
//
// All that is wrong is found at once; the object is nil then. Body may be nil, and rangeIfNil is where missing settings are
// then complained of. Values of sensitive fields, and all that came from env(), appear neither in the diagnostics' texts nor, if
// they are written by [WriteDiagnostics], in the lines that they quote.
func Decode(body hcl.Body, schema sdk.Schema, rangeIfNil hcl.Range) (json.RawMessage, hcl.Diagnostics) {
	var r reader
	content := &hcl.BodyContent{MissingItemRange: rangeIfNil}
	if body != nil {
		content = r.content(body, schema.Fields)
	}
	values := r.settings(content, schema.Fields)
	if r.diags.HasErrors() {
		return nil, r.finish()
	}
	object, err := json.Marshal(values)
	if err != nil { // no value that a reader gives
		r.wrong(rangeIfNil, "Settings that cannot be sent", "%v", err)
		return nil, r.finish()
	}
	return object, r.finish()
}

// finish sorts what was gathered by place and takes care of the secrets.
func (r *reader) finish() hcl.Diagnostics {
	slices.SortStableFunc(r.diags, func(a, b *hcl.Diagnostic) int {
		if a.Subject == nil || b.Subject == nil {
			return 0
		}
		return cmp.Or(cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte), cmp.Compare(a.Detail, b.Detail))
	})
	if len(r.secrets) == 0 {
		return r.diags
	}
	for _, d := range r.diags {
		d.Extra = hiding{ranges: r.secrets, inner: d.Extra}
	}
	return r.diags
}

// hiding is what a diagnostic knows of secrets in its file.
type hiding struct {
	ranges []hcl.Range
	inner  any
}

// UnwrapDiagnosticExtra is for hcl.DiagnosticExtra.
func (h hiding) UnwrapDiagnosticExtra() any { return h.inner }
