package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/sdk"
)

func TestLoadKnowsWhereItIs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "slipway.hcl")
	if err := os.WriteFile(file, []byte("plugin \"p\" { command = \"./p\" }\nworker \"w\" { plugin = \"p\" }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, diags := config.Load(file)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	if c.Dir() != dir || c.File != file || c.Workers[0].Range.Filename != file {
		t.Errorf("%+v does not know that it is %s", c, file)
	}
}

func TestLoadNamesAMissingFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none.hcl")
	c, diags := config.Load(file)
	if !diags.HasErrors() || !strings.Contains(diags.Error(), file) {
		t.Errorf("%v does not name %s", diags, file)
	}
	if c == nil {
		t.Error("no configuration")
	}
	var out strings.Builder
	if err := config.WriteDiagnostics(&out, diags, nil, false); err != nil || !strings.Contains(out.String(), file) {
		t.Errorf("written as %q, %v", out.String(), err)
	}
}

// The documented defaults, which others rely on.
func TestDefault(t *testing.T) {
	want := &config.Config{
		Plugins: []config.Plugin{{Name: "memory", Command: "slipway-memory"}},
		Workers: []config.Worker{{Name: "memory", Plugin: "memory"}},
		Placement: config.Placement{
			Build:   []string{"volume-locality", "fewest-build-containers"},
			NoInput: []string{"volume-locality", "fewest-build-containers"},
			Check:   []string{"random"},
		},
		Timing:    config.Timing{MissingGrace: 5 * time.Minute, WorkerGone: 5 * time.Minute, Stalled: 30 * time.Second, Answer: 30 * time.Minute, Prune: 5 * time.Minute},
		Reaping:   config.Reaping{Every: 30 * time.Second, Failed: 120 * time.Hour, Abandoned: 24 * time.Hour, Records: 168 * time.Hour},
		Artifacts: config.Artifacts{Quota: 16 << 30, TTL: 12 * time.Hour, CacheTTL: 720 * time.Hour},
	}
	if diff := cmp.Diff(want, config.Default()); diff != "" {
		t.Errorf("default (-want +got):\n%s", diff)
	}
	p := config.Default().Placement
	for _, s := range slices.Concat(p.Build, p.NoInput, p.Check) {
		if !slices.Contains(config.Strategies(), s) {
			t.Errorf("the default names %q, which there is not", s)
		}
	}
}

// Parse goes on after an error, so that a validator can check the plugins' own blocks as well.
func TestErrorsLeaveTheRest(t *testing.T) {
	c, diags := config.Parse([]byte("plugin \"p\" {\n  command = 5\n  config { x = 1 }\n}\nworker \"w\" { plugin = \"p\" }\n"), "f.hcl")
	if !diags.HasErrors() || len(c.Plugins) != 1 || c.Plugins[0].Body == nil || len(c.Workers) != 1 {
		t.Errorf("%+v with %v", c, diags)
	}
}

func TestTooLarge(t *testing.T) {
	for _, name := range []string{"f.hcl", "f.hcl.json"} {
		if _, diags := config.Parse(make([]byte, 1<<20), name); !diags.HasErrors() {
			t.Errorf("%s: a file of 1 MiB is taken", name)
		}
	}
}

// The parsers recurse: however a file nests, they must still come back.
func TestDeepNesting(t *testing.T) {
	for _, open := range []string{"(", "[", "{a=", "!", "- ", "${", "\"${", "a {\n", "[for x in ", "f(", "a ? b : ", "1+", "a[0]", "a.b", "%{if a}", "<<E\n${"} {
		for prefix, size := range map[string]int{"x = ": 256 << 10, "x = \"": 8 << 10, "x = <<E\n": 8 << 10, "plugin \"p\" {\nconfig {\na = ": 8 << 10} {
			src := prefix + strings.Repeat(open, size/len(open))
			if _, diags := config.Parse([]byte(src[:size]), "f.hcl"); !diags.HasErrors() {
				t.Errorf("%q after %q: no error", open, prefix)
			}
		}
	}
	for _, open := range []string{"[", `{"a":`} {
		for _, n := range []int{1900, (256 << 10) / len(open)} {
			if _, diags := config.Parse([]byte(strings.Repeat(open, n)), "f.json"); !diags.HasErrors() {
				t.Errorf("%q: no error", open)
			}
		}
	}
}

