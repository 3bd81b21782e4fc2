//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// worldOf is a configuration with the workers of a memory world.
func worldOf(socket string, workers ...string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "plugin \"memory\" {\n  command = \"slipway-memory\"\n  config { world = \"unix:%s\" }\n}\n", socket)
	for _, w := range workers {
		fmt.Fprintf(&out, "worker %q { plugin = \"memory\" }\n", w)
	}
	return out.String()
}

// numbered writes numbers until it is told to end with a code of its own.
const numbered = `trap 'echo ended; exit 7' USR1; i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done`

// wholeCount wants all numbers from 1 on, each once, before "ended".
func wholeCount(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i, line := range lines[:len(lines)-1] {
		if want := fmt.Sprintf("only | %d", i+1); line != want {
			t.Fatalf("line %d is %q, want %q", i+1, line, want)
		}
	}
	if last := lines[len(lines)-1]; last != "only | ended" {
		t.Errorf("the last line is %q", last)
	}
}

// TestReloadAddsWorker has a worker of a plugin that runs added at SIGHUP, while a step runs on another of its workers: that goes on.
func TestReloadAddsWorker(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world("m", "n")
	p.write(map[string]string{"c.hcl": worldOf(socket, "m"), "j.hcl": oneStep(numbered)})
	s := p.serve("-c", "c.hcl")
	r := p.start("run", "j.hcl", "--state", "state", "--id", "a")
	r.await("only | 5\n")
	p.write(map[string]string{"c.hcl": worldOf(socket, "m", "n") + "timing { stalled = \"1m\" }\n"})
	s.signal(syscall.SIGHUP)
	s.await("the configuration was read anew")
	p.run("workers", "--state", "state").wants(0).shows("m ", "n ")
	p.run("workers", "cordon", "m", "--state", "state").wants(0)
	p.run("exec", "--state", "state", "--", "echo", "on n").wants(0).prints("on n\n")
	s.release("a")
	res := r.wait().wants(codeStepFailed).says("exit code 7")
	wholeCount(t, res.out)
	s.stop()
}

// pid is that of a plugin's process.
func (s *served) pid(plugin string) string {
	s.t.Helper()
	for _, p := range s.call("HostService/ListPlugins", `{"patience": "20s"}`)["plugins"].([]any) {
		if p := p.(map[string]any); p["name"] == plugin {
			pid, _ := p["pid"].(string)
			return pid
		}
	}
	s.t.Fatalf("there is no plugin %s", plugin)
	return ""
}

// TestReloadBroken gives a daemon files with which something is wrong: nothing changes, and both the log and the answer say where it is.
func TestReloadBroken(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	good := worldOf(p.world("m"), "m")
	p.write(map[string]string{"c.hcl": good})
	s := p.serve("-c", "c.hcl")
	pid := s.pid("memory")
	for i, bad := range []struct{ text, says string }{
		{"", "the configuration has no workers"},
		{good + "worker \"n\" {\n", "c.hcl:6,12-13: Unclosed configuration block"},
		{good + "worker \"n\" { plugin = \"none\" }\n", "c.hcl:6,23-29: Unknown plugin"},
		{good + "timing { stalled = \"-1s\" }\n", "c.hcl:6,20-25: Wrong value"},
		{strings.Replace(good, `{ plugin = "memory" }`, "{\n  plugin = \"memory\"\n  config { memmory = \"1MiB\" }\n}", 1), "c.hcl:7,12-19: Unsupported argument"},
		{good + "plugin \"g\" { command = \"./none\" }\nworker \"w\" { plugin = \"g\" }\n", `no program "./none"`},
		{good + "plugin \"g\" {\n  command = \"slipway-memory\"\n  config { memory = \"much\" }\n}\nworker \"w\" { plugin = \"g\" }\n", "c.hcl:8,21-27: Wrong value"},
	} {
		p.write(map[string]string{"c.hcl": bad.text})
		p.run("reload", "--state", "state").wants(codeUsage).prints("").says(bad.says).once()
		s.awaitTimes("nothing has changed", 2*i+1)
		s.signal(syscall.SIGHUP)
		s.awaitTimes("nothing has changed", 2*i+2)
	}
	if now := s.pid("memory"); now != pid {
		t.Errorf("the plugin's process is %s, was %s", now, pid)
	}
	workers := p.run("workers", "--state", "state", "-o", "json").wants(0)
	if strings.Count(workers.out, `"name"`) != 1 {
		t.Errorf("workers: %s", workers.out)
	}
	p.write(map[string]string{"c.hcl": good})
	p.run("reload", "--state", "state").wants(0).prints("nothing has changed\n").once()
	s.signal(syscall.SIGTERM)
	res := s.wait().wants(0)
	for _, want := range []string{"c.hcl:6,12-13", "c.hcl:6,23-29", "c.hcl:7,12-19"} {
		if n := strings.Count(res.err, want); n != 2 {
			t.Errorf("the log has %q %d times:\n%s", want, n, res.err)
		}
	}
}

