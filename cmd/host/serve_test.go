//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/internal/testkit"
)

// served is a daemon on the state directory "state" of a place.
type served struct {
	*running
	p      *place
	socket string
	http   *http.Client
}

// serve starts a daemon and waits until it listens. The flags come before the command.
func (p *place) serve(flags ...string) *served {
	p.t.Helper()
	s := &served{p: p, socket: filepath.Join(p.work, "state", "serve.sock")}
	s.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.socket)
	}}}
	s.running = p.start(append(flags, "serve", "--state", "state")...)
	s.await("slipway listens at unix://" + s.socket)
	return s
}

// call calls a method with a message in JSON, and wants it to succeed.
func (s *served) call(method, message string) map[string]any {
	s.t.Helper()
	r, err := s.http.Post("http://slipway/slipway.host.v1alpha1."+method, "application/json", strings.NewReader(message))
	s.p.must(err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	s.p.must(err)
	if r.StatusCode != http.StatusOK {
		s.t.Fatalf("%s %s: %s: %s", method, message, r.Status, text)
	}
	out := make(map[string]any)
	s.p.must(json.Unmarshal(text, &out))
	return out
}

// get gives the status and the body of a plain address.
func (s *served) get(path string) (int, string) {
	s.t.Helper()
	r, err := s.http.Get("http://slipway" + path)
	s.p.must(err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	s.p.must(err)
	return r.StatusCode, string(text)
}

// release lets the step of awaitScript end.
func (s *served) release(run string) {
	s.t.Helper()
	s.call("ProcessService/SignalProcess", fmt.Sprintf(`{"process": {"owner": "run/%s/only"}, "signal": "USR1"}`, run))
}

// stop ends the daemon as an operator does.
func (s *served) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	s.wait().wants(0)
	for _, file := range []string{"serve.sock", "serve.addr"} {
		if _, err := os.Lstat(filepath.Join(s.p.work, "state", file)); !os.IsNotExist(err) {
			s.t.Errorf("%s is left: %v", file, err)
		}
	}
}

// awaitScript runs until it is told to end.
const awaitScript = `trap 'echo ended; echo made > out/made; exit 0' USR1; echo begun; while :; do sleep 0.05; done`

// varying is what differs from run to run: ids, times and sizes, and what lies where.
var varying = regexp.MustCompile(`\br0[0-9a-z]{20,}\b|\b[0-9.]+(µs|ms|s)\b|, [0-9.]+ [KM]?i?B/s| +|from (local|host)\b`)

func settled(text string) string {
	var kept []string
	for line := range strings.Lines(unhurriedly(varying.ReplaceAllString(text, " "))) {
		kept = append(kept, strings.TrimRight(line, " \n")+"\n") // a rate is told only of what took a while
	}
	return strings.Join(kept, "")
}

// TestServeSame gives each command to a daemon and to a host of its own: people see the same.
func TestServeSame(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{
		"in/a":      "one\ntwo\n",
		"full/file": "in the way",
		"good.hcl":  strings.Replace(oneStep("cat in/a; cat in/a >&2; cp in/a out/b"), "outputs = [\"out\"]", "inputs = { in = input.in }\n    outputs = [\"out\"]", 1),
		"fail.hcl":  oneStep("echo no; exit 7"),
	})
	p.write(map[string]string{"good.hcl": strings.Replace(p.read("good.hcl"), "{\n", "{\n  input \"in\" {}\n", 1)})
	s := p.serve()
	for _, args := range [][]string{
		{"run", "good.hcl", "-i", "in=in", "-o", "out=got"},
		{"run", "good.hcl"},
		{"run", "good.hcl", "-i", "in=in", "-i", "other=in"},
		{"run", "good.hcl", "-i", "in=in", "-o", "out=full"},
		{"run", "good.hcl", "-i", "in=in", "-o", "out=full", "--force"},
		{"run", "fail.hcl", "-o", "out=got"},
		{"run", "fail.hcl", "--id", "again"},
		{"run", "fail.hcl", "--id", "again"},
		{"run", "good.hcl", "-i", "in=in", "--id", "again"},
		{"logs", "again"},
		{"exec", "--", "sh", "-c", "echo out; echo err >&2; exit 7"},
		{"exec", "-i", "in=in", "-o", "dir=got", "-e", "A=b", "--", "sh", "-c", "cat in/a; echo $A > dir/file"},
		{"artifacts", "put", "tree", "in"},
		{"artifacts", "files", "tree", "-o", "json"},
		{"artifacts", "files", "tree", "none"},
		{"run", "good.hcl", "-i", "in=artifact:tree", "-o", "out=got"},
		{"artifacts", "rm", "tree"},
		{"exec", "--stdin", "--", "cat"},
		{"exec", "--timeout", "100ms", "--grace", "100ms", "--", "sleep", "600"},
		{"exec", "--", "no-such-command"},
		{"exec", "--tag", "none-has-it", "--", "true"},
		{"plugins"},
		{"workers", "cordon", "memory", "--reason", "mending"},
		{"workers"},
		{"explain", "fail.hcl"},
		{"workers", "uncordon", "memory"},
		{"workers", "cordon", "other"},
		{"workers"},
		{"explain", "fail.hcl", "-o", "json"},
	} {
		result := func(state string) result {
			p.must(os.RemoveAll(filepath.Join(p.work, "got")))
			p.must(os.RemoveAll(filepath.Join(p.work, "full")))
			p.write(map[string]string{"full/file": "in the way"})
			c := p.command(append([]string{"--state", state}, args...)...)
			c.Stdin = strings.NewReader("what stdin had\n")
			return p.runWith(c)
		}
		alone, daemon := result("alone"), result("state")
		if alone.code != daemon.code || alone.out != daemon.out {
			t.Errorf("%q: alone %d %q, on the daemon %d %q\n%s", args, alone.code, alone.out, daemon.code, daemon.out, daemon.err)
		}
		if want, got := strings.ReplaceAll(settled(alone.err), "/alone", "/state"), settled(daemon.err); want != got {
			t.Errorf("%q: alone it says\n%s\non the daemon\n%s", args, want, got)
		}
	}
	p.run("run", "good.hcl", "--state", "state", "-i", "in=in", "-o", "out=got").wants(0)
	if got := p.read("got/b"); got != "one\ntwo\n" {
		t.Errorf("the output has %q", got)
	}
	p.run("exec", "--state", "state", "-i", "in=artifact:none", "--", "true").wants(codeUsage).says(`input "in"`, "there is no artifact none").once()
	p.run("-c", "good.hcl", "exec", "--state", "state", "--", "true").wants(codeUsage) // it is no configuration
	p.write(map[string]string{"config.hcl": onMemory("")})
	p.run("-c", "config.hcl", "exec", "--state", "state", "--", "true").wants(0).says("has its own configuration: config.hcl is not used")
	if list := s.call("ArtifactService/ListArtifacts", "{}"); list["artifacts"] != nil {
		t.Errorf("artifacts are left: %v", list)
	}
	s.stop()
}

