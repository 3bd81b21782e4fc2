package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRunFanOut takes 40 files with awkward names through five steps side by side and one that joins them, and compares
// with the same computed here.
func TestRunFanOut(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	files := make(map[string]string)
	for i := range 40 {
		names := []string{"plain%d", "with space %d", "Übergröße %d", "日本 %d", "dash-%d 'quoted'"}
		var text strings.Builder
		for line := range 1 + i*7%23 {
			fmt.Fprintf(&text, "line %d of file %d is %s\n", line, i, []string{"red", "grün", "blue"}[(i+line)%3])
		}
		files[fmt.Sprintf("texts/%d/"+names[i%5], i%5, i)] = text.String()
	}
	p.write(files)

	var job, inputs strings.Builder
	want := ""
	for i := range 5 {
		fmt.Fprintf(&job, `  step "part%d" {
    inputs  = { texts = input.texts }
    outputs = ["found"]
    run {
      path = "sh"
      args = ["-ec", "cd texts/%d; for f in *; do echo \"$f: $(grep -c grün \"$f\")\"; grep -h red \"$f\" | sed 's/red/RED/' || true; done > ../../found/all; echo part %d done"]
    }
  }
`, i, i, i)
		fmt.Fprintf(&inputs, "part%d = step.part%d.found, ", i, i)
		want += part(files, fmt.Sprintf("texts/%d", i))
	}
	p.write(map[string]string{"fan.hcl": "job \"fan\" {\n  input \"texts\" {}\n" + job.String() + `
  step "join" {
    inputs  = { ` + strings.TrimSuffix(inputs.String(), ", ") + ` }
    outputs = ["all"]
    run {
      path = "sh"
      args = ["-ec", "cat part*/all > 'all/ganz alles'; echo joined"]
    }
  }
  output "all" { from = step.join.all }
  output "part" { from = step.part3.found }
}
`})
	r := p.run("run", "fan.hcl", "-i", "texts=texts", "-o", "all=out dir", "-o", "part=part").wants(0).
		says(`job "fan", 6 steps`, "join ", "STEP", "output all is in out dir", "output part is in part", "6 steps succeeded").once()
	if got := p.read("out dir/ganz alles"); got != want {
		t.Errorf("joined is\n%s\nwant\n%s", got, want)
	}
	if got, want := p.read("part/all"), part(files, "texts/3"); got != want {
		t.Errorf("part 3 is\n%s\nwant\n%s", got, want)
	}
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	slices.Sort(lines)
	if want := []string{"join  | joined", "part0 | part 0 done", "part1 | part 1 done", "part2 | part 2 done", "part3 | part 3 done", "part4 | part 4 done"}; !slices.Equal(lines, want) {
		t.Errorf("stdout is %q, want %q", lines, want)
	}
}

// part computes what one of the steps does.
func part(files map[string]string, dir string) string {
	var names []string
	for name := range files {
		if filepath.Dir(name) == dir {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		green, red := 0, ""
		for line := range strings.Lines(files[name]) {
			if strings.Contains(line, "grün") {
				green++
			}
			if strings.Contains(line, "red") {
				red += strings.Replace(line, "red", "RED", 1)
			}
		}
		fmt.Fprintf(&out, "%s: %d\n%s", filepath.Base(name), green, red)
	}
	return out.String()
}

// TestRunOrder wants a step's output before the line that it failed, that before the summary, and what needs it to be named.
func TestRunOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": `job "j" {
  step "bad" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 9"]
    }
  }
  step "after" {
    inputs = { o = step.bad.o }
    run { path = "true" }
  }
  step "beside" {
    run { path = "true" }
  }
}
`})
	r := p.run("run", "j.hcl").wants(codeStepFailed).prints("").says("bad    | line 0\n", "bad    | line 1999\n", "bad    - failed: exit code 9\n",
		"\nSTEP", "bad ", "failed\n", "after ", "skipped\n", "beside", "succeeded\n", "1 step succeeded, 1 failed, 1 skipped after").once()
	if !strings.Contains(r.err, "after  - skipped: step bad, which it needs, failed\n") {
		t.Errorf("stderr does not say why a step was skipped:\n%s", r.err)
	}
}
