package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/sdk"
)

// FuzzConfig: whatever a file says, Parse and Decode return, and errors come with an explanation that can be printed.
func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		text, _, _ := strings.Cut(string(src), "----\n")
		f.Add(text, strings.HasSuffix(file, "-json.txt"))
		f.Add("plugin \"p\" {\n command = \"p\"\n config {\n"+text+"\n}\n}", false)
	}
	schema, err := sdk.SchemaOf(settings{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, src string, json bool) {
		name := "slipway.hcl"
		if json {
			name += ".json"
		}
		c, diags := config.Parse([]byte(src), name)
		if c == nil {
			t.Fatal("no configuration")
		}
		check(t, diags, name, src)
		for _, p := range c.Plugins {
			object, diags := config.Decode(p.Body, schema, p.Range)
			if (object == nil) != diags.HasErrors() {
				t.Fatalf("object %s and errors %v", object, diags)
			}
			check(t, diags, name, src)
			if object == nil {
				continue
			}
			var back settings
			if err := (sdk.Block{Name: p.Name, Values: object}).Decode(&back); err != nil {
				t.Fatalf("the plugin cannot read %s: %v", object, err)
			}
		}
	})
}

func check(t *testing.T, diags hcl.Diagnostics, name, src string) {
	t.Helper()
	var out strings.Builder
	if err := config.WriteDiagnostics(&out, diags, map[string][]byte{name: []byte(src)}, true); err != nil {
		t.Fatal(err)
	}
	for _, d := range diags {
		if d.Summary == "" || d.Subject == nil {
			t.Fatalf("%+v says too little", d)
		}
	}
}
