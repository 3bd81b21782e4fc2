//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/api"
)

// shows asserts that stdout has all these, in this order.
func (r result) shows(parts ...string) result {
	r.t.Helper()
	rest := r.out
	for _, part := range parts {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			r.t.Errorf("slipway %q: stdout does not show %q after what comes before it:\n%s", r.args, part, r.out)
			return r
		}
		rest = after
	}
	return r
}

// TestServeLook looks at a daemon's state directory in every way, while one run has the only place, another waits for it, and after both.
func TestServeLook(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{
		"j.hcl":    oneStep(awaitScript),
		"one.hcl":  strings.Replace(onMemory(""), `{ plugin = "memory" }`, "{\n  plugin = \"memory\"\n  max_containers = 1\n}", 1),
		"next.hcl": onMemory(""),
	})
	for _, command := range []string{"ps", "volumes", "gc"} {
		p.run(command).wants(codeUsage).says("--state").once()
		p.run(command, "--state", "none").wants(map[string]int{"ps": codeUsage, "volumes": codeUsage, "gc": 0}[command])
	}
	s := p.serve("-c", "one.hcl")
	first := p.start("run", "j.hcl", "--state", "state", "--id", "a")
	first.await("only | begun")
	second := p.start("run", "j.hcl", "--state", "state", "--id", "b")
	second.await("only - waits: ")

	look := func(args ...string) result { return p.run(append(args, "--state", "state")...) }
	look("ps").wants(0).shows("RUN  STATE    BEGAN", "a    running  ", "b    running  ", "OWNER       WORKER  CONTAINER  PROCESS  STATE    COMMAND  SINCE                EXPIRES",
		"run/a/only  m       ready      main     running  sh       ")
	var all jsonListed
	p.must(json.Unmarshal([]byte(look("ps", "a", "-o", "json").wants(0).out), &all))
	if len(all.Runs) != 1 || all.Runs[0].State != "running" || len(all.Containers) != 1 || len(all.Containers[0].Processes) != 1 {
		t.Fatalf("run a is listed as %+v", all)
	}
	look("ps").wants(0).shows("OWNER       WAITS FOR  NUMBER  FOR", "run/b/only  a place    1       ")
	look("ps", "b", "-o", "json").wants(0).shows(`"waiting":[{"owner":"run/b/only","state":"waiting","position":1,`)
	look("ps", "none").wants(codeUsage).says("there is no run none").once()
	look("volumes").wants(0).shows("ROLE", "m       open   output  run/a/only  /work/out")
	look("volumes", "--worker", "other").wants(0).prints("VOLUME  WORKER  STATE  ROLE  OWNER  PATH  ARTIFACT  SIZE  MADE\n")
	look("explain", "a").wants(0).shows("step only: on worker m")
	look("explain", "b").wants(0).shows("step only: waits for ", ", number 1 in the queue", "m       full")
	look("explain", "b", "only", "-o", "json").wants(0).shows(`"step":"only","state":"waiting"`)
	look("explain", "b", "other").wants(codeUsage).says("run b has no step other").once()
	look("explain", "none").wants(codeUsage).says("there is no run none").once()
	look("gc", "--dry-run").wants(0).shows("stays: ", "0 would go, 2 stay")
	look("gc", "explain", "a", "-o", "json").wants(0).shows(`"kind":"container","id":"c`, `"worker":"m","action":"keep","reason":"run a is under way"`)
	look("gc", "explain", all.Containers[0].ID).wants(0).shows("container " + all.Containers[0].ID + " on m: stays")
	look("gc", "explain", "none").wants(codeUsage).says("there is no container, volume, artifact, run or owner none").once()
	look("gc").wants(0).shows("0 gone, 2 stay")
	look("-c", "next.hcl", "validate", "j.hcl").wants(0).prints("valid\n")

	unreadable("in/secret")(t, p.write(map[string]string{"in/a": "a"}))
	p.run("exec", "--state", "state", "-i", "in=in", "--", "true").wants(codeUsage).says(`input "in"`, "in/secret", "; leave it out of the input").once()

	s.release("a")
	second.await("only | begun")
	s.release("b")
	for _, r := range []*running{first, second} {
		r.wait().wants(0)
	}
	look("ps").wants(0).prints("RUN  STATE  BEGAN  ENDED\n\nOWNER  WORKER  CONTAINER  PROCESS  STATE  COMMAND  SINCE  EXPIRES\n")
	after := look("ps", "--all").wants(0).shows("a    ended  ", "b    ended  ", "run/a/only  m       destroyed  main     exited with 0  sh")
	s.stop()
	look("ps", "--all").wants(0).prints(after.out) // without the daemon
}

// TestServeTurns looks at a run of which one step may go at a time, and two are ready.
func TestServeTurns(t *testing.T) {
	t.Parallel()
	step := func(name string) string {
		return fmt.Sprintf("  step %q {\n    outputs = [\"out\"]\n    run {\n      path = \"sh\"\n      args = [\"-c\", %q]\n    }\n  }\n", name, awaitScript)
	}
	p := newPlace(t).write(map[string]string{"j.hcl": "job \"two\" {\n" + step("one") + step("two") + "}\n"})
	s := p.serve()
	r := p.start("run", "j.hcl", "--state", "state", "--id", "a", "--parallel", "1")
	r.await("its turn")
	r.await(" | begun")
	var steps []jsonExplained
	p.must(json.Unmarshal([]byte(p.run("explain", "a", "--state", "state", "-o", "json").wants(0).out), &steps))
	if len(steps) != 2 || steps[0].State != "placed" || steps[1].State != "turn" || steps[1].Position != 1 || steps[1].Error != "as many steps go side by side as may, with those that wait for a place: 1" {
		t.Fatalf("explained are %+v", steps)
	}
	p.run("explain", "a", steps[1].Step, "--state", "state").wants(0).shows("step "+steps[1].Step+": waits for its turn for ", ", number 1: as many steps go side by side as may, with those that wait for a place: 1")
	if _, text := s.get("/metrics"); !strings.Contains(text, `slipway_waiting_turns{team=""} 1`) {
		t.Errorf("the metrics do not say that one waits for its turn:\n%s", text)
	}
	for i, e := range steps {
		r.awaitTimes(" | begun", i+1)
		s.call("ProcessService/SignalProcess", fmt.Sprintf(`{"process": {"owner": "run/a/%s"}, "signal": "USR1"}`, e.Step))
	}
	r.wait().wants(0)
	s.stop()
}

// TestMuteDaemon has a daemon that accepts and says nothing. Nobody waits for it for ever.
func TestMuteDaemon(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "sm-") // short, for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := api.Announce(dir, "unix://"+socket); err != nil {
		t.Fatal(err)
	}
	c, err := (&app{stateDir: dir}).dial(t.Context(), 10*time.Millisecond)
	if c != nil || err == nil || !strings.Contains(err.Error(), "has said nothing for 10ms") {
		t.Errorf("a mute daemon: %v", err)
	}
}
