package conformance

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Started starts a command that prints "ready" and a newline, and awaits that.
func (c *C) Started(ctx context.Context, id sdk.ContainerID, cmd Cmd, with ...func(*sdk.ProcessSpec)) sdk.ProcessID {
	p := c.Start(ctx, id, cmd, with...)
	c.AwaitOutput(ctx, id, p, "ready\n")
	return p
}

var errSeen = errors.New("the output that was awaited is there")

// AwaitOutput follows a process, without acknowledging anything, until its stdout begins with text.
func (c *C) AwaitOutput(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, text string) {
	var j Journal
	acks := make(chan sdk.Position)
	err := c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{Acks: acks, Output: func([]sdk.Record) error {
		if strings.HasPrefix(string(j.Stdout), text) {
			return errSeen
		}
		return nil
	}}))
	if err != errSeen {
		c.Fatalf("output is delivered while the process runs, and a callback's error comes back unchanged",
			"awaiting %q of process %q: got %s, with stdout %q and %s", text, p, describe(err), j.Stdout, exitText(j.Exit))
	}
}

// AwaitText is AwaitOutput for a text anywhere in stdout, and gives what came so far.
func (c *C) AwaitText(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, text string) string {
	var j Journal
	err := c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{Acks: acknowledge(0), Output: func([]sdk.Record) error {
		if strings.Contains(string(j.Stdout), text) {
			return errSeen
		}
		return nil
	}}))
	if err != errSeen {
		c.Fatalf("output is delivered while the process runs, and a callback's error comes back unchanged",
			"awaiting %q of process %q: got %s, with stdout %q and %s", text, p, describe(err), j.Stdout, exitText(j.Exit))
	}
	return string(j.Stdout)
}

// FollowFor follows a process from its start, for no longer than a time; ok is false if it was over first.
func (c *C) FollowFor(ctx context.Context, limit time.Duration, id sdk.ContainerID, p sdk.ProcessID) (j Journal, ok bool) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := c.W.FollowProcess(limited, id, p, 0, j.Into(sdk.Follow{}))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return j, false
	}
	c.OK(err, "following process %q", p)
	if j.Exit == nil {
		c.Fatalf("a follower that returns nil has delivered the exit", "following process %q ended without an exit", p)
	}
	return j, true
}

// step is what somebody at a terminal does next: once stdout has a text, they type something; nothing: the end of stdin.
type step struct{ after, say string }

// Converse follows a process from its start to its exit and takes the steps. Stdin stays open where none of them ends it.
func (c *C) Converse(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, steps ...step) Journal {
	var j Journal
	in, keyboard := io.Pipe()
	defer in.Close()
	typed := make(chan string, len(steps))
	over := make(chan struct{})
	defer close(over)
	c.Go(func(context.Context) {
		defer keyboard.Close()
		for {
			select {
			case text := <-typed:
				if text == "" {
					return
				}
				if _, err := io.WriteString(keyboard, text); err != nil {
					return
				}
			case <-over:
				return
			}
		}
	})
	seen, next := 0, 0
	c.OK(c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{Stdin: in, Output: func([]sdk.Record) error {
		for next < len(steps) {
			at := strings.Index(string(j.Stdout[seen:]), steps[next].after)
			if at < 0 {
				break
			}
			seen += at + len(steps[next].after)
			typed <- steps[next].say
			next++
		}
		return nil
	}})), "following process %q, at a terminal", p)
	if j.Exit == nil {
		c.Fatalf("a follower that returns nil has delivered the exit", "following process %q ended without an exit", p)
	}
	return j
}

// Await waits for a word on a channel.
func (c *C) Await(ctx context.Context, ch <-chan struct{}, what string) {
	select {
	case <-ch:
	case <-ctx.Done():
		c.Fatalf("what a host waits for must come", "%s did not come", what)
	}
}

// AwaitError waits for a call's error on a channel.
func (c *C) AwaitError(ctx context.Context, ch <-chan error, what string) error {
	select {
	case err := <-ch:
		return err
	case <-ctx.Done():
		c.Fatalf("what a host waits for must come", "%s did not come", what)
		return nil
	}
}

// AwaitExited asks the list until a process has ended: nobody follows it.
func (c *C) AwaitExited(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		i, ok := c.Process(ctx, id, p)
		if !ok {
			c.Fatalf("a process stays listed as long as its container lives", "process %q is not listed", p)
		}
		if i.State == sdk.ProcessExited {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.Fatalf("a process ends although nobody follows it", "process %q is still %s", p, i.State)
		}
	}
}

// Each calls f for 0 to n-1, so many at once, and awaits all.
func (c *C) Each(ctx context.Context, n, atOnce int, f func(ctx context.Context, i int)) {
	var wg sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i := range n {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			defer c.recover()
			f(ctx, i)
		})
	}
	wg.Wait()
}