// What parses may still be deep to evaluate.
func TestDeepValues(t *testing.T) {
	schema := sdk.Schema{Fields: []sdk.Field{
		{Name: "text", Type: sdk.TypeString}, {Name: "list", Type: sdk.TypeStrings}, {Name: "table", Type: sdk.TypeMap},
		{Name: "number", Type: sdk.TypeInt}, {Name: "size", Type: sdk.TypeBytes},
	}}
	for _, v := range []string{
		strings.Repeat("(", 1900) + "{}" + strings.Repeat(")", 1900), strings.Repeat("!", 1900) + "true",
		strings.Repeat("[", 1900) + strings.Repeat("]", 1900), `"` + strings.Repeat(`${"`, 1900) + strings.Repeat(`"}`, 1900) + `${1}"`,
		"1" + strings.Repeat("+1", 10<<10), "[]" + strings.Repeat("[0]", 10<<10), "{}" + strings.Repeat(".b", 10<<10),
		strings.Repeat("true ? ", 1900) + "1" + strings.Repeat(" : 1", 1900),
		// What would take for ever.
		strings.Repeat("[for a in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] : ", 12) + "a" + strings.Repeat("]", 12),
		`"${1e99999999}"`, "1e99999999", "-1e-99999999", `"%{for a in [1]}${a}%{endfor}"`,
	} {
		for _, field := range []string{"text", "list", "table", "number", "size"} {
			body := parseBody(t, []byte(field+" = "+v), "f.hcl")
			if _, diags := config.Decode(body, schema, hcl.Range{}); !diags.HasErrors() && v[0] != '"' {
				t.Errorf("%s = %.30s: no error", field, v)
			}
		}
	}
	for _, v := range []string{`"${1e99999999}"`, "1e99999999", `"${[for a in [1] : a]}"`} {
		for _, field := range []string{"text", "list", "table", "number", "size"} {
			body := parseBody(t, []byte(`{"`+field+`": `+v+`}`), "f.json")
			if _, diags := config.Decode(body, schema, hcl.Range{}); !diags.HasErrors() {
				t.Errorf("%s: %s: no error", field, v)
			}
		}
	}
	t.Setenv("CONFIG_TEST_FAR", "1e99999999")
	for _, field := range []string{"number", "size", "text"} {
		_, diags := config.Decode(parseBody(t, []byte(field+` = env("CONFIG_TEST_FAR")`), "f.hcl"), schema, hcl.Range{})
		if diags.HasErrors() != (field != "text") {
			t.Errorf("%s: %v", field, diags)
		}
	}
}

// A plugin's schema may be wrong too; that is said as the plugin's fault.
func TestBrokenSchema(t *testing.T) {
	at := hcl.Range{Filename: "f.hcl", Start: hcl.InitialPos, End: hcl.InitialPos}
	for _, f := range []sdk.Field{
		{Name: "a", Type: sdk.TypeInt, Default: "many"},
		{Name: "a", Type: sdk.TypeStrings, Default: "a,b"},
		{Name: "a", Type: sdk.TypeDuration, Default: "5"},
		{Name: "a", Type: "colour", Default: "red"},
	} {
		object, diags := config.Decode(nil, sdk.Schema{Fields: []sdk.Field{f}}, at)
		if object != nil || len(diags) != 1 || diags[0].Summary != "Broken schema" {
			t.Errorf("%+v: %s, %v", f, object, diags)
		}
	}
}

func TestRequiredBlocks(t *testing.T) {
	at := hcl.Range{Filename: "f.hcl", Start: hcl.InitialPos, End: hcl.InitialPos}
	schema := sdk.Schema{Fields: []sdk.Field{{Name: "one", Type: sdk.TypeBlock, Required: true}, {Name: "many", Type: sdk.TypeBlocks, Required: true}}}
	if _, diags := config.Decode(nil, schema, at); len(diags) != 2 || diags[0].Subject.Filename != "f.hcl" {
		t.Errorf("got %v", diags)
	}
}

