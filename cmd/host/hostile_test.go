//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
)

// hostilePlugin is a configuration with a plugin that lies so, and more lines.
func hostilePlugin(lie, more string) string {
	return fmt.Sprintf("plugin \"memory\" {\n  command = %q\n  args    = [%q]\n}\nworker \"m\" { plugin = \"memory\" }\n%s\n", filepath.Join(built, "hostile"), lie, more)
}

// onceGone is a line of configuration: what runs on a worker that is away is soon lost.
const onceGone = `timing { worker_gone = "1s" }` // goneWait

// TestToldEnds: no end that a plugin makes up makes slipway end with 0 but that of a success, and what it says then is what its records say.
func TestToldEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends      string
		exec, run int
		says      string // by logs
	}{
		"256":                {`[{"Code": 256, "Reason": "exited"}]`, codeExecFailed, codeLost, "lost"},
		"-256":               {`[{"Code": -256, "Reason": "exited"}]`, codeExecFailed, codeLost, "lost"},
		"2 to the 32nd":      {`[{"Code": 4294967296, "Reason": "exited"}]`, codeExecFailed, codeLost, "lost"},
		"0 with a signal":    {`[{"Code": 0, "Signal": "KILL", "Reason": "signalled"}]`, codeExecFailed, codeLost, "lost"},
		"3, then 0":          {`[{"Code": 3, "Reason": "exited"}, {"Code": 0, "Reason": "exited"}]`, 3, codeStepFailed, "exit code 3"},
		"0, then 3":          {`[{"Code": 0, "Reason": "exited"}, {"Code": 3, "Reason": "exited"}]`, 0, 0, "exit code 0"},
		"none, and then a 0": {`[{"Code": 256, "Reason": "exited"}, {"Code": 0, "Reason": "exited"}]`, codeExecFailed, codeLost, "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"j.hcl": oneStep("echo made > out/made"), "lies.hcl": hostilePlugin("exits "+c.ends, "")})
			r := p.measured(0, "-c", "lies.hcl", "exec", "--", "true").wants(c.exec)
			if c.exec == codeExecFailed {
				r.says("its plugin told an end that is none")
			}
			p.measured(0, "-c", "lies.hcl", "run", "j.hcl", "--state", "state", "--id", "a", "-o", "out=out").wants(c.run)
			if _, err := os.Stat(p.work + "/out"); (err == nil) != (c.run == 0) {
				t.Errorf("the output: %v", err)
			}
			p.run("logs", "a", "--state", "state").wants(0).says("only - " + c.says)
		})
	}
}

// TestFollowLies: whatever a plugin tells of a process's output and end, or does not tell, an interrupt ends the command, and leaves nothing.
func TestFollowLies(t *testing.T) {
	for _, lie := range []string{"no exit ever", "ends without an exit", "superseded by nobody", "negative position", "last position", "hole", "a byte is gone, for ever", "no byte is gone", "every second byte is gone"} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"j.hcl": oneStep("echo ready; sleep 600"), "lies.hcl": hostilePlugin(lie, "")})
			r := p.start("-c", "lies.hcl", "run", "j.hcl", "--grace", graceWait.String())
			if lie == "no exit ever" {
				r.await("only | ready")
			} else {
				r.await("only - paused")
			}
			r.signal(os.Interrupt)
			r.measured(graceWait + undoWait + endWait).wants(codeInterrupted).says("only - aborted")
		})
	}
}

// TestFollowLiesEnd: what a plugin says of a process in vain for as long as its worker is waited for makes the step lost, not a success, and not a wait without end.
func TestFollowLiesEnd(t *testing.T) {
	for _, lie := range []string{"ends without an exit", "superseded by nobody", "negative position", "last position", "hole", "a byte is gone, for ever", "no byte is gone", "never begins to tell"} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"j.hcl": oneStep("true"), "lies.hcl": hostilePlugin(lie, onceGone)})
			p.measured(goneWait+tryWait, "-c", "lies.hcl", "run", "j.hcl", "-o", "out=out").wants(codeLost).says("only - paused", "only - lost", "output out was not written")
		})
	}
}

// TestOpenAfterExit: once an exit is stored, nobody waits for the stream that told it.
func TestOpenAfterExit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"j.hcl": oneStep("echo made > out/made"), "lies.hcl": hostilePlugin("open after the exit", "")})
	p.measured(exitWait, "-c", "lies.hcl", "exec", "--", "sh", "-c", "echo said; exit 3").wants(3).prints("said\n")
	p.measured(exitWait, "-c", "lies.hcl", "run", "j.hcl", "-o", "out=out").wants(0)
	if got := p.read("out/made"); got != "made\n" {
		t.Errorf("the output is %q", got)
	}
}

