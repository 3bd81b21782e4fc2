//go:build linux

package nomad

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
)

// testMixed runs the job of examples/mixed whose steps are on memory, on Garden and on Nomad, as people do: by the command.
func testMixed(t *testing.T, a *nomadtest.Agent) {
	const dir, texts = "../../examples/mixed/", "../../examples/texts"
	servers := gardentest.Start(t, gardentest.Options{})
	state := t.TempDir()
	image, out := filepath.Join(state, "image"), filepath.Join(state, "out")
	if text, err := exec.CommandContext(t.Context(), dir+"image.sh", image).CombinedOutput(); err != nil {
		t.Fatalf("image.sh: %v\n%s", err, text)
	}
	ctx := testkit.Context(t)
	said := ""
	for try := 1; ; try++ { // a port may be lost to another between choosing and binding it
		address := unused(t)
		cmd := exec.CommandContext(ctx, program("slipway"), "-c", dir+"three-slipway.hcl", "run", dir+"three.hcl", "-i", "text="+texts, "-i", "image="+image,
			"-o", "report="+out, "--state", filepath.Join(state, fmt.Sprint("state", try)))
		cmd.Env = append(os.Environ(), "GARDEN="+servers.Garden, "BAGGAGECLAIM="+servers.Baggageclaim, "NOMAD_ADDR="+a.Address(), "NOMAD_IMAGE="+nomadtest.Image,
			"SLIPWAY_LISTEN="+address, "SLIPWAY_ADDRESS=http://"+address)
		cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, time.Minute
		text, err := cmd.CombinedOutput()
		said = string(text)
		if err == nil {
			break
		}
		if try == 5 || !taken(address) {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	for _, line := range []string{"words  | ", "count  | counted\n", "report | reported\n", "on worker memory\n", "on worker containers\n", "on worker cluster/" + a.NodeID()[:8] + "\n"} {
		if !strings.Contains(said, line) {
			t.Errorf("it does not say %q:\n%s", line, said)
		}
	}
	if got, err := os.ReadFile(filepath.Join(out, "report.txt")); err != nil || string(got) != topWords(t, texts) {
		t.Errorf("%v; the report is\n%s\nwant:\n%s", err, got, topWords(t, texts))
	}
	jobs, _, err := a.Client().Jobs().List(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if !strings.HasPrefix(j.ID, storePrefix) {
			t.Errorf("left in the cluster: %s", j.ID)
		}
	}
}

// topWords are the ten that are in texts most often, as uniq -c writes them.
func topWords(t *testing.T, texts string) string {
	t.Helper()
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
		for _, w := range strings.FieldsFunc(string(text), func(r rune) bool { return r < 'A' || r > 'z' || r > 'Z' && r < 'a' }) {
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

// unused gives an address that nobody listens on now.
func unused(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().String()
}

// taken tells whether somebody does.
func taken(address string) bool {
	lis, err := net.Listen("tcp", address)
	if err == nil {
		lis.Close()
	}
	return err != nil
}
