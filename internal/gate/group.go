package main

import (
	"context"
	"io"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// group is a command and all that it starts, as one process group. Tests start servers and containers; what is left of them when the gate
// is killed would disturb the next run, so a shell of a few hundred kilobytes outlives the gate for a moment and kills the group.
type group struct {
	cmd   *exec.Cmd
	guard *exec.Cmd
	told  io.WriteCloser // to the guard; its end without a word is the end of this process, however that came
	done  chan struct{}
	ended chan struct{}
}

// startGroup starts cmd. When ctx ends the group is interrupted, and killed ten seconds later.
func startGroup(ctx context.Context, cmd *exec.Cmd) (*group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &group{cmd: cmd, done: make(chan struct{}), ended: make(chan struct{})}
	// A session of its own: a signal to the gate's group is none to the guard.
	g.guard = exec.Command("sh", "-c", "read -r told || kill -KILL -$1", "sh", strconv.Itoa(cmd.Process.Pid))
	g.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := g.guard.StdinPipe()
	if err == nil {
		g.told, err = pipe, g.guard.Start()
	}
	if err != nil {
		g.signal(syscall.SIGKILL)
		cmd.Wait()
		return nil, err
	}
	go g.await(ctx)
	return g, nil
}

func (g *group) await(ctx context.Context) {
	defer close(g.ended)
	select {
	case <-g.done:
		return
	case <-ctx.Done():
	}
	g.signal(syscall.SIGINT)
	select {
	case <-g.done:
	case <-time.After(10 * time.Second):
		g.signal(syscall.SIGKILL)
	}
}

// wait returns how the command ended, once it has told all that it had to.
func (g *group) wait() error {
	err := g.cmd.Wait()
	close(g.done)
	<-g.ended
	io.WriteString(g.told, "ended\n")
	g.told.Close()
	g.guard.Wait()
	return err
}

func (g *group) signal(s syscall.Signal) { syscall.Kill(-g.cmd.Process.Pid, s) }
