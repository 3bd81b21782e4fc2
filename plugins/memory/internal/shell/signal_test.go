package shell

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// watched is output that a test can wait for.
type watched struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{}
}

func newWatched() *watched { return &watched{wrote: make(chan struct{}, 1)} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.wrote <- struct{}{}:
	default:
	}
	return w.b.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func (w *watched) await(t *testing.T, text string) {
	t.Helper()
	ctx := testkit.Context(t)
	for !strings.Contains(w.String(), text) {
		select {
		case <-w.wrote:
		case <-ctx.Done():
			t.Fatalf("%q never came, only %q", text, w.String())
		}
	}
}

// started is a process that runs.
type started struct {
	out     *watched
	signals chan string
	kill    context.CancelFunc
	result  chan Result
}

func start(t *testing.T, ns *tree.Namespace, name string, args []string, in io.Reader) *started {
	t.Helper()
	e := New(Options{})
	x, err := e.Resolve(ns, name, "/work", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s := &started{out: newWatched(), signals: make(chan string, 4), kill: cancel, result: make(chan Result, 1)}
	go func() {
		s.result <- e.Run(ctx, ns, x, Command{Args: args, Dir: "/work", Stdin: in, Stdout: s.out, Stderr: s.out, Signals: s.signals})
	}()
	return s
}

func (s *started) end(t *testing.T) Result {
	t.Helper()
	select {
	case r := <-s.result:
		return r
	case <-testkit.Context(t).Done():
		t.Fatalf("the process did not end; it wrote %q", s.out)
		return Result{}
	}
}

// forever has scripts that write ready and never end.
func forever() map[string]string {
	return map[string]string{
		"busy loop":       "echo ready; while :; do :; done",
		"busy arithmetic": "echo ready; while ((1)); do x=1; done",
		"empty for":       "echo ready; for ((;;)); do ((1)); done",
		"sleep":           "echo ready; sleep 1000",
		"pipeline":        "echo ready; sleep 1000 | cat | wc",
		"yes":             "echo ready; yes > /dev/null",
		"yes in a pipe":   "echo ready; yes | cat > /dev/null",
		"background":      "sleep 1000 & echo ready; wait",
		"background loop": "while :; do :; done & echo ready; wait",
		"subshell":        "echo ready; (while :; do sleep 1000; done)",
		"substitution":    "echo ready; x=$(sleep 1000)",
		"read":            "echo ready; read x",
		"cat":             "echo ready; cat",
		"read in a pipe":  "echo ready; sleep 1000 | while read x; do :; done",
		"nested shell":    "sh -c 'echo ready; sleep 1000; echo never'",
		"nested loop":     "sh -c 'echo ready; while :; do :; done'",
		"function":        "f() { while :; do g; done; }; g() { :; }; echo ready; f",
		"xargs":           "echo ready; echo 1000 | xargs sleep",
		"xargs parallel":  "echo ready; printf '1000\\n1000\\n' | xargs -n 1 -P 2 sleep",
		"awk":             "echo ready; awk 'BEGIN{while (1) x++}'",
		"find":            "echo ready; find . -exec sleep 1000 ';'",
		"mapfile":         "echo ready; mapfile a",
		"here-document":   "echo ready; sleep 1000 <<EOF\nx\nEOF",
		"sort":            "echo ready; yes | sort -c",
		"errexit":         "set -e; echo ready; sleep 1000; echo never",
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	for name, script := range forever() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, w := io.Pipe()
			defer w.Close()
			s := start(t, newNamespace(t, nil), "sh", []string{"-c", "trap 'echo trapped' TERM EXIT; " + script}, in)
			s.out.await(t, "ready")
			s.kill()
			if r := s.end(t); r.Code != 137 || r.Signal != "KILL" {
				t.Errorf("it ended with %+v", r)
			}
			if got := s.out.String(); strings.Contains(got, "trapped") || strings.Contains(got, "never") {
				t.Errorf("it went on: %q", got)
			}
		})
	}
}

func TestTermination(t *testing.T) {
	t.Parallel()
	for name, script := range forever() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, w := io.Pipe()
			defer w.Close()
			s := start(t, newNamespace(t, nil), "sh", []string{"-c", script}, in)
			s.out.await(t, "ready")
			s.signals <- "SIGTERM"
			if r := s.end(t); r.Code != 143 || r.Signal != "TERM" {
				t.Errorf("it ended with %+v", r)
			}
			if got := s.out.String(); strings.Contains(got, "never") {
				t.Errorf("it went on: %q", got)
			}
		})
	}
}

