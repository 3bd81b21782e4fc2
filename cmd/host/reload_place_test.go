//go:build unix

package main

import (
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
	here, there := worldOf(p.world("m"), "m"), worldOf(p.worldAt("there.sock", "m"), "m")
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
	here, there := worldOf(alias, "m"), worldOf(p.worldAt("there.sock", "m"), "m")
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