// TestServeKilled kills a daemon under a run, in a world that outlives it. The client says how to go on, and the same command then does.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world()
	withInput := strings.Replace(oneStep(awaitScript), "  step \"only\" {\n", "  input \"in\" {}\n  step \"only\" {\n    inputs = { in = input.in }\n", 1)
	p.write(map[string]string{"j.hcl": withInput, "in/f": "mine", "other/f": "another's", "world.hcl": onMemory(`config { world = "unix:` + socket + `" }`)})
	args := []string{"run", "j.hcl", "--state", "state", "--id", "a", "-o", "out=out", "-i", "in=in"}
	others := append(slices.Clone(args[:len(args)-1]), "in=other")
	s := p.serve("-c", "world.hcl")
	r := p.start(args...)
	r.await("only | begun")
	p.run(others...).wants(codeUsage).says("run a was begun with " + filepath.Join(p.work, "in") + ` as its input "in", not with ` + filepath.Join(p.work, "other")).once()
	s.signal(syscall.SIGKILL)
	s.wait()
	r.wait().wants(codeInternal).says("the daemon at unix://", "resume run a to go on")
	testkit.Until(t, "the killed one's plugin ends", func() bool { return len(p.processes("slipway-memory")) <= 1 })

	p.run("ps", "--state", "state").wants(0).shows("a    unfinished  ", "run/a/only  m       ready      main     running")
	p.run("volumes", "--state", "state").wants(0).shows("m       open    output   run/a/only  /work/out")

	s = p.serve("-c", "world.hcl") // where the killed one has left its socket
	p.run("ps", "--state", "state").wants(0).shows("a    stopped  ", "run/a/only  m       ready      main     running")
	if state := s.call("RunService/GetRun", `{"id": "a"}`)["run"].(map[string]any)["state"]; state != "stopped" {
		t.Errorf("the run is %v", state)
	}
	p.run(others...).wants(codeUsage).says("run a was begun with " + filepath.Join(p.work, "in")).once()
	r = p.start(args...)
	r.await("only | begun")
	s.release("a")
	r.wait().wants(0).prints("only | begun\nonly | ended\n").says("output out is in out", "1 step succeeded")
	if got := p.read("out/made"); got != "made\n" {
		t.Errorf("the output has %q", got)
	}
	p.run(args...).wants(0).prints("").says("output out is in out", "that run had ended before")
	s.stop()
}

