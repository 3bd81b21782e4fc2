package job_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/host/job"
)

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.hcl")
	if err := os.WriteFile(file, []byte("job \"j\" {\n  step \"a\" {\n    run { path = \"true\" }\n  }\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j, diags := job.Load(file)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	if j.File != file || j.Steps[0].Range.Filename != file || j.Steps[0].Run.Range.Start.Line != 3 {
		t.Errorf("%+v does not know its places", j)
	}
	if _, diags := job.Load(file + "x"); !diags.HasErrors() || !strings.Contains(diags.Error(), file+"x") {
		t.Errorf("%v does not name the missing file", diags)
	}
}

// Any graph: either it has a cycle, and the diagnostic names one that is there; or the steps are sorted by what they need and
// then by the file.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "steps")
		needs := make(map[string][]string)
		var src strings.Builder
		src.WriteString("job \"j\" {\n")
		for i := range n {
			name := fmt.Sprintf("s%d", i)
			fmt.Fprintf(&src, "step %q {\noutputs = [\"o\"]\n", name)
			var after, inputs []string
			hasImage := false
			for k := range n {
				if k == i || rapid.IntRange(0, 2*n).Draw(t, "edge") > 1 {
					continue
				}
				of := fmt.Sprintf("s%d", k)
				needs[name] = append(needs[name], of)
				switch rapid.IntRange(0, 3).Draw(t, "kind") {
				case 0:
					after = append(after, "step."+of)
				case 1:
					inputs = append(inputs, fmt.Sprintf("%s = step.%s.o", of, of))
				case 3:
					if !hasImage {
						hasImage = true
						fmt.Fprintf(&src, "image = step.%s.o\n", of)
						continue
					}
					fallthrough
				case 2:
					after = append(after, fmt.Sprintf("%q", of))
					inputs = append(inputs, fmt.Sprintf("%s = step.%s.o", of, of))
				}
			}
			fmt.Fprintf(&src, "after = [%s]\ninputs = {%s}\nrun { path = \"true\" }\n}\n", strings.Join(after, ", "), strings.Join(inputs, ", "))
		}
		src.WriteString("}\n")

		want := byHand(n, needs)
		j, diags := job.Parse([]byte(src.String()), "j.hcl")
		if want == nil {
			if !diags.HasErrors() {
				t.Fatalf("no cycle found in\n%s", &src)
			}
			for _, d := range diags {
				names, _, _ := strings.Cut(strings.TrimPrefix(d.Detail, "These steps wait for each other: "), " (")
				cycle := strings.Split(names, " -> ")
				if len(cycle) < 3 || cycle[0] != cycle[len(cycle)-1] {
					t.Fatalf("no cycle: %v", d)
				}
				for i := range cycle[1:] {
					if !slices.Contains(needs[cycle[i]], cycle[i+1]) {
						t.Fatalf("%s does not need %s: %v in\n%s", cycle[i], cycle[i+1], d, &src)
					}
				}
			}
			return
		}
		if len(diags) > 0 {
			t.Fatalf("%v in\n%s", diags, &src)
		}
		var got []string
		for i := range j.Steps {
			s := &j.Steps[i]
			got = append(got, s.Name)
			all := slices.Sorted(slices.Values(needs[s.Name]))
			if have := slices.Sorted(slices.Values(j.Needs(s))); !slices.Equal(have, all) {
				t.Fatalf("%s needs %v, want %v", s.Name, have, all)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("order %v, want %v for\n%s", got, want, &src)
		}
	})
}

// byHand takes again and again the first step of the file that has all it needs; nil if that comes to a halt.
func byHand(n int, needs map[string][]string) []string {
	var order []string
	for len(order) < n {
		before := len(order)
		for i := range n {
			name := fmt.Sprintf("s%d", i)
			missing := func(of string) bool { return !slices.Contains(order, of) }
			if slices.Contains(order, name) || slices.ContainsFunc(needs[name], missing) {
				continue
			}
			order = append(order, name)
			break
		}
		if len(order) == before {
			return nil
		}
	}
	return order
}

