package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestJSON wants every line to be one object with the fields that the help documents for its event, and no others.
func TestJSON(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"in/a": "a\n", "j.hcl": `job "j" {
  input "in" {}
  step "good" {
    inputs  = { in = input.in }
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "cat in/a > o/a; echo out; echo err >&2; printf 'no \\377 text'"]
    }
  }
  step "bad" {
    inputs = { o = step.good.o }
    run {
      path = "sh"
      args = ["-c", "exit 4"]
    }
  }
  step "never" {
    run { path = "frobnicate" }
  }
  output "o" { from = step.good.o }
}
`})
	fields := documented(t)
	r := p.run("run", "j.hcl", "-i", "in=in", "-o", "o=out", "-o", "json").wants(codeInternal)
	if unhurriedly(r.err) != "" {
		t.Errorf("stderr: %s", r.err)
	}
	seen := make(map[string]int)
	var good, output []string
	for line := range strings.Lines(r.out) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		kind := e["event"].(string)
		seen[kind]++
		if fields[kind] == nil {
			t.Errorf("event %q is not documented: %s", kind, line)
		}
		checkFields(t, e, fields[kind], line)
		slow, _ := e["message"].(string)
		if e["step"] == "good" && !strings.HasPrefix(slow, "for worker ") { // which is told on a machine that has much to do
			if good = append(good, kind); kind == "output" {
				text, _ := e["text"].(string)
				data, _ := e["data"].(string)
				output = append(output, e["fd"].(string)+":"+text+data)
			}
		}
	}
	for _, kind := range []string{"run", "waiting", "placed", "streaming", "started", "output", "exited", "finished", "ended"} {
		if seen[kind] == 0 {
			t.Errorf("no event %q:\n%s", kind, r.out)
		}
	}
	if n := len(good); n < 5 || !slices.Equal(good[n-2:], []string{"exited", "finished"}) || good[n-3] != "output" {
		t.Errorf("a step's events are %q", good)
	}
	if want := []string{"stdout:out\n", "stderr:err\n", "stdout:bm8g/yB0ZXh0"}; !slices.Equal(output, want) {
		t.Errorf("output is %q, want %q", output, want)
	}
	for _, want := range []string{`"result":{"state":"failed"`, `"result":{"state":"errored","error":"start main of run/`, `"outputs":{"o":"` + filepath.Join(p.work, "out") + `"}`, `"exit":{"code":4,"reason":"exited"`} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %s in\n%s", want, r.out)
		}
	}
}

// documented reads the help: the fields of each event, those of an object as name.field.
func documented(t *testing.T) map[string][]string {
	fields := make(map[string][]string)
	kind := ""
	for line := range strings.Lines(jsonHelp) {
		if !strings.HasPrefix(line, "  ") {
			kind = ""
			continue
		}
		rest := line
		if line[2] != ' ' {
			kind, rest, _ = strings.Cut(strings.TrimSpace(line), " ")
			fields[kind] = []string{"time", "event"}
		}
		object := ""
		for _, word := range strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(" ,;:()\n", r) }) {
			name := strings.Trim(word, "{}")
			fields[kind] = append(fields[kind], strings.TrimPrefix(object+"."+name, "."))
			if strings.HasPrefix(word, "{") {
				last := fields[kind][len(fields[kind])-2]
				object = last
				fields[kind] = append(fields[kind], object+"."+name)
			}
			if strings.HasSuffix(word, "}") {
				object = ""
			}
		}
	}
	if len(fields) < 10 {
		t.Fatalf("the help documents only %d events", len(fields))
	}
	return fields
}

func checkFields(t *testing.T, e map[string]any, known []string, line string) {
	t.Helper()
	for name, value := range e {
		if !slices.Contains(known, name) {
			t.Errorf("field %q is not documented: %s", name, line)
		}
		inner, ok := value.(map[string]any)
		if !ok || name == "outputs" {
			continue
		}
		for field := range inner {
			if !slices.Contains(known, name+"."+field) {
				t.Errorf("field %q of %q is not documented: %s", field, name, line)
			}
		}
	}
}

func TestListings(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"c.hcl": onMemory("") + "plugin \"g\" { command = \"./none\" }\nworker \"w\" { plugin = \"g\" }\n"})
	var plugins []jsonPlugin
	strict(t, p.run("-c", "c.hcl", "plugins", "-o", "json").wants(codeInternal).out, &plugins)
	if len(plugins) != 2 || plugins[0].State != "ready" || plugins[0].Program == "" || plugins[1].State != "failed" ||
		plugins[1].Reason != "not-found" || !strings.Contains(plugins[1].Error, "none (not there)") {
		t.Errorf("plugins: %+v", plugins)
	}
	var workers []jsonWorker
	strict(t, p.run("-c", "c.hcl", "workers", "-o", "json").wants(codeInternal).out, &workers)
	if len(workers) != 2 || workers[0].Name != "m" || workers[0].State != "healthy" || workers[1].State != "away" || workers[1].Reason == "" {
		t.Errorf("workers: %+v", workers)
	}
	for _, c := range []struct{ what, last string }{{"plugins", "PROGRAM"}, {"workers", "FEATURES"}} {
		r := p.run("-c", "c.hcl", c.what).wants(codeInternal)
		head, _, _ := strings.Cut(r.out, "\n")
		if !strings.HasSuffix(head, c.last) || !strings.Contains(r.out, "none (not there)") || unhurriedly(r.err) != "" {
			t.Errorf("%s:\n%s%s", c.what, r.out, r.err)
		}
	}
	if got := p.run("version", "-o", "json").wants(0).out; !json.Valid([]byte(got)) {
		t.Errorf("version: %q", got)
	}
}

func strict(t *testing.T, text string, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