func TestTraps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, signal, out string
		code                int
		died                string
	}{
		"exits":             {"trap 'echo got; exit 5' TERM; echo ready; sleep 1000", "TERM", "ready\ngot\n", 5, ""},
		"loop":              {"trap 'echo got; exit 5' INT; echo ready; while :; do :; done", "INT", "ready\ngot\n", 5, ""},
		"goes on":           {"trap 'echo got' HUP; cat; echo after", "SIGHUP", "ready\ngot\nafter\n", 0, ""},
		"errexit":           {"set -e; trap 'echo got; exit 4' TERM; echo ready; sleep 1000; echo never", "TERM", "ready\ngot\n", 4, ""},
		"last command":      {"trap 'echo got' USR1; cat", "USR1", "ready\ngot\n", 138, ""},
		"exit trap":         {"trap 'echo bye' EXIT; echo ready; sleep 1000; echo never", "TERM", "ready\nbye\n", 143, "TERM"},
		"exit trap, loop":   {"trap 'echo bye; echo all' EXIT; echo ready; while :; do :; done", "INT", "ready\nbye\nall\n", 130, "INT"},
		"exit trap, nested": {"trap 'echo bye' EXIT; sh -c 'echo ready; sleep 1000'; echo never", "TERM", "ready\nbye\n", 143, "TERM"},
		"both":              {"trap 'echo bye' EXIT; trap 'echo got; exit 6' TERM; echo ready; sleep 1000", "TERM", "ready\ngot\nbye\n", 6, ""},
		"number":            {"trap 'echo got; exit 1' 15; echo ready; sleep 1000", "15", "ready\ngot\n", 1, ""},
		"reset":             {"trap 'echo got' TERM; trap - TERM; echo ready; sleep 1000; echo never", "TERM", "ready\n", 143, "TERM"},
		"pipeline":          {"trap 'echo got; exit 5' TERM; echo ready; sleep 1000 | cat; echo after", "TERM", "ready\ngot\n", 5, ""},
		"subshell":          {"trap 'echo got; exit 5' TERM; echo ready; (while :; do sleep 1000; done); echo after", "TERM", "ready\ngot\n", 5, ""},
		"wait":              {"trap 'echo got; exit 5' TERM; sleep 1000 & echo ready; wait", "TERM", "ready\ngot\n", 5, ""},
		"read":              {"trap 'echo got; exit 5' TERM; echo ready; read x; echo after", "TERM", "ready\ngot\n", 5, ""},
		"function":          {"cleanup() { echo clean $1; }; trap 'cleanup up; exit 3' TERM; echo ready; sleep 1000", "TERM", "ready\nclean up\n", 3, ""},
		"harmless":          {"echo ready; read x; echo $x", "WINCH", "ready\nline\n", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, w := io.Pipe()
			defer w.Close()
			s := start(t, newNamespace(t, nil), "sh", []string{"-c", c.script}, in)
			if !strings.Contains(c.script, "echo ready") { // what is to be ended by the signal must have begun, and says so itself
				io.WriteString(w, "ready\n")
			}
			s.out.await(t, "ready")
			s.signals <- c.signal
			if name == "harmless" {
				io.WriteString(w, "line\n")
			}
			r := s.end(t)
			if got := s.out.String(); got != c.out || r.Code != c.code || r.Signal != c.died {
				t.Errorf("got %q, %+v, want %q, %d, %q", got, r, c.out, c.code, c.died)
			}
		})
	}
}

// TestIgnored: a signal that is ignored, is ignored by what the shell starts.
func TestIgnored(t *testing.T) {
	t.Parallel()
	in, w := io.Pipe()
	s := start(t, newNamespace(t, nil), "sh", []string{"-c", "trap '' TERM; echo ready; cat; sh -c 'echo inner; cat'; echo after"}, in)
	s.out.await(t, "ready")
	s.signals <- "TERM"
	s.signals <- "USR2x" // unknown: nothing
	io.WriteString(w, "still here\n")
	s.out.await(t, "still here")
	w.Close()
	if r := s.end(t); r.Code != 0 || r.Signal != "" {
		t.Errorf("it ended with %+v, %q", r, s.out)
	}
}

func TestToolSignals(t *testing.T) {
	t.Parallel()
	s := start(t, newNamespace(t, nil), "sleep", []string{"1000"}, nil)
	s.signals <- "INT"
	if r := s.end(t); r.Code != 130 || r.Signal != "INT" {
		t.Errorf("it ended with %+v", r)
	}
	s = start(t, newNamespace(t, nil), "yes", nil, nil)
	s.out.await(t, "y\n")
	s.signals <- "KILL"
	if r := s.end(t); r.Code != 137 || r.Signal != "KILL" {
		t.Errorf("it ended with %+v", r)
	}
}

// late fails the test if it is written to after it was shut.
type late struct {
	mu   sync.Mutex
	shut bool
	t    *testing.T
}

