//go:build linux

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Command is what to run in a container.
type Command struct {
	Args []string
	Env  []string // nil: a PATH
	Dir  string   // which is there; empty: "/"
	User User
}

// ExitError tells how a command ended that did run.
type ExitError struct {
	Code int // 128 plus the signal's number where a signal ended it
}

// Error gives the code.
func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// Exec runs a command in a container and waits for it. A command that ends with another code than 0 is an *ExitError, one that cannot
// run a *RuncError; a container that is not there is ErrNotFound, one whose process 1 has ended ErrNotRunning.
//
// What is an *os.File is handed to runc as it is. All else is copied: output is complete when Exec returns nil or an *ExitError, and an
// error of stdin, stdout or stderr ends the command and comes back unchanged. Nil stdin is at its end, nil stdout and stderr go
// nowhere. A Read of stdin may still be blocked when Exec returns; its result is thrown away.
//
// When ctx ends, the command is killed, and what came from it by fork is not: that belongs to the container. Nor is any of it waited for then,
// only a Write that is under way. Otherwise Exec waits for all who hold the command's output, as runc does.
func (e *Engine) Exec(ctx context.Context, id string, command Command, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := checkID(id); err != nil {
		return err
	}
	ctx, r, err := e.enter(ctx, id)
	if err != nil {
		return err
	}
	defer e.leave(id, r)
	dir, err := os.MkdirTemp(e.bundle(id), commandPrefix) // what a killed process leaves goes with the container
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("container %q: %w", id, ErrNotFound)
	}
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := e.describe(id, dir, command); err != nil {
		return err
	}
	log, pidFile := filepath.Join(dir, "log"), filepath.Join(dir, "pid")
	cmd := exec.Command(e.runc, "--root", e.runcRoot(), "--log", log, "--log-format", "json",
		"exec", "--process", filepath.Join(dir, "process.json"), "--pid-file", pidFile, id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s, err := newStreams(cmd, stdin, stdout, stderr)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		s.abandon()
		return fmt.Errorf("runc exec in container %q: %w", id, err)
	}
	s.copy()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = wait(ctx, cmd, s, ended)
	close(r.ended)
	s.await(ctx)
	s.abandon()
	if failure := s.failure(); failure != nil {
		return failure
	}
	if ctx.Err() != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrNotFound) {
			return cause // by Delete
		}
		return ctx.Err()
	}
	exit, exited := errors.AsType[*exec.ExitError](err)
	if err != nil && !exited {
		return err
	}
	if _, statErr := os.Stat(pidFile); statErr == nil { // written once the command runs
		switch {
		case err == nil:
			return nil
		case exit.Exited():
			return &ExitError{Code: exit.ExitCode()}
		}
		return &RuncError{Op: "exec", Container: id, Message: "runc itself was killed; how the command ended is not known", Err: err}
	}
	if err == nil {
		err = errors.New("no command was started")
	}
	return e.unfit(ctx, id, &RuncError{Op: "exec", Container: id, Message: messageIn(log), Err: err})
}

// describe writes what runc shall run into a file, for arguments and environment are not for everybody who lists processes.
func (e *Engine) describe(id, dir string, command Command) error {
	text, err := os.ReadFile(filepath.Join(e.bundle(id), "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("container %q: %w", id, ErrNotFound)
	}
	if err != nil {
		return err
	}
	var config specs.Spec
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("container %q: config.json: %w", id, err)
	}
	p := specs.Process{
		Args: command.Args, Env: command.Env, Cwd: command.Dir, User: command.User.oci(),
		Capabilities: config.Process.Capabilities,
	}
	if p.Env == nil {
		p.Env = []string{defaultPath}
	}
	if p.Cwd == "" {
		p.Cwd = "/"
	}
	if text, err = json.Marshal(p); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "process.json"), text, 0o600)
}

// wait waits for runc, and sees to it that there is an end.
func wait(ctx context.Context, cmd *exec.Cmd, s *streams, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-s.failed:
	case <-ctx.Done():
	}
	if killChildren(context.WithoutCancel(ctx), cmd) {
		cmd.Process.Signal(unix.SIGCONT)
		grace := time.NewTimer(reapGrace)
		defer grace.Stop()
		select {
		case err := <-ended:
			return err
		case <-grace.C: // others hold the command's output
			killChildren(context.WithoutCancel(ctx), cmd)
		}
	}
	cmd.Process.Kill()
	return <-ended
}

// reapGrace is what runc may take to reap its dead command and end. An orphan would be reaped by the machine's init, and some are
// slow: until then the container's process 1 cannot end.
const reapGrace = 250 * time.Millisecond

// killChildren kills a command, or what was about to become one, and tells whether there was any. To kill runc is not enough: the command
// would live on. Runc is stopped first, and left so: it neither forks nor reaps, and its children are who they are.
func killChildren(ctx context.Context, cmd *exec.Cmd) (some bool) {
	if cmd.Process.Signal(unix.SIGSTOP) != nil || !awaitStop(cmd.Process.Pid) {
		return false // it has ended
	}
	ctx, cancel := context.WithTimeout(ctx, cleanup)
	defer cancel()
	for again := true; again && ctx.Err() == nil; {
		again = false
		for _, pid := range livingChildren(cmd.Process.Pid) {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			again, some = true, true
			if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
				_ = awaitEnd(ctx, fd)
			}
			unix.Close(fd)
		}
	}
	return some
}

// awaitStop tells whether a child has come to a stop; if not, it has ended.
func awaitStop(pid int) bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && info.Code == cldStopped
		}
	}
}

const cldStopped = 5 // CLD_STOPPED of wait's codes

// livingChildren tells a process's children that have not ended.
func livingChildren(parent int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var children []int
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		state, ppid, ok := parseStat(string(text))
		if !ok || ppid != parent || state == "Z" || state == "X" {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			children = append(children, pid)
		}
	}
	return children
}
