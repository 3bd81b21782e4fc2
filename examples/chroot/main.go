//go:build linux

// Command slipway-chroot is a plugin that runs containers on its own machine: directories as roots, with namespaces of their own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/machine"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// settings is what an operator writes into a worker block's config.
type settings struct {
	State string `json:"state" required:"true" doc:"Absolute path of the directory where volumes and containers are kept. Made where missing."`
	Shim  string `json:"shim" doc:"Absolute path of the program slipway-shim. Without it: beside this plugin."`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "enter" {
		enter()
	}
	rpc.Serve(machine.Plugin("chroot", "0.1.0", open))
}

func open(worker string, s settings) (machine.Functions, machine.Options, error) {
	return machine.Functions{Create: create, Exec: execute, Destroy: destroy, Runs: runs},
		machine.Options{Dir: s.State, Shim: s.Shim, Features: []sdk.Feature{sdk.FeatureNetworkNone}}, nil
}

// first is the container's first process.
func first(c machine.Container) machine.Process {
	return machine.ProcessIn(filepath.Join(c.Dir, "first"))
}

// create starts this program once more, in namespaces of its own, to become the container's first process.
func create(ctx context.Context, c machine.Container) error {
	job, send, err1 := os.Pipe()
	answer, said, err2 := os.Pipe()
	defer closeAll(job, send, answer, said)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", "enter") // its life is not ctx's
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdin, cmd.ExtraFiles = job, []*os.File{said}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
	if c.Hermetic {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Process.Release()
	said.Close()
	// It does nothing before it has its job, which it gets when destroy can find it: killed in between, we leave nothing behind.
	if err := first(c).Note(cmd.Process.Pid); err != nil {
		return err
	}
	if err := json.NewEncoder(send).Encode(c); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { answer.Close() })()
	complaint, err := io.ReadAll(answer)
	if len(complaint) > 0 {
		err = errors.New(string(complaint))
	}
	return errors.Join(err, ctx.Err())
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// enter makes of this process the container's first one, and tells create of what is in the way.
func enter() {
	const said = 3
	unix.CloseOnExec(said) // its end tells that all went well
	fmt.Fprintf(os.NewFile(said, "answer"), "entering the container: %v", become())
	os.Exit(1)
}

func become() error {
	var c machine.Container
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		return err
	}
	if err := errors.Join(machine.MountAll(c), unix.Chroot(c.Root), unix.Chdir("/")); err != nil {
		return err // and that is the end of this process
	}
	return unix.Exec(c.Command[0], c.Command, os.Environ())
}

// execute runs a command beside the first process, in the same namespaces.
func execute(ctx context.Context, c machine.Container, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	pid, runs, err := first(c).PID()
	if !runs {
		return errors.Join(err, errors.New("the container's first process has ended"))
	}
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{
		"--target", fmt.Sprint(pid), "--mount", "--pid", "--ipc", "--uts", "--net", "--root", "--wd"}, argv...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.WaitDelay = time.Second // whoever else holds its output is not waited for
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil // the command's own affair
	}
	return err
}

// destroy kills the first process. The kernel ends all others of its namespace before it, and what is mounted there goes with the last.
func destroy(ctx context.Context, c machine.Container) error { return first(c).Kill(ctx) }

func runs(_ context.Context, c machine.Container) (bool, string, error) {
	_, runs, err := first(c).PID()
	return runs, "", err
}
