//go:build unix

package main

import (
	"strings"
	"testing"
)

// TestExplainOfADirectory: an input that -i names comes from there, and one that is not there, or that the job has not, is refused.
func TestExplainOfADirectory(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"src/a": "a", "job.hcl": "job \"j\" {\n  input \"src\" {}\n  step \"s\" {\n    inputs = { src = input.src }\n    run { path = \"true\" }\n  }\n}\n"})
	if r := p.run("explain", "job.hcl", "-i", "src=./src").wants(0); !strings.Contains(r.out, "would be copied there: input.src, from ./src") {
		t.Errorf("explained:\n%s", r.out)
	}
	p.run("explain", "job.hcl", "-i", "src=./none").wants(codeUsage).says("-i src:", "./none", "no such file")
	p.run("explain", "job.hcl", "-i", "other=./src").wants(codeUsage).says(`job j has no input "other"`)
}
