package launch

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

func TestAPluginThatBehaves(t *testing.T) {
	configured := make(chan sdk.PluginInfo, 1)
	p, l := launch(t, []string{"log"}, func(s *Spec, _ *Options) {
		s.Configure = func(_ context.Context, info sdk.PluginInfo) (sdk.Block, []sdk.Block, error) {
			configured <- info
			return sdk.Block{Name: "mis"}, nil, nil
		}
	})
	s := session(t, p)
	if info := <-configured; info.Name != "misbehave" {
		t.Errorf("Configure was told of %+v", info)
	}
	seen := false
	enough := errors.New("enough")
	err := s.Runtime.Workers(t.Context(), func(ev sdk.WorkerEvent) error {
		seen = ev.Kind == sdk.WorkerSnapshot
		return enough
	})
	if !seen || !errors.Is(err, enough) {
		t.Errorf("Workers: snapshot %v, %v", seen, err)
	}
	if r := p.State(); r.State != StateReady || r.Epoch != 1 || r.Restarts != 0 || r.Path != misbehave || r.SHA256 != sumAt(misbehave) || r.Err != nil {
		t.Errorf("report: %+v", r)
	}
	line := l.await(t, "a word of warning")
	if line["level"] != "WARN" || line["volume"] != "v1" || line["plugin"] != "mis" || line["epoch"] != 1.0 || line["pid"] == nil {
		t.Errorf("the plugin's line was logged as %v", line)
	}
	pid := p.State().PID
	stop(t, p)
	select {
	case <-s.Gone:
	default:
		t.Error("Gone is open after Stop")
	}
	awaitGone(t, pid, 0)
	if exit := p.State().LastExit; exit == nil || exit.Code != 0 {
		t.Errorf("it was ended by force: %+v", exit)
	}
	lines, _ := l.snapshot()
	for _, line := range lines {
		if strings.Contains(line["msg"].(string), "SIGTERM") {
			t.Errorf("the end of stdin was not enough: %v", line)
		}
	}
	if _, err := p.Session(t.Context()); !errors.Is(err, ReasonStopped) || sdk.ClassOf(err) != sdk.Unavailable {
		t.Errorf("Session after Stop: %v", err)
	}
}

func TestHostileStderr(t *testing.T) {
	hostile := []string{
		`{"@message":1}`, `{"@level":1,"@message":"x"}`, `{"@timestamp":1,"@message":"x","@level":"info"}`, `{"@message":"x","@level":"loud"}`,
		`{"@message":null,"@level":null}`, `{}`, `{`, `[]`, `null`, `"text"`, `{"@message":"x"}{"@message":"y"}`,
		strings.Repeat(`{"a":`, 10_000), `\x00\xff`, `\e[2J\e[31mred`,
	}
	mode := []string{}
	for _, line := range hostile {
		mode = append(mode, "stderr="+line)
	}
	mode = append(mode, `stderr={"@level":"error","@message":"good \u001b[2J","@timestamp":"nonsense","pid":7,"deep":{"a":[1]}}`, "long-line")
	p, l := launch(t, mode)
	session(t, p)
	for _, line := range hostile[:11] {
		if got := l.await(t, line); got["level"] != "INFO" {
			t.Errorf("%s was logged as %v", line, got)
		}
	}
	l.await(t, "\uFFFD[2J\uFFFD[31mred")
	good := l.await(t, "good \uFFFD[2J")
	if good["level"] != "ERROR" || good["plugin.pid"] != 7.0 || good["deep"] != `{"a":[1]}` {
		t.Errorf("hclog's line was logged as %v", good)
	}
	if got := l.await(t, "xxxxxxxxxx"); got["cut"] != float64(1<<20-maxLine) {
		t.Errorf("a long line was cut by %v", got["cut"])
	}
	l.await(t, "after the long line")
}

func TestStrayStdoutIsAWarning(t *testing.T) {
	for name, mode := range map[string]string{"raw": "stdout", "printed": "print-serving=a stray line"} {
		t.Run(name, func(t *testing.T) {
			p, l := launch(t, []string{mode})
			session(t, p)
			if line := l.await(t, "stray line"); line["level"] != "WARN" {
				t.Errorf("logged as %v", line)
			}
		})
	}
}

