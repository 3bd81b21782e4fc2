package job

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

const digested = `job "j" {
  input "text" {}
  step "a" {
    inputs  = { text = input.text }
    outputs = ["o"]
    env     = { A = "1", B = "" }
    tags    = ["x", "y"]
    run {
      path = "sh"
      args = ["-c", "true"]
    }
  }
  step "b" {
    after = ["a"]
    run {
      path = "true"
    }
  }
  output "o" { from = step.a.o }
}
`

func mustParse(t *testing.T, text, name string) *Job {
	t.Helper()
	j, diags := Parse([]byte(text), name)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return j
}

// TestDigest: what does the same is the same job, however it is written; what does anything else is another.
func TestDigest(t *testing.T) {
	base := mustParse(t, digested, "job.hcl").Digest()
	if !strings.HasPrefix(base, digestVersion) {
		t.Errorf("no version: %s", base)
	}
	if other := mustParse(t, digested, "./dir/job.hcl").Digest(); other != base {
		t.Error("another name of the file is another job")
	}
	edit := func(old, new string) string {
		if strings.Count(digested, old) != 1 {
			t.Fatalf("%q is there %d times", old, strings.Count(digested, old))
		}
		return strings.Replace(digested, old, new, 1)
	}
	stepB := digested[strings.Index(digested, `  step "b"`):strings.Index(digested, `  output "o"`)]
	for name, text := range map[string]string{
		"a comment":           "# a comment\n" + digested,
		"white space":         strings.ReplaceAll(digested, "  ", "\t"),
		"a doc":               edit(`input "text" {}`, "input \"text\" {\n    doc = \"what it is\"\n  }"),
		"the order of blocks": strings.Replace(strings.Replace(digested, stepB, "", 1), `  step "a"`, stepB+`  step "a"`, 1),
		"the order of keys":   edit(`{ A = "1", B = "" }`, `{ B = "", A = "1" }`),
		"the order of tags":   edit(`["x", "y"]`, `["y", "x"]`),
		"an empty list":       edit(`after = ["a"]`, "after = [\"a\"]\n    caches = []"),
	} {
		if mustParse(t, text, "job.hcl").Digest() != base {
			t.Errorf("%s makes another job", name)
		}
	}
	for name, text := range map[string]string{
		"the job's name":      edit(`job "j"`, `job "k"`),
		"an argument":         edit(`"-c", "true"`, `"-c", "false"`),
		"arguments' order":    edit(`"-c", "true"`, `"true", "-c"`),
		"joined arguments":    edit(`"-c", "true"`, `"-c,true"`),
		"a variable less":     edit(`{ A = "1", B = "" }`, `{ A = "1" }`),
		"where an input goes": edit(`{ text = input.text }`, `{ other = input.text }`),
		"a need":              edit(`    after = ["a"]`+"\n", ""),
		"a timeout":           edit(`after = ["a"]`, "after = [\"a\"]\n    timeout = \"5s\""),
	} {
		if mustParse(t, text, "job.hcl").Digest() == base {
			t.Errorf("%s makes no other job", name)
		}
	}
}

// TestEveryFieldIsDigested: no field can be added to a step that its job's digest does not know of.
func TestEveryFieldIsDigested(t *testing.T) {
	base := (&Job{Name: "j", Steps: []Step{{}}}).Digest()
	for i := range reflect.TypeFor[Step]().NumField() {
		field := reflect.TypeFor[Step]().Field(i)
		if field.Type == reflect.TypeFor[hcl.Range]() {
			continue
		}
		j := &Job{Name: "j", Steps: []Step{{}}}
		fill(t, reflect.ValueOf(&j.Steps[0]).Elem().Field(i))
		if j.Digest() == base {
			t.Errorf("%s makes no other job", field.Name)
		}
	}
}

// fill sets a value to something that is not empty.
func fill(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(v.Type().Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		fill(t, v.Field(0))
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}