// TestServeClients has clients come and go under a run, which is none of its business.
func TestServeClients(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep(awaitScript), "other.hcl": oneStep("echo other"),
		"same.hcl": "# Another file, the same job.\n" + oneStep(awaitScript)})
	s := p.serve()
	args := []string{"run", "j.hcl", "--state", "state", "--id", "a"}
	first := p.start(args...)
	first.await("only | begun")
	first.signal(syscall.SIGKILL)
	first.wait()
	second, third := p.start(args...), p.start("run", "same.hcl", "--state", "state", "--id", "a")
	second.await("only | begun")
	third.await("only | begun")
	p.run("run", "other.hcl", "--state", "state", "--id", "a").wants(codeUsage).says("run a is under way with another job")
	p.run("exec", "--state", "state", "--", "echo", "beside").wants(0).prints("beside\n")
	s.release("a")
	for _, r := range []*running{second, third} {
		r.wait().wants(0).prints("only | begun\nonly | ended\n").says("1 step succeeded")
	}
	if status, text := s.get("/v1alpha1/output/run/a/only?stream=stdout&from=6"); status != http.StatusOK || text != "ended\n" {
		t.Errorf("output is %d %q", status, text)
	}

	interrupted := p.start("run", "j.hcl", "--state", "state", "--id", "b")
	interrupted.await("only | begun")
	interrupted.signal(os.Interrupt)
	interrupted.wait().wants(codeInterrupted).says("interrupted: ending what runs", "only - aborted", "the run was interrupted", "1 step aborted")
	stubborn := p.start("run", "j.hcl", "--state", "state", "--id", "c", "--grace", "1h")
	stubborn.await("only | begun")
	p.write(map[string]string{"stubborn.hcl": oneStep(stubbornScript)})
	hurried := p.start("run", "stubborn.hcl", "--state", "state", "--id", "d", "--grace", "1h")
	hurried.await("only | ready")
	hurried.signal(os.Interrupt)
	hurried.await("interrupt again to kill it")
	hurried.signal(os.Interrupt)
	hurried.wait().wants(codeInterrupted).says("only - aborted")
	s.release("c")
	stubborn.wait().wants(0)
	s.stop()
}

// TestServeDrain ends a daemon under a run: it waits for what runs, and takes nothing new.
func TestServeDrain(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep(awaitScript)})
	s := p.serve()
	if fi, err := os.Lstat(s.socket); err != nil || fi.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v %v", fi.Mode(), err)
	}
	p.run("serve", "--state", "state").wants(codeInternal).says("state directory", fmt.Sprintf("in use by process %d", s.cmd.Process.Pid))
	p.run("serve").wants(codeUsage).says("--state")
	r := p.start("run", "j.hcl", "--state", "state", "--id", "a")
	r.await("only | begun")
	s.signal(syscall.SIGTERM)
	s.await("no new work is taken")
	p.run("exec", "--state", "state", "--", "true").wants(codeExecFailed).says("the daemon ends and takes nothing new")
	if status, _ := s.get("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("a daemon that ends is ready: %d", status)
	}
	if status, _ := s.get("/healthz"); status != http.StatusOK {
		t.Errorf("a daemon that ends is not alive: %d", status)
	}
	s.release("a")
	r.wait().wants(0).prints("only | begun\nonly | ended\n")
	s.wait().wants(0)

	s = p.serve() // and one that has no time
	r = p.start("run", "j.hcl", "--state", "state", "--id", "b")
	r.await("only | begun")
	s.signal(syscall.SIGTERM)
	s.await("no new work is taken")
	s.signal(syscall.SIGTERM)
	s.wait().wants(0).says("left to the next host")
	r.wait().wants(codeInternal).says("resume run b to go on")
}