func TestAPluginThatPrintsIsNotBlocked(t *testing.T) {
	for _, on := range []string{"stdout", "stderr"} {
		t.Run(on, func(t *testing.T) {
			p, _ := launch(t, []string{"print-much=" + on})
			session(t, p) // it prints while it is configured
			stop(t, p)
			if tail := p.State().LastExit.StderrTail; !strings.Contains(tail, "all is printed\n") {
				t.Errorf("stderr ended with %q", tail)
			}
		})
	}
}

func TestAFloodIsDropped(t *testing.T) {
	p, l := launch(t, []string{"flood"})
	session(t, p)
	stop(t, p)
	lines, _ := l.snapshot()
	logged, dropped := 0, 0
	for _, line := range lines {
		if n, ok := line["dropped"].(float64); ok {
			dropped += int(n)
		}
		if msg := line["msg"].(string); strings.HasPrefix(msg, "line ") || msg == "the flood is over" {
			logged++
		}
	}
	if logged+dropped < 50_001 || logged+dropped > 50_011 || logged < logLinesBurst || logged > 20_000 {
		t.Errorf("%d lines logged and %d said to be dropped, of 50001 and a few", logged, dropped)
	}
	if tail := p.State().LastExit.StderrTail; !strings.Contains(tail, "the flood is over\n") || len(tail) > tailSize {
		t.Errorf("the flood's end is not in the %d bytes kept", len(tail))
	}
}

// freeze stops a child and waits until it stands.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if err == nil {
			return
		}
		if err != unix.EINTR {
			t.Fatal(err)
		}
	}
}

func TestAStoppedPluginIsHungAndRestarted(t *testing.T) {
	p, l := launch(t, nil)
	s := session(t, p)
	pid := p.State().PID
	freeze(t, pid)
	await(t, p, "degraded state", func(r Report) bool { return r.State == StateDegraded })
	select {
	case <-s.Gone:
	case <-time.After(patience):
		t.Fatal("the session does not end")
	}
	r := await(t, p, "second session", func(r Report) bool { return r.State == StateReady && r.Epoch == 2 })
	awaitGone(t, pid, 0)
	if !errors.Is(r.Err, ReasonHung) || r.LastExit == nil || !strings.Contains(r.LastExit.StderrTail, "goroutine ") {
		t.Errorf("error %v; its goroutines are not in the report:\n%+v", r.Err, r.LastExit)
	}
	l.await(t, "SIGQUIT: quit")
	if next := session(t, p); next == s || next.Epoch != 2 {
		t.Errorf("second session %+v", next)
	}
}

func TestStopOfAStoppedPluginIsBounded(t *testing.T) {
	p, _ := launch(t, nil, func(_ *Spec, o *Options) { o.HealthEvery, o.StopGrace = time.Hour, 200*time.Millisecond })
	session(t, p)
	pid := p.State().PID
	freeze(t, pid)
	stop(t, p)
	awaitGone(t, pid, 0)
	if exit := p.State().LastExit; exit == nil || exit.Signal != "SIGKILL" {
		t.Errorf("last exit %+v", exit)
	}
}

func TestStopWithAContextThatEnds(t *testing.T) {
	p, _ := launch(t, []string{"deaf"}, func(_ *Spec, o *Options) { o.StopGrace = time.Hour })
	session(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begun := time.Now()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("Stop took %v", took)
	}
	p.opts.StopGrace = time.Second // for the clean-up's sake
}

func TestStopWhileStarting(t *testing.T) {
	p, l := launch(t, []string{"hang"}, func(_ *Spec, o *Options) { o.StartTimeout = time.Hour })
	l.await(t, "about to hang")
	stop(t, p)
}

