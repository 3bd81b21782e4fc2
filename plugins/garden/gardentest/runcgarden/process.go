//go:build linux

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"code.cloudfoundry.org/garden"
	"github.com/slipway-run/slipway/plugins/runc/engine"
)

// process is one run of a program. It belongs to the container, not to the connection that started it.
type process struct {
	id    string
	ended chan struct{}
	code  int // valid once ended is closed, as err
	err   error
}

// Run starts a program and returns before anything is read of its stdin: the wire brings that later.
func (c *container) Run(spec garden.ProcessSpec, stdio garden.ProcessIO) (garden.Process, error) {
	if err := fit(spec); err != nil {
		return nil, err
	}
	command, err := c.command(spec)
	if err != nil {
		return nil, err
	}
	p := &process{id: cmp.Or(spec.ID, strings.ToLower(rand.Text())), ended: make(chan struct{})}
	var stdin io.Reader
	if stdio.Stdin != nil {
		stdin = endsAtError{stdio.Stdin}
	}
	go func() { // ends with the process, or with the server
		defer close(p.ended)
		p.code, p.err = code(c.backend.engine.Exec(context.Background(), c.rec.Handle, command, stdin, stdio.Stdout, stdio.Stderr))
	}()
	return p, nil
}

// fit refuses what there is not, rather than leave it out.
func fit(spec garden.ProcessSpec) error {
	var what string
	switch {
	case spec.Path == "":
		return errors.New("process: its path is empty")
	case spec.TTY != nil:
		what = "a terminal"
	case spec.Image != garden.ImageRef{} || len(spec.BindMounts) > 0:
		what = "an image and mounts of its own"
	case spec.OverrideContainerLimits != nil || spec.Limits != garden.ResourceLimits{}:
		what = "limits of its own"
	default:
		return nil
	}
	return fmt.Errorf("process with %s: %w", what, errNotImplemented)
}

// command looks user and program up in the container as it is.
func (c *container) command(spec garden.ProcessSpec) (engine.Command, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	info, err := c.state(ctx)
	if err != nil {
		return engine.Command{}, err
	}
	if info.Status != engine.Running {
		return engine.Command{}, fmt.Errorf("container %q does not run", c.rec.Handle)
	}
	r, err := openRoot(fmt.Sprintf("/proc/%d/root", info.PID))
	if err != nil {
		return engine.Command{}, fmt.Errorf("container %q: %w", c.rec.Handle, err)
	}
	defer r.close()
	who, err := r.user(spec.User)
	if err != nil {
		return engine.Command{}, fmt.Errorf("container %q: %w", c.rec.Handle, err)
	}
	env := environment(who, c.rec.Env, spec.Env)
	if !r.program(spec.Path, cmp.Or(spec.Dir, "/"), env) {
		if c.backend.concourse {
			return engine.Command{}, fmt.Errorf("proc start: OCI runtime exec failed: %q is not there", spec.Path)
		}
		return engine.Command{}, garden.ExecutableNotFoundError{Message: fmt.Sprintf("container %q: no executable %q", c.rec.Handle, spec.Path)}
	}
	return engine.Command{Args: append([]string{spec.Path}, spec.Args...), Env: env, Dir: spec.Dir, User: who.numbers}, nil
}

// program tells whether there is something to execute: a name is sought in PATH, as runc will.
func (r root) program(name, dir string, env []string) bool {
	if strings.Contains(name, "/") {
		if !path.IsAbs(name) {
			name = path.Join(dir, name)
		}
		return r.executable(name)
	}
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			return slices.ContainsFunc(strings.Split(list, ":"), func(d string) bool { return r.executable(path.Join(d, name)) })
		}
	}
	return false
}

// environment lays the lists over each other: later ones win, and each name is there once.
func environment(who account, lists ...[]string) []string {
	search := "PATH=/usr/local/bin:/usr/bin:/bin"
	if who.numbers.UID == 0 {
		search = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	all := []string{search, "HOME=" + who.home, "USER=" + who.name}
	at := map[string]int{"PATH": 0, "HOME": 1, "USER": 2}
	for _, list := range lists {
		for _, e := range list {
			name, _, _ := strings.Cut(e, "=")
			if i, ok := at[name]; ok {
				all[i] = e
				continue
			}
			at[name] = len(all)
			all = append(all, e)
		}
	}
	return all
}

func code(err error) (int, error) {
	exit, ended := errors.AsType[*engine.ExitError](err)
	if ended {
		return exit.Code, nil
	}
	return 0, err
}

// ID is the one that was asked for, or a random one.
func (p *process) ID() string { return p.id }

// Wait gives the exit code, which is 128 and the signal's number after a signal.
func (p *process) Wait() (int, error) {
	<-p.ended
	return p.code, p.err
}

// SetTTY fails, for there is none.
func (p *process) SetTTY(garden.TTYSpec) error { return errNotImplemented }

// Signal fails. The wire tells nobody: that is so with Concourse's backend too.
func (p *process) Signal(garden.Signal) error { return errNotImplemented }

// endsAtError makes an end of a connection that was cut: the process sees the end of its stdin and runs on, where an error would end it.
type endsAtError struct{ r io.Reader }

func (e endsAtError) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}
