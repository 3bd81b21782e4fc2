package conformance

import (
	"context"
	"errors"
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