// The kernel takes the end of the thread that started a process for the end of the host.
func TestAPluginOutlivesItsHostsThreads(t *testing.T) {
	p, _ := launch(t, nil)
	s := session(t, p)
	for range 100 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		}()
		<-ended
	}
	enough := errors.New("enough")
	if err := s.Runtime.Workers(t.Context(), func(sdk.WorkerEvent) error { return enough }); !errors.Is(err, enough) {
		t.Error(err)
	}
	if r := p.State(); r.Epoch != 1 || r.State != StateReady {
		t.Errorf("report %+v", r)
	}
}

func TestSessionWithAContextThatEnds(t *testing.T) {
	p, l := launch(t, []string{"hang"}, func(_ *Spec, o *Options) { o.StartTimeout = time.Hour })
	l.await(t, "about to hang")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Session(ctx); !errors.Is(err, context.Canceled) || sdk.ClassOf(err) != "" || !strings.Contains(err.Error(), "starting") {
		t.Errorf("class %q: %v", sdk.ClassOf(err), err)
	}
}

func TestAGrandchildThatHoldsThePipes(t *testing.T) {
	for _, kind := range []string{"group", "session"} {
		t.Run(kind, func(t *testing.T) {
			p, l := launch(t, []string{"child=" + kind})
			s := session(t, p)
			child := childOf(t, l)
			t.Cleanup(func() { unix.Kill(child, unix.SIGKILL) })
			begun := time.Now()
			if err := unix.Kill(p.State().PID, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-s.Gone
			if took := time.Since(begun); took > time.Second {
				t.Errorf("the exit was seen %v later", took)
			}
			r := await(t, p, "second session", func(r Report) bool { return r.State == StateReady && r.Epoch == 2 })
			if !errors.Is(r.Err, ReasonExited) || r.LastExit.Signal != "SIGKILL" {
				t.Errorf("%v, %+v", r.Err, r.LastExit)
			}
			if kind == "group" {
				awaitGone(t, child, time.Second)
			}
			stop(t, p)
			lines, _ := l.snapshot()
			for _, line := range lines { // the second one's child, where it outlives its plugin
				if pid, ok := childIn(line); ok {
					unix.Kill(pid, unix.SIGKILL)
				}
			}
		})
	}
}

func childIn(line map[string]any) (int, bool) {
	msg, _ := line["msg"].(string)
	text, ok := strings.CutPrefix(msg, "child ")
	pid, err := strconv.Atoi(text)
	return pid, ok && err == nil
}

func childOf(t *testing.T, l *logs) int {
	t.Helper()
	pid, ok := childIn(l.await(t, "child "))
	if !ok {
		t.Fatal("no pid of a child was logged")
	}
	return pid
}

func TestADeafPluginIsKilled(t *testing.T) {
	p, _ := launch(t, []string{"deaf"}, func(_ *Spec, o *Options) { o.StopGrace = 200 * time.Millisecond })
	session(t, p)
	stop(t, p)
	if exit := p.State().LastExit; exit == nil || exit.Signal != "SIGKILL" {
		t.Errorf("last exit %+v", exit)
	}
}

func TestAPluginThatMissesTheEndOfStdinIsTerminated(t *testing.T) {
	p, _ := launch(t, []string{"deaf=stdin"}, func(_ *Spec, o *Options) { o.StopGrace = time.Second })
	session(t, p)
	stop(t, p)
	if exit := p.State().LastExit; exit == nil || exit.Code != 0 {
		t.Errorf("last exit %+v", exit)
	}
}

func TestADegradedPluginRecovers(t *testing.T) {
	p, _ := launch(t, nil, func(_ *Spec, o *Options) { o.HealthMisses = 1000 })
	s := session(t, p)
	pid := p.State().PID
	freeze(t, pid)
	await(t, p, "degraded state", func(r Report) bool { return r.State == StateDegraded })
	if again := session(t, p); again != s {
		t.Errorf("a degraded plugin has another session: %+v", again)
	}
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if r := await(t, p, "recovery", func(r Report) bool { return r.State == StateReady }); r.Epoch != 1 || r.PID != pid {
		t.Errorf("report %+v", r)
	}
}

func TestManyCallers(t *testing.T) {
	p, _ := launch(t, nil)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for last := uint64(0); ; {
				s, err := p.Session(t.Context())
				if err != nil {
					if !errors.Is(err, ReasonStopped) {
						t.Error(err)
					}
					return
				}
				if s.Epoch <= last {
					t.Errorf("epoch %d after %d", s.Epoch, last)
				}
				last = s.Epoch
				p.State()
				<-s.Gone
			}
		})
	}
	for epoch := uint64(1); epoch <= 3; epoch++ {
		await(t, p, "session", func(r Report) bool { return r.State == StateReady && r.Epoch == epoch })
		if epoch < 3 {
			p.Restart()
		}
	}
	for range 3 {
		callers.Go(func() { stop(t, p) })
	}
	callers.Wait()
}