// Text that HCL would alter does not reach a plugin.
func TestEnvIsExact(t *testing.T) {
	schema := sdk.Schema{Fields: []sdk.Field{{Name: "a", Type: sdk.TypeString}}}
	for _, text := range []string{"e\u0301", "\xff"} {
		t.Setenv("CONFIG_TEST_TEXT", text)
		if object, diags := config.Decode(parseBody(t, []byte(`a = env("CONFIG_TEST_TEXT")`), "f.hcl"), schema, hcl.Range{}); !diags.HasErrors() {
			t.Errorf("%q became %s", text, object)
		}
	}
}

// What a reaping block says counts, and what it leaves out has its default.
func TestReaping(t *testing.T) {
	c, diags := config.Parse([]byte("reaping {\n  every = \"1m\"\n  records = \"24h\"\n  keep_failed = true\n  output_size = \"1MiB\"\n}\n"), "f.hcl")
	want := config.Reaping{Every: time.Minute, Failed: 120 * time.Hour, Abandoned: 24 * time.Hour, Records: 24 * time.Hour, KeepFailed: true, OutputSize: 1 << 20}
	if diags.HasErrors() || c.Reaping != want {
		t.Errorf("%+v with %v, want %+v", c.Reaping, diags, want)
	}
	if got := (config.Reaping{Every: time.Minute, Records: 24 * time.Hour, KeepFailed: true, OutputSize: 1 << 20}).OrDefault(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// What an artifacts block says counts, and what it leaves out has its default.
func TestArtifacts(t *testing.T) {
	for text, want := range map[string]config.Artifacts{
		"":                               {Quota: 16 << 30, TTL: 12 * time.Hour, CacheTTL: 720 * time.Hour},
		"artifacts { quota = \"2GiB\" }": {Quota: 2 << 30, TTL: 12 * time.Hour, CacheTTL: 720 * time.Hour},
		"artifacts {\n unpack_size = \"1MiB\"\n unpack_entries = 7\n}":              {Quota: 16 << 30, TTL: 12 * time.Hour, CacheTTL: 720 * time.Hour, UnpackSize: 1 << 20, UnpackEntries: 7},
		"artifacts {\n stream_size = \"1MiB\"\n stream_unpacked_size = \"2MiB\"\n}": {Quota: 16 << 30, TTL: 12 * time.Hour, CacheTTL: 720 * time.Hour, StreamSize: 1 << 20, StreamUnpackedSize: 2 << 20},
		"artifacts {\n ttl = \"1h\"\n cache_ttl = \"24h\"\n}":                       {Quota: 16 << 30, TTL: time.Hour, CacheTTL: 24 * time.Hour},
	} {
		c, diags := config.Parse([]byte(text), "f.hcl")
		if diags.HasErrors() || c.Artifacts != want {
			t.Errorf("%s: %+v with %v, want %+v", text, c.Artifacts, diags, want)
		}
	}
}

// TestSchemaWordsForgeNothing: what a plugin says of its settings stands where the operator reads what is wrong with the file, and looks like no line of anybody else's.
func TestSchemaWordsForgeNothing(t *testing.T) {
	forged := "\x1b[2Jits address\nonly - succeeded\n" + strings.Repeat("x", 100<<10)
	schema := sdk.Schema{Fields: []sdk.Field{
		{Name: "must", Type: sdk.TypeString, Required: true, Doc: forged},
		{Name: "one", Type: sdk.TypeString, OneOf: []string{"a\nonly - succeeded", "\x1b[2Jb"}},
	}}
	_, diags := config.Decode(parseBody(t, []byte(`one = "c"`), "f.hcl"), schema, hcl.Range{})
	if len(diags) != 2 {
		t.Fatalf("%d complaints: %v", len(diags), diags)
	}
	for _, d := range diags {
		if strings.ContainsAny(d.Detail, "\x1b") || strings.Contains(d.Detail, "\nonly") || len(d.Detail) > 20<<10 {
			t.Errorf("it shows %d bytes: %.200q", len(d.Detail), d.Detail)
		}
	}
}