// TestInterruptTwiceUnanswered ends by the second interrupt where the plugin answers nothing any more, and does not end when asked.
func TestInterruptTwiceUnanswered(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"j.hcl": oneStep("echo ready; sleep 600"), "lies.hcl": hostilePlugin("answers nothing", "")})
	r := p.start("-c", "lies.hcl", "run", "j.hcl", "--grace", "1h")
	r.await("only | ready")
	r.signal(os.Interrupt)
	r.await("interrupt again to kill it")
	r.signal(os.Interrupt)
	r.measured(hurryWait).wants(codeInterrupted).says("only - aborted").once()
}

// TestCreateLies: a container that is not made for ever is told, whoever is told little else, and progress without end fills neither a screen nor a log.
func TestCreateLies(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"hangs.hcl": hostilePlugin("create not answered", ""), "floods.hcl": hostilePlugin("progress without end", "")})
	ends := func(r *running) result {
		r.signal(os.Interrupt)
		r.await("interrupt again to kill it") // two at once may come as one
		r.signal(os.Interrupt)
		return r.measured(hurryWait).wants(codeInterrupted)
	}
	r := p.start("-c", "hangs.hcl", "exec", "--", "true")
	r.await("slipway: waits: for worker m: create container")
	ends(r)

	began := time.Now()
	r = p.start("-c", "floods.hcl", "exec", "-o", "json", "--", "true")
	r.awaitTimes(`"event":"creating"`, 5)
	out := ends(r).out
	if told, most := strings.Count(out, `"event":"creating"`), int(time.Since(began)/(100*time.Millisecond))+1; told > most {
		t.Errorf("it is told %d times, at most %d can be", told, most)
	}
	for line := range strings.Lines(out) {
		if len(line) > 8<<10 {
			t.Errorf("a line of %d bytes: %.200s", len(line), line)
		}
	}
}

// TestInterruptedMeasure: a step that has ended well has, also where somebody interrupts while it is found out how big its output is. An output that is not written is told.
func TestInterruptedMeasure(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"j.hcl": oneStep("true"), "lies.hcl": hostilePlugin("a list that hangs", "")})
	r := p.start("-c", "lies.hcl", "run", "j.hcl", "-o", "out=out")
	r.await("only - waits: for worker m: list volumes")
	r.signal(os.Interrupt)
	ended := r.measured(sizeWait + undoWait + endWait).wants(codeInterrupted)
	ended.says("1 step succeeded")
	ended.says("output \"out\": ", "interrupted")
}

// TestForgedText: nothing that a plugin says steers a terminal, looks like a line of slipway's, or fills the screen. In JSON it is what the plugin said.
func TestForgedText(t *testing.T) {
	for lie, c := range map[string]struct {
		args []string
		code int
	}{
		"status":        {[]string{"workers"}, 0},
		"tags":          {[]string{"workers"}, 0},
		"away":          {[]string{"workers"}, codeInternal},
		"start refused": {[]string{"run", "j.hcl"}, codeInternal},
		"long refusal":  {[]string{"run", "j.hcl"}, codeInternal},
		"paused":        {[]string{"run", "j.hcl"}, codeLost},
	} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"j.hcl": oneStep("true"), "lies.hcl": hostilePlugin(lie, onceGone)})
			args := append([]string{"-c", "lies.hcl"}, c.args...)
			r := p.measured(listWait+goneWait, args...).wants(c.code)
			for _, text := range []string{r.out, r.err} {
				if i := strings.IndexFunc(text, func(r rune) bool {
					return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r)
				}); i >= 0 {
					t.Errorf("it shows %q", text[i:min(len(text), i+20)])
				}
				for line := range strings.Lines(text) {
					if strings.HasPrefix(line, "only - succeeded") || strings.HasPrefix(line, "slipway: all went well") {
						t.Errorf("it shows a forged line: %q", text)
					}
				}
				if len(text) > 20<<10 {
					t.Errorf("it shows %d bytes", len(text))
				}
			}
			if !strings.Contains(r.out+r.err, `\x1b[2J`) && lie != "long refusal" {
				t.Errorf("it does not tell what the plugin said:\n%s%s", r.out, r.err)
			}
			j := p.measured(listWait+goneWait, append(args, "-o", "json")...).wants(c.code)
			if lie != "long refusal" && !strings.Contains(j.out, `\u001b[2J\u202e\u009b31m\nonly - succeeded`) {
				t.Errorf("in JSON: %s", tail(j.out))
			}
		})
	}
}

