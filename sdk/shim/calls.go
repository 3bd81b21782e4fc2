package shim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// Start execs the verb that makes the container's keeper and stays as its relay: for containers whose own command is not the program.
// The caller makes it once per container, by a marker of its own; a repeated one does no harm.
func (d *Driver) Start(ctx context.Context, id sdk.ContainerID) (Info, error) {
	c, err := d.enter(ctx, id)
	if err != nil {
		return Info{}, err
	}
	defer c.leave()
	ctx, cancel := context.WithTimeout(c.ctx, d.o.CallTimeout)
	defer cancel()
	for {
		r, err := c.relay(ctx, verbInit)
		if err == nil && r.verb != verbInit && errors.Is(r.err, errNotYet) {
			continue // another call asked for a keeper in vain while there was none
		}
		if err == nil {
			err = r.err
		}
		if err == nil && r.session.dead() {
			err = c.dead()
		}
		if err != nil {
			return Info{}, c.fail(err, "")
		}
		return r.session.info(), nil
	}
}

const (
	readyFirst = 50 * time.Millisecond // between two looks for a keeper, then twice as long
	readyLast  = time.Second
)

// Ready waits for the container's keeper to answer. A keeper that does not within Options.CallTimeout, or is gone for good, is an error.
func (d *Driver) Ready(ctx context.Context, id sdk.ContainerID) (Info, error) {
	c, err := d.enter(ctx, id)
	if err != nil {
		return Info{}, err
	}
	defer c.leave()
	ctx, cancel := context.WithTimeout(c.ctx, d.o.CallTimeout)
	defer cancel()
	var notYet error
	for pause := readyFirst; ; pause = min(2*pause, readyLast) {
		s, err := c.session(ctx)
		if ctx.Err() != nil && notYet != nil {
			err = notYet // says more than that the time is over
		}
		if err == nil && s.dead() {
			err = c.dead()
		}
		if err == nil {
			return s.info(), nil
		}
		if !errors.Is(err, errNotYet) {
			return Info{}, c.fail(err, "")
		}
		notYet = err
		t := time.NewTimer(pause) // nothing tells when a container's own command has come so far
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return Info{}, c.fail(err, "")
		}
	}
}

func (c *call) dead() error {
	id := string(c.c.id)
	return sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, id, "container %q: its keeper is gone for good: destroy it", id)
}

// StartProcess is that of [sdk.Worker].
func (d *Driver) StartProcess(ctx context.Context, container sdk.ContainerID, spec sdk.ProcessSpec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	return d.ask(ctx, container, spec.ID, true, wire.Request{Verb: wire.VerbStart, Start: wire.NewStart(spec)})
}

// SignalProcess is that of [sdk.Worker].
func (d *Driver) SignalProcess(ctx context.Context, container sdk.ContainerID, process sdk.ProcessID, signal sdk.Signal) error {
	if err := signal.Validate(); err != nil {
		return err
	}
	return d.ask(ctx, container, process, false, wire.Request{Verb: wire.VerbSignal, Process: process, Signal: signal})
}

// ResizeProcess is that of [sdk.Resizer].
func (d *Driver) ResizeProcess(ctx context.Context, container sdk.ContainerID, process sdk.ProcessID, size sdk.TTY) error {
	return d.ask(ctx, container, process, true, wire.Request{Verb: wire.VerbResize, Process: process, Size: &size})
}

// Quiesce has the keeper refuse starts from now on, for good, with [sdk.ReasonSealed]. If a process lives, nothing changes and the error is
// FailedPrecondition with [sdk.ReasonInUse]. Where the keeper is gone nothing can start, which is a success. Idempotent.
func (d *Driver) Quiesce(ctx context.Context, container sdk.ContainerID) error {
	return d.ask(ctx, container, "", true, wire.Request{Verb: wire.VerbQuiesce})
}

// ask makes a call that a single reply answers.
func (d *Driver) ask(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, again bool, req wire.Request) error {
	c, err := d.enter(ctx, id)
	if err != nil {
		return err
	}
	defer c.leave()
	kind := sdk.KindProcess
	if process == "" {
		kind = ""
	}
	return c.fail(c.converse(true, again, req, func(t *talk) error {
		var reply wire.Reply
		if err := t.ReadMessage(wire.KindReply, &reply); err != nil {
			return err
		}
		return c.failure(reply.Error, kind, string(process), t.session.dead())
	}), process)
}

// converse makes a call on a session, and once more if it was cut and the call may be sent again. A bounded one has CallTimeout in all.
func (c *call) converse(bounded, again bool, req wire.Request, talk func(*talk) error) error {
	ctx := c.ctx
	if bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.d.o.CallTimeout)
		defer cancel()
	}
	for tries := 1; ; tries++ {
		s, err := c.session(ctx)
		if err == nil {
			err = s.call(ctx, req, talk)
		}
		cut, ok := errors.AsType[*cutError](err)
		if !ok || tries == 2 || cut.sent && !again {
			return err
		}
	}
}

// ListProcesses is that of [sdk.Worker].
func (d *Driver) ListProcesses(ctx context.Context, container sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	c, err := d.enter(ctx, container)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	var all []sdk.ProcessInfo
	err = c.converse(true, true, wire.Request{Verb: wire.VerbList}, func(t *talk) error {
		list, err := c.readProcesses(t)
		if err != nil {
			return err
		}
		return t.hand(func() error { all = list; return nil })
	})
	return all, c.fail(err, "")
}

func (c *call) readProcesses(t *talk) ([]sdk.ProcessInfo, error) {
	var all []sdk.ProcessInfo
	seen := make(map[sdk.ProcessID]bool)
	for {
		var reply wire.Reply
		if err := t.ReadMessage(wire.KindReply, &reply); err != nil {
			return nil, err
		}
		if err := c.failure(reply.Error, "", "", t.session.dead()); err != nil || len(reply.Processes) == 0 {
			return all, err
		}
		if n := len(reply.Processes); n > wire.PerReply || len(all)+n > sdk.MaxProcesses {
			return nil, fmt.Errorf("%w: a list of more processes than a container takes", wire.ErrProtocol)
		}
		for _, p := range reply.Processes {
			info, err := p.SDK()
			if err != nil {
				return nil, err
			}
			if seen[info.ID] {
				return nil, fmt.Errorf("%w: process %q is listed twice", wire.ErrProtocol, info.ID)
			}
			seen[info.ID] = true
			all = append(all, info)
		}
	}
}