// TestServeCurl does with curl what the documentation of the API shows.
func TestServeCurl(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"texts/a": "one\ntwo\n"})
	c := newCollector(t)
	p.env = append(p.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	s := p.serve()
	doc, err := os.ReadFile("../../host/api/doc.go")
	p.must(err)
	var script strings.Builder
	for line := range strings.Lines(string(doc)) {
		if example, ok := strings.CutPrefix(line, "//\t"); ok && !strings.HasPrefix(example, "PUT ") && !strings.HasPrefix(example, "GET ") {
			script.WriteString(strings.ReplaceAll(example, "--unix-socket S", "-sS --fail-with-body --unix-socket "+s.socket))
		}
	}
	sh := exec.Command("bash", "-euo", "pipefail", "-c", script.String())
	sh.Dir = p.work
	var out, errs bytes.Buffer
	sh.Stdout, sh.Stderr = &out, &errs
	if err := sh.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s\nof\n%s", err, out.String(), errs.String(), script.String())
	}
	for _, want := range []string{`"workers":[{"name":"memory"`, `"files":[{"name":"a",`, "2 text/a\n", `"state":"succeeded"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("curl does not print %s:\n%s", want, out.String())
		}
	}
	if !strings.Contains(out.String(), "hello\n") {
		t.Errorf("the container's process prints nothing:\n%s", out.String())
	}
	var ps struct{ Containers []jsonContainer }
	if err := json.Unmarshal([]byte(p.run("ps", "-o", "json", "--state", "state").wants(0).out), &ps); err != nil || len(ps.Containers) != 1 || ps.Containers[0].Expires == nil {
		t.Errorf("ps tells of no expiry: %+v, %v", ps, err)
	}
	p.run("gc", "explain", "shop/build", "--state", "state").wants(0).shows("used it for 1h0m0s")
	p.run("rm", "shop/build").wants(codeUsage).says("--state").once()
	p.run("rm", "run/one/exec", "--state", "state").wants(codeUsage).says("belongs to run one", "slipway run --abort one").once()
	p.run("rm", "none", "--state", "state").wants(codeUsage).says("none has no container", "slipway ps").once()
	p.run("__complete", "rm", "--state", "state", "sh").wants(0).shows("shop/build\n")
	for range 2 {
		p.run("rm", "shop/build", "--state", "state").wants(0).prints("")
	}
	p.run("ps", "--all", "--state", "state").wants(0).shows("shop/build", "destroyed")
	status, text := s.get("/v1alpha1/artifacts/none")
	if status != http.StatusNotFound || !strings.Contains(text, `"code":"not_found"`) {
		t.Errorf("an artifact that is not there: %d %s", status, text)
	}
	_, text = s.get("/metrics")
	for _, want := range []string{`slipway_steps_total{state="succeeded"} 1`, `slipway_workers{health="healthy",plugin="memory",state="running"} 1`,
		`slipway_api_calls_total{code="ok",procedure="RunService/StartRun"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	s.stop() // which sends the last traces
	for _, path := range [][]string{{"RunService/StartRun", "run", "step", "Worker/StartProcess"}, {"RunService/StartRun", "run", "step", "Worker/CreateContainer"}} {
		if !c.has(path) {
			t.Errorf("no trace goes from %q down; there are %q", path, c.names())
		}
	}
}

// TestServeReadme does what README shows of a daemon.
func TestServeReadme(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	readme, err := os.ReadFile("../../README.md")
	p.must(err)
	_, job, _ := strings.Cut(string(readme), "```hcl\njob ")
	job, _, _ = strings.Cut(job, "```")
	p.write(map[string]string{"texts/a.txt": "two words\n", "wordcount.hcl": "job " + job})
	s := p.serve()
	_, section, _ := strings.Cut(string(readme), "\n## The daemon\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var script strings.Builder
	for line := range strings.Lines(section) {
		if command, ok := strings.CutPrefix(line, "    "); ok && !strings.HasPrefix(command, "slipway serve") {
			script.WriteString(strings.NewReplacer("~/.slipway/serve.sock", s.socket, "~/.slipway", "state", "curl ", "curl -sS --fail-with-body ").Replace(command))
		}
	}
	sh := exec.Command("bash", "-euo", "pipefail", "-c", script.String())
	sh.Dir, sh.Env = p.work, append(p.command().Env, "PATH="+built+":"+os.Getenv("PATH"))
	text, err := sh.CombinedOutput()
	for _, want := range []string{`"id":"nightly"`, "step count: on worker memory", "0 would go"} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: it does not print %s:\n%s\nof\n%s", err, want, text, script.String())
		}
	}
	s.stop()
}

// collector takes traces as OpenTelemetry's collector does.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collectorpb.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(body, &req)); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range req.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// has tells whether there are spans of these names, each below the one before it.
func (c *collector) has(path []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	parents := map[string]bool{"": true} // of no span
	for _, name := range path {
		found := make(map[string]bool)
		for _, s := range c.spans {
			if s.GetName() == name && parents[string(s.GetParentSpanId())] {
				found[string(s.GetSpanId())] = true
			}
		}
		parents = found
	}
	return len(parents) > 0
}

func (c *collector) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, s := range c.spans {
		out = append(out, s.GetName())
	}
	return out
}