// TestReloadChangedPlugin changes a plugin's block under a step that it runs: its process is another, and nothing of the step is lost.
func TestReloadChangedPlugin(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	good := worldOf(p.world("m"), "m")
	p.write(map[string]string{"c.hcl": good, "j.hcl": oneStep(numbered)})
	s := p.serve("-c", "c.hcl")
	pid := s.pid("memory")
	r := p.start("run", "j.hcl", "--state", "state", "--id", "a")
	r.await("only | 5\n")
	p.write(map[string]string{"c.hcl": strings.Replace(good, "config", "env = { A = \"b\" }\n  config", 1)})
	p.run("reload", "--state", "state").wants(0).prints("plugin \"memory\" changed\n")
	changed := s.pid("memory")
	if changed == pid {
		t.Error("the plugin has the process that it had")
	}
	// One that refuses its new settings, when it is given them, goes on with those that it had.
	p.write(map[string]string{"c.hcl": strings.Replace(good, "unix:", "nowhere:", 1)})
	res := p.run("reload", "--state", "state").wants(codeUsage).once()
	if !strings.HasPrefix(res.out, `plugin "memory" failed: it goes on with the settings that it had: plugin "memory": it refuses its settings`) || strings.Contains(res.out, "changed") {
		t.Errorf("reload prints %s", res.out)
	}
	r.await("only | 50\n")
	p.run("exec", "--state", "state", "--", "echo", "there").wants(0).prints("there\n")
	if now := s.pid("memory"); now == changed || now == "" {
		t.Errorf("the plugin's process is %q", now)
	}
	s.release("a")
	wholeCount(t, r.wait().wants(codeStepFailed).says("exit code 7").out)
	s.stop()
}

// TestReloadRefused takes workers out of the configuration: one that is used stays until it is empty. So does a plugin with whose process a step would end.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world("m", "n")
	alone := "plugin \"alone\" { command = \"slipway-memory\" }\nworker \"x\" {\n  plugin = \"alone\"\n  tags = [\"x\"]\n}\n"
	job := strings.Replace(oneStep(awaitScript), "outputs =", "tags = [\"x\"]\n    outputs =", 1)
	p.write(map[string]string{"c.hcl": worldOf(socket, "m", "n") + alone, "j.hcl": oneStep(awaitScript), "x.hcl": job})
	s := p.serve("-c", "c.hcl")
	p.run("workers", "cordon", "n", "--state", "state").wants(0)
	r := p.start("run", "j.hcl", "--state", "state", "--id", "a")
	r.await("only | begun")
	x := p.start("run", "x.hcl", "--state", "state", "--id", "b")
	x.await("only | begun")

	p.write(map[string]string{"c.hcl": worldOf(socket, "n") + strings.Replace(alone, "{ command", "{\n  args = []\n  env = { A = \"b\" }\n  command", 1) +
		"worker \"y\" { plugin = \"alone\" }\nreaping { output_size = \"1MiB\" }\nplacement { max_steps = 3 }\n"})
	p.write(map[string]string{"c.hcl": strings.Replace(p.read("c.hcl"), "slipway-memory\" }\nworker \"x\"", "slipway-memory\"\n}\nworker \"x\"", 1)})
	p.run("reload", "--state", "state").wants(codeUsage).prints(`worker "y" refused: plugin "alone" stays as it is
worker "m" refused: on m there is the container of run/a/only, and 1 volume: it takes no new work from now on; empty it with "slipway workers retire m", and reload then
plugin "alone" refused: what its workers have ends with its process, and on x there is the container of run/b/only: reload when nothing is there
placement.max_steps changed
reaping.output_size needs a restart: it is given to what is open already
`)
	p.run("workers", "--state", "state").wants(0).shows("m ", "n ", "x ")
	p.run("exec", "--state", "state", "--", "echo", "new").wants(codeExecFailed).says("m: cordoned, the configuration has it no more")
	retire := p.start("workers", "retire", "m", "--state", "state")
	retire.await("waits for the end of run/a/only")
	s.release("a")
	r.wait().wants(0)
	p.run("workers", "uncordon", "n", "--state", "state").wants(0)
	retire.wait().wants(0)
	s.release("b")
	x.wait().wants(0)
	p.run("reload", "--state", "state", "-o", "json").wants(codeUsage).prints(`[{"what":"plugin \"memory\"","kind":"restarted","why":"its workers have changed"},` +
		`{"what":"plugin \"alone\"","kind":"changed"},{"what":"worker \"y\"","kind":"added"},{"what":"worker \"m\"","kind":"removed"},` +
		`{"what":"reaping.output_size","kind":"later","why":"it is given to what is open already"}]` + "\n")
	if out := p.run("workers", "--state", "state").wants(0).shows("n ", "x ", "y ").out; strings.Contains(out, "\nm ") {
		t.Errorf("m is there still:\n%s", out)
	}
	p.write(map[string]string{"c.hcl": worldOf(socket, "n", "m")}) // it is as any new one
	p.run("reload", "--state", "state").wants(0)
	p.run("workers", "cordon", "n", "--state", "state").wants(0)
	p.run("exec", "--state", "state", "--", "echo", "on m").wants(0).prints("on m\n")
	s.stop()
}

