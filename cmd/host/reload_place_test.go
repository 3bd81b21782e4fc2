//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestReloadMovesWorker gives a worker another place under a step: that is refused, whether the place is another one or does not answer, and nothing is lost or left behind. Once nothing is
// there it is taken.
func TestReloadMovesWorker(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	other, _ := p.worldAt("there.sock", "m")
	here, there := worldOf(p.world("m"), "m"), worldOf(other, "m")
	p.write(map[string]string{"c.hcl": here, "j.hcl": oneStep(numbered)})
	s := p.serve("-c", "c.hcl")
	r := p.start("run", "j.hcl", "--state", "state", "--id", "a")
	r.await("only | 5\n")
	has := "on m there is the container of run/a/only, and 1 volume"
	for _, moved := range []struct{ config, says string }{
		{there, "worker m is another place with these settings, and " + has},
		{worldOf(filepath.Join(p.root, "none.sock"), "m"), "worker m does not answer with these settings ("},
		{strings.Replace(there, "config", "env = { A = \"b\" }\n  config", 1), "worker m is another place with these settings, and " + has},
	} {
		p.write(map[string]string{"c.hcl": moved.config})
		res := p.run("reload", "--state", "state").wants(codeUsage).once()
		if !strings.HasPrefix(res.out, `plugin "memory" refused: `+moved.says) || !strings.Contains(res.out, has) || !strings.Contains(res.out, "slipway workers retire m") || strings.Count(res.out, "\n") != 1 {
			t.Errorf("reload prints %s", res.out)
		}
		p.run("exec", "--state", "state", "--", "echo", "here still").wants(0).prints("here still\n")
	}
	r.await("only | 50\n")
	p.run("ps", "--state", "state").wants(0).shows("run/a/only")
	s.release("a")
	wholeCount(t, r.wait().wants(codeStepFailed).says("exit code 7").out)
	p.run("workers", "retire", "m", "--state", "state").wants(0)
	p.write(map[string]string{"c.hcl": there})
	p.run("reload", "--state", "state").wants(0).prints("plugin \"memory\" changed\n").once()
	p.run("workers", "uncordon", "m", "--state", "state").wants(0)
	p.run("exec", "--state", "state", "--", "echo", "moved").wants(0).prints("moved\n")
	s.stop()
}

// TestReloadOfWhatIsAway changes the settings of a worker that is away and has something: that may be what brings it back, and so is taken. Not taken for the worker that it was is another one.
func TestReloadOfWhatIsAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world("m")
	alias := filepath.Join(p.root, "alias.sock")
	p.must(syscall.Symlink(socket, alias))
	other, _ := p.worldAt("there.sock", "m")
	here, there := worldOf(alias, "m"), worldOf(other, "m")
	p.write(map[string]string{"c.hcl": here, "j.hcl": oneStep(numbered)})
	s := p.serve("-c", "c.hcl")
	r := p.start("run", "j.hcl", "--state", "state", "--id", "a")
	r.await("only | 5\n")
	p.must(syscall.Unlink(alias))
	p.run("plugins", "restart", "memory", "--state", "state").wants(0)
	r.await("paused")
	p.write(map[string]string{"c.hcl": worldOf(filepath.Join(p.root, "none.sock"), "m")})
	p.run("reload", "--state", "state").wants(0).prints("plugin \"memory\" changed\n")
	p.write(map[string]string{"c.hcl": there})
	p.run("reload", "--state", "state").wants(codeUsage).shows("worker m is another place with these settings")
	p.must(syscall.Symlink(filepath.Join(p.root, "there.sock"), filepath.Join(p.root, "none.sock"))) // where it was to be before
	testkit.Until(t, "another place is found", func() bool {
		return strings.Contains(p.run("workers", "--state", "state").out, "another place with these settings")
	})
	p.write(map[string]string{"c.hcl": worldOf(socket, "m")})
	p.run("reload", "--state", "state").wants(0).prints("plugin \"memory\" changed\n")
	r.await("only | 50\n")
	s.release("a")
	wholeCount(t, r.wait().wants(codeStepFailed).says("exit code 7").out)
	s.stop()
}

