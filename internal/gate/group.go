package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// errLeft is the end of a command after which something that it had started was still running, or a temporary file was still there.
var errLeft = errors.New(`it left something, named above as "left running" or "left behind"`)

// group is a command and all that it starts, under a guard of its own.
type group struct {
	guard *exec.Cmd
	asks  io.Closer // its end asks the guard to end them all; it comes by itself when this process does, however that came
	done  chan struct{}
	ended chan struct{}
}

// startGroup starts cmd. When ctx ends it is interrupted, and all of the group are killed ten seconds later. What is still there a grace
// after cmd is an error.
func startGroup(ctx context.Context, cmd *exec.Cmd, grace time.Duration) (*group, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	guard := exec.Command(self, append([]string{guardArg, grace.String(), cmd.Path}, cmd.Args[1:]...)...)
	guard.Dir, guard.Env, guard.Stdout, guard.Stderr = cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr
	guard.SysProcAttr = apart()
	asks, err := guard.StdinPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		return nil, err
	}
	g := &group{guard: guard, asks: asks, done: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		select {
		case <-g.done:
		case <-ctx.Done():
			g.asks.Close()
		}
	}()
	return g, nil
}

// wait returns how the command ended, once nothing of the group is left and all is told.
func (g *group) wait() error {
	err := g.guard.Wait()
	close(g.done)
	<-g.ended
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == leftCode {
		return errLeft
	}
	return err
}
