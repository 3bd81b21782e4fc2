package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestExecExitCodes runs every exit code through exec: none is changed on its way, none is taken for one of slipway's.
func TestExecExitCodes(t *testing.T) {
	t.Parallel()
	testkit.Soak(t, "it starts slipway 256 times")
	p := newPlace(t)
	codes := make(chan int)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for code := range codes {
				r := p.run("exec", "--", "sh", "-c", fmt.Sprintf("exit %d", code))
				if r.code != code || r.out != "" || unhurriedly(r.err) != "" {
					t.Errorf("exit %d: exit code %d, stdout %q, stderr %q", code, r.code, r.out, r.err)
				}
			}
		})
	}
	for code := range 256 {
		if testkit.Race && code > 3 && code < 124 {
			continue // the race detector makes each start slow
		}
		codes <- code
	}
	close(codes)
	workers.Wait()
}

func TestExecOwnCodes(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"in/text": "no program"})
	p.run("exec", "--", "frobnicate").wants(codeExecNotFound).says("slipway: ", "exec on worker memory", `"frobnicate"`).once()
	p.run("exec", "-i", "in=in", "--", "in/text").wants(codeExecNotExecutable).says("slipway: ", "exec on worker memory", `"in/text"`).once()
	p.run("exec", "--", "/work").wants(codeExecNotExecutable).once()
	if help := p.run("exec", "--help").wants(0).out; !strings.Contains(help, "timeout has ended gives 125") {
		t.Errorf("the help does not tell a timeout's code:\n%s", help)
	}
	p.run("exec", "--timeout", "200ms", "--", "sh", "-c", "while :; do :; done").wants(codeExecFailed).says("slipway: the command timed out", "200ms").once()
	p.run("exec", "--", "sh", "-c", "kill -9 $$").wants(128 + 9).prints("")
}

func TestExecEnvironmentAndDirectory(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.env = append(p.env, "OURS=not for it")
	p.run("exec", "-e", "A=b c", "-e", "EMPTY=", "--", "sh", "-c", `echo "$A,$EMPTY,${OURS-none}"; pwd`).wants(0).
		prints("b c,,none\n/work\n")
	p.run("exec", "--dir", "/a/b", "--", "pwd").wants(0).prints("/a/b\n")
	p.run("exec", "--", "sh", "-c", "echo out; echo err >&2").wants(0).prints("out\n").says("err\n")
}

// TestExecDashes wants what follows the command, or the first "--", to be the command's.
func TestExecDashes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.run("exec", "--", "echo", "-o", "--", "-x").wants(0).prints("-o -- -x\n")
	p.run("exec", "sh", "-c", `echo "$0" "$@"`, "a", "--", "-b", "--timeout").wants(0).prints("a -- -b --timeout\n")
	p.run("exec", "-e", "A=1", "sh", "-c", `echo $A`).wants(0).prints("1\n")
	p.run("exec", "--", "-x").wants(codeExecNotFound).says(`"-x"`)
	p.run("exec").wants(codeUsage).says("exec needs a command: slipway exec -- COMMAND [ARG...]")
	p.run("exec", "--").wants(codeUsage).says("exec needs a command: slipway exec -- COMMAND [ARG...]")
}

func TestExecStdin(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	text := strings.Repeat("0123456789abcde\n", 200_000) // more than any buffer on the way holds
	c := p.command("exec", "--stdin", "--", "cat")
	c.Stdin = strings.NewReader(text)
	p.runWith(c).wants(0).prints(text)

	c = p.command("exec", "--", "cat")
	c.Stdin = strings.NewReader("not for it")
	p.runWith(c).wants(0).prints("")
}

// TestExecEndsBeforeItsStdin leaves stdin open: slipway ends when the command does.
func TestExecEndsBeforeItsStdin(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r, w, err := os.Pipe()
	p.must(err)
	defer r.Close()
	defer w.Close()
	c := p.command("exec", "--stdin", "--", "sh", "-c", "read line; echo got $line")
	c.Stdin = r
	_, err = io.WriteString(w, "one\n")
	p.must(err)
	p.runWith(c).wants(0).prints("got one\n")
}

func TestExecInputsAndOutputs(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"src/a.txt": "1\n2\n", "src/b.txt": "3\n", "one file": "alone"})
	p.run("exec", "-i", "src=src", "-o", "out=out", "--", "sh", "-c", "cat src/* > out/all").wants(0).prints("")
	if got := p.read("out/all"); got != "1\n2\n3\n" {
		t.Errorf("output is %q", got)
	}
	p.run("exec", "-i", "in=one file", "--", "cat", "in/one file").wants(0).prints("alone")
	p.run("exec", "-o", "out=out", "--", "true").wants(codeUsage).says("is not empty; --force replaces it")
	p.run("exec", "-o", "out=out", "--force", "--", "sh", "-c", "echo new > out/new").wants(0)
	if _, err := os.Stat(p.work + "/out/all"); !os.IsNotExist(err) {
		t.Errorf("the old output is still there: %v", err)
	}
	if got := p.read("out/new"); got != "new\n" {
		t.Errorf("output is %q", got)
	}
}