// TestReloadsAtOnce reads the configuration from many sides at once: each change is made once, and what was written last holds.
func TestReloadsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world("m", "n", "o")
	p.write(map[string]string{"c.hcl": worldOf(socket, "m"), "j.hcl": oneStep(numbered)})
	s := p.serve("-c", "c.hcl")
	r := p.start("run", "j.hcl", "--state", "state", "--id", "a")
	r.await("only | 5\n")
	var all []*running
	p.write(map[string]string{"c.hcl": worldOf(socket, "m", "n")})
	for range 3 {
		all = append(all, p.start("reload", "--state", "state"))
		s.signal(syscall.SIGHUP)
	}
	all = append(all, p.start("plugins", "restart", "memory", "--state", "state"))
	p.write(map[string]string{"c.new": worldOf(socket, "m", "n", "o")})
	p.must(os.Rename(filepath.Join(p.work, "c.new"), filepath.Join(p.work, "c.hcl")))
	all = append(all, p.start("reload", "--state", "state"))
	for _, one := range all {
		one.wait().wants(0)
	}
	p.run("reload", "--state", "state").wants(0).prints("nothing has changed\n")
	p.run("workers", "--state", "state").wants(0).shows("m ", "n ", "o ")
	s.release("a")
	wholeCount(t, r.wait().wants(codeStepFailed).says("exit code 7").out)
	s.signal(syscall.SIGTERM)
	res := s.wait().wants(0)
	for _, once := range []string{`worker \"n\" added`, `worker \"o\" added`} {
		if n := strings.Count(res.err, once); n != 1 {
			t.Errorf("the log has %q %d times", once, n)
		}
	}
}

// TestPluginsRestart starts a plugin's process anew in the middle of a step: no line of it is lost or doubled, and its exit code is its own. What would end with
// the process is in the way.
func TestPluginsRestart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"c.hcl": worldOf(p.world("m"), "m"), "j.hcl": oneStep(numbered)})
	p.run("plugins", "restart", "memory", "--state", "state").wants(codeUsage).says("no daemon has the state directory", "slipway serve").once()
	s := p.serve("-c", "c.hcl")
	r := p.start("run", "j.hcl", "--state", "state", "--id", "a")
	for i := range 3 {
		r.await(fmt.Sprintf("only | %d\n", 20*i+5))
		pid := s.pid("memory")
		p.run("plugins", "restart", "memory", "--state", "state").wants(0).prints("").once()
		if now := s.pid("memory"); now == pid || now == "" {
			t.Errorf("the plugin's process is %q, was %s", now, pid)
		}
	}
	s.release("a")
	wholeCount(t, r.wait().wants(codeStepFailed).says("exit code 7").out)
	p.run("plugins", "restart", "none", "--state", "state").wants(codeUsage).says(`there is no plugin "none": those of this host are memory`).once()
	p.run("plugins", "restart", "memory").wants(codeUsage).says("--state").once()
	p.run("plugins", "restrat").wants(codeUsage).says("did you mean restart?").once()
	p.run("__complete", "plugins", "restart", "--state", "state", "m").wants(0).shows("memory\n")
	s.stop()

	s = p.serve() // whose plugin has everything in its process
	r = p.start("run", "j.hcl", "--state", "state", "--id", "b")
	r.await("only | 5\n")
	pid := s.pid("memory")
	p.run("plugins", "restart", "memory", "--state", "state").wants(codeUsage).says("ends with its process", "run/b/only", "--force").once()
	if now := s.pid("memory"); now != pid {
		t.Errorf("the plugin's process is %s, was %s", now, pid)
	}
	p.run("reload", "--state", "state").wants(codeUsage).says("without a configuration file").once()
	p.run("plugins", "restart", "memory", "--state", "state", "--force").wants(0)
	if res := r.wait().wants(codeLost); strings.Contains(res.out+res.err, "paused") { // as if it could go on
		t.Errorf("stdout: %s\nstderr: %s", res.out, res.err)
	}
	s.stop()
}

