package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk/shim/internal/monitor"
	"github.com/slipway-run/slipway/sdk/shim/internal/proc"
	"github.com/slipway-run/slipway/sdk/shim/internal/record"
	"github.com/slipway-run/slipway/sdk/shim/internal/relay"
	"github.com/slipway-run/slipway/sdk/shim/internal/root"
	"github.com/slipway-run/slipway/sdk/shim/internal/server"
	"github.com/slipway-run/slipway/sdk/shim/internal/supervisor"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// daemonVerb is the argument of a supervisor that init has put into the background.
const daemonVerb = "daemon"

var errUsage = errors.New("usage: slipway-shim [text] serve|init|relay SCRATCH, or root ROOT serve SCRATCH, or [text] in|out, or pause|version")

func run(args []string) error {
	signal.Ignore(syscall.SIGPIPE) // whoever reads the log may leave; a write says so
	keepToSelf()
	verb, rest := "", []string(nil)
	if len(args) > 0 {
		verb, rest = args[0], args[1:]
	}
	switch {
	case verb == "text" && len(rest) > 0:
		return text(rest)
	case verb == "serve" && len(rest) == 1:
		return serve(rest[0])
	case verb == "root" && len(rest) == 3 && rest[1] == "serve":
		return serveRoot(rest[0], rest[2])
	case verb == daemonVerb && len(rest) == 1:
		return daemon(rest[0])
	case verb == "init" && len(rest) == 1:
		return relay.Run(context.Background(), rest[0], version, spawn(rest[0]), os.Stdin, os.Stdout)
	case verb == "relay" && len(rest) == 1:
		return relay.Run(context.Background(), rest[0], version, nil, os.Stdin, os.Stdout)
	case verb == monitor.Verb:
		return monitor.Main()
	case (verb == string(wire.VerbIn) || verb == string(wire.VerbOut)) && len(rest) == 0:
		if err := wire.WriteHello(os.Stdout, wire.Hello{State: wire.StateFiles, Program: version}); err != nil {
			return err
		}
		return server.Archive(context.Background(), os.Stdin, os.Stdout, wire.Verb(verb))
	case verb == "pause" && len(rest) == 0:
		return pause()
	case verb == "version" && len(rest) == 0:
		fmt.Println("slipway-shim", version, "protocol", wire.Version)
		return nil
	}
	return errUsage
}

// text runs a verb with what the lines of stdin stand for as its stdin.
func text(args []string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	lines := os.Stdin
	go func() { // ends with the process, which is what reads the pipe
		_, err := io.Copy(w, wire.NewTextReader(lines))
		if err != nil {
			fmt.Fprintln(os.Stderr, "slipway-shim: stdin:", err)
		}
		w.Close()
	}()
	os.Stdin = r
	return run(args)
}

// keepToSelf has no process of this one inherit what the runtime has left open in it by carelessness.
func keepToSelf() {
	const first, last, often = 3, 1<<32 - 1, 1024
	if unix.CloseRange(first, last, unix.CLOSE_RANGE_CLOEXEC) != nil { // before Linux 5.11
		for fd := first; fd < often; fd++ {
			unix.CloseOnExec(fd)
		}
	}
}

// serve is the life of a supervisor. It makes the scratch directory where a runtime has no way to.
//
// It logs into a file: a runtime's log may end, or have no reader, and neither must hold up or end what runs here.
func serve(scratch string) error {
	if err := os.Mkdir(scratch, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	log, err := openLog(scratch)
	if err != nil {
		return err
	}
	defer log.Close()
	program, err := self()
	if err != nil {
		return err
	}
	s, err := supervisor.New(scratch, supervisor.Options{Program: program, Version: version, Log: log})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return s.Run(ctx)
}

// serveRoot is serve in a root that is made first. Where it cannot be, whoever asks is told why, as long as this program is let live: its end would say
// nothing.
func serveRoot(plan, scratch string) error {
	p, err := root.Decode(plan)
	if err != nil {
		return err
	}
	if err := os.Mkdir(scratch, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	failed := make(chan error)
	go func() { failed <- root.Enter(p, scratch, []string{"slipway-shim", "serve", "."}) }() // its thread is left for good
	err = <-failed
	fmt.Fprintln(os.Stderr, "slipway-shim:", err)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return supervisor.Refuse(ctx, scratch, version, err)
}

// self is the file of this program. The link in /proc leads to it even where it has been moved or mounted over.
func self() (string, error) {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link, nil
	}
	name, err := filepath.Abs(os.Args[0])
	if err == nil {
		_, err = os.Stat(name)
	}
	if err != nil {
		return "", fmt.Errorf("this program does not find itself: /proc is not mounted and it was not called by its path: %w", err)
	}
	return name, nil
}

// spawn makes a supervisor that outlives this exec, and awaits that it listens or cannot. Nothing of the exec's stays open in it.
func spawn(scratch string) error {
	if err := os.Mkdir(scratch, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	program, err := self()
	if err != nil {
		return err
	}
	ready, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	log, err := openLog(scratch)
	if err != nil {
		tell.Close()
		return err
	}
	fd := log.Fd()
	_, err = syscall.ForkExec(program, []string{"slipway-shim", daemonVerb, scratch}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{fd, fd, fd, tell.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	tell.Close()
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	_, _ = ready.Read(make([]byte, 1)) // its end is the answer
	return nil
}

func openLog(scratch string) (*os.File, error) {
	return os.OpenFile(filepath.Join(scratch, record.Log), os.O_CREATE|os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
}

// daemonReady is where spawn waits.
const daemonReady = 3

func daemon(scratch string) error {
	program, err := self()
	if err != nil {
		return err
	}
	s, err := supervisor.New(scratch, supervisor.Options{Program: program, Version: version, Log: os.Stderr})
	if err != nil {
		return err
	}
	unix.Close(daemonReady)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return s.Run(ctx)
}

// pause reaps what comes to it until it is told to end.
func pause() error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return nil
		}
		proc.Reap(func(int, unix.WaitStatus, unix.Rusage) {})
	}
	return nil
}
