package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// place is where one test runs slipway: its own programs, home, temporary directory and working directory, all of which
// must be as they were in the end.
type place struct {
	t    *testing.T
	root string
	bin  string
	tmp  string
	work string
	env  []string
}

// newPlace makes a place. Its path is short, for sockets lie in it.
func newPlace(t *testing.T) *place {
	t.Helper()
	root, err := os.MkdirTemp("", "sw-")
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, root: root, bin: filepath.Join(root, "bin"), tmp: filepath.Join(root, "tmp"), work: filepath.Join(root, "work")}
	for _, dir := range []string{p.bin, p.tmp, p.work} {
		p.must(os.Mkdir(dir, 0o700))
	}
	for _, name := range []string{"slipway", "slipway-memory"} {
		p.must(os.Link(filepath.Join(built, name), filepath.Join(p.bin, name)))
	}
	p.env = []string{"HOME=" + root, "TMPDIR=" + p.tmp, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	if testkit.Race {
		p.env = append(p.env, "GORACE=atexit_sleep_ms=0")
	}
	t.Cleanup(func() {
		p.nothingLeft()
		p.must(os.RemoveAll(root))
	})
	return p
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// write makes files below the working directory.
func (p *place) write(files map[string]string) *place {
	p.t.Helper()
	for name, text := range files {
		file := filepath.Join(p.work, name)
		p.must(os.MkdirAll(filepath.Dir(file), 0o755))
		p.must(os.WriteFile(file, []byte(text), 0o644))
	}
	return p
}

func (p *place) read(name string) string {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.work, name))
	p.must(err)
	return string(b)
}

// nothingLeft asserts that no process, socket or file of slipway's is left. A state directory that the test named may
// stay, and what the test made in its working directory.
func (p *place) nothingLeft() {
	p.t.Helper()
	for _, pid := range p.processes("") {
		p.t.Errorf("process %d of %s is left", pid, executable(pid))
	}
	for _, dir := range []string{p.tmp, p.work} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			switch {
			case strings.HasPrefix(d.Name(), ".slipway"):
				p.t.Errorf("%s, a half-written output, is left", path)
			case d.Type() == fs.ModeSocket:
				p.t.Errorf("socket %s is left", path)
			case dir == p.tmp && path != dir && d.Name() != "slipway-"+strconv.Itoa(os.Getuid()):
				p.t.Errorf("temporary %s is left", path)
			}
			return nil
		})
		p.must(err)
	}
}

// processes lists the processes that run a program of this place, or the one of that name.
func (p *place) processes(name string) []int {
	p.t.Helper()
	if runtime.GOOS != "linux" {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	p.must(err)
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if exe := executable(pid); filepath.Dir(exe) == p.bin && (name == "" || filepath.Base(exe) == name) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// executable is the path of what a process runs; empty once it has ended.
func executable(pid int) string {
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return exe
}

// command is slipway with these arguments, killed when the test can wait no longer.
func (p *place) command(args ...string) *exec.Cmd {
	p.t.Helper()
	return p.program(filepath.Join(p.bin, "slipway"), args...)
}

// program is any program in slipway's place.
func (p *place) program(name string, args ...string) *exec.Cmd {
	p.t.Helper()
	c := exec.CommandContext(testkit.Context(p.t), name, args...)
	c.Dir, c.Env = p.work, p.env
	return c
}

// world starts a memory world with these workers, or one worker m, that outlives slipway, until the test ends.
func (p *place) world(workers ...string) (socket string) {
	p.t.Helper()
	socket, _ = p.worldAt("world.sock", workers...)
	return socket
}

// worldAt is world at a socket of that name.
func (p *place) worldAt(name string, workers ...string) (socket string, process *os.Process) {
	p.t.Helper()
	socket = filepath.Join(p.root, name)
	args := []string{"world", "--socket", socket}
	if len(workers) == 0 {
		workers = []string{"m"}
	}
	for _, w := range workers {
		args = append(args, "--worker", w)
	}
	world := p.program(filepath.Join(p.bin, "slipway-memory"), args...)
	world.Cancel = func() error { return world.Process.Signal(syscall.SIGTERM) }
	world.Stderr = os.Stderr
	told, err := world.StdoutPipe()
	p.must(err)
	p.must(world.Start())
	p.t.Cleanup(func() { world.Wait() })
	if _, err := told.Read(make([]byte, 1)); err != nil {
		p.t.Fatal(err)
	}
	return socket, world.Process
}

// result is how a run of slipway ended.
type result struct {
	t        *testing.T
	args     []string
	code     int
	out, err string
}

// unhurriedly is what slipway told but for what it waited for, which it tells on a machine that has much to do.
func unhurriedly(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "slipway: waiting for ") && !strings.HasPrefix(line, "slipway: waits: ") && !strings.Contains(line, " - waits: for worker ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// run runs slipway to its end.
func (p *place) run(args ...string) result {
	p.t.Helper()
	return p.runWith(p.command(args...))
}

func (p *place) runWith(c *exec.Cmd) result {
	p.t.Helper()
	var out, errw bytes.Buffer
	if c.Stdout == nil {
		c.Stdout = &out
	}
	c.Stderr = &errw
	p.ended(c.Run())
	return result{t: p.t, args: c.Args[1:], code: c.ProcessState.ExitCode(), out: out.String(), err: errw.String()}
}

// ended fails the test unless err is a program's end, with whatever code.
func (p *place) ended(err error) {
	p.t.Helper()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
}

// wants asserts the exit code.
func (r result) wants(code int) result {
	r.t.Helper()
	if r.code != code {
		r.t.Errorf("slipway %q: exit code %d, want %d\nstdout: %s\nstderr: %s", r.args, r.code, code, tail(r.out), tail(r.err))
	}
	return r
}

// says asserts that stderr has all these, in this order.
func (r result) says(parts ...string) result {
	r.t.Helper()
	rest := r.err
	for _, part := range parts {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			r.t.Errorf("slipway %q: stderr does not say %q after what comes before it:\n%s", r.args, part, tail(r.err))
			return r
		}
		rest = after
	}
	return r
}

// prints asserts stdout.
func (r result) prints(want string) result {
	r.t.Helper()
	if r.out != want {
		r.t.Errorf("slipway %q: stdout is %q, want %q\nstderr: %s", r.args, tail(r.out), tail(want), tail(r.err))
	}
	return r
}

var innerID = regexp.MustCompile(`run/r[0-9a-z]{20,}|level=|panic`)

// once asserts that nothing is told twice, nor in words that are slipway's own affair. Only what is waited for may be, on a machine on which more than one start of a
// plugin, say, takes so long that it is told.
func (r result) once() result {
	r.t.Helper()
	if found := innerID.FindString(r.err); found != "" {
		r.t.Errorf("slipway %q: stderr has %q:\n%s", r.args, found, r.err)
	}
	lines := strings.Split(r.err, "\n")
	for i, line := range lines {
		if len(line) > 40 && !strings.HasPrefix(line, "slipway: waiting for ") && slices.Contains(lines[:i], line) {
			r.t.Errorf("slipway %q: stderr says twice: %s", r.args, line)
		}
	}
	return r
}

func tail(s string) string {
	const most = 4000
	if len(s) > most {
		return "..." + s[len(s)-most:]
	}
	return s
}

// needsLinux skips a test that finds processes.
func needsLinux(t *testing.T) {
	if runtime.GOOS != "linux" {
		testkit.Lacking(t, "Linux: processes are found through /proc")
	}
}
