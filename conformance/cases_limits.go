package conformance

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// limitCases check what a container may not use more of.
func limitCases() []Case {
	linux := []Requirement{EnvProbeLinux}
	return []Case{
		{
			ID: "X03-out-of-memory", Title: "a process that memory ran out for says so, never with code 0, and the container goes on", Promises: []string{"6i"}, Level: Must, Profile: Linux, Run: runOutOfMemory,
			Needs: []sdk.Feature{sdk.FeatureLimitsMemory, sdk.FeatureExitOOM}, Env: linux, Timeout: 2 * DefaultTimeout,
			Doc: "Killed is what a user sees otherwise, and looks for whoever killed it.",
		},
		{
			ID: "L01-pids", Title: "a container has no more processes at once than its limit, and is usable again when they are gone", Promises: []string{"14f"}, Level: Must, Profile: Linux, Run: runPIDs,
			Needs: []sdk.Feature{sdk.FeatureLimitsPIDs}, Env: linux, Timeout: 2 * DefaultTimeout,
			Doc: "What forks without end must take neither the machine nor the way to stop it.",
		},
		{
			ID: "V20-disk", Title: "what a container writes beside its volumes is bounded by its limit, and it goes on afterwards", Promises: []string{"14f"}, Level: Must, Profile: Linux, Run: runDiskLimit,
			Needs: []sdk.Feature{sdk.FeatureLimitsDisk}, Env: linux, Timeout: 2 * DefaultTimeout,
			Doc: "Catches a limit that is taken and not kept: one step fills the worker's disk for all.",
		},
	}
}

func runDiskLimit(ctx context.Context, c *C) {
	id := c.Container(ctx, func(s *sdk.ContainerSpec) { s.Limits.DiskBytes = 64 << 20 })
	fill := func(mebibytes int) Journal {
		return c.Exec(ctx, id, c.Probe("fill", "/slipway-fill", strconv.Itoa(mebibytes<<20)))
	}
	c.WantExit(fill(16), 0, "16 MiB of 64")
	if j := fill(256); j.Exit.Code == 0 {
		c.Errorf("a limit holds", "256 MiB of 64: got %s", exitText(j.Exit))
	}
	c.WantExit(fill(16), 0, "16 MiB of 64, afterwards")
}

func runOutOfMemory(ctx context.Context, c *C) {
	id := c.Container(ctx, func(s *sdk.ContainerSpec) { s.Limits.MemoryBytes = 128 << 20 })
	within, beyond := c.Probe("alloc", strconv.Itoa(16<<20)), c.Probe("alloc", strconv.Itoa(512<<20))
	c.WantExit(c.Exec(ctx, id, within), 0, "16 MiB of 128")
	sibling := c.Started(ctx, id, c.Commands.Sleep())
	for range 3 {
		p := c.Start(ctx, id, beyond)
		e := c.Follow(ctx, id, p).Exit
		if e.Reason != sdk.ExitOOM || e.Code == 0 {
			c.Errorf("a process that memory ran out for is told apart from one that was killed", "512 MiB of 128: got %s, want reason %s", exitText(e), sdk.ExitOOM)
		}
		if i, _ := c.Process(ctx, id, p); i.Exit == nil || !sameExit(*i.Exit, *e) {
			c.Errorf("the list tells the same exit", "the list has %s, the follower got %s", exitText(i.Exit), exitText(e))
		}
		c.WantExit(c.Exec(ctx, id, within), 0, "16 MiB of 128, afterwards")
	}
	c.OK(c.W.SignalProcess(ctx, id, sibling, sdk.KILL), "killing another process")
	if e := c.Follow(ctx, id, sibling).Exit; e.Reason != sdk.ExitSignalled {
		c.Errorf("only what memory ran out for says so", "a process that was killed after others had run out of memory: got %s, want reason %s", exitText(e), sdk.ExitSignalled)
	}
}

func runPIDs(ctx context.Context, c *C) {
	const limit, more = 64, 300
	id := c.Container(ctx, func(s *sdk.ContainerSpec) { s.Limits.PIDs = limit })
	p := c.Start(ctx, id, c.Probe("forks", strconv.Itoa(more)))
	text := c.AwaitText(ctx, id, p, "full\n")
	n, err := strconv.Atoi(strings.TrimSuffix(text, " full\n"))
	if err != nil || n > 2*limit { // a runtime may give more for what it needs itself
		c.Errorf("a limit holds", "of %d children with a limit of %d, there were in the end %q processes", more, limit, text)
	}
	if n < limit/2 {
		c.Errorf("a limit is what was asked for", "with a limit of %d there were only %q processes", limit, text)
	}
	if i, _ := c.Process(ctx, id, p); i.State != sdk.ProcessRunning {
		c.Errorf("a full container is still kept", "the process that has filled it is %s", i.State)
	}
	c.OK(c.W.SignalProcess(ctx, id, p, sdk.KILL), "killing what has filled the container")
	if e := c.Follow(ctx, id, p).Exit; e.Code != 137 || e.Signal != sdk.KILL {
		c.Errorf("KILL always kills", "after KILL: got %s, want code 137 (signalled by KILL)", exitText(e))
	}
	c.WantOutput(c.whenThereIsRoom(ctx, id, c.Commands.Print("again", "")), "again", "", "the next process")
}

// whenThereIsRoom starts a process as a host does: what is Unavailable or Exhausted now may be there soon.
func (c *C) whenThereIsRoom(ctx context.Context, id sdk.ContainerID, cmd Cmd) Journal {
	spec := c.Spec(cmd)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.W.StartProcess(ctx, id, spec)
		if !errors.Is(err, sdk.Unavailable) && !errors.Is(err, sdk.Exhausted) || ctx.Err() != nil {
			c.OK(err, "starting process %q when there is room again", spec.ID)
			return c.Follow(ctx, id, spec.ID)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
