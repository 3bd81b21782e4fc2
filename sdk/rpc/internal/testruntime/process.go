package testruntime

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// process is one command with its journal. The commands: "echo words", "cat", "fill n" (n bytes), "hold" (until a signal).
type process struct {
	spec sdk.ProcessSpec

	mu       sync.Mutex
	change   sync.Cond
	journal  []byte
	exit     *sdk.Exit
	gone     error // the container is destroyed
	acked    sdk.Position
	follower int // the newest one; it wins

	stdinTaken int64
	generation int64
}

func (w *worker) container(id sdk.ContainerID) (*container, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.containers[id]
	if !ok {
		return nil, sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	return c, nil
}

func (w *worker) process(container sdk.ContainerID, id sdk.ProcessID) (*process, error) {
	c, err := w.container(container)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := c.processes[id]
	if !ok {
		return nil, sdk.NewNotFound(sdk.KindProcess, string(id))
	}
	return p, nil
}

func (w *worker) StartProcess(_ context.Context, container sdk.ContainerID, spec sdk.ProcessSpec) error {
	c, err := w.container(container)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := c.processes[spec.ID]; ok {
		if p.spec.Token != spec.Token {
			return sdk.NewAlreadyExists(sdk.KindProcess, string(spec.ID))
		}
		return nil
	}
	p := &process{spec: spec}
	p.change.L = &p.mu
	switch spec.Path {
	case "echo":
		p.end([]byte(strings.Join(spec.Args, " ")+"\n"), 0)
	case "fill":
		n, err := strconv.Atoi(strings.Join(spec.Args, ""))
		if err != nil {
			return sdk.NewInvalid(sdk.ReasonSpec, "fill: %v", err)
		}
		p.end(make([]byte, n), 0)
	case "cat", "hold":
	case "panic":
		panic("a plugin's mistake")
	default:
		return sdk.NewInvalid(sdk.ReasonExecutableNotFound, "no command %q", spec.Path)
	}
	c.processes[spec.ID] = p
	return nil
}

func (p *process) end(output []byte, code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.journal = append(p.journal, output...)
	p.exit = &sdk.Exit{Code: code, Reason: sdk.ExitExited}
	p.change.Broadcast()
}

func (p *process) destroy(container sdk.ContainerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = sdk.NewNotFound(sdk.KindContainer, string(container))
	p.change.Broadcast()
}

func (w *worker) ListProcesses(_ context.Context, container sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	c, err := w.container(container)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []sdk.ProcessInfo
	for id, p := range c.processes {
		p.mu.Lock()
		info := sdk.ProcessInfo{ID: id, Token: p.spec.Token, State: sdk.ProcessRunning}
		if p.exit != nil {
			info.State, info.Exit = sdk.ProcessExited, p.exit
		}
		p.mu.Unlock()
		all = append(all, info)
	}
	return all, nil
}

func (w *worker) SignalProcess(_ context.Context, container sdk.ContainerID, id sdk.ProcessID, signal sdk.Signal) error {
	p, err := w.process(container, id)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exit == nil {
		p.exit = &sdk.Exit{Code: 128 + signal.Number(), Signal: signal, Reason: sdk.ExitSignalled}
		p.change.Broadcast()
	}
	return nil
}

var errSuperseded = errors.New("superseded")

func (w *worker) FollowProcess(ctx context.Context, container sdk.ContainerID, id sdk.ProcessID, from sdk.Position, follow sdk.Follow) error {
	p, err := w.process(container, id)
	if err != nil {
		return err
	}
	f := p.newFollower(from, follow)
	stop := context.AfterFunc(ctx, p.wake)
	defer stop()
	if err := f.open(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	helpers.Go(func() { f.takeAcks(ctx) })
	var stdin chan error
	if follow.Stdin != nil {
		stdin = make(chan error, 1)
		go func() { stdin <- f.feed(); p.wake() }() // may be left with a blocked Read, as the contract allows
	}
	err = f.deliver(ctx, stdin)
	if errors.Is(err, errSuperseded) {
		return sdk.NewFailedPrecondition(sdk.ReasonSuperseded, sdk.KindProcess, string(id), "a newer follower has taken over")
	}
	return err
}

func (p *process) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change.Broadcast()
}

type follower struct {
	p          *process
	number     int
	follow     sdk.Follow
	next       sdk.Position
	generation int64
	taken      int64 // last told
	exitTold   bool
}

func (p *process) newFollower(from sdk.Position, follow sdk.Follow) *follower {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follower++
	p.acked = max(p.acked, from)
	f := &follower{p: p, number: p.follower, follow: follow, next: from, taken: p.stdinTaken}
	if follow.Stdin != nil {
		p.generation++
		f.generation = p.generation
	}
	p.change.Broadcast()
	return f
}

func (f *follower) open() error {
	f.p.mu.Lock()
	o := sdk.Opened{State: sdk.ProcessRunning, StdinTaken: f.p.stdinTaken, StdinGeneration: f.generation}
	if f.p.exit != nil {
		o.State = sdk.ProcessExited
	}
	f.p.mu.Unlock()
	return f.follow.Opened(o)
}

func (f *follower) takeAcks(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-f.follow.Acks:
			f.p.mu.Lock()
			if f.p.follower == f.number {
				f.p.acked = max(f.p.acked, at)
			}
			f.p.change.Broadcast()
			f.p.mu.Unlock()
		}
	}
}

// feed gives the follower's stdin to the process, which is "cat": what is taken is output.
func (f *follower) feed() error {
	buf := make([]byte, 32<<10)
	for {
		n, err := f.follow.Stdin.Read(buf)
		f.p.mu.Lock()
		if f.p.generation != f.generation || f.p.exit != nil {
			f.p.mu.Unlock()
			return nil
		}
		if f.p.spec.Path == "cat" {
			f.p.stdinTaken += int64(n)
			f.p.journal = append(f.p.journal, buf[:n]...)
		}
		if err == io.EOF && f.p.spec.Path == "cat" {
			f.p.exit = &sdk.Exit{Reason: sdk.ExitExited}
		}
		f.p.change.Broadcast()
		f.p.mu.Unlock()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// deliver makes the callbacks until all is delivered and acknowledged.
func (f *follower) deliver(ctx context.Context, stdin <-chan error) error {
	for {
		step, err := f.wait(ctx, stdin)
		if step == nil || err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
}

// wait gives what to do next; nil when there is nothing more.
func (f *follower) wait(ctx context.Context, stdin <-chan error) (func() error, error) {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		select {
		case err := <-stdin:
			if err != nil {
				return nil, err
			}
		default:
		}
		end := sdk.Position(len(p.journal))
		switch {
		case p.follower != f.number:
			return nil, errSuperseded
		case p.gone != nil:
			return nil, p.gone
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case p.stdinTaken > f.taken:
			f.taken = p.stdinTaken
			total := f.taken
			return func() error { f.follow.Taken(total); return nil }, nil
		case f.next < end:
			record := sdk.Record{Position: f.next, Stream: sdk.Stdout, Data: p.journal[f.next:min(end, f.next+sdk.MaxRecordBytes)]}
			f.next = record.End()
			return func() error { return f.follow.Output([]sdk.Record{record}) }, nil
		case p.exit != nil && !f.exitTold:
			f.exitTold = true
			exit := *p.exit
			return func() error { return f.follow.Exit(exit) }, nil
		case p.exit != nil && p.acked >= end:
			return nil, nil
		}
		p.change.Wait()
	}
}
