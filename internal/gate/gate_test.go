package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test's program be a guard, as the gate is one.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == guardArg {
		os.Exit(guard(os.Stdin, os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestVerdicts lets the gate run real tests, in a module of one file made for each row.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	once := `if _, err := os.Stat("ran"); err != nil { os.WriteFile("ran", nil, 0o600); %s }`
	for name, row := range map[string]struct {
		code   string
		lands  bool
		prints []string
		never  string
	}{
		"passes":         {code: `func TestA(t *testing.T) {}`, lands: true, prints: []string{"ok  \tm\t", "DONE 1 tests"}, never: "FLAKY"},
		"fails":          {code: `func TestA(t *testing.T) { t.Fatal("wrong") }`, prints: []string{"--- FAIL: TestA", "repeating m.TestA", "FAILED m.TestA"}, never: "FLAKY"},
		"fails once":     {code: `func TestA(t *testing.T) { ` + strings.ReplaceAll(once, "%s", `t.Fatal("by chance")`) + ` }`, lands: true, prints: []string{"FLAKY m.TestA", "by chance"}},
		"subtest":        {code: `func TestA(t *testing.T) { t.Run("b c", func(t *testing.T) { ` + strings.ReplaceAll(once, "%s", `t.Fatal("by chance")`) + ` }) }`, lands: true, prints: []string{"FLAKY m.TestA/b_c", "by chance"}},
		"not there":      {code: `func TestA(t *testing.T) { ` + strings.ReplaceAll(once, "%s", `t.Run("b", func(t *testing.T) { t.Fatal("by chance") })`) + ` }`, prints: []string{"FAILED m.TestA/b"}, never: "FLAKY"},
		"many":           {code: `func TestA(t *testing.T) { for range 4 { t.Run("b", func(t *testing.T) { t.Fail() }) } }`, prints: []string{"4 tests failed", "FAILED m.TestA/b#03"}, never: "repeating"},
		"panics":         {code: `func TestA(t *testing.T) { ` + strings.ReplaceAll(once, "%s", `panic("once")`) + ` }`, prints: []string{"a panic"}, never: "repeating"},
		"fatal":          {code: `func TestA(t *testing.T) { ` + strings.ReplaceAll(once, "%s", `var m sync.Mutex; m.Unlock()`) + ` }`, prints: []string{"fatal error: ", "The last lines that it printed"}, never: "repeating"},
		"hangs":          {code: `func TestA(t *testing.T) { t.Run("b", func(t *testing.T) { t.Log("where it hangs"); select {} }) }`, prints: []string{"where it hangs", "FAILED m.TestA/b"}, never: "repeating"},
		"leaks":          {code: `func TestA(t *testing.T) {}` + "\n" + `func TestMain(m *testing.M) { m.Run(); ` + strings.ReplaceAll(once, "%s", `os.Exit(1)`) + ` }`, prints: []string{"m failed outside of its tests"}, never: "repeating"},
		"test leaks":     {code: `func TestA(t *testing.T) { ` + strings.ReplaceAll(once, "%s", `t.Errorf("leak: %v", "a goroutine")`) + ` }`, prints: []string{"FAILED m.TestA: a_test.go:", "leak: a goroutine"}, never: "repeating"},
		"child races":    {code: `func TestA(t *testing.T) { ` + strings.ReplaceAll(once, "%s", `t.Errorf("it printed:\nWARNING: DATA RACE")`) + ` }`, prints: []string{"FAILED m.TestA: WARNING: DATA RACE"}, never: "repeating"},
		"dies":           {code: `func TestA(t *testing.T) { ` + strings.ReplaceAll(once, "%s", `os.Exit(1)`) + ` }` + "\n" + `func TestB(t *testing.T) { t.Fatal("always") }`, prints: []string{"m ended in the middle of TestA"}, never: "repeating"},
		"does not build": {code: `func TestA(t *testing.T) { undefined() }`, prints: []string{"undefined: undefined"}, never: "repeating"},
		"tiers":          {code: `func TestA(t *testing.T) { t.Skip("soak: rare") }`, lands: true, prints: []string{"skipped    1: soak", "1 skipped"}},
		"hides":          {code: `func TestA(t *testing.T) { t.Skip("no server here") }`, prints: []string{"skipped    1: no server here", "m.TestA was skipped: no server here"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, lands := gateOn(t, row.code, "-vet=off -timeout=10s .")
			if lands != row.lands {
				t.Errorf("lands: %v", lands)
			}
			for _, want := range row.prints {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not told", want)
				}
			}
			if row.never != "" && strings.Contains(out, row.never) {
				t.Errorf("%q is told", row.never)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// TestMeanwhile: the last stage has what the command made, and the run fails with the command.
func TestMeanwhile(t *testing.T) {
	code := `func TestA(t *testing.T) { if _, err := os.Stat("made"); err != nil { t.Fatal(err) } }`
	for command, want := range map[string]bool{"touch made": true, "touch made; echo no room; exit 3": false} {
		out, lands := gateOn(t, code, "-run=None .", "-run=TestA .", command)
		if lands != want || strings.Contains(out, "no room") == want {
			t.Errorf("%s: lands %v\n%s", command, lands, out)
		}
	}
}

// TestSideBySide: stages run at the same time.
func TestSideBySide(t *testing.T) {
	code := `func TestA(t *testing.T) { meet(t, os.O_WRONLY) }
		func TestB(t *testing.T) { meet(t, os.O_RDONLY) }
		func meet(t *testing.T, how int) { // opening a FIFO waits for its other end
			exec.Command("mkfifo", "met").Run()
			if f, err := os.OpenFile("met", how, 0); err != nil { t.Error(err) } else { f.Close() }
		}`
	if out, lands := gateOn(t, code, "-run=TestA -timeout=1m .", "-run=TestB -timeout=1m ."); !lands {
		t.Error(out)
	}
}

// TestKilled: what a test started and its temporary files do not outlive a gate that was killed, nor one whose parent was.
func TestKilled(t *testing.T) {
	t.Run("itself", func(t *testing.T) { testKilled(t, nil) })
	if runtime.GOOS == "linux" { // which alone tells of a parent's end
		t.Run("its parent", func(t *testing.T) { testKilled(t, []string{"sh", "-c", `"$@"; exit`, "sh"}) })
	}
}

func testKilled(t *testing.T, by []string) {
	dir := module(t, `func TestA(t *testing.T) { cmd := exec.Command("sh", "-c", "echo > $TMPDIR/file; setsid sleep 3600 >> alive & exec sleep 3600 >> alive"); t.Fatal(cmd.Run()) }`)
	alive := filepath.Join(dir, "alive")
	if err := syscall.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "gate")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	by = append(slices.Clone(by), program, "--", ".")
	cmd := exec.Command(by[0], by[1:]...)
	temp := t.TempDir()
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=", "TMPDIR="+temp)
	all, held, err := os.Pipe() // every process that comes of it has the end, the guard too
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	cmd.ExtraFiles = []*os.File{held}
	err = cmd.Start()
	held.Close()
	if err != nil {
		t.Fatal(err)
	}
	end, err := os.Open(alive) // opens when a sleeper does, and ends with both
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	cmd.Process.Kill()
	if _, err := io.ReadAll(end); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if _, err := io.ReadAll(all); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("temporary files: %v, %v", left, err)
	}
}

// TestFirst: nothing is tested before what comes first is done, what is done meanwhile begins with it, and where it fails nothing is tested, and nothing left.
func TestFirst(t *testing.T) {
	const code = `func TestA(t *testing.T) { if _, err := os.Stat("first"); err != nil { t.Error(err) } }`
	if out, lands := gateAfter(t, code, "mkfifo met; echo > met; echo said; touch first", "until cat met; do :; done", "."); !lands || !strings.Contains(out, "said") {
		t.Error(out)
	}
	out, lands := gateAfter(t, code, "mkfifo met; echo > met; echo why; exit 2", "until cat met; do :; done; exec sleep 3600", ".")
	if lands || !strings.Contains(out, "why") || !strings.Contains(out, "exit status 2") || strings.Contains(out, "DONE") {
		t.Error(out)
	}
}

// gateOn runs the stages on a module with one test file; what follows the second stage is the command to run meanwhile.
func gateOn(t *testing.T, code string, stages ...string) (string, bool) {
	t.Helper()
	if len(stages) > 2 {
		return gateAfter(t, code, "", stages[2], stages[:2]...)
	}
	return gateAfter(t, code, "", "", stages...)
}

// gateAfter is gateOn after another command.
func gateAfter(t *testing.T, code, first, meanwhile string, stages ...string) (string, bool) {
	t.Helper()
	dir := module(t, code)
	for _, command := range []*string{&first, &meanwhile} {
		if *command != "" {
			*command = "cd '" + dir + "' && " + *command
		}
	}
	var out bytes.Buffer
	g := gate{out: &out, repeat: 3, strict: true, grace: 5 * time.Second, flags: map[string][]string{}, goTest: func(args ...string) *exec.Cmd {
		cmd := goTest(args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		return cmd
	}}
	lands := g.run(t.Context(), stages, first, meanwhile)
	return out.String(), lands
}

// module makes a module m with one test file, and returns its directory.
func module(t *testing.T, code string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module m\n\ngo 1.26.0\n",
		"a_test.go": "package m\n\nimport (\n\t\"os\"\n\t\"os/exec\"\n\t\"sync\"\n\t\"testing\"\n)\n\nvar _, _ = os.Stat, exec.Command\n\nvar _ sync.Mutex\n\n" + code + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
