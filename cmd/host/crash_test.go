//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// TestPluginKilled kills the plugin under a step. What it held is gone with it: the step is lost, never run again, and
// never taken for done.
func TestPluginKilled(t *testing.T) {
	needsLinux(t)
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep("echo ready; sleep 600")})
	r := p.start("run", "j.hcl", "-o", "out=out")
	r.await("only | ready")
	for _, pid := range p.processes("slipway-memory") {
		p.must(syscall.Kill(pid, syscall.SIGKILL))
	}
	r.wait().wants(codeLost).says("only - lost: ", "worker memory", "new incarnation", "output out was not written", "1 step lost").once().
		prints("only | ready\n")
	p.nothingLeft()
	p.run("exec", "--", "echo", "works").wants(0).prints("works\n")
}

// TestSlipwayKilled kills slipway under a step: its plugin ends too, and what it left on the disk goes at the next start.
func TestSlipwayKilled(t *testing.T) {
	needsLinux(t)
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep("echo ready; sleep 600")})
	r := p.start("run", "j.hcl", "-o", "out=out")
	r.await("only | ready")
	if len(p.processes("slipway-memory")) != 1 {
		t.Fatalf("plugins: %v", p.processes("slipway-memory"))
	}
	r.signal(syscall.SIGKILL)
	if res := r.wait(); res.code != -1 {
		t.Fatalf("killed slipway ended with %d", res.code)
	}
	testkit.Until(t, "its plugin ends with slipway", func() bool { return len(p.processes("")) == 0 })
	states := func() []string {
		found, err := filepath.Glob(p.tmp + "/slipway-*/state-*")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if left := states(); len(left) != 1 {
		t.Errorf("states of the killed slipway: %v", left)
	}
	p.run("exec", "--", "echo", "works").wants(0).prints("works\n")
	if left := states(); len(left) > 0 {
		t.Errorf("states after the next slipway: %v", left)
	}
}

// TestResumeLost resumes a run whose step ended with slipway, for the memory was its child: the step is lost, and the table makes up no
// times for what the second slipway did not see, nor does a third one from the records.
func TestResumeLost(t *testing.T) {
	needsLinux(t)
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep("echo ready; sleep 600")})
	args := []string{"run", "j.hcl", "--state", "state", "--id", "a"}
	r := p.start(args...)
	r.await("only | ready")
	r.signal(syscall.SIGKILL)
	r.wait()
	row := regexp.MustCompile(`(?m)^only +memory +- +- +- +- +lost$`)
	for range 2 {
		if res := p.run(args...).wants(codeLost).says("only - lost: ", "1 step lost").once(); !row.MatchString(res.err) {
			t.Errorf("the table has times that nobody saw:\n%s", res.err)
		}
	}
}

// TestStateInUse wants the second slipway on a state directory to name the first, and to leave it alone.
func TestStateInUse(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep(politeScript)})
	r := p.start("run", "j.hcl", "--state", "state", "--id", "first")
	r.await("only | ready")
	p.run("run", "j.hcl", "--state", "state").wants(codeInternal).
		says("slipway: ", "state directory", "in use by process "+strconv.Itoa(r.cmd.Process.Pid), "wait for it or stop it; slipway logs works meanwhile").once()
	p.run("logs", "first", "--state", "state").wants(0).prints("only | ready\n").says("only - running on worker memory")
	p.run("logs", "second", "--state", "state").wants(codeUsage).says("there is no run second", "first")
	r.signal(os.Interrupt)
	r.wait().wants(codeInterrupted)
	p.run("logs", "first", "--state", "state").wants(0).prints("only | ready\nonly | bye\n")
}

// TestResume runs a finished run again, which tells what it came to and runs nothing, and one that died in the middle, whose step goes on in a world
// that outlived it: it is not run again, and its output comes whole.
func TestResume(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world()
	p.write(map[string]string{
		"quick.hcl": oneStep("echo once; echo made > out/made"),
		"slow.hcl":  oneStep(awaitScript),
		"world.hcl": onMemory(`config { world = "unix:` + socket + `" }`),
	})
	p.run("run", "quick.hcl", "--state", "s1", "--id", "a", "-o", "out=out").wants(0).prints("only | once\n")
	p.run("run", "quick.hcl", "--state", "s1", "--id", "a").wants(0).prints("").says("1 step succeeded", "that run had ended before")
	p.run("run", "quick.hcl", "--state", "s1", "--id", "a", "-o", "out=out").wants(0).prints("").says("output out is in out")
	p.run("run", "quick.hcl", "--state", "s1", "--id", "a", "-o", "out=out", "--force").wants(0).says("output out is in out")
	p.run("run", "quick.hcl", "--state", "s1", "--id", "a/b").wants(codeUsage).says(`run id "a/b" must be`)
	p.run("run", "quick.hcl", "--state", "s1", "--id", "a", "-o", "out=other").wants(codeUsage).says(`output "out" was put into ` + filepath.Join(p.work, "out"))
	p.write(map[string]string{"elsewhere/quick.hcl": oneStep("echo once; echo made > out/made")})
	c := p.command("run", "quick.hcl", "--state", "../s1", "--id", "a", "-o", "out=out")
	c.Dir = filepath.Join(p.work, "elsewhere")
	p.runWith(c).wants(codeUsage).says(`output "out" was put into ` + filepath.Join(p.work, "out"))
	c = p.command("run", "quick.hcl", "--state", "../s1", "--id", "a", "-o", "out=../out")
	c.Dir = filepath.Join(p.work, "elsewhere")
	p.runWith(c).wants(0).says("output out is in ../out")
	p.run("logs", "a", "--state", "s1").wants(0).prints("only | once\n").says("only - exit code 0, on worker memory")

	args := []string{"-c", "world.hcl", "run", "slow.hcl", "--state", "s2", "--id", "b"}
	if out := p.run("-c", "world.hcl", "workers").wants(0).out; !strings.Contains(out, "m       healthy") || !strings.Contains(out, "give --state DIR") {
		t.Errorf("workers without a state directory: %s", out)
	}
	p.run("-c", "world.hcl", "run", "slow.hcl").wants(codeInternal).says("outlives this command", "give --state DIR").once()
	r := p.start(args...)
	r.await("only | begun")
	r.signal(syscall.SIGKILL)
	r.wait()
	p.run("-c", "world.hcl", "run", "quick.hcl", "--state", "s2", "--id", "b").wants(codeUsage).says("run b was begun with another job")
	r = p.start("-c", "world.hcl", "run", "./slow.hcl", "--state", "s2", "--id", "b") // another name of the same file
	r.await("only | begun")
	p.releaseAt(socket)
	r.wait().wants(0).prints("only | begun\nonly | ended\n").says("1 step succeeded")
	p.run(args...).wants(0).prints("").says("that run had ended before")
	p.run("logs", "b", "--state", "s2", "-o", "json").wants(0)
}

