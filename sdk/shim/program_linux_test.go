package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// machine is a "container" that is this machine: the real program, with a scratch directory, run as the plain commands that an exec would.
type machine struct {
	program, scratch string

	mu     sync.Mutex
	relays map[int]bool // by pid
	execs  int
}

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "shim")
	if err != nil {
		return "", err
	}
	built = dir
	program := filepath.Join(dir, "slipway-shim")
	return program, testkit.Build(program, "./cmd")
})

// newMachine makes one; its supervisor is not started.
func newMachine(t testing.TB) *machine {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return &machine{program: program, scratch: t.TempDir(), relays: make(map[int]bool)}
}

// serve runs the supervisor as a container's own command; kill ends it.
func (m *machine) serve(t testing.TB) (kill func()) {
	t.Helper()
	return m.run(t, nil, "serve", m.scratch)
}

// run runs the program until kill.
func (m *machine) run(t testing.TB, as *syscall.SysProcAttr, args ...string) (kill func()) {
	t.Helper()
	cmd := exec.Command(m.program, args...)
	cmd.Stderr, cmd.SysProcAttr = t.Output(), as
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	return kill
}

func (m *machine) driver(t testing.TB, o Options) *Driver {
	o.Program, o.Scratch = m.program, m.scratch
	return patient(t, m.exec, o)
}

