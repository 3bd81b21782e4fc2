package shell

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// TestBuildScripts runs the kind of scripts that builds are made of, by the machine's bash and tools and by ours, and compares what they
// print, how they end and the files that they leave.
func TestBuildScripts(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		testkit.Lacking(t, "bash, to compare with")
	}
	scripts, err := filepath.Glob("testdata/scripts/*.sh")
	if err != nil || len(scripts) < 10 {
		t.Fatalf("there are %d scripts, %v", len(scripts), err)
	}
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC0", "HOME=/root"}
	for _, file := range scripts {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), bash, "-s")
			cmd.Args = []string{"bash", "-c", string(script), "script"}
			cmd.Dir, cmd.Env = dir, append(slices.Clone(env), "TMPDIR="+t.TempDir())
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			ns := newNamespace(t, nil)
			got := run(t, ns, "bash", []string{"-c", string(script), "script"}, func(c *Command) { c.Env = env })
			if got.out != out.String() || got.Code != cmd.ProcessState.ExitCode() {
				t.Errorf("ends with %d, on the machine with %d\n%s\nstderr %q; the machine's %q; %s", got.Code, cmd.ProcessState.ExitCode(),
					firstDifference(got.out, out.String()), got.err, &errs, got.Message)
			}
			ours, theirs := leftIn(t, ns), leftOn(t, dir)
			if !maps.Equal(ours, theirs) {
				for name := range maps.All(ours) {
					if ours[name] != theirs[name] {
						t.Errorf("%s is %q, on the machine %q", name, ours[name], theirs[name])
					}
				}
				for name := range theirs {
					if _, ok := ours[name]; !ok {
						t.Errorf("%s is left on the machine only", name)
					}
				}
			}
			if entries, err := ns.ReadDir("/", "/tmp"); err != nil || len(entries) > 0 {
				t.Errorf("left in /tmp: %v, %v", entries, err)
			}
		})
	}
}

// firstDifference is where two outputs part.
func firstDifference(got, want string) string {
	a, b := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return "line " + strings.TrimSpace(strings.Join(a[max(0, i-1):i], "")) + "\n got  " + x + "\n want " + y
		}
	}
	return "the output is the same"
}

func leftIn(t *testing.T, ns *tree.Namespace) map[string]string {
	t.Helper()
	left := map[string]string{}
	var walk func(dir, rel string)
	walk = func(dir, rel string) {
		entries, err := ns.ReadDir("/", dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			p, r := path.Join(dir, e.Name()), path.Join(rel, e.Name())
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			content := ""
			switch info.Mode().Type() {
			case fs.ModeDir:
				walk(p, r)
			case fs.ModeSymlink:
				content, err = ns.Readlink("/", p)
			default:
				content, err = contentOf(ns, p)
			}
			if err != nil {
				t.Fatal(err)
			}
			left[r] = describe(info, content)
		}
	}
	walk("/work", "")
	return left
}

func contentOf(ns *tree.Namespace, p string) (string, error) {
	f, err := ns.Open("/", p, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(f)
	return b.String(), err
}

func leftOn(t *testing.T, dir string) map[string]string {
	t.Helper()
	left := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		content := ""
		switch info.Mode().Type() {
		case fs.ModeDir:
		case fs.ModeSymlink:
			content, err = os.Readlink(p)
		default:
			var b []byte
			b, err = os.ReadFile(p)
			content = string(b)
		}
		left[strings.TrimPrefix(p, dir+"/")] = describe(info, content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func describe(info fs.FileInfo, content string) string { return info.Mode().String() + " " + content }
