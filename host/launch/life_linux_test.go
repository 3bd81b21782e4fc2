package launch

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
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
	l.await(t, `\x1b[2J\x1b[31mred`)
	good := l.await(t, `good \x1b[2J`)
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
	began := time.Now()
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
	if logged+dropped < 50_001 || logged+dropped > 50_011 {
		t.Errorf("%d lines logged and %d said to be dropped, of 50001 and a few", logged, dropped)
	}
	if most := logLinesBurst + logLinesPerSecond*int(time.Since(began)/time.Second+1); logged < logLinesBurst || logged > most {
		t.Errorf("%d lines logged, want %d to %d", logged, logLinesBurst, most)
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
	// Many misses: so that it is not this machine that stalls, neither before it is stopped nor while its degraded state is awaited.
	p, l := launch(t, nil, func(_ *Spec, o *Options) { o.HealthEvery, o.HealthMisses = testkit.Scale(100*time.Millisecond), 20 })
	s := session(t, p)
	pid := p.State().PID
	freeze(t, pid)
	await(t, p, "degraded state", func(r Report) bool { return r.State == StateDegraded })
	select {
	case <-s.Gone:
	case <-testkit.Context(t).Done():
		t.Fatal("the session does not end")
	}
	// On a machine that stalls the next ones may seem to hang, too.
	r := await(t, p, "next session", func(r Report) bool { return r.State == StateReady && r.Epoch > 1 })
	awaitGone(t, pid, 0)
	if !errors.Is(r.Err, ReasonHung) || r.LastExit == nil || !strings.Contains(r.LastExit.StderrTail, "goroutine ") {
		t.Errorf("error %v; its goroutines are not in the report:\n%+v", r.Err, r.LastExit)
	}
	if !strings.Contains(r.Err.Error(), "no sign of life 20 times in a row") { // not once more than it may
		t.Errorf("error %v", r.Err)
	}
	l.await(t, "SIGQUIT: quit")
	if next := session(t, p); next == s || next.Epoch < 2 {
		t.Errorf("next session %+v", next)
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
	p, _ := launch(t, []string{"deaf"}, func(_ *Spec, o *Options) { o.StopGrace = time.Hour }) // which Stop would take
	session(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func TestStopWhileStarting(t *testing.T) {
	p, l := launch(t, []string{"hang"}, func(_ *Spec, o *Options) { o.StartTimeout, o.StopGrace = time.Hour, 100*time.Millisecond })
	l.await(t, "about to hang")
	stop(t, p)
	if exit := p.State().LastExit; exit == nil || !strings.Contains(exit.StderrTail, "about to hang") {
		t.Errorf("last exit %+v", exit)
	}
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
	p, l := launch(t, []string{"hang"}, func(_ *Spec, o *Options) { o.StartTimeout, o.StopGrace = time.Hour, 100*time.Millisecond })
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
			if err := unix.Kill(p.State().PID, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			select {
			case <-s.Gone:
			case <-testkit.Context(t).Done(): // the child hangs for ever
				t.Fatal("the exit is not seen")
			}
			r := await(t, p, "second session", func(r Report) bool { return r.State == StateReady && r.Epoch == 2 })
			if !errors.Is(r.Err, ReasonExited) || r.LastExit.Signal != "SIGKILL" {
				t.Errorf("%v, %+v", r.Err, r.LastExit)
			}
			if kind == "group" {
				awaitGone(t, child, testkit.Bound(t))
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
	p, _ := launch(t, []string{"deaf=stdin"}, func(_ *Spec, o *Options) { o.StopGrace, o.termGrace = 100*time.Millisecond, time.Hour })
	session(t, p)
	stop(t, p)
	if exit := p.State().LastExit; exit == nil || exit.Code != 0 {
		t.Errorf("last exit %+v", exit)
	}
}

func TestADegradedPluginRecovers(t *testing.T) {
	p, _ := launch(t, nil, func(_ *Spec, o *Options) { o.HealthEvery, o.HealthMisses = 100*time.Millisecond, 1<<30 })
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

// TestRestartOfAnOpenCircuit: whoever has restarted a plugin gets its next session, however soon the restart comes after the end that has opened the circuit.
func TestRestartOfAnOpenCircuit(t *testing.T) {
	p, _ := launch(t, nil, func(_ *Spec, o *Options) { o.OpenAfter, o.OpenFor = 1, time.Hour })
	for range testkit.Times(10, 200) {
		s := session(t, p)
		if err := unix.Kill(p.State().PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-s.Gone
		p.Restart()
	}
	session(t, p)
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
