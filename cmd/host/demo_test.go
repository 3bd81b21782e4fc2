package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestDemo runs the job of "make demo" and compares its report with one computed here.
func TestDemo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	examples, err := filepath.Abs("../../examples")
	p.must(err)
	p.run("run", filepath.Join(examples, "wordcount.hcl"), "-i", "text="+filepath.Join(examples, "texts"), "-o", "report=out").wants(0)
	if got, want := p.read("out/report.txt"), demoReport(t, filepath.Join(examples, "texts")); got != want {
		t.Errorf("report:\n%s\nwant:\n%s", got, want)
	}
}

func demoReport(t *testing.T, dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	counts := make(map[string]int)
	var lines []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		letter := func(r rune) bool { return r < 'A' || r > 'z' || r > 'Z' && r < 'a' }
		for _, w := range strings.FieldsFunc(string(text), letter) {
			counts[strings.ToLower(w)]++
		}
		lines = append(lines, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
	}
	words := make([]string, 0, len(counts))
	for w := range counts {
		words = append(words, w)
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	var b strings.Builder
	b.WriteString("Most used:\n")
	for _, w := range words[:5] {
		fmt.Fprintf(&b, "%7d %s\n", counts[w], w)
	}
	b.WriteString("\nLongest lines:\n")
	for i, l := range lines {
		lines[i] = fmt.Sprintf("%d: %s", utf8.RuneCountInString(l), l)
	}
	number := func(l string) (n int) { fmt.Sscanf(l, "%d:", &n); return n }
	slices.SortFunc(lines, func(a, b string) int { return cmp.Or(number(b)-number(a), strings.Compare(b, a)) })
	b.WriteString(strings.Join(lines[:3], "\n") + "\n")
	return b.String()
}