// TestNothingIsLeftToLose: what would end with a plugin's process is in nobody's way once the process has ended, whether the plugin waits to be tried again or is being tried.
func TestNothingIsLeftToLose(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"fails": "exit 3", "is tried again": "if [ -e failed ]; then exec sleep 3600; fi; : > failed; exit 3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testNothingIsLeftToLose(t, script)
		})
	}
}

func testNothingIsLeftToLose(t *testing.T, script string) {
	p := newPlace(t)
	good := filepath.Join(p.bin, "slipway-memory")
	config := func(program string) string {
		return fmt.Sprintf("plugin \"memory\" { command = %q }\nworker \"m\" { plugin = \"memory\" }\n", program)
	}
	p.write(map[string]string{"c.hcl": config("./mem"), "j.hcl": oneStep(numbered)})
	p.must(os.Symlink(good, filepath.Join(p.work, "mem")))
	s := p.serve("-c", "c.hcl")
	r := p.start("run", "j.hcl", "--state", "state", "--id", "a")
	r.await("only | 5\n")
	p.run("plugins", "restart", "memory", "--state", "state").wants(codeUsage).says("ends with its process").once()
	p.must(os.Remove(filepath.Join(p.work, "mem")))
	p.must(os.WriteFile(filepath.Join(p.work, "mem"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	pid, err := strconv.Atoi(s.pid("memory"))
	p.must(err)
	p.must(syscall.Kill(pid, syscall.SIGKILL))
	testkit.Until(t, "the plugin has failed", func() bool {
		out := p.run("plugins", "--state", "state").out
		return strings.Contains(out, "exit code 3") && (script == "exit 3" || strings.Contains(out, "starting"))
	})
	p.write(map[string]string{"c.hcl": config(good)})
	p.run("reload", "--state", "state").wants(0).shows("plugin \"memory\" restarted: it did not run")
	r.wait().wants(codeLost)
	p.run("exec", "--state", "state", "--", "echo", "well").wants(0).prints("well\n")
	s.stop()
}

// TestHangups of a daemon that drains, and of one that was started under nohup, do nothing.
func TestHangups(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"c.hcl": worldOf(p.world("m"), "m"), "j.hcl": oneStep(awaitScript)})
	s := p.serve("-c", "c.hcl")
	r := p.start("run", "j.hcl", "--state", "state", "--id", "a")
	r.await("only | begun")
	s.signal(syscall.SIGTERM)
	s.await("no new work is taken")
	for range 3 {
		s.signal(syscall.SIGHUP)
	}
	p.run("reload", "--state", "state").wants(codeInternal).says("the daemon ends and takes nothing new").once()
	s.release("a")
	r.wait().wants(0)
	s.wait().wants(0)

	c := p.program("sh", "-c", `trap '' HUP; exec "$0" "$@"`, filepath.Join(p.bin, "slipway"), "-c", "c.hcl", "serve", "--state", "state")
	ignoring := p.begin(c)
	ignoring.await("slipway listens at ")
	ignoring.signal(syscall.SIGHUP)
	p.run("reload", "--state", "state").wants(0).prints("nothing has changed\n")
	ignoring.signal(syscall.SIGTERM)
	if res := ignoring.wait().wants(0); strings.Contains(res.err, "SIGHUP") {
		t.Errorf("a hangup that was ignored is none:\n%s", res.err)
	}
}
