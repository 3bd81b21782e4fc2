package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/sdk"
)

var update = flag.Bool("update", false, "write what the tests got into testdata")

// TestGolden holds every file below testdata: a configuration (file) or the inside of a plugin's config block (decode), a line of
// dashes, and what is said to it. Those named -json are in JSON.
func TestGolden(t *testing.T) {
	t.Setenv("CONFIG_TEST_TOKEN", "hunter2")
	t.Setenv("CONFIG_TEST_ADDRESS", "tcp://here")
	t.Setenv("CONFIG_TEST_SLOTS", "7")
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("testdata has %d cases; some are lost", len(files))
	}
	for _, file := range files {
		kind, name := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(kind+"/"+name, func(t *testing.T) {
			all, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			src, want, ok := bytes.Cut(all, []byte("----\n"))
			if !ok {
				t.Fatal("the case has no line of dashes")
			}
			filename := "slipway.hcl"
			if strings.HasSuffix(name, "-json") {
				filename += ".json"
			}
			outcome := fileOutcome
			if kind == "decode" {
				outcome = decodeOutcome
			}
			got := outcome(t, src, filename)
			if strings.Contains(got, "Error: ") && (strings.Contains(got, "hunter2") || strings.Contains(got, "4711")) {
				t.Errorf("a secret is shown:\n%s", got)
			}
			if *update {
				if err := os.WriteFile(file, []byte(string(src)+"----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func fileOutcome(t *testing.T, src []byte, filename string) string {
	t.Helper()
	c, diags := config.Parse(src, filename)
	if c == nil {
		t.Fatal("no configuration")
	}
	out := said(t, diags, src, filename)
	if diags.HasErrors() {
		return out
	}
	for _, p := range c.Plugins {
		out += fmt.Sprintf("plugin %s: %q %q env %q sha256 %q config %t at %v\n", p.Name, p.Command, p.Args, p.Env, p.SHA256, p.Body != nil, p.Range)
	}
	for _, w := range c.Workers {
		out += fmt.Sprintf("worker %s: plugin %q platform %q team %q tags %q limits %+v ephemeral %t config %t at %v\n", w.Name, w.Plugin, w.Platform, w.Team, w.Tags, w.Limits, w.Ephemeral, w.Body != nil, w.Range)
	}
	return out + fmt.Sprintf("%+v\n%+v\n", c.Placement, c.Timing)
}

// settings has every type that a schema knows.
type settings struct {
	Address  string            `json:"address" required:"true" doc:"where the server is."`
	Password string            `json:"password" required:"true" sensitive:"true"`
	Pin      string            `json:"pin" sensitive:"true" oneof:"0000,hunter3"`
	Tokens   []string          `json:"tokens" sensitive:"true"`
	Verbose  bool              `json:"verbose"`
	Slots    int               `json:"slots" default:"8"`
	Factor   float64           `json:"factor" default:"1.5"`
	Timeout  sdk.Duration      `json:"timeout" default:"30s"`
	Memory   sdk.Bytes         `json:"memory" default:"1GiB"`
	Zones    []string          `json:"zones" default:"[\"z1\"]"`
	Labels   map[string]string `json:"labels"`
	Mode     string            `json:"mode" default:"slow" oneof:"fast,slow"`
	TLS      *tls              `json:"tls"`
	Keyring  *keyring          `json:"keyring" sensitive:"true"`
	Nodes    []node            `json:"node"`
}

type tls struct {
	Cert   string       `json:"cert" required:"true"`
	Key    string       `json:"key" sensitive:"true"`
	Expiry sdk.Duration `json:"expiry" default:"24h"`
}

type keyring struct {
	ID   string    `json:"id"`
	Size sdk.Bytes `json:"size"`
}

type node struct {
	Name string `json:"name" required:"true"`
	Rack *rack  `json:"rack"`
}

type rack struct {
	ID int `json:"id"`
}

func decodeOutcome(t *testing.T, src []byte, filename string) string {
	t.Helper()
	schema, err := sdk.SchemaOf(settings{})
	if err != nil {
		t.Fatal(err)
	}
	var body hcl.Body
	if len(bytes.TrimSpace(src)) > 0 {
		body = parseBody(t, src, filename)
	}
	at := hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}
	object, diags := config.Decode(body, schema, at)
	if (object == nil) != diags.HasErrors() {
		t.Errorf("object %s and errors %v", object, diags)
	}
	if diags.HasErrors() {
		return said(t, diags, src, filename)
	}
	var back settings // as a plugin would read it
	if err := (sdk.Block{Name: "x", Values: object}).Decode(&back); err != nil {
		t.Errorf("the plugin cannot read %s: %v", object, err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, object, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.String() + "\n"
}

func parseBody(t *testing.T, src []byte, filename string) hcl.Body {
	t.Helper()
	file, diags := hclsyntax.ParseConfig(src, filename, hcl.InitialPos)
	if strings.HasSuffix(filename, ".json") {
		file, diags = hcljson.Parse(src, filename)
	}
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return file.Body
}

// said is what a user sees, and the places that a program gets.
func said(t *testing.T, diags hcl.Diagnostics, src []byte, filename string) string {
	t.Helper()
	var out strings.Builder
	for _, d := range diags {
		fmt.Fprintln(&out, d.Subject)
	}
	if err := config.WriteDiagnostics(&out, diags, map[string][]byte{filename: src}, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
