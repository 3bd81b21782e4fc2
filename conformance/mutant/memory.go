package mutant

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"time"

	"github.com/slipway-run/slipway/conformance"
)

// Memory gives the memory runtime's program as a base: as a plugin that holds its containers itself, with a world behind it, for cases that
// kill plugins, for cases about workers that die with their plugin, and for cases that run the suite's own program, built for WASI, which probe gives, or nil. dir must be short, for a socket lies in it, and is the caller's to remove; env is the world's environment.
func Memory(program, dir string, env []string, probe func(context.Context) (conformance.Commands, error)) []Base {
	socket := filepath.Join(dir, "world")
	return []Base{
		{Name: "memory", Command: []string{program}, Bare: true},
		{
			Name: "memory with a world", Command: []string{program}, Bare: true, Outlived: true,
			Plugin: json.RawMessage(fmt.Sprintf(`{"world":%q}`, "unix:"+socket)),
			Ready: func(ctx context.Context) (func(), error) {
				return startWorld(ctx, exec.Command(program, worldArgs(socket)...), env)
			},
		},
		{Name: "memory with the probe", Command: []string{program}, Commands: probe},
		{Name: "memory with extras", Command: []string{program}, Bare: true, Extras: true},
		{Name: "memory that is killed", Command: []string{program}, Bare: true, Outlived: true},
	}
}

// worldGrace is how long a world that was told to end may take; one that lives on is killed.
const worldGrace = 2 * time.Minute

func worldArgs(socket string) []string {
	args := []string{"world", "--socket", socket, "--worker", None}
	for _, m := range All() {
		args = append(args, "--worker", m.ID)
	}
	return args
}

// startWorld starts a world, which ends with this process, and awaits that it can be reached.
func startWorld(ctx context.Context, cmd *exec.Cmd, env []string) (end func(), err error) {
	cmd.Env = env
	endWithParent(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	ready := make(chan error, 1)
	ended := make(chan struct{})
	started := make(chan struct{})
	go func() {
		defer close(ended)
		goruntime.LockOSThread() // it ends with the thread that started it
		err := cmd.Start()
		close(started)
		if err != nil {
			ready <- err
			return
		}
		_, err = bufio.NewReader(stdout).ReadString('\n')
		ready <- err
		_ = cmd.Wait() // it was told to end, or had failed before
	}()
	<-started
	end = func() {
		if cmd.Process == nil {
			return
		}
		_ = cmd.Process.Signal(os.Interrupt) // unless it has ended
		select {
		case <-ended:
		case <-time.After(worldGrace):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, errors.Join(errors.New("a world does not say that it can be reached"), err)
	}
	return end, nil
}
