package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// awayCases check what is said of what is away or gone.
func awayCases() []Case {
	return []Case{{
		ID: "W29-server-away", Title: "a server that is away is told by a status with that health and a reason, not by an error, and comes back with what it had", Promises: []string{"4c", "4b"}, Level: Must, Profile: Recovery,
		Exclusive: true, Run: runServerAway,
		Doc: "A status that is an error tells a host nothing: it cannot tell a plugin that is broken from one whose server is. Unsupported where the target has no server that can be taken away (in Go Target.Away).",
	}, {
		ID: "Y10-volatile", Title: "where volatile is named, kill -9 of the plugin leaves nothing that it made, and each process of the plugin has incarnations of its own", Promises: []string{"14f", "4a"}, Level: Must, Profile: Recovery,
		Needs: []sdk.Feature{sdk.FeatureVolatile}, Env: []Requirement{EnvCrash}, Run: runVolatile,
		Doc: "A host that keeps no state uses such workers only, for nobody cleans up behind it. Catches incarnations that are constants, and processes that go on without their plugin, where they can be seen on this machine.",
	}}
}

func runServerAway(ctx context.Context, c *C) {
	if c.suite.target.Away == nil {
		c.NotOffered("no server of the worker's was named that could be taken away")
	}
	v := c.Filled(ctx, someTree()...)
	back, err := c.suite.target.Away(ctx)
	if err != nil {
		c.Broken(err)
	}
	returned := false
	bring := func() {
		if returned {
			return
		}
		returned = true
		if err := back(); err != nil {
			c.Broken(fmt.Errorf("bringing the worker's server back: %w", err))
		}
	}
	defer bring() // before anything is destroyed
	before := c.Status
	s := c.awaitHealth(ctx, "its server was taken away", func(h sdk.Health) bool { return h == sdk.Away })
	if strings.TrimSpace(s.Reason) == "" {
		c.Errorf("an operator must learn what is away, and where", "a worker whose server is away gives no reason")
	}
	bring()
	after := c.awaitHealth(ctx, "its server is back", func(h sdk.Health) bool { return h != sdk.Away })
	if _, ok := c.ListVolume(ctx, v); !ok && after.VolumeIncarnation == before.VolumeIncarnation {
		c.Errorf("what was made is there, or its store is another one", "after its server was away and came back the worker does not list a volume of before, under the incarnation %q as before", after.VolumeIncarnation)
	}
}

// awaitHealth asks for the status until the health is what is awaited. No status may be an error.
func (c *C) awaitHealth(ctx context.Context, since string, is func(sdk.Health) bool) sdk.Status {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := c.W.Status(ctx)
		if ctx.Err() == nil && err != nil {
			c.Fatalf("a server that is away is no error of Status", "asking for the status after %s: got %s", since, describe(err))
		}
		if err == nil && is(s.Health) {
			return s
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.Fatalf("the health is that of the server", "long after %s the worker's health is %s", since, s.Health)
		}
	}
}

func runVolatile(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	seen := map[string]bool{before.ContainerIncarnation: true, before.VolumeIncarnation: true}
	wantNew := func(s sdk.Status, whose string) {
		for _, is := range []string{s.ContainerIncarnation, s.VolumeIncarnation} {
			if is == "" || seen[is] {
				c.Errorf("a host waits a long while for what is missing under the same incarnation, and under none at all for ever", "%s has the incarnations %q of containers and %q of volumes, want new ones", whose, s.ContainerIncarnation, s.VolumeIncarnation)
				return
			}
		}
	}
	if first := c.Status; first.ContainerIncarnation == before.ContainerIncarnation || first.VolumeIncarnation == before.VolumeIncarnation {
		c.Errorf("what dies with one process is not there in another", "two processes of the plugin have the incarnations %q and %q of containers, %q and %q of volumes",
			first.ContainerIncarnation, before.ContainerIncarnation, first.VolumeIncarnation, before.VolumeIncarnation)
	}
	m := newMark()
	v := c.Sealed(ctx, someTree()...)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v", ReadOnly: true}))
	c.marked(ctx, id, m)
	local := c.suite.target.Local && len(m.processes()) > 0
	if !local {
		c.Logf("the processes of its containers are not seen on this machine")
	}
	for range 2 {
		o.Crash(ctx)
		after, err := c.W.Status(ctx)
		c.OK(err, "asking for the status after kill -9")
		wantNew(after, "the next process of a volatile worker's plugin")
		seen[after.ContainerIncarnation], seen[after.VolumeIncarnation] = true, true
		c.wantNoVolume(ctx, v)
		c.wantNoContainer(ctx, id)
	}
	if local && !c.awaitNone(ctx, m) {
		c.Errorf("nobody cleans up behind a host that keeps no state", "%v after kill -9 of the plugin a process of a volatile worker still runs on this machine", c.Patience(soonDead))
	}
}
