//go:build linux

package ongarden

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

const (
	mixedDir = "../../../../examples/mixed"
	texts    = "../../../../examples/texts"
)

// TestMixedJob runs the job of examples/mixed, whose steps are on memory and on Garden: by a program that embeds a host, and by the command.
func TestMixedJob(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	t.Setenv("GARDEN", servers.Garden)
	t.Setenv("BAGGAGECLAIM", servers.Baggageclaim)
	image, want := filepath.Join(t.TempDir(), "image"), mixedReport(t)
	if out, err := exec.CommandContext(t.Context(), mixedDir+"/image.sh", image).CombinedOutput(); err != nil {
		t.Fatalf("image.sh: %v\n%s", err, out)
	}
	t.Run("host", func(t *testing.T) {
		h := openHost(t, loadConfig(t, mixedDir+"/slipway.hcl"))
		out := filepath.Join(t.TempDir(), "out")
		var mu sync.Mutex
		streams := make(map[string]int64)
		res, err := h.Run(t.Context(), host.RunRequest{
			Job: loadJob(t, mixedDir+"/job.hcl"), Inputs: map[string]string{"text": texts, "image": image}, Outputs: map[string]string{"report": out},
			Events: func(e host.Event) {
				if e.Stream != nil && e.Stream.Done {
					mu.Lock()
					streams[e.Stream.From+">"+e.Stream.To] += e.Stream.Bytes
					mu.Unlock()
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, worker := range []string{"memory", "containers", "reports"} {
			if s := res.Steps[i]; s.Worker != worker || s.State != host.StepSucceeded {
				t.Errorf("step %s: on worker %s, want %s: %s", s.Step, s.Worker, worker, s.Summary())
			}
		}
		for _, way := range []string{"local>memory", "local>containers", "memory>containers", "containers>reports"} {
			if streams[way] == 0 {
				t.Errorf("nothing was streamed %s: %v", way, streams)
			}
		}
		if got := readFile(t, out, "report.txt"); got != want {
			t.Errorf("report:\n%s\nwant:\n%s", got, want)
		}
		nothingLeft(t, servers)
	})
	t.Run("command", func(t *testing.T) {
		dir := t.TempDir()
		r := startSlipway(t, "-c", mixedDir+"/slipway.hcl", "run", mixedDir+"/job.hcl", "-i", "text="+texts, "-i", "image="+image,
			"-o", "report="+filepath.Join(dir, "out"), "--state", filepath.Join(dir, "state"))
		if out := r.wait(0); !strings.Contains(out, "counted by app on Linux\n") {
			t.Errorf("the step in the container says %q", out)
		}
		if got := readFile(t, dir, "out", "report.txt"); got != want {
			t.Errorf("report:\n%s\nwant:\n%s", got, want)
		}
		nothingLeft(t, servers)
	})
}

// mixedReport is what the job is to find: the ten words that are there most often, as uniq -c writes them.
func mixedReport(t *testing.T) string {
	files, err := filepath.Glob(texts + "/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	counts := make(map[string]int)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		letter := func(r rune) bool { return r < 'A' || r > 'z' || r > 'Z' && r < 'a' }
		for _, w := range strings.FieldsFunc(string(text), letter) {
			counts[strings.ToLower(w)]++
		}
	}
	words := make([]string, 0, len(counts))
	for w := range counts {
		words = append(words, w)
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	var b strings.Builder
	for _, w := range words[:10] {
		fmt.Fprintf(&b, "%7d %s\n", counts[w], w)
	}
	return b.String()
}