// TestReloadKeepsOrders takes a worker that is cordoned out of the configuration and puts it back, under one daemon and from one to the next: it is cordoned still.
func TestReloadKeepsOrders(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world("m", "n")
	both, one := worldOf(socket, "m", "n"), worldOf(socket, "m")
	p.write(map[string]string{"c.hcl": both})
	s := p.serve("-c", "c.hcl")
	p.run("workers", "cordon", "n", "--state", "state", "--reason", "its fan").wants(0)
	change := func(config string) {
		t.Helper()
		p.write(map[string]string{"c.hcl": config})
		p.run("reload", "--state", "state").wants(0)
	}
	again := func() {
		t.Helper()
		s.stop()
		s = p.serve("-c", "c.hcl")
	}
	cordoned := func() {
		t.Helper()
		p.run("workers", "--state", "state").wants(0).shows("n ", "cordoned", "its fan")
	}
	change(one)
	if out := p.run("workers", "--state", "state").wants(0).out; strings.Contains(out, "its fan") {
		t.Errorf("a worker that is there no more is listed:\n%s", out)
	}
	change(both)
	cordoned()
	change(one)
	again() // without it
	change(both)
	cordoned()
	change(one)
	p.write(map[string]string{"c.hcl": both})
	again() // with it
	cordoned()
	change(one)
	p.run("workers", "uncordon", "n", "--state", "state").wants(0)
	p.run("workers", "uncordon", "n", "--state", "state").wants(codeUsage).says(`there is no worker "n"`)
	change(both)
	if out := p.run("workers", "--state", "state").wants(0).shows("n ").out; strings.Contains(out, "cordoned") {
		t.Errorf("it was uncordoned:\n%s", out)
	}
	s.stop()
}

// TestReloadTellsWhatItWaitsFor has a worker that is new hang, which a reload waits for.
func TestReloadTellsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world("m")
	other, world := p.worldAt("other.sock", "n")
	p.write(map[string]string{"c.hcl": worldOf(socket, "m")})
	s := p.serve("-c", "c.hcl")
	p.write(map[string]string{"c.hcl": worldOf(socket, "m") + strings.ReplaceAll(worldOf(other, "n"), `"memory"`, `"second"`)})
	p.must(world.Signal(syscall.SIGSTOP))
	defer world.Signal(syscall.SIGCONT)
	r := p.start("reload", "--state", "state")
	r.await("slipway: waiting for worker n to tell how it is\n")
	p.must(world.Signal(syscall.SIGCONT))
	r.wait().wants(0).prints("plugin \"second\" added\nworker \"n\" added\n")
	s.stop()
}

// TestPluginMended restarts a plugin whose program was broken and mended meanwhile: nothing tells of that any more, and there is no alarm about what was asked for.
func TestPluginMended(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	program := filepath.Join(p.work, "mem")
	p.must(os.Symlink(filepath.Join(p.bin, "slipway-memory"), program))
	p.write(map[string]string{"c.hcl": strings.Replace(worldOf(p.world("m"), "m"), `"slipway-memory"`, `"./mem"`, 1), "broken": "#!/bin/sh\nexit 3\n"})
	p.must(os.Chmod(filepath.Join(p.work, "broken"), 0o755))
	s := p.serve("-c", "c.hcl")
	p.run("plugins", "restart", "memory", "--state", "state").wants(0)
	p.must(os.Remove(program))
	p.must(os.Symlink("broken", program))
	p.run("plugins", "restart", "memory", "--state", "state").wants(codeInternal).says("exit code 3")
	p.must(os.Remove(program))
	p.must(os.Symlink(filepath.Join(p.bin, "slipway-memory"), program))
	p.run("plugins", "restart", "memory", "--state", "state").wants(0)
	if out := p.run("plugins", "--state", "state").wants(0).shows("ready").out; strings.Contains(out, "exit code 3") {
		t.Errorf("what was mended is told still:\n%s", out)
	}
	s.signal(syscall.SIGTERM)
	if res := s.wait().wants(0); strings.Contains(res.err, "going on without") {
		t.Errorf("the log:\n%s", res.err)
	}
}