// TestArchiveLies: whatever a plugin gives as a volume's content, nothing but the output's place is written, in little memory, and it is no mistake of the person's.
func TestArchiveLies(t *testing.T) {
	for lie, says := range map[string]string{"bomb": "more than 1099511627776 bytes of files", "absolute name": "/tmp/slipway-was-here", "name that leads out": "../../slipway-was-here",
		"link that leads out": "out/slipway-was-here", "device": "devices", "no archive": "damaged", "half an archive": "its end is missing", "many directories": "pipe"} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"j.hcl": oneStep("true"), "lies.hcl": hostilePlugin(lie, "")})
			r := p.measured(0, "-c", "lies.hcl", "run", "j.hcl", "--state", "state", "-o", "out=out", "--id", "a").wants(codeInternal).says("output out was not written", `output "out"`, says)
			if kept := lie == "bomb"; strings.Contains(r.err, "resume") != kept { // another configuration may let it come
				t.Errorf("it advises to resume what cannot be mended: %s", r.err)
			}
			for _, out := range []string{p.work + "/out", p.work + "/slipway-was-here", p.root + "/slipway-was-here", "/tmp/slipway-was-here"} {
				if _, err := os.Lstat(out); !os.IsNotExist(err) {
					t.Errorf("there is %s: %v", out, err)
				}
			}
			if lie != "bomb" {
				p.measured(0, "-c", "lies.hcl", "run", "j.hcl", "--state", "state", "-o", "out=out", "--id", "a").wants(codeUsage).says(`output "out" is not kept`)
			}
		})
	}
}

// TestUnpackLimits: an output that is more than the configuration lets come is kept, and comes once it may.
func TestUnpackLimits(t *testing.T) {
	t.Parallel()
	for setting, says := range map[string]string{"unpack_size = \"1KiB\"": "more than 1024 bytes of files", "unpack_entries = 1": "more than 1 entries"} {
		p := newPlace(t)
		usual := onMemory(`config { world = "unix:` + p.world() + `" }`)
		p.write(map[string]string{"j.hcl": oneStep("printf %2000d 0 > out/a; echo > out/b"), "small.hcl": usual + "\nartifacts { " + setting + " }\n", "usual.hcl": usual})
		args := []string{"run", "j.hcl", "--state", "state", "-o", "out=out", "--id", "a"}
		p.run(append(args, "-c", "small.hcl")...).wants(codeInternal).says("output out was not written", says, "unpack_size and unpack_entries", "resume")
		if _, err := os.Lstat(filepath.Join(p.work, "out")); !os.IsNotExist(err) {
			t.Errorf("a part of the output is there: %v", err)
		}
		p.run(append(args, "-c", "usual.hcl")...).wants(0)
		if b, err := os.ReadFile(filepath.Join(p.work, "out/a")); err != nil || len(b) != 2000 {
			t.Errorf("%d bytes came, %v", len(b), err)
		}
	}
}

// TestListLies: a plugin that tells more than there can be is not believed, and says so where people look.
func TestListLies(t *testing.T) {
	for lie, c := range map[string]struct {
		says string
		args []string
	}{
		"workers without end": {"has more than 10000 entries", []string{"workers"}},
		"another's worker":    {`it tells a worker "other"`, []string{"workers"}},
		"a list without end":  {"has more than 100000 entries", []string{"gc", "--dry-run", "--state", "state"}},
	} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"lies.hcl": hostilePlugin(lie, "")})
			r := p.measured(listWait, append([]string{"-c", "lies.hcl"}, c.args...)...).wants(codeInternal)
			if !strings.Contains(r.out+r.err, c.says) {
				t.Errorf("it does not say %q:\n%s%s", c.says, r.out, r.err)
			}
		})
	}
}

// TestNoSnapshot: a plugin that never tells its workers is waited for no longer than is documented, and meanwhile that is told.
func TestNoSnapshot(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"lies.hcl": hostilePlugin("no snapshot", "")})
	listing := p.start("-c", "lies.hcl", "workers")
	const why = `plugin "memory" has not told which workers it has for 15s: look in its log, and whether what is behind it hangs`
	p.measured(toldWait, "-c", "lies.hcl", "exec", "--", "true").wants(codeExecFailed).
		says(`slipway: waiting for plugin "memory" to tell its workers`, why)
	if r := listing.measured(0).wants(codeInternal); !strings.Contains(r.out, why) {
		t.Errorf("the listing does not say it:\n%s", r.out)
	}
}

// TestStreamLimits: an input that is more than the configuration lets go to a worker fails its step, and what to change is told.
func TestStreamLimits(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"src/file": strings.Repeat("x", 100_000), "j.hcl": `job "j" {
  input "src" {}
  step "s" {
    inputs = { src = input.src }
    run { path = "true" }
  }
}
`})
	for setting, says := range map[string]string{"stream_size": "more than 1024 bytes", "stream_unpacked_size": "unpacks to more than 1024 bytes"} {
		file := setting + ".hcl"
		p.write(map[string]string{file: onMemory("") + "\nartifacts { " + setting + " = \"1KiB\" }\n"})
		p.run("-c", file, "run", "j.hcl", "-i", "src=src").wants(codeInternal).says(says, "stream_size and stream_unpacked_size")
	}
}
