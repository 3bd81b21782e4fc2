//go:build linux

package store

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
)

// process is a store that runs.
type process struct {
	t        testing.TB
	dir, run string
	cmd      *exec.Cmd
	own      sync.WaitGroup // reads what it logs

	mu  sync.Mutex
	log bytes.Buffer
}

// program is slipway-store as a command.
func program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0") // else the race detector makes each end take a second
	return cmd
}

// serve starts a store over dir, in a task of its own, and waits until it can be talked to. The test's end stops it, and it must end well.
func serve(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	return serveIn(t, dir, t.TempDir(), args...)
}

func serveIn(t testing.TB, dir, run string, args ...string) *process {
	t.Helper()
	p := &process{t: t, dir: dir, run: run}
	args = append([]string{"serve", "--dir", dir, "--run", p.run, "--listen", "127.0.0.1:0", "--zone", "here"}, args...)
	p.cmd = program(context.Background(), args...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan bool, 1)
	p.own.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "keeping volumes") {
				ready <- true
			}
			p.mu.Lock()
			p.log.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
		}
		close(ready)
	})
	t.Cleanup(func() { p.end(syscall.SIGTERM) })
	select {
	case ok := <-ready:
		if !ok {
			t.Fatalf("the store has ended; it said:\n%s", p.said())
		}
	case <-testkit.Context(t).Done():
		t.Fatal("the store does not begin")
	}
	return p
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Error(err)
	}
}

// stop stops the store as SIGSTOP does, and waits until all its threads have: they go on for a moment.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EINTR) {
			p.t.Fatal(err)
		}
	}
}

// end stops the store, if it still runs.
func (p *process) end(how syscall.Signal) {
	p.t.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	p.signal(how)
	late := time.AfterFunc(testkit.Bound(p.t), func() { _ = p.cmd.Process.Kill() })
	p.own.Wait()
	err := p.cmd.Wait()
	late.Stop()
	if how == syscall.SIGTERM && err != nil {
		p.t.Errorf("the store ended with %v; it said:\n%s", err, p.said())
	}
	if strings.Contains(p.said(), "DATA RACE") || strings.Contains(p.said(), "panic") {
		p.t.Errorf("the store said:\n%s", p.said())
	}
}

// exec runs commands in the store's task.
func (p *process) exec(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	cmd := program(ctx, argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return ctx.Err()
	}
	return err
}

// client is a plugin's side. The test's end closes it.
func (p *process) client() *storenet.Store { return p.clientWith(storenet.Options{}) }

func (p *process) clientWith(o storenet.Options) *storenet.Store {
	p.t.Helper()
	o.Node, o.Program, o.Run = "n1", "slipway-store", p.run
	if o.Exec == nil {
		o.Exec = p.exec
	}
	s, err := storenet.New(o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			p.t.Error(err)
		}
	})
	return s
}

// hello is what the store says of itself.
func (p *process) hello() storenet.Hello {
	p.t.Helper()
	text, err := program(p.t.Context(), "hello", "--run", p.run).Output()
	if err != nil {
		p.t.Fatal(err)
	}
	h, err := storenet.ReadHello(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return h
}

// create makes a volume with one file.
func create(t testing.TB, s *storenet.Store, id sdk.VolumeID, content string) {
	t.Helper()
	ctx := testkit.Context(t)
	if err := s.CreateVolume(ctx, sdk.VolumeSpec{ID: id, Token: "t", Labels: map[string]string{"of": t.Name()}}); err != nil {
		t.Fatal(err)
	}
	if err := s.StreamIn(ctx, id, sdk.StreamIn{}, archive(t, content)); err != nil {
		t.Fatal(err)
	}
}

// archive is one with a file of that content.
func archive(t testing.TB, content string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "file", Mode: 0o640, Size: int64(len(content)), ModTime: time.Unix(1_000_000_000, 0), Uid: os.Getuid(), Gid: os.Getgid()})
	if err == nil {
		_, err = io.WriteString(w, content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return &b
}

// content reads that file.
func content(t testing.TB, s *storenet.Store, id sdk.VolumeID) string {
	t.Helper()
	var b strings.Builder
	if err := s.ReadFile(testkit.Context(t), id, "file", 0, -1, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// seal seals a volume that no container writes.
func seal(t testing.TB, s *storenet.Store, id sdk.VolumeID) {
	t.Helper()
	if err := s.SealVolume(testkit.Context(t), id, quiet); err != nil {
		t.Fatal(err)
	}
}

func quiet(context.Context) error { return nil }

// volumes lists what there is.
func volumes(t testing.TB, s *storenet.Store) map[sdk.VolumeID]sdk.VolumeInfo {
	t.Helper()
	all := make(map[sdk.VolumeID]sdk.VolumeInfo)
	err := s.ListVolumes(testkit.Context(t), sdk.Filter{}, func(v sdk.VolumeInfo) error { all[v.ID] = v; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// waiting tells whether the process waits for the lock of a file.
func (p *process) waiting(file string) bool {
	p.t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		p.t.Fatal(err)
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	table, err := os.ReadFile("/proc/locks")
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line) // 1: -> FLOCK ADVISORY READ PID MAJOR:MINOR:INODE ...
		if len(f) > 6 && f[1] == "->" && f[5] == itoa(p.cmd.Process.Pid) && strings.HasSuffix(f[6], ":"+itoa(int(inode))) {
			return true
		}
	}
	return false
}

// volumeFile is a file that the store keeps beside a volume's own.
func (p *process) volumeFile(id sdk.VolumeID, name string) string {
	return filepath.Join(p.dir, volumesDir, string(id), name)
}