// TestAbort gives up a run that was killed, without its job: one command without its configuration, which is told that something stays and where, and the
// next one with that takes it away. A resume without the configuration is refused before that, with the names. A daemon gives up what is under way
// and what is not.
func TestAbort(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world()
	p.write(map[string]string{"quick.hcl": oneStep("echo once"), "slow.hcl": oneStep(awaitScript), "world.hcl": onMemory(`config { world = "unix:` + socket + `" }`)})
	killed := func(id string) {
		r := p.start("-c", "world.hcl", "run", "slow.hcl", "--state", "state", "--id", id)
		r.await("only | begun")
		r.signal(syscall.SIGKILL)
		r.wait()
	}
	killed("a")
	p.run("run", "slow.hcl", "--state", "state", "--id", "a").wants(codeUsage).says("run a has begun on worker m", "has only memory", "slipway run --abort a").once()
	p.run("run", "--abort", "a").wants(codeUsage).says("--abort a needs --state DIR").once()
	p.run("run", "slow.hcl", "--abort", "a", "--state", "state").wants(codeUsage).says("neither a job file nor --id")
	p.run("run", "--abort", "none", "--state", "state").wants(codeUsage).says(`there is no run "none"`).once()
	p.run("run", "--abort", "a", "--state", "state").wants(0).prints("").says("run a: its operator has given it up", "step only aborted", "worker m has 1 container and 1 volume still to be destroyed")
	if n := len(p.inWorld(socket)); n != 1 {
		t.Errorf("the world has %d containers", n)
	}
	p.run("-c", "world.hcl", "run", "quick.hcl", "--state", "state").wants(0).prints("only | once\n")
	if left := p.inWorld(socket); len(left) > 0 {
		t.Errorf("the world has %q", left)
	}
	p.run("run", "--abort", "a", "--state", "state").wants(0).says("run a: its operator has given it up")
	p.run("-c", "world.hcl", "run", "slow.hcl", "--state", "state", "--id", "a").wants(codeInterrupted).says("give another id")

	killed("b")
	s := p.serve("-c", "world.hcl")
	r := p.start("run", "slow.hcl", "--state", "state", "--id", "c")
	r.await("only | begun")
	for _, id := range []string{"b", "c"} {
		p.run("run", "--abort", id, "--state", "state").wants(0).prints("").says("run "+id+": ", "step only aborted")
	}
	r.wait().says("only - aborted")
	p.run("run", "--abort", "none", "--state", "state").wants(codeUsage).says(`there is no run "none"`)
	if left := p.inWorld(socket); len(left) > 0 {
		t.Errorf("the world has %q", left)
	}
	s.stop()
}

// releaseAt lets the one step of awaitScript end that runs in the world at a socket.
func (p *place) releaseAt(socket string) {
	p.t.Helper()
	there := p.inWorld(socket)
	if len(there) != 1 {
		p.t.Fatalf("the world has the containers %q, want that of one step", there)
	}
	worker, close := p.inhabit(socket)
	defer close()
	p.must(worker.SignalProcess(p.t.Context(), there[0], host.MainProcess, sdk.USR1))
}

// inWorld lists the containers in the world at a socket.
func (p *place) inWorld(socket string) (there []sdk.ContainerID) {
	p.t.Helper()
	worker, close := p.inhabit(socket)
	defer close()
	p.must(worker.ListContainers(p.t.Context(), sdk.Filter{}, func(c sdk.ContainerInfo) error {
		there = append(there, c.ID)
		return nil
	}))
	return there
}

// inhabit reaches the worker of the world at a socket.
func (p *place) inhabit(socket string) (worker sdk.Worker, close func()) {
	p.t.Helper()
	client, err := rpc.Dial(p.t.Context(), &net.UnixAddr{Name: socket, Net: "unix"}, rpc.DialOptions{})
	p.must(err)
	worker, err = client.Runtime().Worker("m")
	p.must(err)
	return worker, func() {
		p.must(worker.Close())
		p.must(client.Close())
	}
}
