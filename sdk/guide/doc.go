// Package guide holds no code: it is the guide "Write a runtime plugin". Whoever types it word for word has, at the end of an evening, a plugin that
// keeps the contract's core. A test does so.
//
// # What comes of it
//
// A plugin is a program that a host starts, and that makes containers, on whatever it drives. This one makes them on its own machine: a directory
// is a container's root, and namespaces of the Linux kernel keep its processes, mounts and network apart from the machine's. What
// makes that a plugin is three functions: make a container, execute a command in it, destroy it. Package machine turns them into all
// the rest: volumes, images, output that survives every crash, exits that are never guessed.
//
// Is your runtime another one, reached by a network, with volumes of its own? Read this all the same: the three functions are the
// heart of that plugin, too. "Where to go from here" tells which packages do the other parts.
//
// # 1. Before you begin
//
// You need Linux, root, Go, git, and from Debian util-linux and busybox-static. SLIPWAY is where you have checked Slipway out:
//
//	$ mkdir mine
//	$ cd mine
//	$ go mod init example.com/mine
//	$ go mod edit -require github.com/slipway-run/slipway@v0.0.0 -replace github.com/slipway-run/slipway=$SLIPWAY
//	$ cp $SLIPWAY/go.sum .
//	$ export GOFLAGS="$GOFLAGS -mod=mod"
//
// The last line has go note by itself which modules the program needs.
//
// # 2. main.go: what the operator sets
//
// All of the plugin goes into main.go, one piece after the other. The first says what an operator writes into a worker's block, and
// what the plugin is made of. The tags of the struct are the documentation that operators see, and mistakes in their files are told with file and
// line before anything of yours runs.
//
//	//go:build linux
//
//	// Command slipway-chroot is a plugin that runs containers on its own machine: directories as roots, with namespaces of their own.
//	package main
//
//	import (
//		"context"
//		"encoding/json"
//		"errors"
//		"fmt"
//		"io"
//		"os"
//		"os/exec"
//		"path/filepath"
//		"syscall"
//		"time"
//
//		"golang.org/x/sys/unix"
//
//		"github.com/slipway-run/slipway/sdk"
//		"github.com/slipway-run/slipway/sdk/machine"
//		"github.com/slipway-run/slipway/sdk/rpc"
//	)
//
//	// settings is what an operator writes into a worker block's config.
//	type settings struct {
//		State string `json:"state" required:"true" doc:"Absolute path of the directory where volumes and containers are kept. Made where missing."`
//		Shim  string `json:"shim" doc:"Absolute path of the program slipway-shim. Without it: beside this plugin."`
//	}
//
//	func main() {
//		if len(os.Args) > 1 && os.Args[1] == "enter" {
//			enter()
//		}
//		rpc.Serve(machine.Plugin("chroot", "0.1.0", open))
//	}
//
//	func open(worker string, s settings) (machine.Functions, machine.Options, error) {
//		return machine.Functions{Create: create, Exec: execute, Destroy: destroy, Runs: runs},
//			machine.Options{Dir: s.State, Shim: s.Shim, Features: []sdk.Feature{sdk.FeatureNetworkNone}}, nil
//	}
//
// Features is what create will heed: containers without a network, here. What is not named is refused before it comes to you: nothing that
// was asked for is ever left out in silence.
//
// # 3. A container's first process
//
// Containers outlive plugins: when a host restarts its plugin, what runs goes on. So nothing can be in the plugin's memory only. A container
// has a directory, Dir, for what the functions must find again; here that is the first process, by its number and when it was started.
//
//	// first is the container's first process.
//	func first(c machine.Container) machine.Process {
//		return machine.ProcessIn(filepath.Join(c.Dir, "first"))
//	}
//
// # 4. Making a container
//
// Root is ready when create is called: a copy of the image, with the program that keeps the container's processes. What is left
// to do is to run it, c.Command, in that root, with the volumes mounted. A program that is in namespaces of its own from its first moment is
// this one, started once more with the argument "enter".
//
// Mind the order: whatever create does, a plugin may be killed in the midst of it, and destroy must then find what there is.
// Note first, then let go.
//
//	// create starts this program once more, in namespaces of its own, to become the container's first process.
//	func create(ctx context.Context, c machine.Container) error {
//		job, send, err1 := os.Pipe()
//		answer, said, err2 := os.Pipe()
//		defer closeAll(job, send, answer, said)
//		if err := errors.Join(err1, err2); err != nil {
//			return err
//		}
//		cmd := exec.Command("/proc/self/exe", "enter") // its life is not ctx's
//		cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
//		cmd.Stdin, cmd.ExtraFiles = job, []*os.File{said}
//		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
//		if c.Hermetic {
//			cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
//		}
//		if err := cmd.Start(); err != nil {
//			return err
//		}
//		defer cmd.Process.Release()
//		said.Close()
//		// It does nothing before it has its job, which it gets when destroy can find it: killed in between, we leave nothing behind.
//		if err := first(c).Note(cmd.Process.Pid); err != nil {
//			return err
//		}
//		if err := json.NewEncoder(send).Encode(c); err != nil {
//			return err
//		}
//		defer context.AfterFunc(ctx, func() { answer.Close() })()
//		complaint, err := io.ReadAll(answer)
//		if len(complaint) > 0 {
//			err = errors.New(string(complaint))
//		}
//		return errors.Join(err, ctx.Err())
//	}
//
//	func closeAll(files ...*os.File) {
//		for _, f := range files {
//			f.Close()
//		}
//	}
//
// # 5. Becoming it
//
// The other side of that: it reads its job, mounts what MountAll knows to mount, changes its root, and becomes the command. If anything fails it
// says so in place of going on, and the host's operator reads it.
//
//	// enter makes of this process the container's first one, and tells create of what is in the way.
//	func enter() {
//		const said = 3
//		unix.CloseOnExec(said) // its end tells that all went well
//		fmt.Fprintf(os.NewFile(said, "answer"), "entering the container: %v", become())
//		os.Exit(1)
//	}
//
//	func become() error {
//		var c machine.Container
//		if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
//			return err
//		}
//		if err := errors.Join(machine.MountAll(c), unix.Chroot(c.Root), unix.Chdir("/")); err != nil {
//			return err // and that is the end of this process
//		}
//		return unix.Exec(c.Command[0], c.Command, os.Environ())
//	}
//
// # 6. Commands, and the end
//
// To execute a command, util-linux has nsenter. The command's exit status is its own affair: what counts comes through its streams. And a
// namespace of processes ends with its first process, so destroying a container is killing one process and waiting for its end.
//
//	// execute runs a command beside the first process, in the same namespaces.
//	func execute(ctx context.Context, c machine.Container, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
//		pid, runs, err := first(c).PID()
//		if !runs {
//			return errors.Join(err, errors.New("the container's first process has ended"))
//		}
//		cmd := exec.CommandContext(ctx, "nsenter", append([]string{
//			"--target", fmt.Sprint(pid), "--mount", "--pid", "--ipc", "--uts", "--net", "--root", "--wd"}, argv...)...)
//		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
//		cmd.WaitDelay = time.Second // whoever else holds its output is not waited for
//		err = cmd.Run()
//		if _, ok := errors.AsType[*exec.ExitError](err); ok {
//			return nil // the command's own affair
//		}
//		return err
//	}
//
//	// destroy kills the first process. The kernel ends all others of its namespace before it, and what is mounted there goes with the last.
//	func destroy(ctx context.Context, c machine.Container) error { return first(c).Kill(ctx) }
//
//	func runs(_ context.Context, c machine.Container) (bool, string, error) {
//		_, runs, err := first(c).PID()
//		return runs, "", err
//	}
//
// That is all of it. Build it, and beside it the program for containers, which must be static:
//
//	$ go build -o slipway-chroot .
//	$ CGO_ENABLED=0 go build -o slipway-shim github.com/slipway-run/slipway/sdk/shim/cmd
//
// # 7. main_test.go: does it keep the contract?
//
// The conformance suite starts the program as a host would, and tells which promise was broken and what follows from that. As a test of
// yours it is main_test.go:
//
//	package main
//
//	import (
//		"encoding/json"
//		"os"
//		"path/filepath"
//		"testing"
//
//		"github.com/slipway-run/slipway/conformance"
//		"github.com/slipway-run/slipway/sdk"
//	)
//
//	func TestContract(t *testing.T) {
//		here, err := os.Getwd()
//		if err != nil {
//			t.Fatal(err)
//		}
//		values, err := json.Marshal(settings{State: filepath.Join(t.TempDir(), "state"), Shim: filepath.Join(here, "slipway-shim")})
//		if err != nil {
//			t.Fatal(err)
//		}
//		target := conformance.Command(conformance.Program{
//			Path:    filepath.Join(here, "slipway-chroot"),
//			Plugin:  sdk.Block{Name: "chroot"},
//			Workers: []sdk.Block{{Name: "here", Values: values}},
//		})
//		conformance.Run(t, target, conformance.Options{
//			Profiles:  []conformance.Profile{conformance.Core},
//			Short:     testing.Short(),
//			TimeScale: 5, // a busy machine is no fault
//		})
//	}
//
// The core profile is what every host relies on. Without -short it takes a little longer:
//
//	$ go test -short -v .
//
// The same from a shell, for programs in any language: slipway conformance run ./slipway-chroot --worker-settings FILE, where FILE has the block's
// settings as JSON. Add --probe linux/amd64 --shell, or target.Probe = conformance.LinuxProbe(t), and leave Profiles out: with the suite's own program beside busybox all
// profiles can be passed.
//
// # 8. Using it
//
// An operator names it in a configuration, and steps run on it:
//
//	plugin "chroot" { command = "/path/to/slipway-chroot" }
//	worker "here" {
//	  plugin = "chroot"
//	  config { state = "/var/lib/slipway-chroot" }
//	}
//
// With that in slipway.hcl, a command in a fresh container, and what it says. The host needs a directory, too, for it has to remember what
// outlives it:
//
//	slipway -c slipway.hcl --state /var/lib/slipway exec -- sh -c 'echo hello from $(hostname)'
//
// # Where to go from here
//
//   - Limits of memory and processes: name the features, and have create put the first process into a cgroup with Container.Limits.
//   - More between containers and the machine: users of their own, fewer capabilities, seccomp. plugins/runc has runc do that.
//   - Containers that are not on this machine: embed a shim.Driver in a worker of your own, with the one function execute; its package
//     documentation lists what is left to do. plugins/garden is a plugin of that kind.
//   - Volumes in directories, but containers of another kind: package volumedir. Things on a disk that several processes share: package shelf.
//   - A runtime that keeps processes by itself: package keeper is the journal of one.
//   - All of the contract, to be read in an evening: package sdk.
//
// # When it does not work
//
//   - Whatever create returns is shown to whoever asked for the container. What the plugin prints, or logs through Options.Log of package machine, the
//     host logs with the plugin's name.
//   - "its shim ended without a word": execute ran, and the program was not there. See that it enters Root, and that slipway-shim is static.
//   - A case fails: slipway conformance explain ID tells what it checks and why that matters.
package guide
