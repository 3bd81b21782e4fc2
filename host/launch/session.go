package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// Session is one life of a plugin's process. It is immutable.
type Session struct {
	Epoch   uint64 // grows with each start of a process; never given twice by one [Plugin]
	Info    sdk.PluginInfo
	Runtime sdk.Runtime

	// Gone is closed when the process has ended, or has been given up as hung. Every call then ends as Unavailable with
	// [sdk.ReasonPluginGone]; ask [Plugin.Session] for the next one.
	Gone <-chan struct{}

	said func() string // what its process has written to stderr last
}

// instance is what the plugin's goroutine holds of a session.
type instance struct {
	session *Session
	proc    *process
	client  *rpc.Client
	path    string
	sum     string
}

// launch starts the plugin and readies it. When ctx ends the attempt is given up, with ReasonStopped. After an error
// nothing of it is left.
func (p *Plugin) launch(ctx context.Context, epoch uint64) (*instance, *Error) {
	startCtx, cancel := context.WithTimeout(ctx, p.opts.StartTimeout)
	defer cancel()

	path, err := Resolve(p.spec.Command, p.spec.Dir)
	if err != nil {
		return nil, p.fail(err, "")
	}
	var pinned *os.File
	sum := p.spec.SHA256
	var hashing sync.WaitGroup
	defer hashing.Wait()
	if sum != "" {
		if pinned, err = openPinned(path, p.spec.SHA256); err != nil {
			return nil, p.fail(err, path)
		}
		defer pinned.Close()
	} else {
		hashing.Go(func() { sum = sumAt(path) })
	}

	proc, addr, err := p.startAndShake(startCtx, path, pinned, epoch)
	if err != nil {
		return nil, p.fail(err, path)
	}
	client, info, err := p.ready(ctx, startCtx, proc, addr)
	if err != nil {
		return nil, p.fail(p.explain(ctx, proc, err), path)
	}
	s := &Session{Epoch: epoch, Info: info, Runtime: client.Runtime(), Gone: proc.gone, said: proc.out.tail}
	hashing.Wait()
	return &instance{session: s, proc: proc, client: client, path: path, sum: strings.ToLower(sum)}, nil
}

// fail completes an error of a start.
func (p *Plugin) fail(err error, path string) *Error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Reason: ReasonStart, Message: err.Error(), Cause: err}
	}
	e.Plugin, e.Path = p.spec.Name, path
	return e
}

// startAndShake starts the process and awaits its handshake.
func (p *Plugin) startAndShake(ctx context.Context, path string, pinned *os.File, epoch uint64) (*process, net.Addr, error) {
	if p.spec.Dir != "" {
		if _, err := os.Stat(p.spec.Dir); err != nil {
			return nil, nil, &Error{Reason: ReasonNotExecutable, Cause: err, Message: fmt.Sprintf("its working directory: %v", err)}
		}
	}
	dir, err := newPrivateDir(p.opts.TempDir)
	if err != nil {
		return nil, nil, err
	}
	shake := handshake{dir: dir.path, started: make(chan struct{}), start: func(env map[string]string) (*process, error) {
		return startProcess(command{path: path, pinned: pinned, args: p.spec.Args, cwd: p.spec.Dir, dir: dir,
			env: childEnv(p.spec.Env, env, dir.path)}, p.log.With("epoch", epoch))
	}}
	type result struct {
		addr net.Addr
		err  error
	}
	results := make(chan result, 1)
	go func() {
		addr, err := shake.run()
		results <- result{addr, err}
	}()
	<-shake.started
	proc := shake.proc
	if proc == nil {
		dir.remove()
		r := <-results
		return nil, nil, errors.Join(shake.err, r.err)
	}

	p.update(func(r *Report) { r.PID, r.Path = proc.pid, path })
	select {
	case r := <-results:
		if r.err == nil {
			return proc, r.addr, nil
		}
		return nil, nil, p.explainHandshake(proc, r.err)
	case <-ctx.Done():
	}
	why := p.interrupted(ctx, proc, "its handshake")
	<-results // go-plugin sees the process's end too
	return nil, nil, why
}

// explainHandshake ends a process that did not shake hands, and says what is wrong with it.
func (p *Plugin) explainHandshake(proc *process, cause error) *Error {
	line := proc.out.line // nil: stdout has ended without one
	ended := line == nil && proc.endsWithin(p.opts.attributeGrace)
	stuck := proc.kill()
	var e *Error
	switch {
	case line != nil:
		if e = checkLine(line); e == nil {
			e = &Error{Reason: ReasonHandshake, Message: fmt.Sprintf("its handshake is not acceptable: %v", cause)}
		}
	case ended:
		e = &Error{Reason: ReasonDied, Message: fmt.Sprintf("it ended before its handshake, with %v; %s", &proc.exit, noPlugin)}
	default:
		e = &Error{Reason: ReasonHandshake, Message: "it closed its stdout without a handshake; " + noPlugin}
	}
	e.Cause = cause
	return p.withExit(e, proc, stuck)
}

// noPlugin is asked of whatever ends or waits without a word: most programs do.
const noPlugin = "is it a Slipway plugin?"