func TestRestart(t *testing.T) {
	p, _ := launch(t, nil)
	first := session(t, p)
	p.Restart()
	second := session(t, p)
	if second.Epoch != 2 || first.Epoch != 1 {
		t.Errorf("epochs %d, then %d", first.Epoch, second.Epoch)
	}
	<-first.Gone
	if r := p.State(); r.LastExit == nil || r.LastExit.Code != 0 || r.Restarts != 1 || r.Err != nil {
		t.Errorf("report %+v", r)
	}
}

func TestAPanicIsReported(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "flag")
	p, l := launch(t, []string{"exit-if=" + flag, "panic"}, func(_ *Spec, o *Options) { o.OpenAfter = 1 })
	err := failure(t, p)
	if err.Exit == nil || err.Exit.Code != 2 || !strings.Contains(err.Exit.StderrTail, "panic: a goroutine of no caller") {
		t.Errorf("%v, %+v", err, err.Exit)
	}
	if line := l.await(t, "panic: a goroutine"); line["level"] != "ERROR" {
		t.Errorf("logged as %v", line)
	}
}

func TestSocketsAndLitterAreRemoved(t *testing.T) {
	p, _ := launch(t, []string{"litter"})
	session(t, p)
	privates := func() []string {
		dirs, err := filepath.Glob(filepath.Join(p.opts.TempDir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(dirs, func(name string) bool { return strings.HasSuffix(name, lockSuffix) })
	}
	first := privates()
	if len(first) != 1 {
		t.Fatalf("private directories %v", first)
	}
	if info, err := os.Stat(first[0]); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := unix.Kill(p.State().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, p, "second session", func(r Report) bool { return r.State == StateReady && r.Epoch == 2 })
	if now := privates(); len(now) != 1 || now[0] == first[0] {
		t.Errorf("private directories %v, at first %v", now, first)
	}
}

func TestTheEnvironmentIsWhatTheConfigurationAllows(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "x")
	cwd, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, l := launch(t, []string{"env", "cwd"}, func(s *Spec, _ *Options) {
		s.Env = map[string]string{"ALLOWED": "yes", "LANG": "C"}
		s.Dir = cwd
	})
	session(t, p)
	l.await(t, "cwd "+cwd)
	var names []string
	lines, _ := l.snapshot()
	for _, line := range lines {
		if kv, ok := strings.CutPrefix(line["msg"].(string), "env "); ok {
			name, _, _ := strings.Cut(kv, "=")
			if !strings.HasPrefix(name, "PLUGIN_") && !strings.HasPrefix(name, "SLIPWAY_") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	if want := []string{"ALLOWED", "HOME", "LANG", "PATH", "TMPDIR"}; !slices.Equal(names, want) {
		t.Errorf("variables %v, want %v", names, want)
	}
	l.await(t, "env LANG=C")
}

func TestAPinnedProgram(t *testing.T) {
	dir := t.TempDir()
	sum := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.Sum256(b)
		return hex.EncodeToString(h[:])
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nexec %s \"$@\"\n", misbehave), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"binary": misbehave, "script": script} {
		t.Run(name, func(t *testing.T) {
			want := sum(path)
			p, _ := launch(t, nil, func(s *Spec, _ *Options) { s.Command, s.SHA256 = path, strings.ToUpper(want) })
			session(t, p)
			p.Restart()
			if s := session(t, p); s.Epoch != 2 || p.State().SHA256 != want {
				t.Errorf("second start: epoch %d, sum %s", s.Epoch, p.State().SHA256)
			}
		})
	}
	t.Run("changed", func(t *testing.T) {
		p, _ := launch(t, nil, func(s *Spec, _ *Options) { s.Command, s.SHA256 = script, sum(script) })
		session(t, p)
		old := sum(script)
		next := script + ".new"
		if err := os.WriteFile(next, []byte("#!/bin/sh\nexit 9\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, script); err != nil {
			t.Fatal(err)
		}
		p.Restart()
		err := failure(t, p)
		if err.Reason != ReasonChecksum || !strings.Contains(err.Error(), old) || !strings.Contains(err.Error(), sum(script)) || err.Exit != nil {
			t.Errorf("%s, exit %v: %v", err.Reason, err.Exit, err)
		}
	})
	t.Run("writable for everybody", func(t *testing.T) {
		if err := os.Chmod(script, 0o757); err != nil {
			t.Fatal(err)
		}
		p, _ := launch(t, nil, func(s *Spec, _ *Options) { s.Command, s.SHA256 = script, sum(script) })
		if err := failure(t, p); err.Reason != ReasonChecksum || !strings.Contains(err.Error(), "chmod o-w") {
			t.Errorf("%s: %v", err.Reason, err)
		}
	})
}

// What was checked is what runs, even if the path leads elsewhere by then.
func TestThePinnedFileItselfIsExecuted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tool")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho checked\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := openPinned(path, sumAt(path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	other := path + ".other"
	if err := os.WriteFile(other, []byte("#!/bin/sh\necho slipped in\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	private, err := newPrivateDir("")
	if err != nil {
		t.Fatal(err)
	}
	proc, err := startProcess(command{path: path, pinned: f, dir: private}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	<-proc.done
	if string(proc.out.line) != "checked" {
		t.Errorf("it printed %q and ended with %v", proc.out.line, &proc.exit)
	}
}

// asHost makes the test binary a host that starts a plugin, tells its pid, and waits for the end.
const asHost = "LAUNCH_TEST_HOST"

func hostToBeKilled() {
	p := Start(Spec{Name: "mis", Command: os.Getenv(asHost), Args: os.Args[1:]},
		Options{TempDir: os.Getenv("LAUNCH_TEST_DIR"), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if _, err := p.Session(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.State().PID)
	select {}
}

func TestAPluginDoesNotOutliveItsHost(t *testing.T) {
	for name, mode := range map[string][]string{
		"silent": nil, "logging": {"flood"}, "deaf": {"deaf"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "lt")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			host := exec.Command(self, mode...)
			host.Env = append(os.Environ(), asHost+"="+misbehave, "LAUNCH_TEST_DIR="+dir)
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			first, err := bufio.NewReader(out).ReadString('\n')
			pid, atoi := strconv.Atoi(strings.TrimSpace(first))
			if err := host.Process.Kill(); err != nil {
				t.Error(err)
			}
			io.Copy(io.Discard, out)
			host.Wait()
			if err != nil || atoi != nil {
				t.Fatalf("the host said %q, %v", first, err)
			}
			awaitGone(t, pid, 5*time.Second)

			// The next host removes what that one could not.
			left := func() []string {
				names, _ := filepath.Glob(filepath.Join(dir, "*"))
				return names
			}
			if len(left()) != 2 {
				t.Errorf("the host left %v", left())
			}
			next, err := newPrivateDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			other, err := newPrivateDir(dir) // a living one's is left alone
			if err != nil {
				t.Fatal(err)
			}
			if names := left(); len(names) != 4 {
				t.Errorf("after the next hosts' start there is %v", names)
			}
			if err := errors.Join(next.remove(), other.remove()); err != nil || len(left()) != 0 {
				t.Errorf("at the end %v, %v", left(), err)
			}
		})
	}
}
