package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestReleases: a host of today uses a plugin of the last release, and a host of the last release one of today. Both run the job of
// "make demo", and the suite of the release is held against the plugin of today: what was promised then is kept.
func TestReleases(t *testing.T) {
	t.Parallel()
	older := built
	if commit, name := lastRelease(t); commit != "" {
		older = buildRelease(t, commit, name)
	}
	for _, c := range []struct{ name, slipway, memory string }{
		{"plugin of the release", built, older},
		{"host of the release", older, built},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			for name, from := range map[string]string{"slipway": c.slipway, "slipway-memory": c.memory} { // who has no config takes the plugin beside it
				p.must(os.Remove(filepath.Join(p.bin, name)))
				p.must(os.Link(filepath.Join(from, name), filepath.Join(p.bin, name)))
			}
			examples, err := filepath.Abs("../../examples")
			p.must(err)
			p.run("run", filepath.Join(examples, "wordcount.hcl"), "-i", "text="+filepath.Join(examples, "texts"), "-o", "report=out").wants(0)
			if got, want := p.read("out/report.txt"), demoReport(t, filepath.Join(examples, "texts")); got != want {
				t.Errorf("report:\n%s\nwant:\n%s", got, want)
			}
			if c.name != "host of the release" {
				return // what the suite of today asks may have been promised later
			}
			suite := []string{"conformance", "run", filepath.Join(p.bin, "slipway-memory"), "--time-scale", unhurried, "--profile", "core,wire"}
			if testing.Short() { // one case for each thing that a plugin does
				suite = append(suite, "--only", "J01,J05,J11,J13,J15,W01*,C01*,V01*,F01*,P01-*,P20*,I01*,A01*,X01*")
			}
			p.run(suite...).wants(codePartial) // nothing failed; the cases that need the probe in its containers cannot say
		})
	}
}

// lastRelease is the commit of the last release and what to call it. Its tag says so; in a clone without tags the commit that brought the
// last release's session does, which every release has. Before the first release it is the last commit: nobody relies on anything older,
// and what finds, builds and runs a release is tried all the same. No commit: there is none, and the programs of today do.
func lastRelease(t *testing.T) (commit, name string) {
	t.Helper()
	if _, err := git(t, nil, "rev-parse", "--verify", "HEAD"); err != nil {
		if released, _ := filepath.Glob("../../sdk/proto/sessions/v[0-9]*.[0-9]*.[0-9]*.txt"); released != nil {
			testkit.Lacking(t, "%v (clone the repository: only its history has what was released)", err)
		}
		t.Logf("nothing is released yet, and there is no last commit either (%v): the programs of today stand in", err)
		return "", ""
	}
	if tag, err := git(t, nil, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"); err == nil {
		return tag, tag
	}
	const sessions = ":(top)sdk/proto/sessions/v[0-9]*.[0-9]*.[0-9]*.txt"
	there, err := git(t, nil, "ls-files", sessions)
	if err != nil {
		t.Fatal(err)
	}
	if there == "" {
		t.Log("nothing is released yet: the programs of the last commit stand in for those of a release")
		return "HEAD", "the last commit"
	}
	if shallow, _ := git(t, nil, "rev-parse", "--is-shallow-repository"); shallow == "true" {
		testkit.Lacking(t, "the commit of the last release is not in this clone (git fetch --unshallow --tags)")
	}
	commit, err = git(t, nil, "log", "-1", "--diff-filter=A", "--format=%H", "--", sessions)
	if err != nil || commit == "" {
		t.Fatalf("%s are there, and no commit brought one: %v", there, err)
	}
	return commit, "the commit of the last release's session, " + commit
}

// buildRelease makes the programs of a commit, in a directory where they lie side by side.
func buildRelease(t *testing.T, commit, name string) string {
	t.Helper()
	dir, source := t.TempDir(), t.TempDir()
	index := []string{"GIT_INDEX_FILE=" + filepath.Join(t.TempDir(), "index")} // that of this clone is left alone
	if _, err := git(t, index, "read-tree", commit); err != nil {
		t.Fatal(err)
	}
	if _, err := git(t, index, "checkout-index", "--all", "--prefix="+source+"/"); err != nil {
		t.Fatal(err)
	}
	for program, pkg := range map[string]string{"slipway": "./cmd/host", "slipway-memory": "./plugins/memory/cmd"} {
		c := exec.CommandContext(testkit.Context(t), "go", "build", "-ldflags", "-s -w", "-o", filepath.Join(dir, program), pkg)
		c.Dir, c.Env = source, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			testkit.Lacking(t, "%s of %s cannot be built any more, with modules and a compiler that can be had: %v\n%s", program, name, err, out)
		}
	}
	t.Logf("the release is %s", name)
	return dir
}

// git runs a command of git in this clone, whatever a hook that runs this test has set.
func git(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(testkit.Context(t), "git", append([]string{"-c", "safe.directory=*"}, args...)...) // it only reads
	c.Dir = "../.."
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "GIT_") {
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(c.Env, env...)
	var told strings.Builder
	c.Stderr = &told
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(told.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
