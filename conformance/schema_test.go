package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// checker holds JSON against a schema, as far as ours goes. A keyword that it does not know is an error, so that none is without effect.
type checker struct {
	t    *testing.T
	defs map[string]any
}

func (k checker) check(where string, schema map[string]any, value any) (wrong []string) {
	k.t.Helper()
	say := func(format string, args ...any) { wrong = append(wrong, where+": "+fmt.Sprintf(format, args...)) }
	for keyword, want := range schema {
		switch keyword {
		case "$schema", "$id", "$defs", "title", "description", "format":
		case "$ref":
			name := strings.TrimPrefix(want.(string), "#/$defs/")
			def, ok := k.defs[name].(map[string]any)
			if !ok {
				k.t.Fatalf("%s: no definition %q", where, name)
			}
			wrong = append(wrong, k.check(where, def, value)...)
		case "type":
			types, ok := want.([]any)
			if !ok {
				types = []any{want}
			}
			if !slices.Contains(types, any(typeOf(value))) {
				say("is a %s, want %v", typeOf(value), types)
			}
		case "enum":
			if !slices.Contains(want.([]any), value) {
				say("%v is none of %v", value, want)
			}
		case "minimum":
			if n, ok := value.(json.Number); ok {
				if f, err := n.Float64(); err != nil || f < want.(float64) {
					say("%v is below %v", n, want)
				}
			}
		case "required":
			object, _ := value.(map[string]any)
			for _, name := range want.([]any) {
				if _, ok := object[name.(string)]; !ok {
					say("lacks %v", name)
				}
			}
		case "items":
			list, _ := value.([]any)
			for i, v := range list {
				wrong = append(wrong, k.check(fmt.Sprintf("%s[%d]", where, i), want.(map[string]any), v)...)
			}
		case "propertyNames":
			object, _ := value.(map[string]any)
			for name := range object {
				wrong = append(wrong, k.check(where+"."+name, want.(map[string]any), name)...)
			}
		case "properties", "additionalProperties": // below, together
		default:
			k.t.Fatalf("%s: the schema's keyword %q is unknown here", where, keyword)
		}
	}
	object, _ := value.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	for name, v := range object {
		at := where + "." + name
		if p, ok := properties[name].(map[string]any); ok {
			wrong = append(wrong, k.check(at, p, v)...)
			continue
		}
		switch more := schema["additionalProperties"].(type) {
		case map[string]any:
			wrong = append(wrong, k.check(at, more, v)...)
		case bool:
			if !more {
				say("has %q, which the schema does not know", name)
			}
		}
	}
	return wrong
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "number"
		}
		return "integer"
	}
	return "unknown"
}

func (k checker) report(schema map[string]any, text string) []string {
	k.t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		k.t.Fatal(err)
	}
	wrong := k.check("report", schema, value)
	return slices.DeleteFunc(wrong, func(w string) bool { // a number may be a whole one
		return strings.HasSuffix(w, "is a integer, want [number]")
	})
}

func TestReportsKeepTheirSchema(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(ReportSchema()), &schema); err != nil {
		t.Fatal(err)
	}
	k := checker{t, schema["$defs"].(map[string]any)}
	sum := execute(t, &fake{features: []sdk.Feature{sdk.FeatureTTY}}, Options{
		Expected: []Expectation{{ID: "known", Reason: "r", Until: time.Now().Add(time.Hour)}},
	},
		probe("pass", func(_ context.Context, c *C) { c.Logf("a line") }),
		probe("fail", func(_ context.Context, c *C) { c.violation("", "of none", "x"); c.Errorf("why", "what") }),
		probe("known", func(_ context.Context, c *C) { c.Errorf("why", "what") }),
		probe("broken", func(context.Context, *C) { panic("oh") }),
		probe("blind", func(_ context.Context, c *C) { c.NotObservable("dark") }))
	sum.Command = []string{"./plugin", "--short"}
	var b strings.Builder
	if err := WriteJSON(&b, sum); err != nil {
		t.Fatal(err)
	}
	for _, w := range k.report(schema, b.String()) {
		t.Error(w)
	}
	for what, change := range map[string]func(string) string{
		"an unknown status": func(s string) string { return strings.Replace(s, `"status": "pass"`, `"status": "fine"`, 1) },
		"an unknown key":    func(s string) string { return strings.Replace(s, `"target":`, `"new": 1, "target":`, 1) },
		"a missing key":     func(s string) string { return strings.Replace(s, `"why":`, `"what":`, 1) },
		"a wrong type":      func(s string) string { return strings.Replace(s, `"warnings": 0`, `"warnings": "0"`, 1) },
		"a negative count":  func(s string) string { return strings.Replace(s, `"runs": 1`, `"runs": -1`, 1) },
	} {
		if changed := change(b.String()); changed == b.String() || len(k.report(schema, changed)) == 0 {
			t.Errorf("%s is taken", what)
		}
	}
	enum := func(name string) (values []string) {
		for _, v := range k.defs[name].(map[string]any)["enum"].([]any) {
			values = append(values, v.(string))
		}
		return values
	}
	var statuses, profiles []string
	for _, s := range Statuses() {
		statuses = append(statuses, string(s))
	}
	for _, p := range Profiles() {
		profiles = append(profiles, string(p))
	}
	if !slices.Equal(enum("status"), statuses) || !slices.Equal(enum("profile"), profiles) {
		t.Errorf("the schema's statuses and profiles are %q and %q", enum("status"), enum("profile"))
	}
	if got := slices.Sorted(maps.Keys(k.defs)); len(got) != 7 {
		t.Errorf("definitions are %q", got)
	}
}