// However a file nests, and however many things it has, Parse comes back.
func TestBounds(t *testing.T) {
	for _, open := range []string{"(", "[", "{a=", "!", "- ", "\"${", "a {\n", "a ? b : ", "1+", "a[0]", "a.b"} {
		src := "x = " + strings.Repeat(open, 256<<10)
		if _, diags := job.Parse([]byte(src[:256<<10]), "j.hcl"); !diags.HasErrors() {
			t.Errorf("%q: no error", open)
		}
	}
	loops := strings.Repeat("[for a in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] : ", 12) + "a" + strings.Repeat("]", 12)
	for _, field := range []string{"dir", "tags", "outputs", "inputs", "env", "after", "image", "privileged", "timeout"} {
		for _, v := range []string{loops, "[" + loops + "]", "{ a = " + loops + " }", "{ (" + loops + ") = 1 }", "1e99999999", "[1e-99999999]", "!(-" + loops + ")"} {
			src := "job \"j\" {\nstep \"s\" {\n" + field + " = " + v + "\nrun { path = \"true\" }\n}\n}\n"
			if _, diags := job.Parse([]byte(src), "j.hcl"); !diags.HasErrors() {
				t.Errorf("%s = %.40s: no error", field, v)
			}
		}
	}
	for _, cpu := range []string{"1e99999999", "1e-99999999", "\"1e99999999\"", "\"1e-99999999m\""} {
		src := "job \"j\" {\nstep \"s\" {\nlimits { cpu = " + cpu + " }\nrun { path = \"true\" }\n}\n}\n"
		if _, diags := job.Parse([]byte(src), "j.hcl"); len(diags) != 1 {
			t.Errorf("cpu = %s: %v", cpu, diags)
		}
	}
	var chain, inputs strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&chain, "step \"s%d\" {\n after = [\"s%d\"]\n run { path = \"true\" }\n}\n", i, (i+1)%2000)
		fmt.Fprintf(&inputs, "\"a/b%d/c/d\" = input.x%d, ", i, i)
	}
	if _, diags := job.Parse([]byte("job \"j\" {\n"+chain.String()+"}\n"), "j.hcl"); len(diags) != 1 {
		t.Errorf("a long cycle: %d diagnostics, want one", len(diags))
	}
	src := "job \"j\" {\nstep \"s\" {\ninputs = {" + inputs.String() + "}\nrun { path = \"true\" }\n}\n}\n"
	if _, diags := job.Parse([]byte(src), "j.hcl"); len(diags) != 2000 {
		t.Errorf("unknown inputs: %d diagnostics, want 2000", len(diags))
	}
}

// FuzzJob: whatever a file says, Parse returns either a job that keeps its promises or errors that say something.
func FuzzJob(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		text, _, _ := strings.Cut(string(src), "----\n")
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, src string) {
		j, diags := job.Parse([]byte(src), "j.hcl")
		if (j == nil) != diags.HasErrors() {
			t.Fatalf("job %v with %v", j, diags)
		}
		for _, d := range diags {
			if d.Summary == "" || d.Subject == nil {
				t.Fatalf("%+v says too little", d)
			}
		}
		if j == nil {
			return
		}
		if len(j.Steps) == 0 {
			t.Fatal("a job without steps")
		}
		seen := make(map[string]bool)
		for i := range j.Steps {
			s := &j.Steps[i]
			for _, of := range j.Needs(s) {
				if !seen[of] {
					t.Fatalf("%s comes before %s", s.Name, of)
				}
			}
			if seen[s.Name] || s.Name == "" || s.Run.Path == "" && s.Image == nil || s.Timeout < 0 {
				t.Fatalf("a wrong step: %+v", s)
			}
			seen[s.Name] = true
		}
	})
}

// What is no text is one error.
func TestNotText(t *testing.T) {
	for src, line := range map[string]int{"\x7fELF\x02\x01\x00\x00\xff\"{\n": 1, "# fine\n# caf\xe9\n": 2} {
		if j, diags := job.Parse([]byte(src), "f.hcl"); j != nil || len(diags) != 1 || diags[0].Summary != "Not a text file" || diags[0].Subject.Start.Line != line {
			t.Errorf("%q: %v", src, diags)
		}
	}
}