func (m *machine) exec(ctx context.Context, _ sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.WaitDelay = time.Second // for what else may hold stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	m.mu.Lock()
	m.execs++
	m.relays[cmd.Process.Pid] = true
	m.mu.Unlock()
	err := cmd.Wait()
	m.mu.Lock()
	delete(m.relays, cmd.Process.Pid)
	m.mu.Unlock()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

// cut kills all relays.
func (m *machine) cut() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for pid := range m.relays {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

func TestProgram(t *testing.T) {
	m := newMachine(t)
	kill := m.serve(t)
	var mu sync.Mutex
	var keepers []string // by each relay's account
	d := m.driver(t, Options{Log: testLog(t), Recognise: func(_ context.Context, _ sdk.ContainerID, info Info) error {
		mu.Lock()
		defer mu.Unlock()
		keepers = append(keepers, info.Keeper)
		return nil
	}})
	info, err := d.Ready(t.Context(), box)
	if err != nil || info.Version == "" || info.Keeper == "" {
		t.Fatal(info, err)
	}
	t.Logf("%+v", info)
	spec := sdk.ProcessSpec{ID: "p", Token: "t", Path: "/bin/sh", Args: []string{"-c", "cat; echo err >&2; exit 3"}, Stdin: true}
	if err := d.StartProcess(t.Context(), box, spec); err != nil {
		t.Fatal(err)
	}
	l := &listener{t: t}
	f := l.follow()
	f.Stdin = bytes.NewReader(seeded(1, 2_000_000))
	if err := d.FollowProcess(t.Context(), box, "p", 0, f); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(l.out.Bytes(), seeded(1, 2_000_000)) || l.err.String() != "err\n" || len(l.exits) != 1 || l.exits[0].Code != 3 {
		t.Errorf("%d bytes, %q, %+v", l.out.Len(), l.err.String(), l.exits)
	}
	sleep := sdk.ProcessSpec{ID: "s", Token: "t", Path: "/bin/sleep", Args: []string{"1000"}}
	if err := d.StartProcess(t.Context(), box, sleep); err != nil {
		t.Fatal(err)
	}
	if err := d.Quiesce(t.Context(), box); !errors.Is(err, sdk.ReasonInUse) {
		t.Error(err)
	}
	if err := d.SignalProcess(t.Context(), box, "s", sdk.TERM); err != nil {
		t.Error(err)
	}
	s := &listener{t: t}
	if err := d.FollowProcess(t.Context(), box, "s", 0, s.follow()); err != nil || len(s.exits) != 1 || s.exits[0].Signal != sdk.TERM {
		t.Error(err, s.exits)
	}
	err = d.StartProcess(t.Context(), box, sdk.ProcessSpec{ID: "no", Token: "t", Path: "/nowhere"})
	if !errors.Is(err, sdk.ReasonExecutableNotFound) {
		t.Error(err)
	}
	sleep.ID = "left"
	if err := d.StartProcess(t.Context(), box, sleep); err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	if m.execs != 1 {
		t.Errorf("%d execs", m.execs)
	}
	m.mu.Unlock()

	// Its keeper dies under a follower: what it left can be read, by a relay and without one.
	opened := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- d.FollowProcess(t.Context(), box, "left", 0, sdk.Follow{Opened: func(sdk.Opened) error { close(opened); return nil }})
	}()
	<-opened
	kill()
	err = <-done
	for errors.Is(err, sdk.Unavailable) && t.Context().Err() == nil { // the relay may have met the keeper's end: a host follows again
		err = d.FollowProcess(testkit.Context(t), box, "left", 0, sdk.Follow{})
	}
	if !errors.Is(err, sdk.ReasonAbandoned) {
		t.Errorf("a follower of a dead keeper: %v", err)
	}
	sleep.ID = "late"
	if err := d.StartProcess(t.Context(), box, sleep); !errors.Is(err, sdk.ReasonDead) {
		t.Errorf("a start with a dead keeper: %v", err)
	}
	if err := d.Quiesce(t.Context(), box); !errors.Is(err, sdk.ReasonInUse) { // nobody can tell what it left
		t.Errorf("a dead keeper quiesced: %v", err)
	}
	if _, err := d.Start(t.Context(), box); !errors.Is(err, sdk.ReasonDead) {
		t.Errorf("a second keeper: %v", err)
	}
	byRelay, err := d.ListProcesses(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	remains := Remains(os.DirFS(m.scratch))
	without, err := remains.ListProcesses()
	if err != nil || len(byRelay) != 3 || len(without) != 3 {
		t.Errorf("%v and %v: %v", byRelay, without, err)
	}
	for _, p := range without {
		if want := map[sdk.ProcessID]sdk.ProcessState{"p": sdk.ProcessExited, "s": sdk.ProcessExited, "left": sdk.ProcessAbandoned}[p.ID]; p.State != want {
			t.Errorf("%s is %v", p.ID, p.State)
		}
	}
	if err := remains.FollowProcess(t.Context(), "left", 0, sdk.Follow{}); !errors.Is(err, sdk.ReasonAbandoned) {
		t.Error(err)
	}
	if err := remains.FollowProcess(t.Context(), "never", 0, sdk.Follow{}); !errors.Is(err, sdk.ReasonDead) {
		t.Error(err)
	}
	for id, want := range map[sdk.ProcessID]error{"p": nil, "left": sdk.ReasonDead, "never": sdk.ReasonDead} {
		for how, err := range map[string]error{
			"signalled":                d.SignalProcess(t.Context(), box, id, sdk.KILL),
			"resized":                  d.ResizeProcess(t.Context(), box, id, sdk.TTY{}),
			"signalled by its records": remains.SignalProcess(id),
		} {
			if !errors.Is(err, want) {
				t.Errorf("%s is %s with a dead keeper: %v, want %v", id, how, err, want)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(keepers) < 2 || slices.ContainsFunc(keepers, func(name string) bool { return name != info.Keeper }) {
		t.Errorf("relays to one keeper and to what it left met %q", keepers)
	}
}

// The first exec makes the keeper, which outlives it.
func TestProgramInit(t *testing.T) {
	m := newMachine(t)
	d := m.driver(t, Options{})
	if _, err := d.Start(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killDaemon(t, m.scratch) })
	start(t, d, "p", "/bin/cat")
	if _, err := d.Start(t.Context(), box); err != nil {
		t.Error(err)
	}
	m.cut()
	if _, err := d.Start(t.Context(), box); err != nil {
		t.Error(err)
	}
	if all, err := d.ListProcesses(t.Context(), box); err != nil || len(all) != 1 {
		t.Error(all, err)
	}
}

// killDaemon ends the keeper that init has made: the process that has the scratch volume's path as its last argument.
func killDaemon(t *testing.T, scratch string) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Error(err)
	}
	for _, dir := range dirs {
		b, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if args := bytes.Split(b, []byte{0}); len(args) > 2 && string(args[1]) == "daemon" && string(args[2]) == scratch {
			var pid int
			if _, err := fmt.Sscanf(filepath.Base(dir), "%d", &pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

func TestProgramFiles(t *testing.T) {
	m := newMachine(t)
	d := m.driver(t, Options{})
	root, other := t.TempDir(), t.TempDir()
	content := seeded(8, 1_000_000)
	if err := os.WriteFile(filepath.Join(root, "f"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := d.StreamOut(t.Context(), box, root, "", &b); err != nil {
		t.Fatal(err)
	}
	if err := d.StreamIn(t.Context(), box, other, "sub", &b); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(other, "sub/f")); err != nil || !bytes.Equal(got, content) {
		t.Error(len(got), err)
	}
}

// Relays are killed while output comes and stdin goes.
func TestProgramCutRelays(t *testing.T) {
	m := newMachine(t)
	m.serve(t)
	d := m.driver(t, Options{})
	const size = 4_000_000
	spec := sdk.ProcessSpec{ID: "c", Token: "t", Path: "/bin/cat", Stdin: true}
	if err := d.StartProcess(t.Context(), box, spec); err != nil {
		t.Fatal(err)
	}
	cuts, from := 0, 0
	l := &listener{t: t}
	l.slow = func() {
		if l.out.Len() > from && cuts < 40 {
			from += size / 50
			cuts += m.cut()
		}
	}
	f := l.follow()
	f.Stdin = bytes.NewReader(seeded(6, size))
	if err := d.FollowProcess(t.Context(), box, "c", 0, f); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(l.out.Bytes(), seeded(6, size)) || len(l.exits) != 1 || l.opened != 1 || cuts < 10 {
		t.Errorf("%d bytes, %d exits, opened %d times, %d cuts", l.out.Len(), len(l.exits), l.opened, cuts)
	}
	t.Logf("%d cuts", cuts)
}
