//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"code.cloudfoundry.org/garden/server"
	"code.cloudfoundry.org/lager/v3"
)

// stopLimit bounds the end of the requests that are under way when the server is told to stop.
const stopLimit = 10 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "runcgarden: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var o options
	flags := flag.NewFlagSet("runcgarden", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:7777", "`address` to serve on: host:port, or the path of a unix socket")
	level := flags.String("log", "info", "least `level` of what is logged to stderr: debug, info, error or fatal")
	flags.StringVar(&o.state, "state", "", "`directory` where all state is kept; required")
	flags.StringVar(&o.init, "init", "", "`file` that is process 1 of containers; a static program (default: garden-init beside this program)")
	flags.StringVar(&o.runc, "runc", "runc", "the `program` that makes containers")
	flags.BoolVar(&o.noUserNamespaces, "no-userns", false, "give no container a user namespace; root there is root here")
	flags.BoolVar(&o.strictMounts, "strict-mounts", false, "refuse containers whose root lacks a mount point")
	flags.BoolVar(&o.concourse, "like-concourse", false, "answer as Concourse's containerd backend does: errors of no type, and no property without a value")
	flags.BoolVar(&o.guardian, "like-guardian", false, "keep properties in memory until the server is stopped in order, and list no container without any")
	flags.BoolVar(&o.noLimits, "no-limits", false, "ignore all limits of containers, silently")
	flags.IntVar(&o.maxContainers, "max-containers", 0, "refuse to make more than that `many`; 0: no limit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("argument %q is not understood; -help lists the flags", flags.Arg(0))
	}
	if err := o.complete(); err != nil {
		return err
	}
	log, err := logger(*level)
	if err != nil {
		return err
	}
	return serve(*listen, o, log)
}

func logger(name string) (lager.Logger, error) {
	level, err := lager.LogLevelFromString(name)
	if err != nil {
		return nil, fmt.Errorf("flag -log: %w", err)
	}
	log := lager.NewLogger("runcgarden")
	log.RegisterSink(lager.NewPrettySink(os.Stderr, level))
	return log, nil
}

// serve serves until the program is told to stop. Containers, and what runs in them, stay.
func serve(listen string, o options, log lager.Logger) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	b, err := open(ctx, o, log)
	if err != nil {
		return err
	}
	defer b.close()
	network := "tcp"
	if strings.Contains(listen, "/") {
		network = "unix"
	}
	s := server.New(network, listen, 0, time.Minute, b, log)
	if err := s.SetupBomberman(); err != nil {
		return err
	}
	l, err := s.Listen()
	if err != nil {
		return err
	}
	log.Info("listening", lager.Data{"address": l.Addr().String()})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stopped := make(chan error, 1)
	go func() { stopped <- errors.Join(s.Stop(), <-served, b.inOrder()) }()
	select {
	case err := <-stopped:
		return err
	case <-time.After(stopLimit): // what is under way dies with the program
		return errors.New("requests did not end in time; they are cut off")
	}
}

// options are what the flags say.
type options struct {
	state, init, runc                        string
	noUserNamespaces, strictMounts, noLimits bool
	concourse, guardian                      bool
	maxContainers                            int
}

func (o *options) complete() error {
	if o.state == "" {
		return errors.New("flag -state is missing: name a directory for the server's state")
	}
	if o.init == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.init = filepath.Join(filepath.Dir(self), "garden-init")
	}
	for _, path := range []*string{&o.state, &o.init} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	if _, err := os.Stat(o.init); err != nil {
		return fmt.Errorf("flag -init: %w; build.sh makes that program", err)
	}
	return nil
}