// interrupted ends a process whose time is up, or that is to be stopped.
func (p *Plugin) interrupted(ctx context.Context, proc *process, awaited string) *Error {
	if p.ctx.Err() != nil {
		return p.withExit(&Error{Reason: ReasonStopped, Message: "stopped while it started", Cause: ctx.Err()}, proc, proc.stop(p.killCtx, p.opts.StopGrace, p.opts.termGrace))
	}
	e := &Error{Reason: ReasonSilent, Cause: ctx.Err(),
		Message: fmt.Sprintf("it was killed, for %s did not come within %v of its start; %s", awaited, p.opts.StartTimeout, noPlugin)}
	return p.withExit(e, proc, proc.dump(p.killCtx, p.opts.DumpGrace))
}

// errMute is that the first call found nobody who answers it, not even with a refusal: nothing listens at the socket, or what does speaks something else.
var errMute = errors.New("nothing answered")

// ready connects, learns who the plugin is, and configures it. The process is left running on an error.
func (p *Plugin) ready(ctx, startCtx context.Context, proc *process, addr net.Addr) (_ *rpc.Client, info sdk.PluginInfo, err error) {
	client, err := rpc.Dial(startCtx, addr, rpc.DialOptions{Gone: proc.gone, Unchecked: p.opts.Unchecked})
	if err != nil {
		return nil, info, callError(startCtx, "connecting to it", p.opts.StartTimeout, err)
	}
	defer func() {
		if err != nil {
			client.Close()
		}
	}()
	if info, err = client.Info(startCtx, p.opts.HostInfo); err != nil {
		if errors.Is(err, sdk.ReasonPluginGone) {
			err = fmt.Errorf("%w: %w", errMute, err)
		}
		return nil, info, callError(startCtx, "its information", p.opts.StartTimeout, err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.ConfigureTimeout)
	defer cancel()
	var block sdk.Block
	var workers []sdk.Block
	if p.spec.Configure != nil {
		if block, workers, err = p.spec.Configure(ctx, info); err != nil {
			return nil, info, &Error{Reason: ReasonConfig, Message: err.Error(), Cause: err}
		}
	}
	if err = client.Configure(ctx, block, workers); err != nil {
		if errors.Is(err, sdk.Invalid) {
			return nil, info, &Error{Reason: ReasonConfig, Message: fmt.Sprintf("it refuses its settings: %v", err), Cause: err}
		}
		return nil, info, callError(ctx, "configuring it", p.opts.ConfigureTimeout, err)
	}
	return client, info, nil
}

func callError(ctx context.Context, what string, limit time.Duration, err error) *Error {
	if ctx.Err() != nil {
		return &Error{Reason: ReasonSilent, Message: fmt.Sprintf("%s took longer than %v", what, limit), Cause: err}
	}
	return &Error{Reason: ReasonCall, Message: fmt.Sprintf("%s failed: %v", what, err), Cause: err}
}

// explain ends a process that did not get ready, and puts its own end before what that made of a call.
func (p *Plugin) explain(ctx context.Context, proc *process, err error) *Error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Reason: ReasonCall, Message: err.Error(), Cause: err}
	}
	switch {
	case ctx.Err() != nil:
		e = &Error{Reason: ReasonStopped, Message: "stopped while it got ready", Cause: ctx.Err()}
		return p.withExit(e, proc, proc.stop(p.killCtx, p.opts.StopGrace, p.opts.termGrace))
	case e.Reason == ReasonSilent:
		return p.withExit(e, proc, proc.dump(p.killCtx, p.opts.DumpGrace))
	case e.Reason == ReasonCall && (closed(proc.exited) || errors.Is(err, sdk.Unavailable)) && proc.endsWithin(p.opts.attributeGrace):
		e = &Error{Reason: ReasonDied, Message: fmt.Sprintf("it ended before it was ready, with %v (%s)", &proc.exit, e.Message), Cause: e.Cause}
		return p.withExit(e, proc, nil)
	case e.Reason == ReasonCall && errors.Is(err, errMute): // and lives: so the socket is to blame
		e = &Error{Reason: ReasonCall, Cause: e.Cause, Message: fmt.Sprintf("nothing answers in gRPC at the socket of its handshake (%v); %s",
			rootOf(e.Cause), "is it served before the handshake is printed, and by a gRPC server without TLS?")}
		return p.withExit(e, proc, proc.kill()) // as after a handshake that is none: it has nothing to put in order
	}
	return p.withExit(e, proc, proc.stop(p.killCtx, p.opts.StopGrace, p.opts.termGrace))
}

// rootOf is what gRPC said of a connection: the cause of the contract's error, whose own words are those for a plugin that has died.
func rootOf(err error) error {
	if e, ok := errors.AsType[*sdk.Error](err); ok && e.Cause != nil {
		return e.Cause
	}
	return err
}

// withExit adds what is known of a process's end, or that it does not end.
func (p *Plugin) withExit(e *Error, proc *process, stuck error) *Error {
	if stuck == nil {
		exit := proc.exit
		e.Exit = &exit
		return e
	}
	e.Message += "; " + stuck.Error()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck = proc
	return e
}