func (l *late) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		l.t.Errorf("%q was written after the end", p)
	}
	return len(p), nil
}

// TestEndIsTheEnd: nothing is written, to streams or files, once Run returned.
func TestEndIsTheEnd(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"while :; do echo x; done & while :; do echo y > f; done & (while :; do echo z; done &) ; until [ -e f ]; do sleep 0.01; done",
		"(while :; do echo x >> f; done) | cat & yes & until [ -e f ]; do sleep 0.01; done; exit 3",
	} {
		ns := newNamespace(t, nil)
		e := New(Options{Linger: 50 * time.Millisecond})
		x, err := e.Resolve(ns, "sh", "/work", nil)
		if err != nil {
			t.Fatal(err)
		}
		out := &late{t: t}
		r := e.Run(context.Background(), ns, x, Command{Args: []string{"-c", script}, Dir: "/work", Stdout: out, Stderr: out})
		out.mu.Lock()
		out.shut = true
		out.mu.Unlock()
		if r.Signal != "" || r.Code != 0 && r.Code != 3 || !r.Cut {
			t.Errorf("%s: it ended with %+v", script, r)
		}
		before, err := ns.Stat("/work", "f")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			sh(t, ns, "sleep 0.02")
			after, err := ns.Stat("/work", "f")
			if err != nil {
				t.Fatal(err)
			}
			if after.ModTime() != before.ModTime() || after.Size() != before.Size() {
				t.Errorf("%s: a file changed after the end", script)
			}
		}
	}
}

// TestLinger: what is in the background may still write.
func TestLinger(t *testing.T) {
	t.Parallel()
	ns, e := newNamespace(t, nil), New(Options{Linger: 24 * time.Hour}) // longer than the test may take
	const script = `await() { until [ -e $1 ]; do sleep 0.01; done; sleep 0.1; }
{ await one; echo late; : > two; } & (await two; echo later) & echo first; : > one; exit 6`
	x, err := e.Resolve(ns, "sh", "/work", nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := e.Run(testkit.Context(t), ns, x, Command{Args: []string{"-c", script}, Dir: "/work", Stdout: &out, Stderr: &out})
	if out.String() != "first\nlate\nlater\n" || r.Code != 6 || r.Cut {
		t.Errorf("%+v: %q", r, out.String())
	}
}

// What has ended is not cut, even if nobody looked before the time for it had passed.
func TestNothingIsCutThatHasEnded(t *testing.T) {
	for range 100 { // a choice between the two would be left to chance
		p := newProcess(t.Context(), &Engine{opts: Options{Linger: -1}}, newNamespace(t, nil))
		if p.linger() {
			t.Fatal("an idle process is cut")
		}
		p.end()
	}
}

// A trap runs between two commands, and each of them runs whole: a builtin is the shell itself, and no signal that the shell
// traps ends it.
func TestATrapCostsNoCommand(t *testing.T) {
	for i := range testkit.Times(6, 60) {
		p := start(t, newNamespace(t, nil), "sh", []string{"-c", `
trap 'stop=yes' USR1
i=0
while [ -z "$stop" ]; do
  echo "one $i"
  echo "two $i"
  i=$((i+1))
done
echo "end $i"`}, nil)
		p.out.await(t, fmt.Sprintf("two %d\n", i*7))
		p.signals <- "USR1"
		if r := p.end(t); r.Code != 0 {
			t.Fatalf("%+v", r)
		}
		lines := strings.Split(strings.TrimSuffix(p.out.String(), "\n"), "\n")
		last := len(lines) - 1
		for j, line := range lines[:last] {
			if want := fmt.Sprintf("%s %d", [2]string{"one", "two"}[j%2], j/2); line != want {
				t.Fatalf("line %d of %d is %q, want %q", j, len(lines), line, want)
			}
		}
		if want := fmt.Sprintf("end %d", last/2); lines[last] != want {
			t.Fatalf("the last line is %q, want %q", lines[last], want)
		}
	}
}

// TestEarlySignals: a signal that comes before the process's first command listens is not lost.
func TestEarlySignals(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"sleep": {"1000"}, "sh": {"-c", "sleep 1000"}} {
		ns := newNamespace(t, nil)
		e := New(Options{})
		x, err := e.Resolve(ns, name, "/work", nil)
		if err != nil {
			t.Fatal(err)
		}
		p := newProcess(t.Context(), e, ns)
		p.signal(killed{15, "TERM"})
		r := p.run(p.ctx, x, command{args: args, dir: "/work", streams: streams{out: newGate(p, nil), err: newGate(p, nil)}}, true)
		p.end()
		if r.Code != 143 || r.Signal != "TERM" {
			t.Errorf("%s: it ended with %+v", name, r)
		}
	}
}
