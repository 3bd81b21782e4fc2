package job_test

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

	"github.com/slipway-run/slipway/host/job"
)

var update = flag.Bool("update", false, "write what the tests got into testdata")

// TestGolden holds every file of testdata: a job, a line of dashes, and what Parse says to it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("testdata has %d cases; some are lost", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			all, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			src, want, ok := bytes.Cut(all, []byte("----\n"))
			if !ok {
				t.Fatal("the case has no line of dashes")
			}
			got := outcome(t, src)
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

// outcome is what a user sees, and the job if there is one.
func outcome(t *testing.T, src []byte) string {
	t.Helper()
	j, diags := job.Parse(src, "job.hcl")
	var out strings.Builder
	for _, d := range diags {
		fmt.Fprintf(&out, "%v\n", d.Subject)
		w := hcl.NewDiagnosticTextWriter(&out, map[string]*hcl.File{"job.hcl": {Bytes: src}}, 0, false)
		if err := w.WriteDiagnostic(d); err != nil {
			t.Fatal(err)
		}
	}
	if j == nil {
		if !diags.HasErrors() {
			t.Error("neither a job nor an error")
		}
		return out.String()
	}
	if diags.HasErrors() {
		t.Error("a job in spite of errors")
	}
	for i := range j.Steps {
		s := &j.Steps[i]
		fmt.Fprintf(&out, "%s needs %v\n", s.Name, j.Needs(s))
	}
	fields, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(fields, &tree); err != nil {
		t.Fatal(err)
	}
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(prune(tree)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// prune leaves out places, and fields that are not set.
func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if name == "Range" || field == nil || field == "" || field == 0.0 || field == false {
				delete(v, name)
				continue
			}
			v[name] = prune(field)
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	}
	return v
}
