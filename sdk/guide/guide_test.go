//go:build linux

package guide

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// guide is what doc.go says is to be done.
type guide struct {
	script string            // a shell's: commands, and what is typed into files, in the guide's order
	files  map[string]string // what is typed, by the file's name
}

// read takes the guide from doc.go. What begins with "$ " are commands. Other code is typed at the end of the Go file that was last named by a
// heading with a number; below a heading with a number and no file it is only shown.
func read(t *testing.T) guide {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	step, named := regexp.MustCompile(`^[0-9]+\. `), regexp.MustCompile(`^[0-9]+\. (\w+\.go): `)
	g, file := guide{script: "set -e\n", files: make(map[string]string)}, ""
	for _, block := range new(comment.Parser).Parse(f.Doc.Text()).Content {
		switch b := block.(type) {
		case *comment.Heading:
			title := plain(b.Text)
			if m := named.FindStringSubmatch(title); m != nil {
				file = m[1]
			} else if strings.HasSuffix(title, "Using it") || !step.MatchString(title) {
				file = ""
			}
		case *comment.Code:
			switch {
			case strings.HasPrefix(b.Text, "$ "):
				g.script += regexp.MustCompile(`(?m)^\$ `).ReplaceAllString(b.Text, "")
			case file != "":
				if g.files[file] != "" {
					g.files[file] += "\n"
					g.script += "echo >>" + file + "\n"
				}
				g.files[file] += b.Text
				g.script += "cat >>" + file + " <<'THE END OF THE PIECE'\n" + b.Text + "THE END OF THE PIECE\n"
			}
		}
	}
	return g
}

func plain(parts []comment.Text) string {
	var b strings.Builder
	for _, p := range parts {
		if text, ok := p.(comment.Plain); ok {
			b.WriteString(string(text))
		}
	}
	return b.String()
}

// TestSameAsTheExample holds the guide's program and examples/chroot together: one is the other, explained.
func TestSameAsTheExample(t *testing.T) {
	example, err := os.ReadFile("../../examples/chroot/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t).files["main.go"]; got != string(example) {
		at := 0
		for at < min(len(got), len(example)) && got[at] == example[at] {
			at++
		}
		t.Errorf("the guide's main.go is another than examples/chroot/main.go from %q on", string(example[at:min(len(example), at+60)]))
	}
	if lines := strings.Count(string(example), "\n"); lines >= 150 {
		t.Errorf("it has %d lines, too many for one evening", lines)
	}
}

// TestWordForWord does what the guide says, in a module of its own, and has the plugin that comes of it pass the core profile.
func TestWordForWord(t *testing.T) {
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "the guide's plugin needs root")
	}
	for _, program := range []string{"sh", "go", "nsenter", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			testkit.Lacking(t, "%v (install Debian's util-linux and busybox-static)", err)
		}
	}
	slipway, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sh := exec.CommandContext(testkit.Context(t), "sh")
	dir := t.TempDir()
	// A disk that others keep busy makes all of this many times as slow.
	if err := syscall.Mount("guide", dir, "tmpfs", 0, "mode=0755,size=2g"); err != nil {
		testkit.Lacking(t, "a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	sh.Dir, sh.Stdin = dir, strings.NewReader(read(t).script)
	sh.Env = append(os.Environ(), "SLIPWAY="+slipway, "TMPDIR="+dir)
	sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that all of it ends with the test
	sh.Cancel = func() error { return syscall.Kill(-sh.Process.Pid, syscall.SIGTERM) }
	sh.WaitDelay = 10 * time.Second // for who holds its output after its end
	out, err := sh.CombinedOutput()
	passed := len(regexp.MustCompile(`(?m)^ +--- PASS: TestContract/core/`).FindAll(out, -1))
	if err != nil || passed < 60 {
		t.Fatalf("%v; %d cases passed\n%s", err, passed, out)
	}
	t.Logf("%d cases passed", passed)
}
