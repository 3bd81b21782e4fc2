package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
)

// misbehave is the path of the plugin that the tests run.
var misbehave string

func TestMain(m *testing.M) {
	if os.Getenv(asHost) != "" {
		hostToBeKilled()
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "launch-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	misbehave = filepath.Join(dir, "misbehave")
	if err := testkit.Build(misbehave, "./testdata/misbehave"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// quick are timings for tests: nothing waits for long, and nothing is given up on a machine that stalls. Tests of what is given up say so.
func quick(o *Options) {
	const never = time.Hour
	o.StartTimeout, o.ConfigureTimeout = never, never
	o.StopGrace, o.DumpGrace, o.attributeGrace = never, never, never
	o.HealthEvery, o.OpenFor, o.OpenWindow, o.StableAfter = never, never, never, never
	o.BackoffMin, o.BackoffMax = 10*time.Millisecond, 50*time.Millisecond
}

// launch starts a misbehaving plugin, and at the end stops it and sees that nothing is left.
func launch(t *testing.T, mode []string, change ...func(*Spec, *Options)) (*Plugin, *logs) {
	t.Helper()
	testkit.NoLeaks(t)
	dir, err := os.MkdirTemp("", "lt")
	if err != nil {
		t.Fatal(err)
	}
	l := newLogs()
	spec := Spec{Name: "mis", Command: misbehave, Args: mode}
	opts := Options{TempDir: dir, Logger: slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))}
	quick(&opts)
	for _, c := range change {
		c(&spec, &opts)
	}
	p := Start(spec, opts)
	t.Cleanup(func() {
		stop(t, p)
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in the plugin's directory: %v, %v", left, err)
		}
		os.RemoveAll(dir)
		if t.Failed() {
			t.Logf("logged:\n%s", l.all())
		}
	})
	return p, l
}

// stop stops p.
func stop(t *testing.T, p *Plugin) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("Stop does not end by itself")
	}
	if r := p.State(); r.State != StateStopped || r.PID != 0 {
		t.Errorf("after Stop: state %s, pid %d", r.State, r.PID)
	}
}

func session(t *testing.T, p *Plugin) *Session {
	t.Helper()
	s, err := p.Session(testkit.Context(t))
	if err != nil {
		t.Fatalf("Session: %v", err)
	}
	return s
}

// failure awaits that the circuit is open and gives the reason.
func failure(t *testing.T, p *Plugin) *Error {
	t.Helper()
	await(t, p, "an open circuit", func(r Report) bool { return r.State == StateOpen })
	return p.State().Err
}

func await(t *testing.T, p *Plugin, what string, ok func(Report) bool) Report {
	t.Helper()
	ctx := testkit.Context(t)
	for {
		changed := p.Changes()
		r := p.State()
		if ok(r) {
			return r
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("in vain it was waited for %s; state %s, error %v", what, r.State, r.Err)
		}
	}
}

// awaitGone waits for the end of a process that may not be a child.
func awaitGone(t *testing.T, pid int, atMost time.Duration) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return
	}
	if err != nil {
		t.Fatalf("pidfd of %d: %v", pid, err)
	}
	defer unix.Close(fd)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for end := time.Now().Add(atMost); ; {
		n, err := unix.Poll(fds, int(time.Until(end).Milliseconds()))
		if err == unix.EINTR && time.Now().Before(end) {
			continue
		}
		if n != 1 {
			unix.Kill(pid, unix.SIGKILL)
			t.Fatalf("process %d lives %v later (%v)", pid, atMost, err)
		}
		return
	}
}

// logs takes JSON lines of slog.
type logs struct {
	mu      sync.Mutex
	lines   []map[string]any
	changed chan struct{}
}

func newLogs() *logs { return &logs{changed: make(chan struct{})} }

func (l *logs) Write(b []byte) (int, error) {
	line := map[string]any{}
	if err := json.Unmarshal(bytes.TrimSpace(b), &line); err != nil {
		line["msg"] = "unparsable: " + string(b)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	close(l.changed)
	l.changed = make(chan struct{})
	return len(b), nil
}

func (l *logs) snapshot() ([]map[string]any, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines), l.changed
}

// await gives the first line whose message or line contains text.
func (l *logs) await(t *testing.T, text string) map[string]any {
	t.Helper()
	ctx := testkit.Context(t)
	for {
		lines, changed := l.snapshot()
		for _, line := range lines {
			msg, _ := line["msg"].(string)
			raw, _ := line["line"].(string)
			if strings.Contains(msg, text) || strings.Contains(raw, text) {
				return line
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%q was not logged", text)
		}
	}
}

func (l *logs) all() string {
	lines, _ := l.snapshot()
	var b strings.Builder
	for _, line := range lines {
		j, _ := json.Marshal(line)
		if len(j) > 500 {
			j = j[:500]
		}
		b.Write(append(j, '\n'))
		if b.Len() > 20_000 {
			break
		}
	}
	return b.String()
}
